"""Percentiles and shares with exact binomial bounds; a tail that the data cannot reach is said to be unresolved."""

import math
from collections.abc import Callable

import numpy as np

from lynxbench.errors import BadSeries
from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats, Numbers, as_series
from lynxbench.stats.intervals import check_confidence


def percentile_interval(
    values: Numbers, percentile: float, confidence: float = 0.95, n_eff: float | None = None
) -> Interval:
    """Percentile with binomial order-statistic bounds (David & Nagaraja 2003, 7.1) on n_eff independent values.

    A bound is NaN where no order statistic reaches it: the tail is then unresolved.
    """
    if not 0 < percentile < 100:
        raise ValueError(f"percentile is {percentile}: it lies between 0 and 100, such as 99")
    check_confidence(confidence)
    ordered = np.sort(as_series(values))
    if ordered.size == 0:
        raise BadSeries("a percentile needs at least one value")
    count = ordered.size if n_eff is None else max(1, math.floor(min(n_eff, ordered.size)))
    level = percentile / 100
    estimate = _at_rank(ordered, level * ordered.size, ordered.size)
    low_rank, high_rank = bound_ranks(count, level, confidence)
    low = min(_at_rank(ordered, low_rank, count), estimate) if low_rank >= 1 else math.nan
    high = max(_at_rank(ordered, high_rank, count), estimate) if high_rank <= count else math.nan
    return Interval(low, estimate, high)


def bound_ranks(count: int, level: float, confidence: float) -> tuple[int, int]:
    """Ranks l, u with P(X_(l) ≤ quantile < X_(u)) ≥ confidence; l = 0 or u = count + 1 means out of reach."""
    tail = (1 - confidence) / 2
    # P(B ≥ k) for B ~ Binomial(count, level) falls with k; bisection on it needs no table of count terms.
    low = _last_rank(lambda k: at_least(k, count, level) >= 1 - tail, count)
    high = _last_rank(lambda k: at_least(k, count, level) > tail, count) + 1
    return low, high


def at_least(k: int, count: int, level: float) -> float:
    """P(B ≥ k) of a binomial count by the regularised incomplete beta function."""
    from scipy.special import betainc

    if k <= 0:
        return 1.0
    return float(betainc(k, count - k + 1, level)) if k <= count else 0.0


def clopper_pearson(hits: float, trials: float, confidence: float) -> Interval:
    """A share with exact one-sided bounds (Clopper & Pearson 1934); counts may be fractional (an effective number)."""
    from scipy.special import betaincinv

    if not 0 <= hits <= trials or trials <= 0:
        raise ValueError(f"{hits} of {trials}: a share needs 0 ≤ hits ≤ trials and trials > 0")
    miss = 1 - confidence
    low = 0.0 if hits <= 0 else float(betaincinv(hits, trials - hits + 1, miss))
    high = 1.0 if hits >= trials else float(betaincinv(hits + 1, trials - hits, 1 - miss))
    return Interval(low, hits / trials, high)


def _last_rank(holds: Callable[[int], bool], count: int) -> int:
    low, high = 0, count + 1  # holds(0) is taken as true, holds(count + 1) as false
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _at_rank(ordered: Floats, rank: float, count: int) -> float:
    """The value at `rank` of `count` effective ranks, on the real sample (they are the same when count = n)."""
    position = math.ceil(rank * ordered.size / count - 1e-9) - 1
    return float(ordered[min(max(position, 0), ordered.size - 1)])
