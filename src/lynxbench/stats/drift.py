"""Where the warm-up ends (MSER-5: White 1997; Franklin & White 2008), and the drift of the level that follows.

Intervals are such that autocorrelation does not fool them.
"""

import math
from dataclasses import dataclass

import numpy as np

from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats, mean_of
from lynxbench.stats.intervals import student_quantile

MAX_PHI = 0.97  # prewhitening stops short of a unit root (Andrews & Monahan 1992 use .97)
LEAST_KERNEL = 0.8  # of the prewhitened variance
MIN_DEGREES = 2.0  # a heavily correlated short series keeps a very wide interval instead of none
MSER_BATCH = 5
MIN_BATCHES = 12  # fewer batches than this and the batches shrink, down to single points
SPARED_END = 5  # batches at the end that are no candidates: the statistic is unstable there (White 1997)
HEAD_SHARE = 0.1  # of what is counted: the part in which a leftover of the warm-up shows
MIN_HEAD = 3  # points
LATEST = 0.5  # of the run: a truncation point beyond half of it means that the run had not settled


@dataclass(frozen=True, slots=True)
class Truncation:
    """How many points to leave out, within half of the run, and where the unconstrained rule would have cut."""

    points: int
    wanted: int

    @property
    def late(self) -> bool:
        """Whether the rule wanted to cut beyond half of the run."""
        return self.wanted > self.points


def mser(values: Floats) -> Truncation:
    """The cut that minimises the squared standard error of what is left, on batch means: MSER-5 (White 1997)."""
    batch = max(1, min(MSER_BATCH, values.size // MIN_BATCHES))
    count = values.size // batch
    if count < 4:
        return Truncation(0, 0)
    # The batches end with the last point, so that no recent point is left out.
    means = np.add.reduce(values[values.size - count * batch :].reshape(count, batch), axis=1) / batch
    centred = means - mean_of(means)
    left = np.arange(count, 0, -1, dtype=np.float64)
    tail_sum = np.cumsum(centred[::-1])[::-1]
    tail_squares = np.cumsum((centred * centred)[::-1])[::-1]
    error = np.maximum(tail_squares - tail_sum**2 / left, 0.0) / left**2
    candidates = max(1, count - min(SPARED_END, count // 3))
    half = int(count * LATEST)
    wanted = int(np.argmin(error[:candidates]))
    within = int(np.argmin(error[: min(candidates, half + 1)]))
    lead = values.size - count * batch

    def points(cut: int) -> int:
        return cut * batch + lead if cut else 0

    return Truncation(points(within), points(wanted))


@dataclass(frozen=True, slots=True)
class Noise:
    """What scatter is left about a line: its long-run deviation and the independent values that makes."""

    sigma: float  # marginal
    long_run_sigma: float  # sqrt of the spectral density at zero: what the variance of a mean goes by
    n_eff: float
    phi: float


def straight_line(values: Floats) -> tuple[float, Floats]:
    """Least-squares change over the whole stretch (n points of slope), and the residuals."""
    time = np.arange(values.size, dtype=np.float64) - (values.size - 1) / 2
    slope = float(time @ values) / float(time @ time)
    return slope * values.size, values - mean_of(values) - slope * time


def noise_of(residuals: Floats) -> Noise:
    """Long-run variance by a prewhitened Bartlett kernel (Newey & West 1987; Andrews & Monahan 1992)."""
    count = residuals.size
    power = float(residuals @ residuals)
    if count < 4 or power == 0:
        return Noise(0.0, 0.0, float(count), 0.0)
    raw_phi = float(residuals[1:] @ residuals[:-1]) / power
    # First-order bias of φ about a fitted line (Tjøstheim & Paulsen 1983); without it short series look too sure.
    phi = min(max(raw_phi + (2 + 4 * raw_phi) / count, 0.0), MAX_PHI)
    white = residuals[1:] - phi * residuals[:-1]
    lags = kernel_lags(count)
    variance = float(white @ white)
    long_run = variance
    for lag in range(1, min(lags, white.size - 1) + 1):
        long_run += 2 * (1 - lag / (lags + 1)) * float(white[lag:] @ white[:-lag])
    spare = max(count - 3, 1)  # two for the line, one for φ
    # A dip of the spectrum at zero, found by chance, may not narrow the interval by much.
    long_run_variance = max(long_run, LEAST_KERNEL * variance) / spare / (1 - phi) ** 2
    marginal = power / max(count - 2, 1)
    n_eff = min(float(count), count * marginal / long_run_variance)
    return Noise(math.sqrt(marginal), math.sqrt(max(long_run_variance, marginal)), n_eff, phi)


def kernel_lags(count: int) -> int:
    """Lags of the kernel for so many points (Newey & West 1994)."""
    return int(4 * (count / 100) ** (2 / 9))


def head_points(count: int) -> int:
    """Points of the head of so many."""
    return max(MIN_HEAD, round(HEAD_SHARE * count))


def total_drift(
    values: Floats, noise: Noise, confidence: float, span: float | None = None, change: float | None = None
) -> Interval:
    """Change of the fitted line over `span` points (the stretch itself unless told), in the unit of the values.

    `change`: of the line over the stretch, where it is fitted already.
    """
    change = straight_line(values)[0] if change is None else change
    factor = 1.0 if span is None else span / values.size
    error = noise.long_run_sigma * math.sqrt(12 * values.size / (values.size**2 - 1))
    return _around(change, error, noise, confidence).scaled(factor)


def tail_shift(values: Floats, noise: Noise, confidence: float) -> Interval:
    """Mean of the last third minus mean of the first third."""
    third = max(1, values.size // 3)
    change = mean_of(values[-third:]) - mean_of(values[:third])
    return _around(change, noise.long_run_sigma * math.sqrt(2 / third), noise, confidence)


def head_excess(values: Floats, noise: Noise, confidence: float, head: int) -> Interval:
    """Mean of the first `head` points minus mean of the last half: what a warm-up cut too early leaves behind."""
    rest = max(1, values.size // 2)
    change = mean_of(values[:head]) - mean_of(values[-rest:])
    return _around(change, noise.long_run_sigma * math.sqrt(1 / head + 1 / rest), noise, confidence)


def _around(change: float, error: float, noise: Noise, confidence: float) -> Interval:
    degrees = max(noise.n_eff - 2, MIN_DEGREES)
    reach = student_quantile((1 + confidence) / 2, degrees) * error
    return Interval(change - reach, change, change + reach)
