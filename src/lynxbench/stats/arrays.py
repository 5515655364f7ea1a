"""The one door through which numbers enter the statistics."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadSeries

Floats = npt.NDArray[np.float64]
Numbers = Sequence[float] | npt.NDArray[np.float64] | npt.NDArray[np.int64]


def as_series(values: Numbers) -> Floats:
    """One-dimensional finite float array, or BadSeries with the first offending position."""
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1:
        raise BadSeries(f"a series has one dimension, this one has {series.ndim}")
    finite = np.isfinite(series)
    if not finite.all():
        first = int(np.argmin(finite))
        raise BadSeries(f"value {first} of the series is {series[first]}: every value must be finite")
    return series


def mean_of(values: Floats) -> float:
    """The mean, to the bit that `np.mean` gives, without what that looks at first."""
    return float(np.add.reduce(values) / values.size)


def deviation_of(values: Floats, ddof: int = 0) -> float:
    """The standard deviation, to the bit that `np.std` gives."""
    apart = values - np.add.reduce(values) / values.size
    return math.sqrt(float(np.add.reduce(apart * apart)) / (values.size - ddof))


def median_of(values: Floats) -> float:
    """The median of finite values, to the bit that `np.median` gives; NaN where there are none."""
    if not values.size:
        return math.nan
    middle = values.size // 2
    if values.size % 2:
        return float(np.partition(values, middle)[middle]) + 0.0  # no zero has a sign, as numpy's has none
    parted = np.partition(values, (middle - 1, middle))
    return float((parted[middle - 1] + parted[middle]) / 2) + 0.0
