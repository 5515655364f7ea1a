"""From a book of exclusive times to a verdict: bottleneck, bound, cause and gain.

Shares are of time, never credit to a layer. Doubt is an answer: a trace that is damaged, lacks shapes or has no
dominating category gets its shares, and no more certainty than they carry.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.judge.causes import (
    CAUSES,
    CLEAR_LEAD,
    COPIED,
    DOMINANT,
    HALF_REMOVED,
    MASKED,
    MOST_REMOVABLE,
    NARROWER,
    NO_GAIN,
    PICKED,
    RELAID,
    SLOW_KERNELS,
    SMALL_KERNELS,
    STALLED,
    UNFUSED,
    WIDER,
    CategoryCause,
    gain_of,
    is_close,
    speedup,
)
from lynxbench.attribute.judge.fix_left import StepParts, charge_waits, measure_parts
from lynxbench.attribute.judge.gain_range import cap_range, predict_range
from lynxbench.attribute.judge.least_time import (
    Fusion,
    KernelEfficiency,
    WholeStep,
    find_expansion,
    find_fusion,
    find_masked,
    find_picking,
    find_relaid,
    measure_efficiency,
    measure_whole_step,
)
from lynxbench.attribute.judge.process_accounts import Contention
from lynxbench.attribute.judge.roofline import WIDE, Ceilings
from lynxbench.attribute.judge.time_book import KERNELS, Shares, TimeBook, correct_shares
from lynxbench.attribute.read.operator_names import OperatorKind, is_relocation
from lynxbench.model.attribution import Bound, Category, StepWork
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES

MISNESTED_LIMIT = 0.01
"""Share of a trace's events that may outlast the one around them before its clock is not believed."""
NEAR_CEILING = 0.6
"""Kernels at this share of the measured ceiling leave software little to gain; well-tuned libraries reach 0.6 to 0.9
of a bare kernel on shapes of real models."""
FAR_BELOW_CEILING = 0.35
"""Under this a better kernel, layout or thread count gains more than a purchase would. Between the two: doubt."""
TYPICAL_EFFICIENCY = 0.75
"""What a good kernel reaches of the ceiling: the estimate of a gain goes here, its upper bound to the ceiling."""
MOSTLY_SOFTWARE = 0.6
"""A step of which the hardware's ceilings account for less than the rest is software's, whatever leads its shares."""
WORTH_NARROWING = 2.0
"""TF32 must be this much faster on a bare product before it is proposed."""
WORTH_COPYING = 0.25
"""Share of a step in copies before they are called the cause."""
ANYTHING = 1e-6
ELSE_THAN_COPIES = 0.03
"""Share of a step that other kernels must have: one that only copies may have nothing else to do."""
WORTH_FUSING = 0.25
"""Share of a step that fusing must save before it is called the cause."""
MOSTLY = 0.5
CAUSAL = 0.5
"""Share of the pairs of positions that a causal mask leaves; most masks that are square are causal."""
REPLAYED = 4
"""The edition of the rules since which a gain is what a fix leaves, with a range from recorded cases."""
ACCOUNTED = 5
"""… since which kernels of unknown work are a doubt, and layouts that are made anew a cause."""
MOST_UNKNOWN = 1.0 - 1.0 / 1.3
"""Share of a step in kernels of unknown work beyond which a gain of 1.3 cannot be excluded."""

SOFTWARE = (
    Category.LAUNCH,
    Category.ALLOCATOR,
    Category.INPUT,
    Category.SYNCHRONIZATION,
    Category.TRANSFER,
    Category.IDLE,
    Category.COMMUNICATION,
)


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Everything that a verdict on steps rests on."""

    book: TimeBook
    step_ms: float | None
    """The step without the profiler, where it was measured."""
    shares: Shares
    efficiency: KernelEfficiency
    fusion: Fusion
    whole: WholeStep | None
    contention: Contention | None
    damaged: bool
    parts: StepParts | None = None
    """What lies side by side in a step on a device; None elsewhere, and by rules before edition 4."""
    rules: int = RULES
    """The edition that ranges are those of."""

    @property
    def hardware_floor(self) -> float:
        """The share of a step that its kernels would take at their ceilings; all of it where too little is known."""
        return self.shares.total(*KERNELS) * (self.efficiency.overall if self.efficiency.is_known else 1.0)

    def residual(self, category: Category) -> float:
        """The share of a step that a fix of a category would leave behind."""
        left = self.book.residual_ns.get(category, 0.0)
        return left / self.shares.step_ns if self.shares.step_ns else 0.0

    def range_without(self, removed_ns: float, launches: float = 0.0) -> Interval:
        """The gain of a step without so much of its kernels' time; the host may then be what it takes."""
        if self.parts is None:
            return predict_range(speedup(removed_ns / self.shares.step_ns if self.shares.step_ns else 0.0), self.rules)
        return predict_range(self.parts.step_ns / max(self.parts.without_ns(removed_ns, launches), 1.0), self.rules)

    def range_of(self, cause: Category) -> Interval:
        """The gain of a step without the cause of a wait."""
        if self.parts is None:
            return predict_range(speedup(self.shares.estimate(cause) - self.residual(cause)), self.rules)
        gain = predict_range(self.parts.step_ns / max(self.parts.left_ns(cause), 1.0), self.rules)
        if cause is Category.LAUNCH:  # at the most, calls that are alike do not need each other and become one
            merged = self.parts.step_ns / max(self.parts.merged_left_ns, 1.0)
            gain = dataclasses.replace(gain, high=max(gain.high, merged))
        if cause is Category.INPUT and self.rules >= ACCOUNTED:
            prepared = self.parts.step_ns / max(self.parts.prepared_left_ns, 1.0)
            gain = dataclasses.replace(gain, high=max(gain.high, prepared))
        return gain


@dataclass(frozen=True, slots=True)
class VerdictDraft:
    """The verdict before it is put into words."""

    bottleneck: Category
    bound: Bound
    cause: CategoryCause
    weak: bool
    gain: Interval
    reason: str = ""
    rivals: tuple[tuple[Layer, str], ...] = ()
    """Layers that this run's own conditions point to, beside those that the cause always has."""
    predicted: bool = False
    """Whether the gain's range is one of prediction, from recorded cases."""


def measure_steps(
    book: TimeBook,
    unprofiled_step_ms: Interval | float | None,
    *,
    work: StepWork | None = None,
    contention: Contention | None = None,
    rules: int = RULES,
) -> StepFigures:
    """The shares of a step, how near its kernels came to their ceilings, and what merging passes would save."""
    tiling = book.tiling
    step_ms = unprofiled_step_ms.estimate if isinstance(unprofiled_step_ms, Interval) else unprofiled_step_ms
    shares = correct_shares(book, step_ms * 1e6 if step_ms is not None and step_ms > 0 else None)
    parts = measure_parts(book, shares, least_dispatch=rules >= ACCOUNTED) if rules >= REPLAYED else None
    if parts is not None:
        shares, parts = charge_waits(shares, parts)
    efficiency = measure_efficiency(book.groups)
    misnested = tiling.misnested > MISNESTED_LIMIT * max(1, len(tiling.trace))
    damaged = tiling.trace.damaged or misnested or not (tiling.on_device or book.groups)
    asks_workload = not efficiency.is_known and not damaged
    whole = measure_whole_step(book, shares, work) if asks_workload else None
    fusion = find_fusion(book, joined=rules >= ACCOUNTED)
    return StepFigures(book, step_ms, shares, efficiency, fusion, whole, contention, damaged, parts, rules)


def judge_steps(figures: StepFigures, rules: int = RULES) -> VerdictDraft:
    """Bottleneck, bound, cause and gain; see `docs/methodology/attribution.md` for the rules, of this edition."""
    shares = figures.shares
    top = min(shares.of, key=lambda category: (-shares.estimate(category), category))
    if figures.damaged:
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, NO_GAIN, "the trace is damaged")
    weak = is_close([share.estimate for share in shares.of.values()])
    unseen = figures.book.tiling.trace.unseen
    if unseen is not None:
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, NO_GAIN, unseen.what)
    draft = (_judge_kernels if top in KERNELS else _judge_waits)(figures, top, weak, rules)
    if rules >= REPLAYED and draft.bound is Bound.SOFTWARE:
        draft = dataclasses.replace(draft, predicted=True)
    if figures.contention is not None and figures.contention.matters:
        return _contended(draft, figures.contention, rules)
    return draft


def _judge_waits(figures: StepFigures, top: Category, weak: bool, rules: int) -> VerdictDraft:
    """A step whose largest share is no kernel's."""
    shares, book = figures.shares, figures.book
    share = shares.of[top]
    if top is Category.QUEUEING:
        return VerdictDraft(top, Bound.DEMAND, CAUSES[top], weak, gain_of(share), "requests wait")
    if top not in SOFTWARE:
        reason = "the trace does not say what runs there"
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, NO_GAIN, reason)
    by_shares = shares.total(*SOFTWARE) >= max(DOMINANT, shares.total(*KERNELS))
    by_ceilings = figures.hardware_floor <= 1.0 - MOSTLY_SOFTWARE
    bound = Bound.SOFTWARE if by_shares or by_ceilings else Bound.UNDETERMINED
    stalled = top is Category.IDLE and book.stalled_ns > float(np.median(book.of(top))) * MOSTLY
    cause = STALLED if stalled else CAUSES[top]
    if rules >= REPLAYED:
        gain = figures.range_of(top)
    else:
        gain = gain_of(share, figures.residual(top))
        if book.tiling.on_device and rules >= 3:  # at the most the host's work hides behind the device's, which is left
            gain = dataclasses.replace(gain, high=max(gain.high, speedup(1.0 - shares.total(*KERNELS))))
    return VerdictDraft(top, bound, cause, weak or bound is Bound.UNDETERMINED, gain)


def _contended(draft: VerdictDraft, contention: Contention, rules: int) -> VerdictDraft:
    """Threads that wait for a CPU slow every category alike: what leads the shares is then the symptom.

    Own threads beyond the CPUs are the workload's doing, and the cause. Other load is a disturbance of the run: it
    explains slow kernels and open questions, and takes the certainty of the rest.
    """
    if not contention.own and draft.cause is not SLOW_KERNELS and draft.bound is not Bound.UNDETERMINED:
        return dataclasses.replace(draft, weak=True, rivals=((Layer.SYSTEM, contention.why),))
    waited = Interval(0.0, contention.waited, min(MOST_REMOVABLE, contention.waited))
    cause = dataclasses.replace(STALLED, next_step=contention.fix, why=contention.why)
    gain = predict_range(speedup(waited.estimate), rules) if rules >= REPLAYED else gain_of(waited)
    return VerdictDraft(draft.bottleneck, Bound.SOFTWARE, cause, draft.weak, gain, contention.why)


def _judge_kernels(figures: StepFigures, top: Category, weak: bool, rules: int) -> VerdictDraft:
    """A step whose largest share is arithmetic or memory traffic: how near its ceiling it ran decides."""
    shares, efficiency = figures.shares, figures.efficiency
    both = shares.total(*KERNELS)
    step_ns = figures.book.usual_ns
    saved = figures.fusion.saved_ns.scaled(1.0 / step_ns if step_ns else 0.0)
    copied = _copies(figures)[0] if rules >= 3 else 0.0
    picked_ns, picks = find_picking(figures.book) if rules >= REPLAYED else (0.0, 0.0)
    if step_ns and picked_ns / step_ns >= DOMINANT:
        reason = "a look-up needs no arithmetic"
        gain = figures.range_without(picked_ns, picks if rules >= ACCOUNTED else 0.0)
        return VerdictDraft(top, Bound.SOFTWARE, PICKED, weak, gain, reason)
    relaid_ns, changes = find_relaid(figures.book) if rules >= ACCOUNTED else (0.0, 0.0)
    if step_ns and relaid_ns / step_ns >= max(WORTH_COPYING, saved.estimate, copied):
        reason = "the kernels that compute want another layout"
        return VerdictDraft(top, Bound.SOFTWARE, RELAID, weak, figures.range_without(relaid_ns, changes), reason)
    beside = both - copied if rules < REPLAYED else _beside_copies(figures)
    if copied >= max(WORTH_COPYING, saved.estimate) and beside >= (ELSE_THAN_COPIES if rules < REPLAYED else ANYTHING):
        weak = weak or beside < ELSE_THAN_COPIES
        gain = Interval(speedup(copied * HALF_REMOVED), speedup(copied), speedup(copied + ELSE_THAN_COPIES))
        if rules >= REPLAYED:
            gone_ns = copied * step_ns + find_expansion(figures.book)
            gain = figures.range_without(gone_ns, _copies(figures)[1])
        return VerdictDraft(top, Bound.SOFTWARE, COPIED, weak, gain, "what is copied was in memory before")
    if saved.estimate >= WORTH_FUSING and saved.estimate >= both * WORTH_FUSING:
        gain = Interval(speedup(saved.low * HALF_REMOVED), speedup(saved.estimate), speedup(saved.high))
        # What a pass reads beside its predecessor's result mostly comes from inside the chain: the most is usual.
        usual = saved.estimate if figures.fusion.attention and rules >= ACCOUNTED else saved.high
        gain = figures.range_without(usual * step_ns, figures.fusion.merged) if rules >= REPLAYED else gain
        return VerdictDraft(top, Bound.SOFTWARE, UNFUSED, weak, gain, "intermediate results go through memory")
    if not efficiency.is_known and figures.whole is not None:
        return _judge_whole(top, figures.whole, weak)
    if not efficiency.is_known:
        reason = "shapes or ceilings are missing, so nobody can say how near the ceiling it ran"
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, NO_GAIN, reason)
    masked_ns = find_masked(figures.book) if rules >= REPLAYED else 0.0
    if masked_ns >= DOMINANT * step_ns and efficiency.overall < NEAR_CEILING:
        left = min(1.0, efficiency.overall / TYPICAL_EFFICIENCY * CAUSAL)
        return VerdictDraft(top, Bound.SOFTWARE, MASKED, weak, figures.range_without(masked_ns * (1.0 - left)))
    for cause, wide, narrow in _narrower_formats(figures.book.ceilings, rules):
        narrower = _gain_of_narrower(figures, wide, narrow, rules)
        if narrower is not None:
            return VerdictDraft(top, Bound.SOFTWARE, cause, weak, narrower)
    reached = efficiency.overall
    # To the ceiling at most, to what good kernels reach as the estimate.
    usual = min(1.0, reached / TYPICAL_EFFICIENCY)
    gain = Interval(1.0, speedup(both * (1.0 - usual)), speedup(both * (1.0 - reached)))
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
        if rules >= REPLAYED:
            gain = cap_range(figures.range_without(both * (1.0 - usual) * shares.step_ns), gain.high)
        return VerdictDraft(top, Bound.SOFTWARE, SLOW_KERNELS, weak, gain)
    return _judge_between(figures, top, gain, weak, rules)


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
        faster_ns = shares.total(*KERNELS) * (1.0 - figures.efficiency.overall / TYPICAL_EFFICIENCY) * shares.step_ns
        if rules >= REPLAYED:
            gain = cap_range(figures.range_without(max(0.0, faster_ns)), gain.high)
        return VerdictDraft(top, Bound.SOFTWARE, SLOW_KERNELS, True, gain, reason)
    older = gain_of(shares.of[removable], figures.residual(removable))
    gain = figures.range_of(removable) if rules >= REPLAYED else older
    return VerdictDraft(removable, Bound.SOFTWARE, CAUSES[removable], True, gain, reason)


def _copies(figures: StepFigures) -> tuple[float, float]:
    """The share of a step in which data was only moved from one place of memory to another, and in how many calls."""
    book = figures.book
    copies = [g for g in book.groups if g.kind is OperatorKind.COPY and g.category is Category.MEMORY_BANDWIDTH]
    moved = [group for group in copies if is_relocation(group.name)]
    share = sum(group.self_ns for group in moved) / float(book.wall_ns.sum()) if book.wall_ns.sum() else 0.0
    return share, sum(group.calls for group in moved) / len(book)


def _beside_copies(figures: StepFigures) -> float:
    """The share of the kernels' time in anything but copies: one that does nothing else may have nothing to do."""
    kernels = [group for group in figures.book.groups if group.category in KERNELS]
    others = [group for group in kernels if group.kind not in (OperatorKind.COPY, OperatorKind.DISPATCH)]
    return sum(group.self_ns for group in others) / max(1, sum(group.self_ns for group in kernels))


def _narrower_formats(ceilings: Ceilings, rules: int) -> Iterator[tuple[CategoryCause, str, Precision]]:
    """Element types wider than what the contract asks for, with the precision that would do instead."""
    if ceilings.precision is Precision.FP32:
        yield NARROWER, "float", Precision.TF32
    if rules < 3:
        return
    yield WIDER, WIDE, ceilings.precision
    if ceilings.precision in (Precision.BF16, Precision.FP16):
        yield WIDER, "float", ceilings.precision


def _gain_of_narrower(figures: StepFigures, wide: str, precision: Precision, rules: int) -> Interval | None:
    """What products of a wide element type would gain at a narrower precision; None where that is not worth a word.

    At the least they come as far below the narrow ceiling as is still a fast path; at the most they reach it, and the
    host's work hides behind the device's.
    """
    book = figures.book
    slow, fast = book.ceilings.arithmetic_per_s(wide), book.ceilings.named("matmul", precision)
    if not slow or not fast or fast < WORTH_NARROWING * slow:
        return None
    products = [
        g for g in book.groups if g.category is Category.COMPUTE and g.work is not None and g.work.dtype == wide
    ]
    # A product faster than its own ceiling already took the narrow path, whatever the flags say.
    taken = [g for g in products if g.efficiency is not None and g.efficiency <= 1.0 + CLEAR_LEAD]
    wall_ns = float(book.wall_ns.sum())
    share = sum(g.self_ns for g in taken) / wall_ns if wall_ns else 0.0
    if share < DOMINANT:
        return None
    if rules < 3:
        usual = share * (1.0 - min(1.0, slow / (fast * TYPICAL_EFFICIENCY)))
        return Interval(speedup(usual * HALF_REMOVED), speedup(usual), speedup(share * (1.0 - slow / fast)))
    least = sum(g.attainable_ns or 0.0 for g in taken) / wall_ns * slow / fast
    slowest, usual = (max(0.0, share - least / reached) for reached in (FAR_BELOW_CEILING, TYPICAL_EFFICIENCY))
    others = max(0.0, figures.shares.total(*KERNELS) - share)
    if rules >= REPLAYED:
        return figures.range_without(usual * book.usual_ns)
    return Interval(speedup(slowest), speedup(usual), max(speedup(usual), 1.0 / (others + least)))
