"""From a book of exclusive times to a verdict: bottleneck, bound, layer, owner, gain, and the evidence for each.

Shares are of time, never credit to a layer. Doubt is an answer: a trace that is damaged, lacks shapes or has no
dominating category gets its shares, and no more certainty than they carry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.accounting import OperatorGroup, TimeBook
from lynxbench.attribute.causes import CAUSES, NARROWER, SLOW_KERNELS, SMALL_KERNELS, STALLED, UNFUSED, CategoryCause
from lynxbench.attribute.contention import FOREIGN_LOAD_FIX, OWN_THREADS_FIX, Contention
from lynxbench.attribute.evidence_lines import KernelEfficiency, say_declared, write_evidence
from lynxbench.attribute.fusion import Fusion, find_fusion
from lynxbench.attribute.inflation import Shares, correct_shares
from lynxbench.attribute.roofline import Ceilings
from lynxbench.attribute.top_operators import top_operators
from lynxbench.attribute.whole_step import WholeStep, measure_whole_step
from lynxbench.model.attribution import Attribution, Bound, CandidateLayer, Category, StepWork
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

NEAR_CEILING = 0.6
"""Kernels at this share of the measured ceiling leave software little to gain; well-tuned libraries reach 0.6 to 0.9
of a bare kernel on shapes of real models."""
FAR_BELOW_CEILING = 0.35
"""Under this a better kernel, layout or thread count gains more than a purchase would. Between the two: doubt."""
TYPICAL_EFFICIENCY = 0.75
"""What a good kernel reaches of the ceiling: the estimate of a gain goes here, its upper bound to the ceiling."""
DOMINANT = 0.4
"""A bottleneck below this share is named, and marked weak."""
CLEAR_LEAD = 0.1
"""… so is one that leads the next category by less."""
MOSTLY_SOFTWARE = 0.6
"""A step of which the hardware's ceilings account for less than the rest is software's, whatever leads its shares."""
ENOUGH_KNOWN = 0.5
"""Share of the kernels' time whose work must be known before anything is said about their efficiency."""
WORTH_NARROWING = 2.0
"""TF32 must be this much faster on a bare product before it is proposed."""
WORTH_FUSING = 0.25
"""Share of a step that fusing must save before it is called the cause."""
HALF_REMOVED = 0.5
"""A fix may remove only this much of a category: the low end of a gain."""
MOSTLY = 0.5
MOST_REMOVABLE = 0.99

KERNELS = (Category.COMPUTE, Category.MEMORY_BANDWIDTH)
SOFTWARE = (
    Category.LAUNCH,
    Category.ALLOCATOR,
    Category.INPUT,
    Category.SYNCHRONIZATION,
    Category.TRANSFER,
    Category.IDLE,
    Category.COMMUNICATION,
)

Owner = Callable[[Layer], str]


@dataclass(frozen=True, slots=True)
class VerdictDraft:
    """The verdict before it is put into words."""

    bottleneck: Category
    bound: Bound
    cause: CategoryCause
    weak: bool
    gain: Interval
    reason: str
    rivals: tuple[tuple[Layer, str], ...] = ()
    """Layers that this run's own conditions point to, beside those that the cause always has."""


def attribute_steps(
    book: TimeBook,
    *,
    ceilings: Ceilings,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    steps_how: str,
    annotated: bool = True,
    notes: Sequence[str] = (),
    damaged: bool = False,
    device: str = "cpu",
    contention: Contention | None = None,
    work: StepWork | None = None,
) -> Attribution:
    """The attribution of one trace; see `docs/methodology/attribution.md` for the rules."""
    step_ms = unprofiled_step_ms.estimate if isinstance(unprofiled_step_ms, Interval) else unprofiled_step_ms
    shares = correct_shares(book, step_ms * 1e6 if step_ms is not None and step_ms > 0 else None)
    fusion = find_fusion(book, ceilings)
    efficiency = measure_efficiency(book.groups)
    known = efficiency.coverage() >= ENOUGH_KNOWN
    whole = measure_whole_step(book, shares, ceilings, work) if not known and not damaged else None
    finding = decide(book, shares, efficiency, fusion, ceilings, damaged=damaged, whole=whole)
    if contention is not None and contention.matters and not damaged:
        finding = _contended(finding, contention)
    certain = not damaged and finding.bound is not Bound.UNDETERMINED
    layer = finding.cause.layer if certain else None
    evidence = write_evidence(
        book,
        shares,
        efficiency,
        fusion,
        ceilings,
        steps_how=steps_how,
        device=device,
        notes=(*notes, *(() if annotated else ("steps were not annotated: waits between steps cannot be seen",))),
        contention=contention,
        cause=finding.cause if certain else None,
    )
    sentence = _sentence(finding, shares, damaged)
    return Attribution(
        bottleneck=finding.bottleneck,
        bound=finding.bound,
        layer=layer,
        owner=owner(layer) if layer is not None else None,
        symptom_layer=finding.cause.symptom if certain else None,
        shares={category: interval.estimate for category, interval in shares.of.items()},
        gain_if_removed=finding.gain,
        evidence=(*evidence, *(whole.lines if whole is not None else ())),
        weak=finding.weak,
        sentence=say_declared(sentence) if ceilings.declared else sentence,
        next_step=_next_step(finding, fusion) if not damaged else "profile again: this trace is damaged or incomplete",
        candidates=_candidates(finding, shares, owner) if not damaged else (),
        wall_ms_per_step=float(np.median(book.wall_ns)) / 1e6,
        unprofiled_ms_per_step=step_ms,
        steps=len(book.wall_ns),
        operators=top_operators(book),
        ceilings=ceilings.all,
    )


def _contended(finding: VerdictDraft, contention: Contention) -> VerdictDraft:
    """Threads that wait for a CPU slow every category alike: what leads the shares is then the symptom.

    Own threads beyond the CPUs are the workload's doing, and the cause. Other load is a disturbance of the run: it
    explains slow kernels and open questions, and takes the certainty of the rest.
    """
    if not contention.own and finding.cause is not SLOW_KERNELS and finding.bound is not Bound.UNDETERMINED:
        return dataclasses.replace(finding, weak=True, rivals=((Layer.SYSTEM, contention.why),))
    waited = Interval(0.0, contention.waited, min(MOST_REMOVABLE, contention.waited))
    fix = OWN_THREADS_FIX if contention.own else FOREIGN_LOAD_FIX
    cause = dataclasses.replace(STALLED, next_step=fix, why=contention.why)
    return VerdictDraft(finding.bottleneck, Bound.SOFTWARE, cause, finding.weak, gain_of(waited), contention.why)


def _next_step(finding: VerdictDraft, fusion: Fusion) -> str:
    if finding.cause is UNFUSED and fusion.attention:
        return "use a fused attention kernel (scaled_dot_product_attention), so that the scores never reach memory"
    return finding.cause.next_step


def measure_efficiency(groups: Sequence[OperatorGroup]) -> KernelEfficiency:
    """Attainable over taken time of the kernels whose work is known, by category and together."""
    taken = dict.fromkeys(KERNELS, 0.0)
    known = dict.fromkeys(KERNELS, 0.0)
    best = dict.fromkeys(KERNELS, 0.0)
    above = 0.0
    for group in groups:
        if group.category not in taken:
            continue
        taken[group.category] += group.self_ns
        if group.attainable_ns is not None:
            known[group.category] += group.self_ns
            best[group.category] += min(group.attainable_ns, float(group.self_ns))
            if group.attainable_ns > group.self_ns:
                above += group.self_ns
    return KernelEfficiency(taken, known, best, above)


def decide(
    book: TimeBook, shares: Shares, efficiency: KernelEfficiency, fusion: Fusion, ceilings: Ceilings, *, damaged: bool,
    whole: WholeStep | None = None,
) -> VerdictDraft:  # fmt: skip
    """Bottleneck, bound, cause and gain from the shares and the kernels' efficiency."""
    ranked = sorted(shares.of, key=lambda category: (-shares.estimate(category), category))
    top = ranked[0]
    share = shares.of[top]
    second = shares.estimate(ranked[1]) if len(ranked) > 1 else 0.0
    weak = damaged or share.estimate < DOMINANT or share.estimate - second < CLEAR_LEAD
    if damaged:
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, NO_GAIN, "the trace is damaged")
    if top in KERNELS:
        return _kernel_finding(book, top, shares, efficiency, fusion, ceilings, weak, whole)
    if top is Category.QUEUEING:
        return VerdictDraft(top, Bound.DEMAND, CAUSES[top], weak, gain_of(share), "requests wait")
    if top in SOFTWARE:
        hidden = shares.total(*KERNELS)
        by_shares = shares.total(*SOFTWARE) >= max(DOMINANT, hidden)
        by_ceilings = hardware_floor(shares, efficiency) <= 1.0 - MOSTLY_SOFTWARE
        bound = Bound.SOFTWARE if by_shares or by_ceilings else Bound.UNDETERMINED
        gain = gain_of(share, book.residual_ns.get(top, 0.0) / shares.step_ns if shares.step_ns else 0.0)
        stalled = top is Category.IDLE and book.stalled_ns > float(np.median(book.of(top))) * MOSTLY
        return VerdictDraft(
            top, bound, STALLED if stalled else CAUSES[top], weak or bound is Bound.UNDETERMINED, gain, ""
        )
    return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, NO_GAIN, "the trace does not say what runs there")


NO_GAIN = Interval(1.0, 1.0, 1.0)


def gain_of(share: Interval, residual: float = 0.0) -> Interval:
    """What removing a share of the step gains: half of its low end at the least, all of its high end at the most.

    `residual` is the share that a fix leaves behind.
    """
    low = max(0.0, share.low - residual) * HALF_REMOVED
    estimate = max(low, share.estimate - residual)
    high = max(share.high - residual * HALF_REMOVED, estimate)
    return Interval(_speedup(low), _speedup(estimate), _speedup(high))


def _speedup(removed: float) -> float:
    return 1.0 / (1.0 - min(max(removed, 0.0), MOST_REMOVABLE))


def _kernel_finding(
    book: TimeBook,
    top: Category,
    shares: Shares,
    efficiency: KernelEfficiency,
    fusion: Fusion,
    ceilings: Ceilings,
    weak: bool,
    whole: WholeStep | None,
) -> VerdictDraft:
    step_ns = float(np.median(book.wall_ns))
    both = shares.total(*KERNELS)
    fused = fusion.saved_ns.estimate / step_ns if step_ns else 0.0
    if fused >= WORTH_FUSING and fused >= shares.total(*KERNELS) * WORTH_FUSING:
        saved = fusion.saved_ns.scaled(1.0 / step_ns)
        gain = Interval(_speedup(saved.low * HALF_REMOVED), _speedup(saved.estimate), _speedup(saved.high))
        return VerdictDraft(top, Bound.SOFTWARE, UNFUSED, weak, gain, "intermediate results go through memory")
    if efficiency.coverage() < ENOUGH_KNOWN and whole is not None:
        return _whole_finding(top, whole, weak)
    if efficiency.coverage() < ENOUGH_KNOWN:
        why = "shapes or ceilings are missing, so nobody can say how near the ceiling it ran"
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, NO_GAIN, why)
    reached = efficiency.overall()
    gain = _gain_to_ceiling(shares, efficiency)
    narrower = _gain_of_tf32(book, shares, ceilings)
    if narrower is not None:
        return VerdictDraft(top, Bound.SOFTWARE, NARROWER, weak, narrower, "")
    if both < DOMINANT:
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, gain, "no category dominates")
    if reached >= NEAR_CEILING:
        return VerdictDraft(top, Bound.HARDWARE, CAUSES[top], weak, gain, "")
    if reached <= FAR_BELOW_CEILING:
        return VerdictDraft(top, Bound.SOFTWARE, SLOW_KERNELS, weak, gain, "")
    return _between(book, top, shares, efficiency, gain, weak)


def _whole_finding(top: Category, whole: WholeStep, weak: bool) -> VerdictDraft:
    """A step whose kernels show no operands, by the work that it cannot do without."""
    floor, good = whole.floor, min(1.0, whole.floor / TYPICAL_EFFICIENCY)
    gain = Interval(1.0, _speedup(1.0 - good), _speedup(1.0 - floor))
    if floor >= NEAR_CEILING:
        return VerdictDraft(top, Bound.HARDWARE, CAUSES[top], weak, gain, "")
    if floor > 1.0 - MOSTLY_SOFTWARE:
        why = f"its least work would take {floor:.0%} of it at the measured ceiling: neither near it nor far below"
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, why)
    why = f"at their ceilings the operators would take {floor:.0%} of the step"
    rest = 1.0 - floor - whole.slow_products - whole.small
    if whole.small >= max(whole.slow_products, rest):
        return VerdictDraft(top, Bound.SOFTWARE, SMALL_KERNELS, weak, gain_of(_surely(whole.small)), why)
    return VerdictDraft(top, Bound.SOFTWARE, SLOW_KERNELS, weak, gain, why)


def _surely(share: float) -> Interval:
    return Interval(share, share, share)


def hardware_floor(shares: Shares, efficiency: KernelEfficiency) -> float:
    """The share of a step that its kernels would take at their ceilings; all of theirs where too little is known."""
    known = efficiency.coverage() >= ENOUGH_KNOWN
    return shares.total(*KERNELS) * (efficiency.overall() if known else 1.0)


def _between(
    book: TimeBook, top: Category, shares: Shares, efficiency: KernelEfficiency, gain: Interval, weak: bool
) -> VerdictDraft:
    """Kernels neither near their ceilings nor far below: the whole step decides, by what its ceilings account for."""
    floor = hardware_floor(shares, efficiency)
    if floor > 1.0 - MOSTLY_SOFTWARE:
        why = f"its operators reach {efficiency.overall():.0%} of the measured ceiling: neither near it nor far below"
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], weak, gain, why)
    why = f"at their ceilings the operators would take {floor:.0%} of the step"
    removable = max(SOFTWARE, key=shares.estimate)
    slow = shares.total(*KERNELS) - floor
    if shares.estimate(removable) < slow or shares.estimate(removable) < shares.estimate(top) - CLEAR_LEAD:
        return VerdictDraft(top, Bound.SOFTWARE, SLOW_KERNELS, True, gain, why)
    share = shares.of[removable]
    left = book.residual_ns.get(removable, 0.0) / shares.step_ns if shares.step_ns else 0.0
    return VerdictDraft(removable, Bound.SOFTWARE, CAUSES[removable], True, gain_of(share, left), why)


def _gain_of_tf32(book: TimeBook, shares: Shares, ceilings: Ceilings) -> Interval | None:
    """What TF32 would gain where products run in full fp32 on a device that has it; None where that is not the case."""
    wide, narrow = ceilings.named("matmul", Precision.FP32), ceilings.named("matmul", Precision.TF32)
    if ceilings.precision is not Precision.FP32 or not wide or not narrow or narrow < WORTH_NARROWING * wide:
        return None
    products = [
        g for g in book.groups if g.category is Category.COMPUTE and g.work is not None and g.work.dtype == "float"
    ]
    # A product faster than the fp32 ceiling already took the narrow path, whatever the flags say.
    wide_ns = sum(g.self_ns for g in products if (g.efficiency or 0.0) <= 1.0 + CLEAR_LEAD)
    share = wide_ns / float(book.wall_ns.sum()) if book.wall_ns.sum() else 0.0
    if share < DOMINANT:
        return None
    best, usual = share * (1.0 - wide / narrow), share * (1.0 - min(1.0, wide / (narrow * TYPICAL_EFFICIENCY)))
    return Interval(_speedup(usual * HALF_REMOVED), _speedup(usual), _speedup(best))


def _gain_to_ceiling(shares: Shares, efficiency: KernelEfficiency) -> Interval:
    """What better kernels could still gain: to the ceiling at most, to what good kernels reach as the estimate."""
    both = shares.total(*KERNELS)
    reached = efficiency.overall()
    usual = min(1.0, reached / TYPICAL_EFFICIENCY)
    return Interval(1.0, _speedup(both * (1.0 - usual)), _speedup(both * (1.0 - reached)))


def _sentence(finding: VerdictDraft, shares: Shares, damaged: bool) -> str:
    share = shares.of[finding.bottleneck]
    amount = _percent(share)
    words = CAUSES[finding.bottleneck]
    if damaged:
        return f"undetermined: the trace is damaged or incomplete; in what is left, {words.takes(amount, 'a step')}"
    lead = f"{finding.bound.value}-bound" if finding.bound is not Bound.UNDETERMINED else "undetermined"
    if finding.cause is SLOW_KERNELS:
        text = f"{words.takes(amount, 'a step')}, by operators far below the ceiling measured on this machine"
    elif finding.cause is UNFUSED:
        text = f"{words.takes(amount, 'a step')}, much of it for intermediate results that fused operators avoid"
    elif finding.cause is SMALL_KERNELS:
        text = f"{words.takes(amount, 'a step')}, much of it in kernels too small to fill the device"
    elif finding.cause is NARROWER:
        text = f"{words.takes(amount, 'a step')}, in full fp32 although the device is several times faster in TF32"
    elif finding.cause is STALLED:
        text = STALLED.takes(amount, "a step")
    elif finding.cause.words == STALLED.words:
        text = f"{words.takes(amount, 'a step')}, and threads ready to run wait for a CPU: {finding.reason}"
    elif finding.bound is Bound.HARDWARE:
        text = f"{words.takes(amount, 'a step')}, by operators near the ceiling measured on this machine"
    else:
        text = words.takes(amount, "a step")
    if finding.reason and (finding.bound is Bound.UNDETERMINED or finding.reason.startswith("at their ceilings")):
        text += f"; {finding.reason}"
    if finding.weak:
        close = share.estimate - CLEAR_LEAD
        level = [c for c in shares.of if c is not finding.bottleneck and shares.estimate(c) > close]
        tail = f", level with {' and '.join(c.value for c in level)}" if level else ""
        text += f" (weak: no category dominates{tail})"
    return f"{lead}: {text}"


def _percent(share: Interval) -> str:
    low, high = round(share.low * 100), round(share.high * 100)
    return f"{low}–{high} %" if high - low >= 2 else f"{round(share.estimate * 100)} %"


def _candidates(finding: VerdictDraft, shares: Shares, owner: Owner) -> tuple[CandidateLayer, ...]:
    """The cause first, its rivals, then the causes of other categories that take a tenth of the step or more."""
    found: dict[Layer, str] = {}
    if finding.cause.layer is not None:
        found[finding.cause.layer] = finding.cause.why
    for layer, reason in (*finding.rivals, *finding.cause.rivals):
        found.setdefault(layer, reason)
    for category in sorted(shares.of, key=lambda c: -shares.estimate(c)):
        cause = CAUSES[category]
        if category is finding.bottleneck or cause.layer is None or shares.estimate(category) < CLEAR_LEAD:
            continue
        found.setdefault(cause.layer, cause.takes(_percent(shares.of[category]), "a step"))
    return tuple(CandidateLayer(layer=layer, owner=owner(layer), reason=reason) for layer, reason in found.items())
