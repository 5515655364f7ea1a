"""Effects with intervals, and the verdict against the budget. Doubt is a verdict."""

import math
from collections.abc import Sequence

import numpy as np

from lynxbench.compare.pair import ComparedPair
from lynxbench.compare.rules import FEWEST_RESTARTS, SAME_RATE
from lynxbench.model.comparison import Effect, EffectVerdict
from lynxbench.model.contract import Contract, Regime, SloMetric
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.precision import Precision
from lynxbench.model.result import Percentile, PrecisionResult, Result
from lynxbench.model.workload import ClosedArrival, SaturatingArrival
from lynxbench.stats.intervals import paired_ratio_interval, ratio_interval
from lynxbench.stats.sessions import ratio_assumed, ratio_between

THROUGHPUT = "throughput"
SHOWN_PERCENTILES = (50.0, 99.0)
BY_RUN_MEANS = "run means of fresh processes, Welch's t on their logarithms"
BY_RUN_PERCENTILES = "the percentile in each fresh process, Welch's t on their logarithms"
BY_PAIRS = "differences within {} pairs of fresh processes, Student's t on those of their logarithms"
BY_SITTINGS = "means of the two sittings, Student's t with what sittings of this executor differed by"
BY_DECLARED = "run means, with a session noise of {:.2%} that the contract assumes"
BY_ONE_SITTING = "; one sitting: how much sittings differ is not in it"
IN_PAIRS = "both measured in one sitting (lynxbench compare --run) would tell more than restarts do"
BY_BOUNDS = "bounds of the pooled percentiles; the spread between processes is not in them"
WITHOUT_SAMPLES = "give both results with their samples: a verdict needs each process"
TOO_FEW_CALLS = "a process has too few iterations for a percentile of its own; a longer min_duration gives them"
MOST_RESTARTS = 200
"""More than this is not advice but a sign that the change is the budget, or that the noise has to go first."""


def figure_name(metric: str, percentile: float) -> str:
    """`time-to-first-token p99`."""
    return f"{metric} p{percentile:g}"


MEDIAN_LATENCY = figure_name(SloMetric.LATENCY.value, 50.0)


def decide(ratio: Interval, budget: float, *, higher_is_better: bool) -> EffectVerdict:
    """The loss against the budget: NaN and straddling intervals both land on inconclusive."""
    if not ratio.known:
        return EffectVerdict.INCONCLUSIVE
    loss = loss_of(ratio, higher_is_better=higher_is_better)
    if loss.low > budget:
        return EffectVerdict.REGRESSED
    if loss.high < -budget:
        return EffectVerdict.IMPROVED
    if loss.high <= budget:
        return EffectVerdict.WITHIN_BUDGET
    return EffectVerdict.INCONCLUSIVE


def loss_of(ratio: Interval, *, higher_is_better: bool) -> Interval:
    """A ratio as the share that was lost; negative is a gain."""
    if higher_is_better:
        return Interval(1 - ratio.high, 1 - ratio.estimate, 1 - ratio.low)
    return Interval(ratio.low - 1, ratio.estimate - 1, ratio.high - 1)


def leading_figure(contract: Contract) -> str:
    """The figure that decides: a latency where the regime or the load asks for it, throughput otherwise.

    A load that arrives by itself fixes the throughput, so only the latency can tell.
    """
    arrives = not isinstance(contract.workload.arrival, ClosedArrival | SaturatingArrival)
    if contract.regime is not Regime.LATENCY and not arrives:
        return THROUGHPUT
    if contract.objective.slo:
        slo = contract.objective.slo[0]
        return figure_name(slo.metric.value, slo.percentile)
    return MEDIAN_LATENCY


def effects_at(pair: ComparedPair, precision: Precision, budget: float, confidence: float) -> tuple[Effect, ...]:
    """Throughput, then every latency that both resolve."""
    a, b = (side.at(precision) for side in pair.sides)
    assert a is not None
    assert b is not None
    effects = [_throughput(pair, a, b, budget, confidence)]
    if not _at_one_rate(pair, a, b):
        return tuple(effects)
    bounded = {(slo.metric.value, slo.percentile) for slo in pair.a.result.contract.objective.slo}
    for metric in a.latency_ms.keys() & b.latency_ms.keys():
        for percentile in sorted({*SHOWN_PERCENTILES, *(p for m, p in bounded if m == metric)}):
            effect = _latency(pair, precision, metric, percentile, budget, confidence)
            if effect is not None:
                effects.append(effect)
    return tuple(sorted(effects, key=lambda effect: (effect.figure != THROUGHPUT, effect.figure)))


def _at_one_rate(pair: ComparedPair, a: PrecisionResult, b: PrecisionResult) -> bool:
    """Latencies at two rates have no ratio: a saturation search may end at another rate in each run."""
    if not isinstance(pair.a.result.contract.workload.arrival, SaturatingArrival) or a.load is None or b.load is None:
        return True
    left, right = (load.offered_per_s.estimate if load.offered_per_s else None for load in (a.load, b.load))
    return bool(left and right) and abs(math.log((right or 1) / (left or 1))) <= SAME_RATE


def _throughput(pair: ComparedPair, a: PrecisionResult, b: PrecisionResult, budget: float, confidence: float) -> Effect:
    ratio, basis = UNKNOWN_INTERVAL, BY_RUN_MEANS
    if a.run_means and b.run_means:
        ratio, basis = _ratio(pair, (a.precision, THROUGHPUT), (a.run_means, b.run_means), BY_RUN_MEANS, confidence)
    fewest = min(len(a.run_means), len(b.run_means))
    apart = pair.between is not None
    verdict, why = _judged(ratio, budget, fewest, higher_is_better=True, apart=apart)
    return Effect(
        figure=THROUGHPUT,
        unit=a.throughput.unit if a.throughput else "",
        higher_is_better=True,
        a=a.throughput.estimate if a.throughput else None,
        b=b.throughput.estimate if b.throughput else None,
        ratio=ratio,
        basis=basis,
        verdict=verdict,
        why=why,
    )


def _ratio(
    pair: ComparedPair,
    figure: tuple[Precision, str],
    runs: tuple[Sequence[float], Sequence[float]],
    basis: str,
    confidence: float,
) -> tuple[Interval, str]:
    """B over A and what it rests on: restarts within a sitting; between two, what sittings differ by as well."""
    a, b = runs
    if pair.order and len(a) == len(b) == len(pair.order):
        return paired_ratio_interval(a, b, confidence), BY_PAIRS.format(len(pair.order))
    welch = ratio_interval(a, b, confidence)
    if pair.between is None or min(*a, *b) <= 0:
        return welch, basis
    learned = pair.between.of(*figure)
    if learned is not None:
        if not learned.restart_degrees:  # one figure was known of each sitting, and so of these
            a, b = [float(np.exp(np.mean(np.log(a))))], [float(np.exp(np.mean(np.log(b))))]
        return ratio_between(a, b, learned, confidence), BY_SITTINGS
    if pair.declared_noise is not None:
        return ratio_assumed(a, b, pair.declared_noise, confidence), BY_DECLARED.format(pair.declared_noise)
    return welch, basis + BY_ONE_SITTING


def _latency(
    pair: ComparedPair, precision: Precision, metric: str, percentile: float, budget: float, confidence: float
) -> Effect | None:
    left, right = (_percentile(side.at(precision), metric, percentile) for side in pair.sides)
    if left is None or right is None:
        return None
    runs = [side.latency_runs.get(precision, {}).get((metric, percentile), ()) for side in pair.sides]
    if min(map(len, runs)) >= 2:
        figure = precision, figure_name(metric, percentile)
        ratio, basis = _ratio(pair, figure, (runs[0], runs[1]), BY_RUN_PERCENTILES, confidence)
        apart = pair.between is not None
        verdict, why = _judged(ratio, budget, min(map(len, runs)), higher_is_better=False, apart=apart)
    else:
        ratio, basis = _of_bounds(left, right), BY_BOUNDS
        verdict, why = EffectVerdict.INCONCLUSIVE, WITHOUT_SAMPLES
        if all(precision in side.latency_runs for side in pair.sides):
            why = TOO_FEW_CALLS
    return Effect(
        figure=figure_name(metric, percentile),
        unit="ms",
        higher_is_better=False,
        a=left.estimate,
        b=right.estimate,
        ratio=ratio,
        basis=basis,
        verdict=verdict,
        why=why,
    )


def _percentile(figures: PrecisionResult | None, metric: str, percentile: float) -> Percentile | None:
    listed = () if figures is None else figures.latency_ms.get(metric, ())
    judged = () if figures is None else tuple(slo.measured for slo in figures.slo if slo.metric == metric)
    chosen = next((p for p in (*listed, *judged) if p.percentile == percentile), None)
    return chosen if chosen is not None and chosen.resolved and chosen.estimate else None


def percentile_of(result: Result, precision: Precision, contract: Contract) -> float | None:
    """The leading latency of a result in milliseconds; None where it has none, or throughput leads."""
    figures = next((part for part in result.per_precision if part.precision is precision), None)
    if figures is None or figures.skipped is not None or leading_figure(contract) == THROUGHPUT:
        return None
    slo = contract.objective.slo[0] if contract.objective.slo else None
    metric, percentile = (slo.metric.value, slo.percentile) if slo else (SloMetric.LATENCY.value, 50.0)
    measured = _percentile(figures, metric, percentile)
    return None if measured is None else measured.estimate


def _of_bounds(a: Percentile, b: Percentile) -> Interval:
    parts = (a.low, a.estimate, a.high, b.low, b.estimate, b.high)
    if any(part is None or part <= 0 for part in parts):
        return UNKNOWN_INTERVAL
    a_low, a_mid, a_high, b_low, b_mid, b_high = (float(part or 0) for part in parts)
    return Interval(b_low / a_high, b_mid / a_mid, b_high / a_low)


def _judged(
    ratio: Interval, budget: float, restarts: int, *, higher_is_better: bool, apart: bool
) -> tuple[EffectVerdict, str]:
    """By the interval alone; `apart`: of two sittings, whose difference no number of restarts takes off."""
    if restarts < FEWEST_RESTARTS:
        return EffectVerdict.INCONCLUSIVE, f"{restarts} restarts; a verdict needs {FEWEST_RESTARTS} on each side"
    verdict = decide(ratio, budget, higher_is_better=higher_is_better)
    if verdict is not EffectVerdict.INCONCLUSIVE:
        return verdict, ""
    worst = loss_of(ratio, higher_is_better=higher_is_better).high
    reason = (
        f"the interval straddles the budget; a loss above {worst:.1%} is excluded" if ratio.known else "no interval"
    )
    if apart:
        return verdict, f"{reason}; {IN_PAIRS}"
    needed = restarts_needed(ratio, budget, restarts, higher_is_better=higher_is_better)
    if needed is None:
        return verdict, f"{reason}; more restarts alone will not settle it"
    return verdict, f"{reason}; about {needed} restarts each would settle it"


def restarts_needed(ratio: Interval, budget: float, restarts: int, *, higher_is_better: bool) -> int | None:
    """Restarts on each side at which this spread would decide this estimate; None where that is out of reach."""
    if not ratio.known:
        return None
    loss = loss_of(ratio, higher_is_better=higher_is_better)
    gap = abs(loss.estimate - budget)
    if gap == 0:
        return None
    needed = math.ceil(restarts * (loss.half_width / gap) ** 2)
    return max(needed, restarts + 1) if needed <= MOST_RESTARTS else None
