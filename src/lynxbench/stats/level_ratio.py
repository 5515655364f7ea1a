"""The ratio of two levels of a history whose results remember one another.

Within a level the noise is AR(1) with an unknown φ of 0 to 0.95, the same in all levels of the history; each level
has a variance of its own. Few results say little about φ, so the interval averages over every φ with the weight that
the history gives it (Zellner & Tiao 1964), and Welch's two variances stay apart. Noise that remembers longer than AR(1)
shows in batch means: where levels are long enough for them the wider of this and Welch's interval of those counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.stats.arrays import Floats, Numbers
from lynxbench.stats.intervals import ratio_interval

PHIS = np.linspace(0.0, 0.95, 20)
BATCHES = 6  # batch means of the shorter level, once it has twice as many results
BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class _Level:
    """A level under each φ: its mean, the variance of that, and the restricted likelihood of φ."""

    mean: Floats
    variance: Floats
    likelihood: Floats
    degrees: int


class LevelNoise:
    """What all levels of a history say together about how its results remember one another."""

    def __init__(self, levels: Sequence[Numbers]) -> None:
        known = (_level(np.log(np.asarray(level, dtype=np.float64))) for level in levels if len(level) > 1)
        logs = sum((level.likelihood for level in known), np.zeros(PHIS.size))
        shares = np.exp(logs - logs.max())
        self._weights: Floats = shares / shares.sum()

    def ratio(self, before: Numbers, after: Numbers, confidence: float) -> Interval:
        """Geometric mean after over before; unknown where a side has a single result."""
        first, second = (np.log(np.asarray(side, dtype=np.float64)) for side in (before, after))
        if not (first.size and second.size):
            return UNKNOWN_INTERVAL
        change = float(np.mean(second) - np.mean(first))
        shortest = min(first.size, second.size)
        if shortest < 2:
            return Interval(math.nan, math.exp(change), math.nan)
        low, high = self._bounds(first, second, confidence)
        if shortest >= 2 * BATCHES:
            size = shortest // BATCHES
            batched = ratio_interval(np.exp(_batched(first, size)), np.exp(_batched(second, size)), confidence)
            if math.log(batched.high / batched.low) > high - low:
                low, high = math.log(batched.low), math.log(batched.high)
        return Interval(math.exp(min(low, change)), math.exp(change), math.exp(max(high, change)))

    def _bounds(self, first: Floats, second: Floats, confidence: float) -> tuple[float, float]:
        from scipy.special import stdtr, stdtrit

        a, b = _level(first), _level(second)
        change, total = b.mean - a.mean, a.variance + b.variance
        if not np.any(total > 0):
            return float(change[0]), float(change[0])
        total = np.maximum(total, np.finfo(np.float64).tiny)
        degrees = 1 / ((a.variance / total) ** 2 / a.degrees + (b.variance / total) ** 2 / b.degrees)
        error, weights = np.sqrt(total), self._weights

        def quantile(probability: float) -> float:
            each = change + error * stdtrit(degrees, probability)
            low, high = float(each.min()), float(each.max())
            for _ in range(BISECTIONS):
                middle = (low + high) / 2
                below = float(weights @ stdtr(degrees, (middle - change) / error)) < probability
                low, high = (middle, high) if below else (low, middle)
            return (low + high) / 2

        return quantile((1 - confidence) / 2), quantile((1 + confidence) / 2)


def _batched(values: Floats, size: int) -> Floats:
    """Means of `size` neighbours; what is left over at the start joins none."""
    count = values.size // size
    return np.asarray(values[values.size - count * size :].reshape(count, size).mean(axis=1), dtype=np.float64)


def _level(values: Floats) -> _Level:
    """Generalised least squares of a mean in AR(1) noise, for every φ at once."""
    middle = float(np.mean(values))
    rest = values - middle
    first, power, earlier = rest[0] ** 2, rest[1:] @ rest[1:], rest[:-1] @ rest[:-1]
    spread = 1 - PHIS**2
    information = spread + (values.size - 1) * (1 - PHIS) ** 2
    shift = (spread * rest[0] + (1 - PHIS) * (rest[1:].sum() - PHIS * rest[:-1].sum())) / information
    scatter = spread * first + power - 2 * PHIS * (rest[1:] @ rest[:-1]) + PHIS**2 * earlier - information * shift**2
    degrees = values.size - 1
    if not first + power > (1e-12 * middle) ** 2:  # a level without any scatter knows nothing of φ
        return _Level(np.full(PHIS.size, middle), np.zeros(PHIS.size), np.zeros(PHIS.size), degrees)
    scatter = np.maximum(scatter, np.finfo(np.float64).tiny)
    likelihood = (np.log(spread) - np.log(information) - degrees * np.log(scatter)) / 2
    return _Level(middle + shift, scatter / degrees / information, likelihood, degrees)
