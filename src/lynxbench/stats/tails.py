"""Percentiles and shares with exact binomial bounds; a tail that the data cannot reach is said to be unresolved."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from lynxbench.errors import BadSeries
from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats, Numbers, as_series
from lynxbench.stats.autocorrelation import exceedance_times
from lynxbench.stats.intervals import check_confidence, student_quantile

FEWEST_DEGREES = 0.5
"""Of freedom between processes: two, of which one has under a quarter of the other's values, do not bound the next."""

REMEMBERED = 4096
"""Quantiles of known laws that are not computed again: they depend on a few numbers, and on no sample."""


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
    return percentiles_over_processes(parts, [percentile], confidence)[0]


def percentiles_over_processes(
    parts: Sequence[Floats], percentiles: Sequence[float], confidence: float = 0.95
) -> list[Interval]:
    """The same for several percentiles of the same values, which are sorted once."""
    return percentiles_of_several([(parts, percentiles)], confidence)[0]


def percentiles_of_several(
    several: Sequence[tuple[Sequence[Floats], Sequence[float]]], confidence: float = 0.95
) -> list[list[Interval]]:
    """The same for several sets of values, each with the percentiles that are asked of it."""
    check_confidence(confidence)
    asked = [_asked_of(parts, percentiles) for parts, percentiles in several]
    # All transforms that are needed are made together: of exceedances at the percentiles, then at their bounds.
    _learn([(processes, {at for one in of for at in one.places}) for processes, of in asked])
    within = [[one.within(confidence) for one in of] for _, of in asked]
    further = [{at for _, _, places in known for at in places} for known in within]
    _learn([(processes, places) for (processes, _), places in zip(asked, further, strict=True)])
    bounds = [
        [one.bounds(confidence, *two) for one, two in zip(of, known, strict=True)]
        for (_, of), known in zip(asked, within, strict=True)
    ]
    return _widened(asked, bounds, confidence)


def _asked_of(parts: Sequence[Floats], percentiles: Sequence[float]) -> tuple[_Processes, list[_Asked]]:
    for percentile in percentiles:
        check_percentile(percentile)
    values = [as_series(part) for part in parts if len(part)]
    if not values:
        raise BadSeries("a percentile needs at least one value")
    processes = _Processes(values)
    return processes, [_Asked(processes, percentile / 100) for percentile in percentiles]


def _widened(
    asked: Sequence[tuple[_Processes, Sequence[_Asked]]], bounds: list[list[Interval]], confidence: float
) -> list[list[Interval]]:
    """Bounds with what processes differ by, of sets with as many processes together; one process speaks for itself."""
    widened = list(bounds)
    alike: dict[int, list[int]] = {}
    for number, (processes, of) in enumerate(asked):
        if len(processes.parts) > 1 and processes.degrees < FEWEST_DEGREES:
            widened[number] = [Interval(math.nan, each.estimate, math.nan) for each in bounds[number]]
        elif len(processes.parts) > 1 and of:
            alike.setdefault(len(processes.parts), []).append(number)
    for numbers in alike.values():
        several = [(asked[number][0], [one.level for one in asked[number][1]]) for number in numbers]
        wider = iter(_between(several, confidence))
        for number in numbers:
            processes, of = asked[number]
            reaches = _share_reaches(processes, {at for one in of for at in one.places}, confidence)
            widened[number] = [
                one.widened(reaches, each, next(wider)) for one, each in zip(of, bounds[number], strict=True)
            ]
    return widened


class _Processes:
    """Values of several processes, as they came and in order, and what was computed of them already."""

    def __init__(self, parts: Sequence[Floats]) -> None:
        self.parts = parts
        self.ordered = [np.sort(part) for part in parts]
        self.pooled = np.sort(np.concatenate(parts))
        self.sizes = np.array([part.size for part in parts], dtype=np.float64)
        self.total = float(np.add.reduce(self.sizes))
        self.counts = [part.size for part in parts]
        self.degrees = _degrees(self.sizes)
        self.times: dict[tuple[int, int], float] = {}
        """Of exceedances, by process and how many they are: as many beyond another place are the same ones."""
        self._hits: dict[float, list[int]] = {}

    @cached_property
    def others(self) -> list[Floats]:
        """For each process, the values of all others, in order."""
        parts = self.parts
        return [np.sort(np.concatenate([*parts[:k], *parts[k + 1 :]])) for k in range(len(parts))]

    def hits(self, at: float) -> list[int]:
        """How many values of each process lie beyond."""
        known = self._hits.get(at)
        if known is None:
            known = self._hits[at] = [part.size - int(part.searchsorted(at, "right")) for part in self.ordered]
        return known

    def unknown(self, places: Collection[float]) -> dict[int, dict[int, float]]:
        """By process, how many exceedances of it have no time yet, each with a place that they lie beyond."""
        fresh = [at for at in places if at not in self._hits]
        if fresh:
            found = [(part.size - part.searchsorted(fresh, "right")).tolist() for part in self.ordered]
            self._hits.update(zip(fresh, map(list, zip(*found, strict=True)), strict=True))
        wanted: dict[int, dict[int, float]] = {}
        for at in places:
            for number, (mine, count) in enumerate(zip(self.hits(at), self.counts, strict=True)):
                if 0 < mine < count and (number, mine) not in self.times:
                    wanted.setdefault(number, {})[mine] = at
        return wanted

    def time(self, number: int, mine: int, at: float) -> float:
        """Of the exceedances of one process beyond a place."""
        if (number, mine) not in self.times:
            _learn([(self, [at])])
        return self.times[number, mine]


def _learn(places: Sequence[tuple[_Processes, Collection[float]]]) -> None:
    """Compute the times of all exceedances beyond these places that are not known yet."""
    fresh = [
        (processes, number, wanted) for processes, of in places for number, wanted in processes.unknown(of).items()
    ]
    beyond = [each.parts[number] > np.array(list(wanted.values()))[:, None] for each, number, wanted in fresh]
    for (processes, number, wanted), times in zip(fresh, exceedance_times(beyond), strict=True):
        processes.times.update(zip(((number, mine) for mine in wanted), times, strict=True))


class _Asked:
    """One percentile of the values of all processes, and the places where their exceedances matter for it."""

    def __init__(self, processes: _Processes, level: float) -> None:
        self.processes, self.level = processes, level
        pooled = processes.pooled
        estimate = _at_rank(pooled, level * pooled.size, pooled.size)
        ties = int(np.searchsorted(pooled, estimate))
        self.places = {estimate, float(pooled[max(ties - 1, 0)])}

    def within(self, confidence: float) -> tuple[Interval, float, set[float]]:
        """Bounds by what the values are worth at these places, that worth, and the places of the bounds."""
        n_eff = min(_worth(self.processes, at) for at in self.places)
        bounds = _bounded(self.processes.pooled, self.level, confidence, n_eff)
        return bounds, n_eff, {at for at in (bounds.low, bounds.high) if math.isfinite(at)}.difference(self.places)

    def bounds(self, confidence: float, bounds: Interval, n_eff: float, further: set[float]) -> Interval:
        """The same where values are worth less at those places."""
        worth = min((_worth(self.processes, at) for at in further), default=n_eff)
        return _bounded(self.processes.pooled, self.level, confidence, worth) if worth < n_eff else bounds

    def widened(self, reaches: Mapping[float, float], bounds: Interval, wider: Interval) -> Interval:
        """With what processes differ by, in values and in the shares beyond these places."""
        low, high = min(bounds.low, wider.low), max(bounds.high, wider.high)  # what no rank within reaches is NaN
        # Where values lie in lumps a percentile jumps, and shares beyond it say how far they reach (Woodruff 1952).
        reach = max(reaches[at] for at in self.places)
        pooled, level = self.processes.pooled, self.level
        low = min(low, _sorted_quantile(pooled, level - reach)) if level > reach else low
        high = max(high, _sorted_quantile(pooled, level + reach)) if level + reach < 1 else high
        return Interval(low, bounds.estimate, high)


def _worth(processes: _Processes, at: float) -> float:
    """Independent values behind the share beyond `at`, by the autocorrelation of the exceedances within processes.

    Slow values that come in clusters hang together there, whether or not their sizes do.
    """
    total, hits, rough = 0, 0, 0.0
    for number, (count, mine) in enumerate(zip(processes.counts, processes.hits(at), strict=True)):
        total, hits = total + count, hits + mine
        if 0 < mine < count:  # a share of nothing or of all varies by nothing
            rough += mine * (1 - mine / count) * processes.time(number, mine, at)
    share = hits / total
    return min(total, total**2 * share * (1 - share) / rough) if rough > 0 else total


def _share_reaches(processes: _Processes, places: Collection[float], confidence: float) -> dict[float, float]:
    """By place, the half width of Student's interval of the share beyond it over processes."""
    sizes, degrees = processes.sizes, processes.degrees
    hits = np.array([processes.hits(at) for at in places], dtype=np.float64)
    total = processes.total
    shares = np.add.reduce(hits, axis=1) / total
    squares = np.add.reduce((hits - shares[:, None] * sizes) ** 2, axis=1).tolist()
    student = student_quantile((1 + confidence) / 2, degrees)
    errors = (math.sqrt(square * (1 + 1 / degrees)) / total for square in squares)
    return {at: student * error for at, error in zip(places, errors, strict=True)}


def _degrees(sizes: Floats) -> float:
    """Of freedom between processes; unequal ones are worth fewer equal ones."""
    return float(sizes.sum() ** 2 / (sizes @ sizes)) - 1


def _between(several: Sequence[tuple[_Processes, Sequence[float]]], confidence: float) -> Iterator[Interval]:
    """Student's interval of a delete-a-process jackknife on logarithms, wider away from the median; for each level.

    There a percentile of all processes also depends on how much these differ, of which a few of them say little: the
    upper bound of that variance moves it further out, and the two reaches add in squares (Zou & Donner 2008). Each set
    is of as many processes, and a row is computed as it would be alone.
    """
    tail, count = (1 - confidence) / 2, len(several[0][0].parts)
    owners = [processes for processes, levels in several for _ in levels]
    levels = [level for _, levels in several for level in levels]
    near = [_near(level) for level in levels]
    known = _values_at(several, near)
    plain = known[:, 0].tolist()
    positive = known.min(axis=1) > 0
    known[positive] = np.log(known[positive])
    sizes, totals = np.array([each.sizes for each in owners]), np.array([each.total for each in owners])
    alone, left = known[:, -2 * count : -count], known[:, -count:]
    apart = left - (np.add.reduce(left, axis=1) / count)[:, None]
    spread = (np.add.reduce(apart * apart, axis=1) / count).tolist()
    middle = np.add.reduce(alone * sizes, axis=1) / totals
    variances = (np.add.reduce((alone - middle[:, None]) ** 2 * sizes, axis=1) / totals).tolist()
    reaches: list[tuple[float, float]] = []
    for owner, level, shares, places, jackknifed, seen in zip(
        owners, levels, near, known[:, :4].tolist(), spread, variances, strict=True
    ):
        degrees = owner.degrees
        student, chance = student_quantile(1 - tail, degrees), _gamma_quantile(degrees / 2, tail)
        reach, variance = student * math.sqrt(jackknifed * (count - 1)), seen * (1 + 1 / degrees)
        # The scale is how far the values move for a step of a normal law: overall, or less where they are dense.
        steps = _normal_quantiles(shares)
        pairs = ((i, j) for i, j in ((0, 1), (2, 3)) if steps[i] != steps[j])
        scales = [abs((places[i] - places[j]) / (steps[i] - steps[j])) for i, j in pairs]
        scale = min((size for size in scales if size > 0), default=0.0)
        largest = variance * degrees / 2 / chance
        least = max(scale**2, variance)
        further = abs(steps[0]) * (math.sqrt(least - variance + largest) - math.sqrt(least))
        wide = math.hypot(reach, further)
        reaches.append((reach, wide) if level >= 0.5 else (wide, reach))
    with np.errstate(over="ignore"):
        factors = np.exp(np.array([(-below, above) for below, above in reaches])).tolist()
    for value, above_zero, (below, above), (low, high) in zip(plain, positive.tolist(), reaches, factors, strict=True):
        bounds = (value * low, value * high) if above_zero else (value - below, value + above)
        yield Interval(bounds[0], value, bounds[1])


def _values_at(several: Sequence[tuple[_Processes, Sequence[float]]], near: Sequence[tuple[float, ...]]) -> Floats:
    """A row for each level: values near it of all processes, then that of each, and of all without each."""
    columns = [[each.pooled, *each.ordered, *each.others] for each, _ in several]
    wide, many = len(near[0]), [len(levels) for _, levels in several]
    shares = np.array([(*row, *row[:1] * (len(columns[0]) - 1)) for row in near])
    sizes = np.repeat([[*[row[0].size] * wide, *(column.size for column in row[1:])] for row in columns], many, axis=0)
    places = np.minimum(np.maximum(np.ceil(shares * sizes - 1e-9).astype(np.int64) - 1, 0), sizes - 1)
    values, end = np.empty(places.shape), 0
    for row, count in zip(columns, many, strict=True):
        mine, end = slice(end, end + count), end + count
        values[mine, :wide] = row[0][places[mine, :wide]]
        for number, column in enumerate(row[1:], wide):
            values[mine, number] = column[places[mine, number]]
    return values


def _near(level: float) -> tuple[float, float, float, float]:
    """A level, the median, and two about the level: how far the values move between them is their scale."""
    if level > 0.5:
        return level, 0.5, 1 - (1 - level) * 2, 1 - (1 - level) / 2
    return level, 0.5, level * 2, level / 2


@lru_cache(maxsize=REMEMBERED)
def _normal_quantiles(shares: tuple[float, ...]) -> tuple[float, ...]:
    from scipy.special import ndtri

    return tuple(np.asarray(ndtri(shares), dtype=np.float64).tolist())


@lru_cache(maxsize=REMEMBERED)
def _gamma_quantile(shape: float, share: float) -> float:
    from scipy.special import gammaincinv

    return float(gammaincinv(shape, share))


def _sorted_quantile(ordered: Floats, level: float) -> float:
    return float(ordered[_place(ordered, level)])


def _place(values: Floats, level: float) -> int:
    return min(max(math.ceil(level * values.size - 1e-9) - 1, 0), values.size - 1)


@lru_cache(maxsize=REMEMBERED)
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
