"""Percentiles and shares with exact binomial bounds; a tail that the data cannot reach is said to be unresolved."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from lynxbench.errors import BadSeries
from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats, Numbers, as_series
from lynxbench.stats.autocorrelation import integrated_time
from lynxbench.stats.intervals import check_confidence, student_quantile

FEWEST_DEGREES = 0.5
"""Of freedom between processes: two, of which one has under a quarter of the other's values, do not bound the next."""


def percentile_interval(
    values: Numbers, percentile: float, confidence: float = 0.95, n_eff: float | None = None
) -> Interval:
    """Percentile with binomial order-statistic bounds (David & Nagaraja 2003, 7.1) on n_eff independent values.

    A bound is NaN where no order statistic reaches it: the tail is then unresolved.
    """
    check_percentile(percentile)
    check_confidence(confidence)
    ordered = np.sort(as_series(values))
    if ordered.size == 0:
        raise BadSeries("a percentile needs at least one value")
    return _bounded(ordered, percentile / 100, confidence, ordered.size if n_eff is None else n_eff)


def check_percentile(percentile: float) -> None:
    """ValueError unless it is one."""
    if not 0 < percentile < 100:
        raise ValueError(f"percentile is {percentile}: it lies between 0 and 100, such as 99")


def _bounded(ordered: Floats, level: float, confidence: float, n_eff: float) -> Interval:
    """Of sorted values, on n_eff independent ones at most."""
    count = max(1, math.floor(min(n_eff, ordered.size)))
    estimate = _at_rank(ordered, level * ordered.size, ordered.size)
    low_rank, high_rank = bound_ranks(count, level, confidence)
    low = min(_at_rank(ordered, low_rank, count), estimate) if low_rank >= 1 else math.nan
    high = max(_at_rank(ordered, high_rank, count), estimate) if high_rank <= count else math.nan
    return Interval(low, estimate, high)


def percentile_over_processes(parts: Sequence[Floats], percentile: float, confidence: float = 0.95) -> Interval:
    """Percentile of all processes' values together; its bounds cover the spread within and between the processes.

    Ranks as of one process, on as many values as the shares beyond the percentile and beyond its bounds are worth, and
    around them what the processes differ by. One process speaks for itself alone.
    """
    check_percentile(percentile)
    check_confidence(confidence)
    parts = [as_series(part) for part in parts if len(part)]
    if not parts:
        raise BadSeries("a percentile needs at least one value")
    pooled, level = np.sort(np.concatenate(parts)), percentile / 100
    estimate = _at_rank(pooled, level * pooled.size, pooled.size)
    ties = int(np.searchsorted(pooled, estimate))
    places = (estimate, float(pooled[max(ties - 1, 0)]))
    times: dict[tuple[int, int], float] = {}
    n_eff = min(_worth(parts, at, times) for at in set(places))
    bounds = _bounded(pooled, level, confidence, n_eff)
    further = {at for at in (bounds.low, bounds.high) if math.isfinite(at)}.difference(places)
    worth = min((_worth(parts, at, times) for at in further), default=n_eff)
    bounds = _bounded(pooled, level, confidence, worth) if worth < n_eff else bounds
    if len(parts) < 2:
        return bounds
    if _degrees(np.array([part.size for part in parts], dtype=np.float64)) < FEWEST_DEGREES:
        return Interval(math.nan, bounds.estimate, math.nan)
    wider = _between(parts, pooled, percentile, confidence)
    low, high = min(bounds.low, wider.low), max(bounds.high, wider.high)  # what no rank within processes reaches is NaN
    # Where values lie in lumps a percentile jumps, and the shares beyond it say how far they reach (Woodruff 1952).
    reach = max(_share_reach(parts, at, confidence) for at in set(places))
    low = min(low, _sorted_quantile(pooled, level - reach)) if level > reach else low
    high = max(high, _sorted_quantile(pooled, level + reach)) if level + reach < 1 else high
    return Interval(low, bounds.estimate, high)


def _worth(parts: Sequence[Floats], at: float, times: dict[tuple[int, int], float]) -> float:
    """Independent values behind the share beyond `at`, by the autocorrelation of the exceedances within processes.

    Slow values that come in clusters hang together there, whether or not their sizes do. `times` are known by process
    and number of exceedances: as many beyond another place are the same ones.
    """
    total, hits, rough = 0, 0, 0.0
    for number, part in enumerate(parts):
        beyond = part > at
        mine = int(np.count_nonzero(beyond))
        total, hits = total + part.size, hits + mine
        if 0 < mine < part.size:  # a share of nothing or of all varies by nothing
            if (number, mine) not in times:
                times[number, mine] = integrated_time(beyond.astype(np.float64))
            rough += mine * (1 - mine / part.size) * times[number, mine]
    share = hits / total
    return min(total, total**2 * share * (1 - share) / rough) if rough > 0 else total


def _share_reach(parts: Sequence[Floats], at: float, confidence: float) -> float:
    """Half width of Student's interval of the share beyond `at` over processes."""
    sizes = np.array([part.size for part in parts], dtype=np.float64)
    hits = np.array([np.count_nonzero(part > at) for part in parts], dtype=np.float64)
    share, degrees = float(hits.sum() / sizes.sum()), _degrees(sizes)
    error = math.sqrt(float(np.sum((hits - share * sizes) ** 2)) * (1 + 1 / degrees)) / float(sizes.sum())
    return student_quantile((1 + confidence) / 2, degrees) * error


def _degrees(sizes: Floats) -> float:
    """Of freedom between processes; unequal ones are worth fewer equal ones."""
    return float(sizes.sum() ** 2 / (sizes @ sizes)) - 1


def _between(parts: Sequence[Floats], pooled: Floats, percentile: float, confidence: float) -> Interval:
    """Student's interval of a delete-a-process jackknife on logarithms, wider away from the median.

    There a percentile of all processes also depends on how much these differ, of which a few of them say little: the
    upper bound of that variance moves it further out, and the two reaches add in squares (Zou & Donner 2008).
    """
    from scipy.special import gammaincinv, ndtri

    level, tail = percentile / 100, (1 - confidence) / 2
    sizes = np.array([part.size for part in parts], dtype=np.float64)
    degrees = _degrees(sizes)
    others = [np.concatenate([*parts[:k], *parts[k + 1 :]]) for k in range(len(parts))]
    near = (level, 0.5, 1 - (1 - level) * 2, 1 - (1 - level) / 2) if level > 0.5 else (level, 0.5, level * 2, level / 2)
    places = np.array([_sorted_quantile(pooled, share) for share in near])
    alone, left = (np.array([_quantile(part, level) for part in group]) for group in (parts, others))
    positive = min(places.min(), alone.min(), left.min()) > 0
    if positive:
        places, alone, left = np.log(places), np.log(alone), np.log(left)
    reach = student_quantile(1 - tail, degrees) * math.sqrt(float(np.var(left)) * (len(parts) - 1))
    total = sizes.sum()
    middle = (alone * sizes).sum() / total
    variance = float(((alone - middle) ** 2 * sizes).sum() / total) * (1 + 1 / degrees)
    # The scale of the values is how far they move for a step of a normal law: overall, or less where they are dense.
    steps = ndtri(near)
    pairs = ((i, j) for i, j in ((0, 1), (2, 3)) if steps[i] != steps[j])
    scales = [float(abs((places[i] - places[j]) / (steps[i] - steps[j]))) for i, j in pairs]
    scale = min((size for size in scales if size > 0), default=0.0)
    largest = variance * degrees / 2 / float(gammaincinv(degrees / 2, tail))
    least = max(scale**2, variance)
    further = abs(float(steps[0])) * (math.sqrt(least - variance + largest) - math.sqrt(least))
    below, above = (reach, math.hypot(reach, further)) if level >= 0.5 else (math.hypot(reach, further), reach)
    estimate = _sorted_quantile(pooled, level)
    if not positive:
        return Interval(estimate - below, estimate, estimate + above)
    with np.errstate(over="ignore"):
        return Interval(estimate * float(np.exp(-below)), estimate, estimate * float(np.exp(above)))


def _quantile(values: Floats, level: float) -> float:
    place = _place(values, level)
    return float(np.partition(values, place)[place])


def _sorted_quantile(ordered: Floats, level: float) -> float:
    return float(ordered[_place(ordered, level)])


def _place(values: Floats, level: float) -> int:
    return min(max(math.ceil(level * values.size - 1e-9) - 1, 0), values.size - 1)


def bound_ranks(count: int, level: float, confidence: float) -> tuple[int, int]:
    """Ranks l, u with P(X_(l) ≤ quantile < X_(u)) ≥ confidence; l = 0 or u = count + 1 means out of reach."""
    tail = (1 - confidence) / 2
    # P(B ≥ k) for B ~ Binomial(count, level) falls with k; bisection on it needs no table of count terms.
    centre, reach = count * level, 2 * math.sqrt(count * level * (1 - level))
    low = _last_rank(lambda k: at_least(k, count, level) >= 1 - tail, count, centre - reach)
    high = _last_rank(lambda k: at_least(k, count, level) > tail, count, centre + reach) + 1
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


def _last_rank(holds: Callable[[int], bool], count: int, near: float) -> int:
    """The last rank at which something holds that does not hold again: looked for outwards from where it should be."""
    low, high, step = 0, count + 1, 1  # holds(0) is taken as true, holds(count + 1) as false
    middle = min(max(round(near), 1), count)
    while high - low > 1:
        if holds(middle):
            low = middle
        else:
            high = middle
        found = low > 0 and high <= count
        middle = (low + high) // 2 if found else low + step if low > 0 else high - step
        middle = min(max(middle, low + 1), high - 1)
        step *= 2
    return low


def _at_rank(ordered: Floats, rank: float, count: int) -> float:
    """The value at `rank` of `count` effective ranks, on the real sample (they are the same when count = n)."""
    position = math.ceil(rank * ordered.size / count - 1e-9) - 1
    return float(ordered[min(max(position, 0), ordered.size - 1)])
