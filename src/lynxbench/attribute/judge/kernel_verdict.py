"""The verdict on a step whose largest share is arithmetic or memory traffic."""

import dataclasses

from lynxbench.attribute.judge.avoidable_work import AvoidableWork
from lynxbench.attribute.judge.causes import (
    BELOW_CEILING,
    CAUSES,
    CLEAR_LEAD,
    COPIED,
    DEAR_ORDER,
    DOMINANT,
    HALF_REMOVED,
    HIDDEN,
    MASKED,
    MOST_REMOVABLE,
    NO_GAIN,
    ORDERED,
    PICKED,
    RELAID,
    SLOW_KERNELS,
    SMALL_KERNELS,
    UNFUSED,
    UNREAD,
    UNREAD_DIAGONAL,
    WHOLE_PRODUCTS,
    WIDER,
    gain_of,
    speedup,
)
from lynxbench.attribute.judge.format_gains import (
    WHOLE_NUMBERS,
    gain_of_contracts_format,
    gain_of_narrower,
    narrower_formats,
)
from lynxbench.attribute.judge.gain_range import cap_range
from lynxbench.attribute.judge.least_time import WholeStep
from lynxbench.attribute.judge.needless_work import (
    find_expansion,
    find_masked,
    find_own_copies,
    find_picking,
    find_relaid,
    find_reordered,
)
from lynxbench.attribute.judge.roofline import TYPICAL_EFFICIENCY
from lynxbench.attribute.judge.step_figures import (
    ACCOUNTED,
    CLOCKED,
    HOST_ENDS,
    MOSTLY_SOFTWARE,
    NEEDED,
    REORDERED,
    REPLAYED,
    SOFTWARE,
    STRUCTURED,
    SUMMED,
    TOLD,
    WHOLE,
    WORTH_CHANGING,
    StepFigures,
    VerdictDraft,
)
from lynxbench.attribute.judge.time_book import KERNELS
from lynxbench.attribute.read.operator_names import OperatorKind, is_measured, is_ordering, is_relocation
from lynxbench.model.attribution import FAR_BELOW_CEILING, NEAR_CEILING, Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.plain_numbers import plain

WORTH_COPYING = 0.25
"""Share of a step in copies before they are called the cause."""
ANYTHING = 1e-6
ELSE_THAN_COPIES = 0.03
"""Share of a step that other kernels must have: one that only copies may have nothing else to do."""
WORTH_FUSING = 0.25
"""Share of a step that fusing must save before it is called the cause."""
CAUSAL = 0.5
"""Share of the pairs of positions that a causal mask leaves; most masks that are square are causal."""
MOSTLY_UNMEASURED = 0.5
"""Of what operators on a CPU take beyond the ceilings: where those take that much of it that are neither products of
matrices nor plain passes, they may need it."""
MOST_UNKNOWN = 1.0 - 1.0 / WORTH_CHANGING
"""Share of a step in kernels of unknown work beyond which a gain of 1.3 cannot be excluded."""


def judge_kernels(figures: StepFigures, top: Category, weak: bool, rules: int) -> VerdictDraft:
    """A step whose largest share is arithmetic or memory traffic: how near its ceiling it ran decides."""
    shares, efficiency = figures.shares, figures.efficiency
    both = shares.total(*KERNELS)
    step_ns = figures.traced_ns
    saved = figures.fusion.saved_ns.scaled(1.0 / step_ns if step_ns else 0.0)
    copied = _copies(figures)[0] if rules >= 3 else 0.0
    picked_ns, picks = find_picking(figures.book) if rules >= REPLAYED else (0.0, 0.0)
    if step_ns and picked_ns / step_ns >= DOMINANT:
        reason = "a look-up needs no arithmetic"
        gain = figures.range_without(figures.bare_ns(picked_ns), picks if rules >= ACCOUNTED else 0.0)
        if rules >= WHOLE:  # at the least the scores are made as before, and only picked otherwise
            surely_ns = find_picking(figures.book, surely=True)[0]
            gain = figures.range_over(figures.bare_ns(surely_ns), figures.bare_ns(picked_ns), picks)
        return VerdictDraft(top, Bound.SOFTWARE, PICKED, weak, gain, reason)
    relaid_ns, changes = find_relaid(figures.book) if rules >= ACCOUNTED else (0.0, 0.0)
    if step_ns and relaid_ns / step_ns >= max(WORTH_COPYING, saved.estimate, copied):
        reason = "the kernels that compute want another layout"
        gain = figures.range_without(figures.bare_ns(relaid_ns), changes)
        return VerdictDraft(top, Bound.SOFTWARE, RELAID, weak, gain, reason)
    if figures.avoidable is not None:
        gain = gain_without(figures, figures.avoidable)
        if 1.0 - 1.0 / gain.estimate >= max(MOST_UNKNOWN, saved.estimate, copied):
            return VerdictDraft(top, Bound.SOFTWARE, figures.avoidable.cause, weak, gain)
    gain = _gain_of_reading(figures) if figures.unread is not None else NO_GAIN
    if figures.unread is not None and 1.0 - 1.0 / gain.estimate >= max(MOST_UNKNOWN, saved.estimate, copied):
        cause = UNREAD_DIAGONAL if figures.unread.diagonal else UNREAD
        return VerdictDraft(top, Bound.SOFTWARE, cause, weak, gain, "the rest of the result is not read in the step")
    gain = _gain_of_order(figures) if figures.dear is not None else NO_GAIN
    if figures.dear is not None and 1.0 - 1.0 / gain.estimate >= max(MOST_UNKNOWN, saved.estimate, copied):
        reason = "only products and sums read what it writes in the step"
        return VerdictDraft(top, Bound.SOFTWARE, DEAR_ORDER, weak, gain, reason)
    beside = both - copied if rules < REPLAYED else _beside_copies(figures)
    if copied >= max(WORTH_COPYING, saved.estimate) and beside >= (ELSE_THAN_COPIES if rules < REPLAYED else ANYTHING):
        weak = weak or beside < ELSE_THAN_COPIES
        gain = Interval(speedup(copied * HALF_REMOVED), speedup(copied), speedup(copied + ELSE_THAN_COPIES))
        if rules >= REPLAYED:
            gone_ns = copied * step_ns + find_expansion(figures.book, but_own=rules >= TOLD, fetched=False)
            gain = figures.range_without(figures.bare_ns(gone_ns), _copies(figures)[1])
        if rules >= TOLD:  # rows that an index repeats are read once at the most where whoever reads them is regrouped
            most_ns = copied * step_ns + find_expansion(figures.book)
            usual_ns = gone_ns + (most_ns - gone_ns) * HALF_REMOVED
            regrouped = figures.range_over(figures.bare_ns(usual_ns), figures.bare_ns(most_ns), _copies(figures)[1])
            gain = dataclasses.replace(regrouped, low=gain.low)
        return VerdictDraft(top, Bound.SOFTWARE, COPIED, weak, gain, "what is copied was in memory before")
    if saved.estimate >= WORTH_FUSING and saved.estimate >= both * WORTH_FUSING:
        gain = Interval(speedup(saved.low * HALF_REMOVED), speedup(saved.estimate), speedup(saved.high))
        # What a pass reads beside its predecessor's result mostly comes from inside the chain: the most is usual.
        usual = saved.estimate if figures.fusion.attention and rules >= ACCOUNTED else saved.high
        usual_ns = figures.bare_ns(usual * step_ns)
        gain = figures.range_without(usual_ns, figures.fusion.merged) if rules >= REPLAYED else gain
        if rules >= WHOLE:
            most_ns = usual_ns + figures.bare_ns(figures.fusion.folded_ns)
            gain = figures.range_over(usual_ns, most_ns, figures.fusion.merged)
        if rules >= NEEDED and figures.fusion.reduced_ns:  # at the most, it is summed up as it is made
            most_ns = usual_ns + figures.bare_ns(figures.fusion.reduced_ns)
            most = figures.range_without(most_ns, figures.fusion.merged + figures.fusion.reductions).estimate
            gain = dataclasses.replace(gain, high=max(gain.high, most))
        if rules >= TOLD and figures.fusion.reached <= FAR_BELOW_CEILING:  # what a pass computes may stay
            least = figures.range_without(usual_ns * figures.fusion.reached)
            gain = dataclasses.replace(gain, low=min(gain.low, least.low))
        return VerdictDraft(top, Bound.SOFTWARE, UNFUSED, weak, gain, "intermediate results go through memory")
    narrowed = gain_of_contracts_format(figures) if rules >= HOST_ENDS else None
    if narrowed is not None:
        return VerdictDraft(top, Bound.SOFTWARE, WIDER, weak, narrowed)
    narrowed = gain_of_contracts_format(figures, WHOLE_NUMBERS) if rules >= TOLD else None
    if narrowed is not None:
        return VerdictDraft(top, Bound.SOFTWARE, WHOLE_PRODUCTS, weak, narrowed)
    hidden = figures.hidden if not efficiency.is_known else {}
    if sum(hidden.values()) >= DOMINANT:
        return _judge_hidden(figures, top, weak, hidden)
    ordered = _ordered(figures) if rules >= SUMMED and not efficiency.is_known else 0.0
    if ordered >= DOMINANT:
        reason = f"sorts and the like take {ordered:.0%} of it, and a trace does not tell how little would have done"
        gain = _open_gain(figures, both * ordered)
        return VerdictDraft(top, Bound.UNDETERMINED, ORDERED, weak, gain, reason)
    if not efficiency.is_known and figures.whole is not None:
        return _judge_whole(top, figures.whole, weak)
    if not efficiency.is_known:
        reason = "shapes or ceilings are missing, so nobody can say how near the ceiling it ran"
        if efficiency.cached_ns > MOST_UNKNOWN * sum(efficiency.taken_ns.values()):
            reason = "its operands lie in caches, and no ceiling tells how fast these are"
        gain = _open_gain(figures, both * (1.0 - efficiency.coverage * efficiency.overall))
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)
    masked_ns = find_masked(figures.book) if rules >= REPLAYED else 0.0
    if masked_ns >= DOMINANT * step_ns and efficiency.overall < NEAR_CEILING:
        left = min(1.0, efficiency.overall / TYPICAL_EFFICIENCY * CAUSAL)
        hidden_ns = figures.bare_ns(masked_ns)
        gain = figures.range_without(hidden_ns * (1.0 - left))
        if rules >= WHOLE:  # a trace does not hold the mask: at the most it hides nearly all
            gain = figures.range_over(hidden_ns * (1.0 - left), hidden_ns)
        return VerdictDraft(top, Bound.SOFTWARE, MASKED, weak, gain)
    if masked_ns >= DOMINANT * step_ns and rules >= TOLD:
        reason = "near the ceiling, but a mask is written out, and a trace does not tell how many pairs it hides"
        gain = _open_gain(figures, figures.bare_ns(masked_ns) / shares.step_ns if shares.step_ns else 0.0)
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)
    for cause, wide, narrow in narrower_formats(figures.book.ceilings, rules):
        narrower = gain_of_narrower(figures, wide, narrow, rules)
        if narrower is not None:
            return VerdictDraft(top, Bound.SOFTWARE, cause, weak, narrower)
    reached = efficiency.overall
    # To the ceiling at most, to what good kernels reach as the estimate.
    usual = min(1.0, reached / TYPICAL_EFFICIENCY)
    known = efficiency.coverage if rules >= TOLD else 1.0  # what else there is may be as fast as it can
    gain = Interval(1.0, speedup(both * known * (1.0 - usual)), speedup(both * (1.0 - known * reached)))
    if rules >= WHOLE and (both < DOMINANT or reached >= NEAR_CEILING):
        avoidable = saved.estimate + (copied if beside >= ANYTHING else 0.0) + (relaid_ns / step_ns if step_ns else 0.0)
        started = min(figures.residual(Category.LAUNCH), shares.estimate(Category.LAUNCH))  # however it is replayed
        lasting = max(0.0, both * efficiency.coverage * usual - avoidable) + started
        return _judge_near(figures, top, weak, gain, lasting)
    if both < DOMINANT:
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, gain, "no category dominates")
    if reached >= NEAR_CEILING:
        unknown = both * (1.0 - efficiency.coverage)
        if unknown <= MOST_UNKNOWN or rules < ACCOUNTED:
            return VerdictDraft(top, Bound.HARDWARE, CAUSES[top], weak, gain)
        reason = f"{unknown:.0%} of it runs in kernels whose work is not known, beside others near the ceiling"
        gain = dataclasses.replace(gain, high=max(gain.high, speedup(unknown)))
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)
    if reached <= FAR_BELOW_CEILING:
        if rules >= TOLD and _short_unmeasured(figures) > MOSTLY_UNMEASURED:
            reason = "far below the ceilings of products and copies, but how fast such operators can be nobody knows"
            return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)
        if rules >= REPLAYED:
            faster_ns = both * (efficiency.coverage if rules >= TOLD else 1.0) * (1.0 - usual) * shares.step_ns
            gain = _perhaps(cap_range(figures.range_without(faster_ns), gain.high), rules)
        return VerdictDraft(top, Bound.SOFTWARE, SLOW_KERNELS, weak, gain)
    return _judge_between(figures, top, gain, weak, rules)


def _short_unmeasured(figures: StepFigures) -> float:
    """Of what a step on a CPU takes beyond its ceilings, the part of operators that no ceiling was measured of."""
    whole = unmeasured = 0.0
    for group in figures.book.groups:
        if group.attainable_ns is None or group.category not in KERNELS:
            continue
        short_ns = max(0.0, group.self_ns - group.attainable_ns)
        whole += short_ns
        unmeasured += short_ns * (not is_measured(group.name, group.kind))
    return unmeasured / whole if figures.host is not None and whole else 0.0


def _perhaps(gain: Interval, rules: int) -> Interval:
    """The range of kernels that are faster, if there are any: nothing shows that somebody has written them."""
    return dataclasses.replace(gain, low=1.0) if rules >= TOLD else gain


def _open_gain(figures: StepFigures, share: float) -> Interval:
    """Of a share of the step whose least work nobody knows: at the most all of it, and nothing is promised."""
    return dataclasses.replace(NO_GAIN, high=speedup(share)) if figures.rules >= STRUCTURED else NO_GAIN


def _judge_hidden(figures: StepFigures, top: Category, weak: bool, hidden: dict[str, float]) -> VerdictDraft:
    """A step that mostly does what its operands do not tell: nobody can say how little would have done."""
    share, first = sum(hidden.values()), max(hidden, key=lambda name: hidden[name])
    gain = _open_gain(figures, figures.shares.total(*KERNELS) * share)
    if is_ordering(first):
        reason = f"sorts and the like take {share:.0%} of it, and a trace does not tell how little would have done"
        return VerdictDraft(top, Bound.UNDETERMINED, ORDERED, weak, gain, reason)
    names = " and ".join(sorted(hidden, key=lambda name: -hidden[name])[:2])
    reason = f"{share:.0%} of it goes to {names}, and what these read and write does not tell their least work"
    return VerdictDraft(top, Bound.UNDETERMINED, HIDDEN, weak, gain, reason)


def _ordered(figures: StepFigures) -> float:
    """The share of the kernels' time that goes to putting operands in order."""
    kernels = [group for group in figures.book.groups if group.category in KERNELS]
    taken = sum(group.self_ns for group in kernels)
    return sum(group.self_ns for group in kernels if is_ordering(group.name)) / taken if taken else 0.0


def _judge_near(figures: StepFigures, top: Category, weak: bool, gain: Interval, lasting: float) -> VerdictDraft:
    """Kernels near their ceilings, or few of them: whether code that leaves everything else out would gain 1.3.

    `lasting`: the share of the step that good kernels with the same work would still take.
    """
    shares, both = figures.shares, figures.shares.total(*KERNELS)
    most = 1.0 / max(lasting, 1.0 - MOST_REMOVABLE)
    gain = dataclasses.replace(gain, high=max(gain.high, most))
    if both >= DOMINANT and most <= WORTH_CHANGING:
        return VerdictDraft(top, Bound.HARDWARE, CAUSES[top], weak, gain)
    removable = max(SOFTWARE, key=shares.estimate)
    removed = figures.range_of(removable)
    if removed.estimate >= WORTH_CHANGING:
        reason = f"kernels take {both:.0%}, and would not take less for more"
        return VerdictDraft(removable, Bound.SOFTWARE, CAUSES[removable], True, removed, reason)
    if both < DOMINANT:
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, gain, "no category dominates")
    unknown = both * (1.0 - figures.efficiency.coverage)
    reason = f"its kernels run near the ceiling, but what else there is hides a gain of up to {plain(most, 2)}"
    if figures.rules >= NEEDED:
        reason += " with the same work"
    if unknown > MOST_UNKNOWN:
        reason = f"{unknown:.0%} of it runs in kernels whose work is not known, beside others near the ceiling"
    return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)


def _judge_whole(top: Category, whole: WholeStep, weak: bool) -> VerdictDraft:
    """A step whose kernels show no operands, by the work that it cannot do without."""
    floor, good = whole.floor, min(1.0, whole.floor / TYPICAL_EFFICIENCY)
    gain = Interval(1.0, speedup(1.0 - good), speedup(1.0 - floor))
    if floor >= NEAR_CEILING:
        return VerdictDraft(top, Bound.HARDWARE, CAUSES[top], weak, gain)
    if floor > 1.0 - MOSTLY_SOFTWARE:
        reason = f"its least work would take {floor:.0%} of it at the measured ceiling: neither near it nor far below"
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)
    reason = f"at their ceilings the operators would take {floor:.0%} of the step"
    rest = 1.0 - floor - whole.slow_products - whole.small
    if whole.small >= max(whole.slow_products, rest):
        small = Interval(whole.small, whole.small, whole.small)
        return VerdictDraft(top, Bound.SOFTWARE, SMALL_KERNELS, weak, gain_of(small), reason)
    return VerdictDraft(top, Bound.SOFTWARE, SLOW_KERNELS, weak, gain, reason)


def _judge_between(figures: StepFigures, top: Category, gain: Interval, weak: bool, rules: int) -> VerdictDraft:
    """Kernels neither near their ceilings nor far below: the whole step decides, by what its ceilings account for."""
    shares, floor = figures.shares, figures.hardware_floor
    if floor > 1.0 - MOSTLY_SOFTWARE:
        reached = figures.efficiency.overall
        reason = f"its operators reach {reached:.0%} of the measured ceiling: neither near it nor far below"
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)
    reason = f"at their ceilings the operators would take {floor:.0%} of the step"
    removable = max(SOFTWARE, key=shares.estimate)
    slow = shares.total(*KERNELS) - floor
    if shares.estimate(removable) < slow or shares.estimate(removable) < shares.estimate(top) - CLEAR_LEAD:
        if rules >= TOLD:  # nothing shows that somebody has written faster ones
            reached = figures.efficiency.overall
            reason = f"its operators reach {reached:.0%} of the measured ceiling: neither near it nor far below"
            return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, reason)
        faster_ns = shares.total(*KERNELS) * (1.0 - figures.efficiency.overall / TYPICAL_EFFICIENCY) * shares.step_ns
        if rules >= REPLAYED:
            gain = cap_range(figures.range_without(max(0.0, faster_ns)), gain.high)
        cause = BELOW_CEILING if rules >= SUMMED else SLOW_KERNELS
        return VerdictDraft(top, Bound.SOFTWARE, cause, True, gain, reason)
    older = gain_of(shares.of[removable], figures.residual(removable))
    gain = figures.range_of(removable) if rules >= REPLAYED else older
    return VerdictDraft(removable, Bound.SOFTWARE, CAUSES[removable], True, gain, reason)


def _gain_of_reading(figures: StepFigures) -> Interval:
    """What a product gains that makes only the part of its result that is read; its weights are read as before."""
    unread, read = figures.unread, figures.book.ceilings.read_bytes_per_s
    if unread is None:
        return NO_GAIN
    usual_ns, most_ns = (unread.saved_ns(read, reached) for reached in (TYPICAL_EFFICIENCY, 1.0))
    return _gain_of_last(figures, usual_ns, most_ns)


def _gain_of_order(figures: StepFigures) -> Interval:
    """What products gain in the other order, which writes nothing of the size of what lies between them."""
    dear, ceilings = figures.dear, figures.book.ceilings
    if dear is None:
        return NO_GAIN
    flops, moved = ceilings.arithmetic_per_s(dear.dtype), ceilings.read_bytes_per_s
    usual_ns, most_ns = (dear.saved_ns(flops, moved, reached) for reached in (TYPICAL_EFFICIENCY, 1.0))
    return _gain_of_last(figures, usual_ns, most_ns)


def _gain_of_last(figures: StepFigures, usual_ns: float, most_ns: float, launches: float = 0.0) -> Interval:
    """The gain of kernel time that the last traced step would not have needed, usually and at the most.

    `launches`: of kernels that nobody starts any more.
    """
    traced_ns = max(1.0, float(sum(figures.book.of(category)[-1] for category in KERNELS)))
    if figures.parts is None:
        usual_step_ns = figures.bare_ns(figures.traced_kernels_ns)
        if figures.rules < CLOCKED:
            usual_step_ns = figures.shares.total(*KERNELS) * figures.book.usual_ns
        return figures.range_over(*(min(1.0, ns / traced_ns) * usual_step_ns for ns in (usual_ns, most_ns)))
    kernels_ns = figures.parts.kernels_ns
    gain = figures.range_without(usual_ns / traced_ns * kernels_ns, launches)
    most = figures.parts.step_ns / max(figures.parts.unhosted_left_ns(most_ns / traced_ns * kernels_ns, launches), 1.0)
    return dataclasses.replace(gain, high=max(gain.high, most))


def gain_without(figures: StepFigures, avoidable: AvoidableWork, *, surely: bool = False) -> Interval:
    """The gain of work that nobody needs, by what the last traced step shows of it; `surely`: at the most what is shown
    to be reached."""
    usual_ns, most_ns = avoidable.total_ns(), avoidable.total_ns(most=True)
    if surely:
        most_ns = max(usual_ns, avoidable.shown_ns)
    return _gain_of_last(figures, usual_ns, most_ns, avoidable.launches)


def _copies(figures: StepFigures) -> tuple[float, float]:
    """The share of a step in which data was only moved from one place of memory to another, and in how many calls."""
    book = figures.book
    copies = [g for g in book.groups if g.kind is OperatorKind.COPY and g.category is Category.MEMORY_BANDWIDTH]
    moved = [group for group in copies if is_relocation(group.name)]
    share = sum(group.self_ns for group in moved) / float(book.wall_ns.sum()) if book.wall_ns.sum() else 0.0
    again_ns, again = _reordered(figures)
    own_ns, own = find_own_copies(book) if figures.rules >= TOLD else (0.0, 0.0)
    share += (again_ns - own_ns) * len(book) / float(book.wall_ns.sum()) if again or own else 0.0
    return share, sum(group.calls for group in moved) / len(book) + again - own


def _reordered(figures: StepFigures) -> tuple[float, float]:
    fetched = figures.rules >= TOLD
    return find_reordered(figures.book, fetched=fetched) if figures.rules >= REORDERED else (0.0, 0.0)


def _beside_copies(figures: StepFigures) -> float:
    """The share of the kernels' time in anything but copies: one that does nothing else may have nothing to do."""
    kernels = [group for group in figures.book.groups if group.category in KERNELS]
    others = [group for group in kernels if group.kind not in (OperatorKind.COPY, OperatorKind.DISPATCH)]
    used = sum(group.self_ns for group in others) - _reordered(figures)[0] * len(figures.book)
    return max(0.0, used) / max(1, sum(group.self_ns for group in kernels))
