"""Distributions in logarithmic buckets: counts add up exactly over slices, quantiles are known to a stated error.

Bucket i holds (γ^(i-1), γ^i] with γ = (1+α)/(1-α); its middle 2·γ^i/(γ+1) is within α of all that it holds (Masson,
Rim & Lee 2019, DDSketch). Merging is adding counts, in any order.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from lynxbench.model.interval import Interval
from lynxbench.stats.arrays import Floats
from lynxbench.stats.autocorrelation import integrated_time
from lynxbench.stats.tails import bound_ranks

RELATIVE_ERROR = 0.005
"""α: of every quantile that is read from a sketch."""
FEWEST_SLICES = 8
"""Fewer do not tell how much the share beyond a percentile varies between them."""

_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)

Ints = npt.NDArray[np.int64]
Counts = Sequence[tuple[int, int]]
"""Bucket and count, in order."""


def buckets_of(values: npt.NDArray[np.int64]) -> Ints:
    """The bucket of each positive whole number; zero belongs to the bucket of one."""
    return np.ceil(np.log(np.maximum(values, 1)) / _LOG_GAMMA).astype(np.int64)


def middle_of(bucket: int) -> float:
    """The value that stands for a bucket."""
    return 2 * _GAMMA**bucket / (_GAMMA + 1)


class SketchTable:
    """Sketches of slices side by side: one row a slice, one column a bucket."""

    def __init__(self, sketches: Iterable[Counts]) -> None:
        rows = [np.asarray(sketch, dtype=np.int64).reshape(-1, 2) for sketch in sketches]
        filled = [row for row in rows if len(row)]
        self._first = min((int(row[0, 0]) for row in filled), default=0)
        last = max((int(row[-1, 0]) for row in filled), default=0)
        self._table = np.zeros((len(rows), last - self._first + 1), dtype=np.int64)
        for place, row in enumerate(rows):
            self._table[place, row[:, 0] - self._first] = row[:, 1]
        self._merged = self._table.sum(axis=0)

    @property
    def count(self) -> int:
        """All values together."""
        return int(self._merged.sum())

    def quantile(self, level: float) -> float:
        """The value below which so large a share lies, to the relative error; NaN of nothing."""
        return self._at_rank(math.ceil(level * self.count - 1e-9)) if self.count else math.nan

    def beyond(self, value: float) -> tuple[Ints, Floats]:
        """How many lie in each bucket whose middle is above the value, and these middles."""
        middles = np.array([middle_of(self._first + place) for place in range(len(self._merged))])
        above = middles > value
        return self._merged[above], middles[above]

    def percentile(self, percentile: float, confidence: float) -> Interval:
        """A percentile with binomial bounds on as many values as the shares beyond it are worth, slice by slice.

        Slow values that come in clusters make these shares vary by more than chance would; the variance between slices,
        with its autocorrelation, says by how much. The bounds hold the sketch's error too. NaN where no rank reaches.
        """
        level = percentile / 100
        estimate = self.quantile(level)
        worth = math.floor(self._worth(level))
        if worth < 1:
            return Interval(math.nan, estimate, math.nan)
        low, high = bound_ranks(worth, level, confidence)
        below = self.quantile(low / worth) * (1 - RELATIVE_ERROR) if low >= 1 else math.nan
        above = self.quantile(high / worth) * (1 + RELATIVE_ERROR) if high <= worth else math.nan
        return Interval(below, estimate, above)

    def _worth(self, level: float) -> float:
        """Independent values behind the share beyond the percentile; 0 where too few slices tell."""
        sizes: Floats = self._table.sum(axis=1).astype(np.float64)
        total = float(sizes.sum())
        if np.count_nonzero(sizes) < FEWEST_SLICES:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._merged), math.ceil(level * total - 1e-9)))
        worth = total
        for edge in {place, max(place - 1, 0)}:  # where a bucket holds many, the shares on both sides of it
            hits: Floats = self._table[:, edge + 1 :].sum(axis=1).astype(np.float64)
            share = float(hits.sum()) / total
            apart = hits - share * sizes
            rough = float(apart @ apart) * integrated_time(apart) * len(sizes) / (len(sizes) - 1)
            if rough > 0:
                worth = min(worth, total**2 * share * (1 - share) / rough)
        return worth

    def _at_rank(self, rank: int) -> float:
        place = int(np.searchsorted(np.cumsum(self._merged), min(max(rank, 1), self.count)))
        return middle_of(self._first + place)
