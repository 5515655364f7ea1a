"""Where the capacity lies given all probes so far, and the knee of the measured throughput-latency curve."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lynxbench.load.saturation_judge import Share
from lynxbench.model.samples import Float64

STEEPEST, FLATTEST = 600.0, 1.0
"""By how much the log-odds of a miss rise for a rate e times higher. A queue's is about limit × rate, 5 to 500; stalls
that come whatever the rate is make it flatter."""
STEEPNESS_MEDIAN, STEEPNESS_SPREAD = 30.0, 1.0
"""What is held likely before anything was seen (log-normal), weak enough that two near probes outweigh it."""
NEAR = 0.15
"""Relative distance at which a probe counts half: the curve is only straight close to the capacity."""
LOWEST = 0.02
"""Capacities below this share of the ceiling are not looked for."""
POINTS, SLOPES = 120, 28
"""The grid: per steepness, its own capacities. Sharp probes leave a narrow ridge that one common grid would miss."""
LAYERS = 3
"""How often the capacities of each steepness are laid anew over the part that holds almost all of their weight."""
FRINGE = 1e-3
"""Weight left outside on each side when the grid is laid anew."""


@dataclass(frozen=True, slots=True)
class CapacityEstimate:
    """Where the capacity is thought to be: the median, and the two ends that hold it with 80 %."""

    low_per_s: float
    rate_per_s: float
    high_per_s: float
    steepness: float
    """By how much the log-odds of a miss rise for a rate e times higher."""
    place: int
    """Which bound breaks first."""

    @property
    def spread(self) -> float:
        """Half the distance of the ends, relative."""
        return math.log(self.high_per_s / self.low_per_s) / 2

    def late_share(self, rate_per_s: float, allowed: float) -> float:
        """The share of late requests that the curve expects at a rate."""
        odds = math.log(allowed / (1 - allowed)) + self.steepness * math.log(rate_per_s / self.rate_per_s)
        return 1 / (1 + math.exp(-min(max(odds, -700.0), 700.0)))


def estimate_capacity(probes: Sequence[tuple[float, Sequence[Share]]], ceiling_per_s: float) -> CapacityEstimate:
    """The posterior of the rate at which the first bound breaks, from (rate, shares) of every probe.

    Per bound, the log-odds of a miss rise with the log of the rate along a line through the allowed share at the
    capacity; position and steepness are weighed on a grid. Several bounds: the one that breaks first counts.
    """
    if any(share.late for _, shares in probes for share in shares):  # then distance is no evidence: lateness comes
        probes = [(rate, [replace(share, tail=1.0) for share in shares]) for rate, shares in probes]
    bounds = len(probes[0][1]) if probes else 1
    by_bound = ([(rate, shares[place]) for rate, shares in probes] for place in range(bounds))
    estimates = (_estimate_for_bound(shares, ceiling_per_s, place) for place, shares in enumerate(by_bound))
    return min(estimates, key=lambda estimate: estimate.rate_per_s)


def _estimate_for_bound(probes: Sequence[tuple[float, Share]], ceiling_per_s: float, place: int) -> CapacityEstimate:
    slopes = np.linspace(math.log(FLATTEST), math.log(STEEPEST), SLOPES)
    everything = np.linspace(math.log(LOWEST * ceiling_per_s), math.log(1.1 * ceiling_per_s), POINTS)
    low, middle, high, steepness = 0.0, None, 0.0, 0.0
    for _ in range(2):  # probes are weighed by their distance from the capacity once that is known
        rates, weights = _posterior(probes, everything, slopes, middle)
        order = np.argsort(rates, axis=None)
        by_rate = np.cumsum(weights.ravel()[order])
        low, middle, high = np.interp((0.1, 0.5, 0.9), by_rate, rates.ravel()[order]).tolist()
        steepness = float(weights.sum(axis=1) @ slopes)
        slopes = _narrowed(slopes, np.cumsum(weights.sum(axis=1)))
    return CapacityEstimate(math.exp(low), math.exp(middle or 0.0), math.exp(high), math.exp(steepness), place)


def _narrowed(grid: Float64, cumulated: Float64) -> Float64:
    """As many points over the part that holds almost all of the weight, and one step more on each side.

    Its ends lie between points, by the weight: on points, rounding could move all of the grid by a step.
    """
    step = grid[1] - grid[0]
    first, last = np.interp((FRINGE, 1 - FRINGE), cumulated, grid)
    return np.linspace(max(first - step, grid[0]), min(last + step, grid[-1]), len(grid))


def _posterior(
    probes: Sequence[tuple[float, Share]], everything: Float64, slopes: Float64, centre: float | None
) -> tuple[Float64, Float64]:
    """Capacities and their weights, a row for every steepness, all in logarithms; the weights sum to 1."""
    rates = np.tile(everything, (len(slopes), 1))
    for layer in range(LAYERS):
        score = _score(probes, rates, slopes, centre)
        density = np.exp(score - score.max(axis=1, keepdims=True))
        if layer < LAYERS - 1:
            cumulated = np.cumsum(density / density.sum(axis=1, keepdims=True), axis=1)
            rates = np.stack([_narrowed(row, share) for row, share in zip(rates, cumulated, strict=True)])
    weights = np.exp(score - score.max()) * (rates[:, 1] - rates[:, 0])[:, None]
    return rates, weights / weights.sum()


def _score(probes: Sequence[tuple[float, Share]], rates: Float64, slopes: Float64, centre: float | None) -> Float64:
    """Logarithm of the likelihood of all probes and of what was held likely before."""
    score: Float64 = rates - 0.5 * ((slopes[:, None] - math.log(STEEPNESS_MEDIAN)) / STEEPNESS_SPREAD) ** 2
    steep = np.exp(slopes)[:, None]
    for rate, share in probes:
        allowed = share.bound.violations
        odds = math.log(allowed / (1 - allowed)) + np.clip(steep * (math.log(rate) - rates), -700, 700)
        hits = share.interval.estimate * share.effective
        effective = share.effective / share.tail  # none late, and none near a limit far away: as if so many were not
        weight = 1.0 if centre is None else 1 / (1 + ((math.log(rate) - centre) / NEAR) ** 2)
        score = score + weight * (hits * odds - effective * np.logaddexp(0.0, odds))
    return score


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
