"""A verdict on kernels held against its own gain: neither word may stand where the figures beside it say otherwise.

Software-bound is said of what a change of code makes 1.3 times as fast, and hardware-bound of what none does. Thousands
of operators that are each too small take their time twice, on the host that starts them and on a device that they do
not fill, so that the removal of either alone uncovers the other.
"""

import dataclasses

from lynxbench.attribute.judge.causes import BOTH_BLOCKING, CAUSES, DOMINANT, SMALL_WORK
from lynxbench.attribute.judge.fix_left import BLOCKING
from lynxbench.attribute.judge.gain_range import predict_range
from lynxbench.attribute.judge.kernel_verdict import gain_without, judge_kernels
from lynxbench.attribute.judge.roofline import is_tiny
from lynxbench.attribute.judge.step_figures import (
    FLOW,
    SOFTWARE,
    STRUCTURED,
    TOLD,
    WORTH_CHANGING,
    StepFigures,
    VerdictDraft,
)
from lynxbench.attribute.judge.time_book import KERNELS
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.plain_numbers import plain

ALSO = 0.1
"""Share of the larger of two waits from which the smaller is named beside it."""


def judge_working(figures: StepFigures, top: Category, weak: bool, rules: int) -> VerdictDraft:
    """A step whose largest share is arithmetic or memory traffic, in words that its gain bears out."""
    draft = judge_kernels(figures, top, weak, rules)
    if rules < FLOW:
        return draft
    if draft.bound is Bound.HARDWARE:
        return _doubt_hardware(figures, draft)
    if draft.bound is Bound.UNDETERMINED and rules >= STRUCTURED:
        return _find_blocking(figures) or _doubt_hardware(figures, draft)
    if draft.bound is Bound.SOFTWARE and draft.gain.high < WORTH_CHANGING:
        return _find_worth(figures, draft)
    return draft


def _doubt_hardware(figures: StepFigures, draft: VerdictDraft) -> VerdictDraft:
    """Near its ceilings, but values show work that need not be done, and perhaps enough of it."""
    if figures.avoidable is None:
        return draft
    shown = gain_without(figures, figures.avoidable, surely=True)
    if shown.high < WORTH_CHANGING:
        return draft
    needless = figures.avoidable.doubt if figures.rules >= TOLD else figures.avoidable.cause
    cause = dataclasses.replace(needless, words=draft.cause.words)
    near = "near the ceiling, but " if draft.bound is Bound.HARDWARE else ""
    reason = f"{near}{needless.words} enough of it for a gain of up to {plain(shown.high, 2)}"
    return dataclasses.replace(draft, bound=Bound.UNDETERMINED, cause=cause, gain=shown, reason=reason)


def _find_blocking(figures: StepFigures) -> VerdictDraft | None:
    """Calls in which the host waits between the parts of a step: together they may be worth what neither is alone.

    A driver that frees or hands out memory waits for the device as one does who reads a value, and the dispatch that
    shows behind either is hidden without both.
    """
    parts = figures.parts
    if parts is None or not parts.shown(*BLOCKING):
        return None
    gain = predict_range(parts.step_ns / max(parts.unblocked_left_ns, 1.0), figures.rules)
    if gain.estimate < WORTH_CHANGING:
        return None
    first = max(BLOCKING, key=parts.shown)
    other = next(category for category in BLOCKING if category is not first)
    cause = BOTH_BLOCKING[first] if parts.shown(other) >= ALSO * parts.shown(first) else CAUSES[first]
    return VerdictDraft(first, Bound.SOFTWARE, cause, True, gain)


def _find_worth(figures: StepFigures, draft: VerdictDraft) -> VerdictDraft:
    """Better kernels would not make the step 1.3 times as fast: what would, if anything alone does."""
    causes = sorted(SOFTWARE, key=figures.shares.estimate, reverse=True)
    for category in causes:
        gain = figures.range_of(category) if figures.shares.estimate(category) > 0 else None
        if gain is not None and gain.estimate >= WORTH_CHANGING:
            return VerdictDraft(category, Bound.SOFTWARE, CAUSES[category], True, gain)
    small = _small_share(figures)
    gain = _gain_of_merging(figures)
    launch = figures.shares.estimate(Category.LAUNCH)
    if small + launch >= DOMINANT and small > 0 and launch > 0 and gain.high >= WORTH_CHANGING:
        reason = f"kernels too small to fill the device {small * 100:.0f} %, and neither alone is worth a change"
        bound = Bound.SOFTWARE if gain.estimate >= WORTH_CHANGING else Bound.UNDETERMINED
        return VerdictDraft(Category.LAUNCH, bound, SMALL_WORK, True, gain, reason)
    others = " and ".join(category.value for category in causes[:2] if figures.shares.estimate(category) > 0)
    reason = f"faster kernels alone would gain {plain(draft.gain.high, 2)} at the most"
    reason += f": what else takes time ({others}) would show" if others else ""
    return dataclasses.replace(draft, bound=Bound.UNDETERMINED, weak=True, reason=reason)


def _small_share(figures: StepFigures) -> float:
    """The share of the step in kernels whose time is a fixed cost and not their work."""
    groups = [group for group in figures.book.groups if group.category in KERNELS and group.calls]
    taken = sum(group.self_ns for group in groups)
    tiny = 0
    for group in groups:
        least_ns = None if group.attainable_ns is None else group.attainable_ns / group.calls
        if is_tiny(group.self_ns / group.calls, least_ns):
            tiny += group.self_ns
    return figures.shares.total(*KERNELS) * tiny / taken if taken else 0.0


def _gain_of_merging(figures: StepFigures) -> Interval:
    """Replayed as a graph that nothing waits in, kernels as they are; at the most, calls that are alike are one."""
    parts = figures.parts
    if parts is None:
        return Interval(1.0, 1.0, 1.0)
    gain = predict_range(parts.step_ns / max(parts.replayed_left_ns, 1.0), figures.rules)
    merged = parts.step_ns / max(min(parts.merged_left_ns, parts.unawaited_left_ns), 1.0)
    return dataclasses.replace(gain, high=max(gain.high, merged))
