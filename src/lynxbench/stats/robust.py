"""Outliers are bounded and counted, never silently dropped."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.stats.arrays import Floats

MAD_TO_SIGMA = 1.4826  # median absolute deviation -> sigma of a normal law (Rousseeuw & Croux 1993)
MEAN_ABS_TO_SIGMA = 1.2533  # mean absolute deviation -> sigma, where more than half of the deviations are zero


@dataclass(frozen=True, slots=True)
class Tamed:
    """A series whose isolated outliers were pulled in to the edge of the noise, and where they were."""

    values: Floats
    outliers: npt.NDArray[np.int64]  # their indices
    sigma: float  # robust scale of the departures from the running median


def running_median(values: Floats, width: int) -> Floats:
    """Centred running median of odd width, mirrored at the ends; keeps steps, drops spikes shorter than half of it."""
    if values.size == 0:
        return values
    half = min(width // 2, (values.size - 1) // 2)
    if half == 0:
        return values.copy()
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, half, mode="reflect"), 2 * half + 1)
    return np.asarray(np.partition(windows, half, axis=1)[:, half], dtype=np.float64)


def robust_sigma(residuals: Floats) -> float:
    """Scale by the median absolute deviation; quantised data, whose MAD is 0, by the mean one."""
    if residuals.size == 0:
        return 0.0
    magnitudes = np.abs(residuals)
    sigma = MAD_TO_SIGMA * float(np.median(magnitudes))
    return sigma if sigma > 0 else MEAN_ABS_TO_SIGMA * float(np.mean(magnitudes))


def tame_outliers(values: Floats, *, width: int, limit_sigmas: float) -> Tamed:
    """Clip departures from the running median to ±limit sigmas: steps and slow cycles pass, lone spikes do not."""
    level = running_median(values, width)
    residuals = values - level
    sigma = robust_sigma(residuals)
    if sigma == 0:
        return Tamed(values.copy(), np.empty(0, dtype=np.int64), 0.0)
    bound = limit_sigmas * sigma
    outliers = np.flatnonzero(np.abs(residuals) > bound)
    return Tamed(level + np.clip(residuals, -bound, bound), outliers, sigma)
