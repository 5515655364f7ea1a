"""Outliers are bounded and counted, never silently dropped."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.stats.arrays import Floats, mean_of, median_of

MAD_TO_SIGMA = 1.4826  # median absolute deviation -> sigma of a normal law (Rousseeuw & Croux 1993)
MEAN_ABS_TO_SIGMA = 1.2533  # mean absolute deviation -> sigma, where more than half of the deviations are zero
CROWDED_P = 0.01  # outliers that crowd into one half of the run are a change of their own
FEWEST_TREND = 8  # outliers: fewer are put to the sign test alone
MOMENT_Z = 2.0  # standard deviations towards more or larger outliers late in the run: 2.3 % of false doubt
GROWTH_Z = 2.4  # of the rank correlations towards growth: 1.6 % together
DECLINE_Z = 2.8  # towards fewer or smaller ones: 0.8 % together


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
    mirrored = np.concatenate((values[half:0:-1], values, values[-2 : -half - 2 : -1]))
    # what numpy's own view of sliding windows looks at first takes longer than the medians of a short series
    windows = np.ndarray((values.size, 2 * half + 1), values.dtype, mirrored, strides=2 * mirrored.strides)
    return np.asarray(np.partition(windows, half, axis=1)[:, half], dtype=np.float64)


def robust_sigma(residuals: Floats) -> float:
    """Scale by the median absolute deviation; quantised data, whose MAD is 0, by the mean one."""
    if residuals.size == 0:
        return 0.0
    magnitudes = np.abs(residuals)
    sigma = MAD_TO_SIGMA * median_of(magnitudes)
    return sigma if sigma > 0 else MEAN_ABS_TO_SIGMA * mean_of(magnitudes)


def tame_outliers(values: Floats, *, width: int, limit_sigmas: float, level_out: bool = False) -> Tamed:
    """Clip departures from the running median to ±limit sigmas: steps and slow cycles pass, lone spikes do not.

    With `level_out` an outlier takes the value of the running median: at the limit it would still add to the noise.
    """
    level = running_median(values, width)
    residuals = values - level
    sigma = robust_sigma(residuals)
    if sigma == 0:
        return Tamed(values.copy(), np.empty(0, dtype=np.int64), 0.0)
    bound = limit_sigmas * sigma
    outliers = np.flatnonzero(np.abs(residuals) > bound)
    pulled_in = np.where(np.abs(residuals) > bound, 0.0, residuals) if level_out else np.clip(residuals, -bound, bound)
    return Tamed(level + pulled_in, outliers, sigma)


def outliers_trend(places: npt.NDArray[np.int64], sizes: Floats, count: int) -> bool:
    """Whether outliers come more often or are larger towards one end of `count` points than chance would have it.

    Their mean adds to the level although they were pulled in for its tests. Three statistics, each standard normal
    where nothing changes: their place weighted by size, the rank correlation of size with order, and that of spacing.
    """
    if not places.size:
        return False
    if crowded(places, count):
        return True
    first = np.flatnonzero(np.diff(places, prepend=-2) > 1)  # neighbours are one event
    if first.size < FEWEST_TREND:
        return False
    places, sizes = places[first], np.add.reduceat(sizes, first)
    along = (places + 0.5) / count - 0.5
    moment = float(sizes @ along) / math.sqrt(float(sizes @ sizes) / 12)
    denser = -_rank_trend(np.diff(places).astype(np.float64))
    trends = (moment, _rank_trend(sizes), denser)
    return moment > MOMENT_Z or max(trends) > GROWTH_Z or min(trends) < -DECLINE_Z


def crowded(places: npt.NDArray[np.int64], count: int) -> bool:
    """Sign test: outliers of a steady run fall into both halves alike."""
    from scipy.special import bdtr

    early = int(np.count_nonzero(places < count / 2))
    fewest = min(early, places.size - early)
    return places.size > 0 and 2 * float(bdtr(fewest, int(places.size), 0.5)) < CROWDED_P


def _rank_trend(values: Floats) -> float:
    """Spearman's correlation with the order, in standard deviations of chance."""
    _, place, alike = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(alike) - alike / 2)[place]  # equal values share a rank
    if alike.size == 1:
        return 0.0
    return float(np.corrcoef(ranks, np.arange(values.size))[0, 1]) * math.sqrt(values.size - 1)
