"""Restarts judged together: several short runs can prove what none of them proves alone.

Each fresh process repeats the same run. Where no process shows a change and some are merely too short to exclude one,
the mean of their drifts has a narrower interval than any of them, and the same equivalence test applies to it. A
process whose own best guess lies beyond the bound keeps its doubt, so that opposite drifts do not cancel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lynxbench.model.interval import Interval
from lynxbench.model.verdicts import WORST_FIRST, SteadyVerdict
from lynxbench.stats.steady import SteadyJudgement, SteadyReason


@dataclass(frozen=True, slots=True)
class PooledJudgement:
    """The verdict over all restarts, and the drift it rests on."""

    verdict: SteadyVerdict
    reason: str
    drift: Interval
    pooled: bool
    """Whether the restarts had to be taken together."""


def judge_together(judgements: Sequence[SteadyJudgement], drift_bound: float) -> PooledJudgement:
    """The worst process decides, unless all that is wrong is that some were too short and the mean drift settles it."""
    worst = min(judgements, key=lambda judgement: WORST_FIRST.index(judgement.verdict))
    alone = PooledJudgement(worst.verdict, worst.reason.value, worst.drift, pooled=False)
    doubts = [judgement for judgement in judgements if judgement.verdict is not SteadyVerdict.STEADY]
    if len(judgements) == 1 or not doubts or any(not _merely_short(judgement) for judgement in doubts):
        return alone
    guesses = [guess for judgement in judgements for guess in (judgement.drift, judgement.tail_shift, judgement.head)]
    if not all(guess.known and abs(guess.estimate) <= drift_bound for guess in guesses):
        return alone
    drift, shift, head = (
        _mean_of([getattr(judgement, name) for judgement in judgements]) for name in ("drift", "tail_shift", "head")
    )
    if not all(part.inside(-drift_bound, drift_bound) for part in (drift, shift, head)):
        return alone
    return PooledJudgement(SteadyVerdict.STEADY, f"over {len(judgements)} restarts together", drift, pooled=True)


def _merely_short(judgement: SteadyJudgement) -> bool:
    return judgement.verdict is SteadyVerdict.INCONCLUSIVE and judgement.reason is SteadyReason.TOO_SHORT


def _mean_of(parts: Sequence[Interval]) -> Interval:
    """Mean of independent estimates; half widths add in squares (each already uses its own Student quantile)."""
    mean = math.fsum(part.estimate for part in parts) / len(parts)
    half = math.sqrt(math.fsum(part.half_width**2 for part in parts)) / len(parts)
    return Interval(mean - half, mean, mean + half)
