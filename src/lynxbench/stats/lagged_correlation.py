"""Telemetry beside a series of events: which column moves with their values, and how much earlier or later.

Correlation is no cause. What it adds is order in time: a clock that falls before latency rises is a suspect, one that
follows is a symptom.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LONGEST_LAG = 0.2
"""Lags are tried up to this share of the common span; beyond it too few pairs are left."""
FEWEST_BINS = 30
"""Fewer common bins than this say nothing about a lag."""
DOUBT = 0.01
"""Chance at which an unrelated column would be named, all lags together (Bonferroni)."""
LEAST = 0.3
"""A weaker correlation explains under a tenth of the variation: not worth a word, however sure it is."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Correlation:
    """How a column moves with events. A positive lag: the column follows them; a negative one: it leads."""

    column: str
    r: float
    lag_s: float
    bins: int


def correlate_columns(
    event_at_s: Floats, values: Floats, column_at_s: Floats, columns: Mapping[str, Floats]
) -> tuple[Correlation, ...]:
    """Columns that move with the mean value of the events under way, the closest relation first."""
    correlations = (_correlate(name, event_at_s, values, column_at_s, column) for name, column in columns.items())
    known = [correlation for correlation in correlations if correlation is not None]
    return tuple(sorted(known, key=lambda correlation: (-abs(correlation.r), correlation.column)))


def _correlate(name: str, at: Floats, values: Floats, column_at: Floats, column: Floats) -> Correlation | None:
    mine, theirs = np.isfinite(values), np.isfinite(column)
    at, values, column_at, column = at[mine], values[mine], column_at[theirs], column[theirs]
    if len(at) < FEWEST_BINS or len(column_at) < FEWEST_BINS:
        return None
    low, high = max(at.min(), column_at.min()), min(at.max(), column_at.max())
    bin_s = max(float(np.median(np.diff(np.sort(column_at)))), (at.max() - at.min()) / len(at) * 4)
    count = int((high - low) / bin_s) if bin_s > 0 else 0
    if count < FEWEST_BINS:
        return None
    edges = low + bin_s * np.arange(count + 1)
    first, second = _detrended(_binned(at, values, edges)), _detrended(_binned(column_at, column, edges))
    if first is None or second is None:
        return None
    longest = int(count * LONGEST_LAG)
    tried = {lag: _pearson(first, second, lag) for lag in range(-longest, longest + 1)}
    lag = max(tried, key=lambda lag: (abs(tried[lag]), -abs(lag)))
    r = tried[lag]
    inertia = _pearson(first, first, 1) * _pearson(second, second, 1)
    effective = max(4.0, (count - abs(lag)) * (1.0 - inertia) / (1.0 + inertia)) if inertia > 0 else count - abs(lag)
    # Named where chance hardly gives so much at any lag, with the series' own inertia counted in. Fisher's z is normal
    # with variance 1/(n - 3) when nothing relates the series.
    surprise = abs(math.atanh(max(-0.999999, min(0.999999, r)))) * math.sqrt(max(1.0, effective - 3.0))
    by_chance = math.erfc(surprise / math.sqrt(2.0)) * len(tried)
    return Correlation(name, r, lag * bin_s, count) if by_chance < DOUBT and abs(r) >= LEAST else None


def _binned(at: Floats, values: Floats, edges: Floats) -> Floats:
    """Mean of each bin; empty bins lie on the line between their neighbours."""
    place = np.searchsorted(edges, at, side="right") - 1
    inside = (place >= 0) & (place < len(edges) - 1)
    total = np.bincount(place[inside], weights=values[inside], minlength=len(edges) - 1)
    number = np.bincount(place[inside], minlength=len(edges) - 1)
    known = number > 0
    centre = (edges[1:] + edges[:-1]) / 2
    return np.interp(centre, centre[known], total[known] / number[known])


def _detrended(values: Floats) -> Floats | None:
    """Without its line: two series that both drift are not related by that. None where nothing varies."""
    at = np.arange(len(values), dtype=np.float64)
    slope, offset = np.polyfit(at, values, 1)
    rest = values - (slope * at + offset)
    spread = float(rest.std())
    return rest / spread if spread > 1e-12 * max(1.0, float(np.abs(values).max())) else None


def _pearson(first: Floats, second: Floats, lag: int) -> float:
    """Correlation of the first series with the second `lag` bins later."""
    a = first[max(0, -lag) : len(first) - max(0, lag)]
    b = second[max(0, lag) : len(second) - max(0, -lag)]
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else 0.0
