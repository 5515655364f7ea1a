"""Percentiles of one set of processes after another, as they were computed before several were computed together."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np

from lynxbench.errors import BadSeries
from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats, as_series
from lynxbench.stats.autocorrelation import AT_ONCE, Mask, _time_of, exceedance_time, transform_size
from lynxbench.stats.intervals import check_confidence, student_quantile
from lynxbench.stats.tails import (
    FEWEST_DEGREES,
    _at_rank,
    _bounded,
    _gamma_quantile,
    _near,
    _normal_quantiles,
    _sorted_quantile,
    check_percentile,
)


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
    return [
        _widened(processes, of, [one.bounds(confidence, *two) for one, two in zip(of, known, strict=True)], confidence)
        for (processes, of), known in zip(asked, within, strict=True)
    ]


def _asked_of(parts: Sequence[Floats], percentiles: Sequence[float]) -> tuple[_Processes, list[_Asked]]:
    for percentile in percentiles:
        check_percentile(percentile)
    values = [as_series(part) for part in parts if len(part)]
    if not values:
        raise BadSeries("a percentile needs at least one value")
    processes = _Processes(values)
    return processes, [_Asked(processes, percentile / 100) for percentile in percentiles]


def _widened(
    processes: _Processes, asked: Sequence[_Asked], bounds: list[Interval], confidence: float
) -> list[Interval]:
    """Bounds with what processes differ by; one process speaks for itself alone."""
    if len(processes.parts) < 2:
        return bounds
    if processes.degrees < FEWEST_DEGREES:
        return [Interval(math.nan, each.estimate, math.nan) for each in bounds]
    wider = _between(processes, [one.level for one in asked], confidence)
    reaches = _share_reaches(processes, {at for one in asked for at in one.places}, confidence)
    return [one.widened(reaches, *two) for one, *two in zip(asked, bounds, wider, strict=True)]


class _Processes:
    """Values of several processes, as they came and in order, and what was computed of them already."""

    def __init__(self, parts: Sequence[Floats]) -> None:
        self.parts = parts
        self.ordered = [np.sort(part) for part in parts]
        self.pooled = np.sort(np.concatenate(parts))
        self.sizes = np.array([part.size for part in parts], dtype=np.float64)
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
    for (processes, number, wanted), times in zip(fresh, _exceedance_times(beyond), strict=True):
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
    total = float(np.add.reduce(sizes))
    shares = np.add.reduce(hits, axis=1) / total
    squares = np.add.reduce((hits - shares[:, None] * sizes) ** 2, axis=1).tolist()
    student = student_quantile((1 + confidence) / 2, degrees)
    errors = (math.sqrt(square * (1 + 1 / degrees)) / total for square in squares)
    return {at: student * error for at, error in zip(places, errors, strict=True)}


def _degrees(sizes: Floats) -> float:
    """Of freedom between processes; unequal ones are worth fewer equal ones."""
    return float(sizes.sum() ** 2 / (sizes @ sizes)) - 1


def _between(processes: _Processes, levels: Sequence[float], confidence: float) -> list[Interval]:
    """Student's interval of a delete-a-process jackknife on logarithms, wider away from the median; for each level.

    There a percentile of all processes also depends on how much these differ, of which a few of them say little: the
    upper bound of that variance moves it further out, and the two reaches add in squares (Zou & Donner 2008).
    """
    tail, sizes, degrees, pooled = (1 - confidence) / 2, processes.sizes, processes.degrees, processes.pooled
    groups, count = (*processes.ordered, *processes.others), len(sizes)
    near = [_near(level) for level in levels]
    values = [
        [*(_sorted_quantile(pooled, share) for share in shares), *(_sorted_quantile(part, level) for part in groups)]
        for level, shares in zip(levels, near, strict=True)
    ]
    positive = [min(row) > 0 for row in values]
    known = np.array(values)
    if all(positive):
        known = np.log(known)
    else:
        known[positive] = np.log(known[positive])
    alone, left = known[:, -2 * count : -count], known[:, -count:]
    apart = left - (np.add.reduce(left, axis=1) / count)[:, None]
    spread = (np.add.reduce(apart * apart, axis=1) / count).tolist()
    total = np.add.reduce(sizes)
    middle = np.add.reduce(alone * sizes, axis=1) / total
    variances = (np.add.reduce((alone - middle[:, None]) ** 2 * sizes, axis=1) / total).tolist()
    student, chance = student_quantile(1 - tail, degrees), _gamma_quantile(degrees / 2, tail)
    reaches: list[tuple[float, float]] = []
    for level, shares, places, jackknifed, seen in zip(levels, near, known.tolist(), spread, variances, strict=True):
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
    return [
        Interval(row[0] * low, row[0], row[0] * high)
        if above_zero
        else Interval(row[0] - below, row[0], row[0] + above)
        for row, above_zero, (below, above), (low, high) in zip(values, positive, reaches, factors, strict=True)
    ]


def _exceedance_times(masks: Sequence[Mask]) -> list[list[float]]:
    """The same of several series, each with a row for every place that is looked at.

    Those of about one length are transformed together: to the same bits, and quicker.
    """
    times: list[list[float]] = [[] for _ in masks]
    by_size: dict[int, list[int]] = {}
    for number, beyond in enumerate(masks):
        rows, count = beyond.shape
        size = transform_size(count)
        if count < 4:
            times[number] = [1.0] * rows
        elif rows * size > AT_ONCE:  # then it is the transform that takes long: whether it is needed is seen first
            times[number] = [exceedance_time(row) for row in beyond]
        else:
            by_size.setdefault(size, []).append(number)
    for size, numbers in by_size.items():
        for number, found in zip(numbers, _times_together([masks[number] for number in numbers], size), strict=True):
            times[number] = found
    return times


def _times_together(masks: Sequence[Mask], size: int) -> list[list[float]]:
    """Each row is computed as `_integrated_time` computes it alone, so that not a bit differs."""
    rows = [len(beyond) for beyond in masks]
    ends = np.cumsum(rows).tolist()
    hits = np.concatenate([np.add.reduce(beyond, axis=1, dtype=np.intp) for beyond in masks])
    mean = hits / np.repeat([beyond.shape[1] for beyond in masks], rows)
    peak = np.maximum(1.0 - mean, mean)
    above, below = ((1.0 - mean) / peak)[:, None], ((0.0 - mean) / peak)[:, None]
    series = np.zeros((ends[-1], size))
    for end, beyond in zip(ends, masks, strict=True):
        mine = slice(end - len(beyond), end)
        series[mine, : beyond.shape[1]] = np.where(beyond, above[mine], below[mine])
    spectrum = np.fft.rfft(series, size)
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    longest = max(beyond.shape[1] for beyond in masks) // 2 * 2
    acf = covariance[:, :longest] / covariance[:, :1]
    pairs = acf[:, 0::2] + acf[:, 1::2]
    none = np.ones((len(pairs), 1), dtype=bool)
    stops = np.concatenate((pairs <= 0, none), axis=1).argmax(axis=1).tolist()
    falling = np.minimum.accumulate(pairs, axis=1)
    return [
        [_time_of(falling[row, : min(stops[row], beyond.shape[1] // 2)]) for row in range(end - len(beyond), end)]
        for end, beyond in zip(ends, masks, strict=True)
    ]
