"""Telemetry beside a series of requests: which column moves with their latency, and how much earlier or later.

Correlation is no cause. What it adds to a split of requests is order in time: a clock that falls before latency rises
is a suspect, one that follows is a symptom.
"""

from __future__ import annotations

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
    """How a column moves with the requests. A positive lag: the column follows them; a negative one: it leads."""

    column: str
    r: float
    lag_s: float
    bins: int
    related: bool
    """Whether chance hardly gives so much at any lag, with the series' own inertia counted in."""

    @property
    def line(self) -> str:
        """The finding as a line of evidence."""
        if not self.related:
            return f"{self.column} does not move with the latency of requests (r {self.r:+.2f} at best)"
        if abs(self.lag_s) < 1e-9:
            when = "at the same time"
        else:
            when = f"{abs(self.lag_s):.3g} s {'after' if self.lag_s > 0 else 'before'} it"
        way = "rises" if self.r > 0 else "falls"
        return f"{self.column} {way} with the latency of requests, {when} (r {self.r:+.2f}, {self.bins} bins)"


def correlate_telemetry(
    request_at_s: Floats, latency_s: Floats, telemetry_at_s: Floats, columns: Mapping[str, Floats]
) -> tuple[Correlation, ...]:
    """Each column against the mean latency of the requests that were under way, the closest relation first."""
    found = [
        one
        for name, values in columns.items()
        if (one := _correlate(name, request_at_s, latency_s, telemetry_at_s, values)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (not one.related, -abs(one.r), one.column)))


def _correlate(name: str, at: Floats, latency: Floats, column_at: Floats, column: Floats) -> Correlation | None:
    mine, theirs = np.isfinite(latency), np.isfinite(column)
    at, latency, column_at, column = at[mine], latency[mine], column_at[theirs], column[theirs]
    if len(at) < FEWEST_BINS or len(column_at) < FEWEST_BINS:
        return None
    low, high = max(at.min(), column_at.min()), min(at.max(), column_at.max())
    bin_s = max(float(np.median(np.diff(np.sort(column_at)))), (at.max() - at.min()) / len(at) * 4)
    count = int((high - low) / bin_s) if bin_s > 0 else 0
    if count < FEWEST_BINS:
        return None
    edges = low + bin_s * np.arange(count + 1)
    first, second = _detrended(_binned(at, latency, edges)), _detrended(_binned(column_at, column, edges))
    if first is None or second is None:
        return None
    longest = int(count * LONGEST_LAG)
    tried = {lag: _pearson(first, second, lag) for lag in range(-longest, longest + 1)}
    lag = max(tried, key=lambda one: (abs(tried[one]), -abs(one)))
    r = tried[lag]
    inertia = _pearson(first, first, 1) * _pearson(second, second, 1)
    effective = max(4.0, (count - abs(lag)) * (1.0 - inertia) / (1.0 + inertia)) if inertia > 0 else count - abs(lag)
    # Fisher's z: normal with variance 1/(n - 3) when nothing relates the series.
    surprise = abs(math.atanh(max(-0.999999, min(0.999999, r)))) * math.sqrt(max(1.0, effective - 3.0))
    by_chance = math.erfc(surprise / math.sqrt(2.0)) * len(tried)
    return Correlation(name, r, lag * bin_s, count, by_chance < DOUBT and abs(r) >= LEAST)


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
