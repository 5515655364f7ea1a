"""The best rate of one run, its units apportioned sample by sample, as it is told in words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lynxbench.stats.arrays import Floats, Numbers
from lynxbench.stats.batches import SLIDES_PER_WINDOW, Instants, _samples, _width_ns


def best_rate(start_ns: npt.ArrayLike, end_ns: npt.ArrayLike, units: Numbers | float, window_s: float) -> float:
    """The highest rate in any window of `window_s`; of a run that is no longer than one, its rate over all."""
    starts, ends, amounts, span = _samples(start_ns, end_ns, units)
    width_ns = _width_ns(window_s)
    over_all = float(amounts.sum()) / (span / 1e9)
    if span <= width_ns:
        return over_all
    step = max(1, width_ns // SLIDES_PER_WINDOW)
    per_window = -(-width_ns // step)
    edges = np.append(np.arange(0, span, step, dtype=np.int64), span)
    done = np.concatenate(([0.0], np.cumsum(_apportioned(starts, ends, amounts, edges))))
    begin = np.arange(max(1, edges.size - per_window))
    finish = np.minimum(begin + per_window, edges.size - 1)
    widths = (edges[finish] - edges[begin]) / 1e9
    full = widths * 1e9 >= width_ns * (1 - 1e-9)
    rates = (done[finish] - done[begin]) / widths
    return float(rates[full].max()) if np.any(full) else over_all


def _apportioned(starts: Instants, ends: Instants, amounts: Floats, edges: Instants) -> Floats:
    whole, shared = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    for start, end, amount in zip(starts.tolist(), ends.tolist(), amounts.tolist(), strict=True):
        first = min(int((edges <= start).sum()), whole.size) - 1
        last = max(first, int((edges < end).sum()) - 1)
        if first == last:
            whole[first] += amount
        else:
            inside = np.minimum(end, edges[first + 1 : last + 2]) - np.maximum(start, edges[first : last + 1])
            shared[first : last + 1] += amount * (inside / (end - start))
    return np.asarray(whole + shared, dtype=np.float64)
