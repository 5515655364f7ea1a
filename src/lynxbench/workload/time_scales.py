"""How uneven arrivals are from seconds to hours: dispersion of counts by time scale, and the shape of a day. Pure.

A coefficient of variation of gaps knows neighbours alone: ten seconds of bursts and ten quiet ones have gaps like any
others. The index of dispersion of counts (variance over mean in windows of one length; Cox and Lewis, 1966) sees what
happens over that length; a Poisson stream has 1 at every scale.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from lynxbench.model.samples import Float64
from lynxbench.model.workload import Arrival, BurstArrival, ConstantArrival, GammaArrival, RampArrival

SCALES_S = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
"""From a second to an hour, by fours: between two of them nothing hides that neither shows."""
CALM = 0.25
"""Added before logarithms are taken: a quarter of Poisson's dispersion and none at all queue alike."""
COARSE = 0.2
"""Share of simultaneous arrivals from which on the stamps' own step is looked for."""
LONG = 200.0
"""Arrivals of a window in which a renewal process shows the dispersion of its gaps."""
RENEWALS = 200_000
DAY_S = 86_400.0
HOURS = 24


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Variance over mean of the counts in windows of one length."""

    scale_s: float
    index: float
    windows: int
    mean: float

    def away(self, low: float, high: float) -> float:
        """Log ratio to the nearer end of what is expected; 0 between the two."""
        own, ends = math.log(self.index + CALM), (math.log(low + CALM), math.log(high + CALM))
        return max(0.0, ends[0] - own, own - ends[1])

    def error(self, expected: float) -> float:
        """Standard error of that log ratio for arrivals of the expected dispersion.

        A variance of B counts has the relative variance 2/(B − 1), and the excess kurtosis over B; that of clusters
        of size m is m over the mean.
        """
        if self.windows < 3 or self.mean <= 0:
            return math.inf
        index = max(expected, CALM)
        return index / (index + CALM) * math.sqrt(2 / (self.windows - 1) + index / (self.windows * self.mean))


def dispersion(arrival_s: Float64, span_s: float, scale_s: float, step_s: float = 0.0) -> Dispersion:
    """The index of dispersion over whole windows of a log; empty windows are not stored, so that years can be read.

    Windows hold whole steps of coarse stamps: one that cuts through a step would hold a stamp more or less by chance.
    """
    width_s = step_s * max(1, round(scale_s / step_s)) if step_s else scale_s
    windows = int(span_s / width_s)
    place = np.floor(arrival_s / width_s + 1e-9)  # a stamp on an edge is not left to rounding
    counts = np.unique(place[place < windows], return_counts=True)[1].astype(np.float64)
    total = float(counts.sum())
    if windows < 2 or total == 0:
        return Dispersion(scale_s, math.nan, windows, 0.0)
    variance = (float((counts**2).sum()) - total**2 / windows) / (windows - 1)
    return Dispersion(scale_s, variance / (total / windows), windows, total / windows)


def stamp_step_s(arrival_s: Float64) -> float:
    """The step of coarse time stamps; 0 where arrivals are told apart."""
    if (np.diff(arrival_s) <= 0).mean() <= COARSE:
        return 0.0
    steps = np.diff(np.unique(arrival_s))
    return float(steps.min()) if len(steps) else 0.0


def expected_dispersion(arrival: Arrival, mean: float, turns: int) -> tuple[float, float]:
    """What a contract's arrivals show in windows that hold so many on average; two ends where it is not one number."""
    index = 1.0
    if isinstance(arrival, ConstantArrival):
        part = mean - math.floor(mean)
        index = part * (1 - part) / mean if mean > 0 else 1.0
    elif isinstance(arrival, GammaArrival):
        index = arrival.variation**2  # in long windows; in shorter ones as it comes out
        if 0 < mean < LONG:
            times = _renewals(arrival.variation)
            index = dispersion(times, float(times[-1]), mean).index
    elif isinstance(arrival, BurstArrival):
        index = float(arrival.size)
    elif isinstance(arrival, RampArrival):
        middle = (arrival.from_per_s + arrival.to_per_s) / 2
        index = 1 + mean * (arrival.to_per_s - arrival.from_per_s) ** 2 / 12 / middle**2
    return index, index * turns  # turns of one conversation are together in windows that are long enough


@cache
def _renewals(variation: float) -> Float64:
    """Arrivals one apart on average, with gamma gaps."""
    gaps = np.random.default_rng(0).gamma(1 / variation**2, variation**2, RENEWALS)
    return np.cumsum(gaps)


def day_shape(arrival_s: Float64, span_s: float) -> Float64 | None:
    """Requests by hour of whole days, counted from the first arrival; None for less than a day."""
    days = int(span_s / DAY_S)
    if days < 1:
        return None
    hours = (arrival_s[arrival_s < days * DAY_S] % DAY_S // (DAY_S / HOURS)).astype(np.int64)
    return np.bincount(hours, minlength=HOURS).astype(np.float64)
