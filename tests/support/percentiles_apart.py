"""One percentile by itself, place by place and process by process, as it is told in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats
from lynxbench.stats.autocorrelation import integrated_time
from lynxbench.stats.intervals import student_quantile
from lynxbench.stats.tails import (
    FEWEST_DEGREES,
    _at_rank,
    _bounded,
    _degrees,
    _gamma_quantile,
    _normal_quantiles,
    _sorted_quantile,
)


def percentile_over(parts: Sequence[Floats], percentile: float, confidence: float = 0.95) -> Interval:
    """Of all processes' values together, each transform and each sort made anew."""
    pooled, level = np.sort(np.concatenate(parts)), percentile / 100
    degrees = _degrees(_sizes(parts))
    estimate = _at_rank(pooled, level * pooled.size, pooled.size)
    places = {estimate, float(pooled[max(int(np.searchsorted(pooled, estimate)) - 1, 0)])}
    n_eff = min(_worth(parts, at) for at in places)
    bounds = _bounded(pooled, level, confidence, n_eff)
    further = [_worth(parts, at) for at in (bounds.low, bounds.high) if math.isfinite(at) and at not in places]
    bounds = _bounded(pooled, level, confidence, min([n_eff, *further]))
    if len(parts) < 2:
        return bounds
    if degrees < FEWEST_DEGREES:
        return Interval(math.nan, bounds.estimate, math.nan)
    wider = _between(parts, level, confidence)
    low, high = min(bounds.low, wider.low), max(bounds.high, wider.high)
    reach = max(_share_reach(parts, at, confidence) for at in places)
    low = min(low, _sorted_quantile(pooled, level - reach)) if level > reach else low
    high = max(high, _sorted_quantile(pooled, level + reach)) if level + reach < 1 else high
    return Interval(low, bounds.estimate, high)


def _sizes(parts: Sequence[Floats]) -> Floats:
    return np.array([part.size for part in parts], dtype=np.float64)


def _worth(parts: Sequence[Floats], at: float) -> float:
    total, hits, rough = sum(part.size for part in parts), 0, 0.0
    for part in parts:
        mine = int((part > at).sum())
        hits += mine
        if 0 < mine < part.size:
            rough += mine * (1 - mine / part.size) * integrated_time((part > at).astype(float))
    share = hits / total
    return min(total, total**2 * share * (1 - share) / rough) if rough > 0 else total


def _share_reach(parts: Sequence[Floats], at: float, confidence: float) -> float:
    sizes = _sizes(parts)
    hits = np.array([int((part > at).sum()) for part in parts], dtype=np.float64)
    degrees, share = _degrees(sizes), float(hits.sum() / sizes.sum())
    error = math.sqrt(float(np.sum((hits - share * sizes) ** 2)) * (1 + 1 / degrees)) / float(sizes.sum())
    return student_quantile((1 + confidence) / 2, degrees) * error


def _between(parts: Sequence[Floats], level: float, confidence: float) -> Interval:
    """Student's interval of the jackknife and its widening, each step by numpy's own functions."""
    tail, pooled, sizes = (1 - confidence) / 2, np.sort(np.concatenate(parts)), _sizes(parts)
    degrees = _degrees(sizes)
    near = (level, 0.5, 1 - (1 - level) * 2, 1 - (1 - level) / 2) if level > 0.5 else (level, 0.5, level * 2, level / 2)
    places = np.array([_sorted_quantile(pooled, share) for share in near])
    alone = np.array([_sorted_quantile(np.sort(part), level) for part in parts])
    rest = [np.sort(np.concatenate([*parts[:k], *parts[k + 1 :]])) for k in range(len(parts))]
    left = np.array([_sorted_quantile(part, level) for part in rest])
    positive = min(places.min(), alone.min(), left.min()) > 0
    if positive:
        places, alone, left = np.log(places), np.log(alone), np.log(left)
    reach = student_quantile(1 - tail, degrees) * math.sqrt(float(np.var(left)) * (len(sizes) - 1))
    middle = (alone * sizes).sum() / sizes.sum()
    variance = float(((alone - middle) ** 2 * sizes).sum() / sizes.sum()) * (1 + 1 / degrees)
    steps = _normal_quantiles(near)
    pairs = ((i, j) for i, j in ((0, 1), (2, 3)) if steps[i] != steps[j])
    scales = [float(abs((places[i] - places[j]) / (steps[i] - steps[j]))) for i, j in pairs]
    scale = min((size for size in scales if size > 0), default=0.0)
    largest = variance * degrees / 2 / _gamma_quantile(degrees / 2, tail)
    least = max(scale**2, variance)
    further = abs(float(steps[0])) * (math.sqrt(least - variance + largest) - math.sqrt(least))
    below, above = (reach, math.hypot(reach, further)) if level >= 0.5 else (math.hypot(reach, further), reach)
    estimate = _sorted_quantile(pooled, level)
    if not positive:
        return Interval(estimate - below, estimate, estimate + above)
    with np.errstate(over="ignore"):  # few processes that differ much bound it by nothing
        return Interval(estimate * float(np.exp(-below)), estimate, estimate * float(np.exp(above)))
