"""Where the capacity lies given all probes so far, and the knee of the measured throughput-latency curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.load.saturation_judge import Share
from lynxbench.model.samples import Float64

STEEPEST, FLATTEST = 600.0, 3.0
"""By how much the log-odds of a miss rise for a rate e times higher. A queue's is about limit × rate: 5 to 500."""
STEEPNESS_MEDIAN, STEEPNESS_SPREAD = 30.0, 1.0
"""What is held likely before anything was seen (log-normal), weak enough that two near probes outweigh it."""
NEAR = 0.15
"""Relative distance at which a probe counts half: the curve is only straight close to the capacity."""
LOWEST = 0.02
"""Capacities below this share of the ceiling are not looked for."""
POINTS, SLOPES = 240, 20
"""The grid. It is laid three times: over everything, then over where almost all of the weight was found."""
FRINGE = 1e-3
"""Weight left outside on each side when the grid is laid anew."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Where the capacity is thought to be: the median, and the two ends that hold it with 80 %."""

    low_per_s: float
    rate_per_s: float
    high_per_s: float

    @property
    def spread(self) -> float:
        """Half the distance of the ends, relative."""
        return math.log(self.high_per_s / self.low_per_s) / 2


def estimate_capacity(probes: Sequence[tuple[float, Sequence[Share]]], ceiling_per_s: float) -> Estimate:
    """The posterior of the rate at which the first bound breaks, from (rate, shares) of every probe.

    Per bound, the log-odds of a miss rise with the log of the rate along a line through the allowed share at the
    capacity; position and steepness are weighed on a grid. Several bounds: the one that breaks first counts.
    """
    bounds = len(probes[0][1]) if probes else 1
    found = [_one_bound([(rate, shares[place]) for rate, shares in probes], ceiling_per_s) for place in range(bounds)]
    return min(found, key=lambda estimate: estimate.rate_per_s)


def _one_bound(probes: Sequence[tuple[float, Share]], ceiling_per_s: float) -> Estimate:
    rates = np.linspace(math.log(LOWEST * ceiling_per_s), math.log(1.1 * ceiling_per_s), POINTS)
    slopes = np.linspace(math.log(FLATTEST), math.log(STEEPEST), SLOPES)
    centre: float | None = None
    for _ in range(3):
        weights = _posterior(probes, rates, slopes, centre)
        by_rate = np.cumsum(weights.sum(axis=0))
        low, centre, high = (float(np.interp(share, by_rate, rates)) for share in (0.1, 0.5, 0.9))
        rates = _narrowed(rates, by_rate, POINTS)
        slopes = _narrowed(slopes, np.cumsum(weights.sum(axis=1)), SLOPES)
    return Estimate(math.exp(low), math.exp(centre or low), math.exp(high))


def _narrowed(grid: Float64, cumulated: Float64, points: int) -> Float64:
    """The same number of points over the part that holds almost all of the weight, and one step more on each side."""
    first = max(int(np.searchsorted(cumulated, FRINGE)) - 1, 0)
    last = min(int(np.searchsorted(cumulated, 1 - FRINGE)) + 1, len(grid) - 1)
    return np.linspace(grid[first], grid[last], points)


def _posterior(probes: Sequence[tuple[float, Share]], rates: Float64, slopes: Float64, centre: float | None) -> Float64:
    """Weight of every pair of steepness (rows) and capacity (columns), both in logarithms."""
    score = rates[None, :] - 0.5 * ((slopes[:, None] - math.log(STEEPNESS_MEDIAN)) / STEEPNESS_SPREAD) ** 2
    steep = np.exp(slopes)[:, None]
    for rate, share in probes:
        allowed = share.bound.violations
        odds = math.log(allowed / (1 - allowed)) + np.clip(steep * (math.log(rate) - rates[None, :]), -700, 700)
        hits = share.interval.estimate * share.effective
        weight = 1.0 if centre is None else 1 / (1 + ((math.log(rate) - centre) / NEAR) ** 2)
        score = score + weight * (hits * odds - share.effective * np.logaddexp(0.0, odds))
    chance = np.exp(score - score.max())
    whole: Float64 = chance / chance.sum()
    return whole


def find_knee(rates_per_s: Sequence[float], latencies_s: Sequence[float]) -> int | None:
    """Index of the knee of a latency curve: the point farthest below the chord of its ends, both axes scaled to 0…1.

    Kneedle (Satopää et al. 2011) without smoothing, on the running maximum of the latencies. None with fewer than four
    distinct rates, or where the curve does not bend (no point a tenth below its chord).
    """
    order = np.argsort(rates_per_s, kind="stable")
    rate = np.asarray(rates_per_s, dtype=np.float64)[order]
    height = np.maximum.accumulate(np.asarray(latencies_s, dtype=np.float64)[order])
    usable = np.isfinite(height)
    if len(np.unique(rate[usable])) < 4 or height[usable][-1] <= height[usable][0]:
        return None
    across = (rate - rate[usable][0]) / (rate[usable][-1] - rate[usable][0])
    up = (height - height[usable][0]) / (height[usable][-1] - height[usable][0])
    below = np.where(usable, across - up, -math.inf)
    best = int(np.argmax(below))
    return int(order[best]) if below[best] >= 0.1 else None
