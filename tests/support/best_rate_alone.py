"""The best rate of one run after another, as it was found before several were apportioned together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lynxbench.stats.arrays import Floats, Numbers
from lynxbench.stats.batches import SLIDES_PER_WINDOW, Instants, _refuse_endless, _samples, _width_ns


def best_rate(start_ns: npt.ArrayLike, end_ns: npt.ArrayLike, units: Numbers | float, window_s: float = 1.0) -> float:
    """The highest rate in any window of `window_s`: the peak that is held against the sustained rate."""
    starts, ends, amounts, span = _samples(start_ns, end_ns, units)
    width_ns = _width_ns(window_s)
    over_all = float(amounts.sum()) / (span / 1e9)
    if span <= width_ns:
        return over_all
    step = max(1, width_ns // SLIDES_PER_WINDOW)
    _refuse_endless(span, step)
    per_window = -(-width_ns // step)
    edges = np.append(np.arange(0, span, step, dtype=np.int64), span)
    done = np.concatenate(([0.0], np.cumsum(_apportion(starts, ends, amounts, edges))))
    begin = np.arange(max(1, edges.size - per_window))
    finish = np.minimum(begin + per_window, edges.size - 1)
    widths = (edges[finish] - edges[begin]) / 1e9
    full = widths * 1e9 >= width_ns * (1 - 1e-9)
    rates = (done[finish] - done[begin]) / widths
    return float(rates[full].max()) if np.any(full) else over_all


def _apportion(starts: Instants, ends: Instants, amounts: Floats, edges: Instants) -> Floats:
    """Each sample's units over the windows it touches, by the time it spends in each."""
    count = edges.size - 1
    first = np.clip(np.searchsorted(edges, starts, side="right") - 1, 0, count - 1)
    # A sample that ends on an edge belongs to the window it ends in, not to the next one.
    last = np.maximum(first, np.clip(np.searchsorted(edges, ends, side="left") - 1, 0, count - 1))
    inside = first == last
    sums = np.bincount(first[inside], weights=amounts[inside], minlength=count).astype(np.float64)
    across = np.flatnonzero(~inside)
    if across.size == 0:
        return sums
    touched = last[across] - first[across] + 1
    owner = np.repeat(across, touched)
    offset = np.arange(owner.size) - np.repeat(np.cumsum(touched) - touched, touched)
    window = first[owner] + offset
    time_inside = np.minimum(ends[owner], edges[window + 1]) - np.maximum(starts[owner], edges[window])
    share = amounts[owner] * (time_inside / (ends[owner] - starts[owner]))
    return np.asarray(sums + np.bincount(window, weights=share, minlength=count), dtype=np.float64)
