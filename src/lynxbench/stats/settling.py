"""Starts of a series from which its head has surely not settled: seen for many of them at once.

What is computed here is what `steady` computes start by start, in another order of addition, so the last digits differ.
A start is left out where far more than that lies between it and the bound; all others are looked at one by one.
"""

import numpy as np
import numpy.typing as npt

from lynxbench.stats.arrays import Floats
from lynxbench.stats.autocorrelation import AT_ONCE, transform_size
from lynxbench.stats.cycles import CYCLE_PEAK, CYCLE_TROUGH, MIN_CYCLES, MIN_PERIOD
from lynxbench.stats.drift import LEAST_KERNEL, MAX_PHI, MIN_DEGREES, head_points, kernel_lags

FEWEST_TOGETHER = 3
"""Starts: fewer are looked at one by one as quickly."""
SLACK = 1e-3
"""Of a reach and of the bound, by which a start has to be outside. Sums of AT_ONCE values are off by under 1e-9."""
LEAST_SCATTER = 1e-6
"""Of the largest value: below it, rounding has a say in the noise, and nothing is left out."""

TINY = float(np.finfo(np.float64).tiny)
Mask = npt.NDArray[np.bool_]


def surely_unsettled(series: Floats, starts: npt.NDArray[np.int64], confidence: float, bound: float) -> Mask:
    """For each start, whether the head of what follows lies outside ±bound beyond any doubt of rounding.

    The largest of the values is 1 at most. Nothing is said of few starts, nor of a series so long that laying it out
    once for each would take more than looking at them.
    """
    size = transform_size(series.size)
    if starts.size < FEWEST_TOGETHER or starts.size * size > AT_ONCE:
        return np.zeros(starts.size, dtype=bool)
    from scipy.special import stdtrit

    counts = series.size - starts
    mean, residuals = _about_lines(series, starts)
    power = np.einsum("ij,ij->i", residuals, residuals)
    noisy = power > LEAST_SCATTER**2 * counts
    power = np.where(noisy, power, 1.0)
    long_run_sigma, n_eff = _noise(residuals, starts, counts, power)
    few, rest = np.array([head_points(count) for count in counts.tolist()]), counts // 2
    total = np.concatenate(([0.0], np.cumsum(series)))
    change = (total[starts + few] - total[starts]) / few - (total[-1] - total[series.size - rest]) / rest
    quantile = stdtrit(np.maximum(n_eff - 2, MIN_DEGREES), (1 + confidence) / 2)
    reach = quantile * long_run_sigma * np.sqrt(1 / few + 1 / rest)
    outside = np.abs(change) + reach * (1 - SLACK) > bound * np.abs(mean) * (1 + SLACK) + LEAST_SCATTER
    return np.asarray(outside & noisy & ~_perhaps_cyclic(residuals, counts, power, size))


def _about_lines(series: Floats, starts: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """For each start the mean of what follows, and the residuals about the line through it; zeros before it."""
    counts = (series.size - starts).astype(np.float64)
    place = np.arange(series.size, dtype=np.float64)
    inside = place >= starts[:, None]
    mean = inside @ series / counts
    time = (place - (starts + (counts - 1) / 2)[:, None]) * inside
    slope = time @ series / (counts * (counts**2 - 1) / 12)
    return mean, (series - mean[:, None]) * inside - slope[:, None] * time


def _noise(
    residuals: Floats, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], power: Floats
) -> tuple[Floats, Floats]:
    """Long-run deviations and effective counts, as `noise_of` has them."""
    raw_phi = np.einsum("ij,ij->i", residuals[:, 1:], residuals[:, :-1]) / power
    phi = np.clip(raw_phi + (2 + 4 * raw_phi) / counts, 0.0, MAX_PHI)
    white = residuals[:, 1:] - phi[:, None] * residuals[:, :-1]
    follows = np.flatnonzero(starts > 0)
    white[follows, starts[follows] - 1] = 0.0  # the first residual has none before it
    variance = np.einsum("ij,ij->i", white, white)
    long_run, lags = variance.copy(), np.array([kernel_lags(count) for count in counts.tolist()])
    for lag in range(1, int(lags.max()) + 1):
        weights = np.where(lag <= np.minimum(lags, counts - 2), 2 * (1 - lag / (lags + 1)), 0.0)
        long_run += weights * np.einsum("ij,ij->i", white[:, lag:], white[:, :-lag])
    long_run_variance = np.maximum(long_run, LEAST_KERNEL * variance) / np.maximum(counts - 3, 1) / (1 - phi) ** 2
    long_run_variance = np.maximum(long_run_variance, TINY)  # nothing is said where there is no noise at all
    marginal = power / np.maximum(counts - 2, 1)
    return np.sqrt(np.maximum(long_run_variance, marginal)), counts * np.minimum(1.0, marginal / long_run_variance)


def _perhaps_cyclic(residuals: Floats, counts: npt.NDArray[np.int64], power: Floats, size: int) -> Mask:
    """Whether some period has a peak a period on and a trough half of one on, as a cycle that is found must have."""
    longest = counts // MIN_CYCLES
    if longest.max() < MIN_PERIOD:
        return np.zeros(counts.size, dtype=bool)
    spectrum = np.fft.rfft(residuals, size)
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    periods = np.arange(MIN_PERIOD, longest.max() + 1)
    acf = covariance[:, : periods[-1] + 1] / power[:, None]
    cyclic = (acf[:, periods] >= CYCLE_PEAK - SLACK) & (acf[:, periods // 2] <= CYCLE_TROUGH + SLACK)
    return np.asarray((cyclic & (periods <= longest[:, None])).any(axis=1))
