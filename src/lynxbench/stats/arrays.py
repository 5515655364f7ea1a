"""The one door through which numbers enter the statistics."""

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
