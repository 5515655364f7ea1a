"""From a book of exclusive times to a verdict: bottleneck, bound, cause and gain.

Shares are of time, never credit to a layer. Doubt is an answer: a trace that is damaged, lacks shapes or has no
dominating category gets its shares, and no more certainty than they carry.
"""

import dataclasses

import numpy as np

from lynxbench.attribute.judge.causes import (
    BELOW_CEILING,
    BOTH_LEVEL,
    CAUSES,
    CLEAR_LEAD,
    DOMINANT,
    FRESH_MEMORY,
    HOST_LAUNCH,
    MOST_REMOVABLE,
    NO_GAIN,
    SLOW_KERNELS,
    STALLED,
    WAITS_INSIDE,
    gain_of,
    is_close,
    speedup,
)
from lynxbench.attribute.judge.gain_range import predict_range
from lynxbench.attribute.judge.process_accounts import Contention
from lynxbench.attribute.judge.step_figures import (
    LINEAR,
    MOSTLY_SOFTWARE,
    NEEDED,
    REPLAYED,
    SOFTWARE,
    STRUCTURED,
    TOLD,
    WORTH_CHANGING,
    StepFigures,
    VerdictDraft,
)
from lynxbench.attribute.judge.time_book import KERNELS
from lynxbench.attribute.judge.worth_changing import judge_working
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.result import RULES

MOSTLY = 0.5


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
    draft = (judge_working if top in KERNELS else _judge_waits)(figures, top, weak, rules)
    if figures.host is not None and draft.cause is CAUSES[Category.LAUNCH]:
        draft = dataclasses.replace(draft, cause=HOST_LAUNCH)
    if rules >= REPLAYED and draft.bound is Bound.SOFTWARE:
        draft = dataclasses.replace(draft, predicted=True)
    draft = _weigh_fresh(figures, draft)
    if figures.contention is not None and figures.contention.matters:
        return _contended(draft, figures.contention, rules)
    if rules >= TOLD and figures.profiled_otherwise:
        return dataclasses.replace(draft, weak=True)
    return draft


def _judge_waits(figures: StepFigures, top: Category, weak: bool, rules: int) -> VerdictDraft:
    """A step whose largest share is no kernel's."""
    shares, book = figures.shares, figures.book
    share = shares.of[top]
    if top is Category.QUEUEING:
        return VerdictDraft(top, Bound.DEMAND, CAUSES[top], weak, gain_of(share), "requests wait")
    if top not in SOFTWARE:
        reason = "the trace does not say what runs there"
        gain = dataclasses.replace(NO_GAIN, high=speedup(share.estimate)) if rules >= STRUCTURED else NO_GAIN
        return VerdictDraft(top, Bound.UNDETERMINED, CAUSES[top], True, gain, reason)
    by_shares = shares.total(*SOFTWARE) >= max(DOMINANT, shares.total(*KERNELS))
    by_ceilings = figures.hardware_floor <= 1.0 - MOSTLY_SOFTWARE
    bound = Bound.SOFTWARE if by_shares or by_ceilings else Bound.UNDETERMINED
    stalled = top is Category.IDLE and book.stalled_ns > float(np.median(book.of(top))) * MOSTLY
    cause = STALLED if stalled else CAUSES[top]
    if rules >= NEEDED and figures.level_with(top) is not None:
        if shares.estimate(Category.SYNCHRONIZATION) > shares.estimate(top) - CLEAR_LEAD:
            top = Category.SYNCHRONIZATION  # with waits inside, a step cannot be replayed: they go first
        cause, weak = BOTH_LEVEL[top], True
    elif rules >= LINEAR and top is Category.SYNCHRONIZATION and figures.parts is not None and figures.parts.waits >= 1:
        cause = WAITS_INSIDE
    if rules >= REPLAYED:
        gain = figures.range_of(top)
    else:
        gain = gain_of(share, figures.residual(top))
        if book.tiling.on_device and rules >= 3:  # at the most the host's work hides behind the device's, which is left
            gain = dataclasses.replace(gain, high=max(gain.high, speedup(1.0 - shares.total(*KERNELS))))
    return VerdictDraft(top, bound, cause, weak or bound is Bound.UNDETERMINED, gain)


def _weigh_fresh(figures: StepFigures, draft: VerdictDraft) -> VerdictDraft:
    """Memory that the system hands out anew, where that takes more of a step on a CPU than what was named."""
    if figures.host is None or figures.fresh is None:
        return draft
    gain = predict_range(figures.host.gain_without(figures.fresh.share * figures.host.step_ns), figures.rules)
    named = draft.gain.estimate if draft.bound is Bound.SOFTWARE else 1.0
    if gain.estimate < max(WORTH_CHANGING, named):
        return draft
    return dataclasses.replace(
        draft, bound=Bound.SOFTWARE, cause=FRESH_MEMORY, gain=gain, reason="", rivals=(), predicted=True
    )


def _contended(draft: VerdictDraft, contention: Contention, rules: int) -> VerdictDraft:
    """Threads that wait for a CPU slow every category alike: what leads the shares is then the symptom.

    Own threads beyond the CPUs are the workload's doing, and the cause. Other load is a disturbance of the run: it
    explains slow kernels and open questions, and takes the certainty of the rest.
    """
    if (
        not contention.own
        and draft.cause not in (SLOW_KERNELS, BELOW_CEILING)
        and draft.bound is not Bound.UNDETERMINED
    ):
        return dataclasses.replace(draft, weak=True, rivals=((Layer.SYSTEM, contention.why),))
    waited = Interval(0.0, contention.waited, min(MOST_REMOVABLE, contention.waited))
    cause = dataclasses.replace(STALLED, next_step=contention.fix, why=contention.why)
    gain = predict_range(speedup(waited.estimate), rules) if rules >= REPLAYED else gain_of(waited)
    return VerdictDraft(draft.bottleneck, Bound.SOFTWARE, cause, draft.weak, gain, contention.why)
