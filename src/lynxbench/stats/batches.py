"""Batch means over time windows: units are apportioned exactly and gaps count as gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadSeries
from lynxbench.stats.arrays import Floats, Numbers, as_series

SLIDES_PER_WINDOW = 20  # the best window is searched in steps of 1/20 of its width
EDGES_TOGETHER = 1 << 18
"""Of several runs: what is laid out for them stays within some megabytes."""
LATEST_NS = 1 << 62
"""Runs that are laid one behind another end before an integer does."""
MOST_EDGES = 20_000_000
"""Some days in steps of 10 ms. More of them come from a damaged stamp, and would fill the memory."""
Instants = npt.NDArray[np.int64]
KnownSamples: TypeAlias = "tuple[Instants, Instants, Floats, int]"
"""Starts and ends since the first start, the units of each sample, and the span of all."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Adjacent windows that cover the run from its first start to its last end; Σ units is conserved."""

    centre_s: Floats  # seconds since the first start
    width_s: Floats
    units: Floats

    @property
    def rate_per_s(self) -> Floats:
        """Units per second of each window."""
        return np.asarray(self.units / self.width_s, dtype=np.float64)


def window_means(
    start_ns: npt.ArrayLike, end_ns: npt.ArrayLike, units: Numbers | float, window_s: float = 1.0
) -> Windows:
    """Windows of `window_s`; a last one shorter than half joins its neighbour, a longer one keeps its true width."""
    starts, ends, amounts, span = _samples(start_ns, end_ns, units)
    width_ns = _width_ns(window_s)
    _refuse_endless(span, width_ns)
    whole, rest = divmod(span, width_ns)
    count = max(1, whole + (1 if rest * 2 >= width_ns else 0))
    edges = np.minimum(np.arange(count + 1, dtype=np.int64) * width_ns, span)
    edges[-1] = span
    sums = _apportion(starts, ends, amounts, edges)
    widths = np.diff(edges) / 1e9
    return Windows((edges[:-1] + edges[1:]) / 2e9, widths, sums)


Samples: TypeAlias = "tuple[npt.ArrayLike, npt.ArrayLike, Numbers | float]"
"""Starts and ends of samples, and their units."""


def best_rate(start_ns: npt.ArrayLike, end_ns: npt.ArrayLike, units: Numbers | float, window_s: float = 1.0) -> float:
    """The highest rate in any window of `window_s`: the peak that is held against the sustained rate."""
    return best_rates([(start_ns, end_ns, units)], window_s)[0]


def best_rates(several: Sequence[Samples], window_s: float = 1.0) -> list[float]:
    """The same of several runs; the units of short ones are apportioned together."""
    width_ns, known = _width_ns(window_s), [_samples(*samples) for samples in several]
    step, spans = max(1, width_ns // SLIDES_PER_WINDOW), [span for _, _, _, span in known]
    for span in spans:
        _refuse_endless(span, step)
    if sum(span // step + 2 for span in spans) > EDGES_TOGETHER or sum(spans) + len(spans) > LATEST_NS:
        return [rate for samples in known for rate in _best_rates([samples], step, width_ns)]
    return _best_rates(known, step, width_ns)


def _best_rates(known: Sequence[KnownSamples], step: int, width_ns: int) -> list[float]:
    edges = [np.append(np.arange(0, span, step, dtype=np.int64), span) for _, _, _, span in known]
    return [
        _best_of(float(amounts.sum()) / (span / 1e9), sums, each, step, width_ns)
        for (_, _, amounts, span), sums, each in zip(known, _apportion_each(known, edges), edges, strict=True)
    ]


def _best_of(over_all: float, sums: Floats, edges: Instants, step: int, width_ns: int) -> float:
    """The highest rate of windows that begin at an edge; of a run that is no longer than one, its rate over all."""
    if edges[-1] <= width_ns:
        return over_all
    per_window = -(-width_ns // step)
    done = np.concatenate(([0.0], np.cumsum(sums)))
    begin = np.arange(max(1, edges.size - per_window))
    finish = np.minimum(begin + per_window, edges.size - 1)
    widths = (edges[finish] - edges[begin]) / 1e9
    full = widths * 1e9 >= width_ns * (1 - 1e-9)
    rates = (done[finish] - done[begin]) / widths
    return float(rates[full].max()) if np.any(full) else over_all


def _samples(start_ns: npt.ArrayLike, end_ns: npt.ArrayLike, units: Numbers | float) -> KnownSamples:
    starts = np.asarray(start_ns, dtype=np.int64)
    ends = np.asarray(end_ns, dtype=np.int64)
    if starts.ndim != 1 or starts.shape != ends.shape:
        raise BadSeries(f"{starts.size} starts and {ends.size} ends: every sample has one of each")
    if starts.size == 0:
        raise BadSeries("no samples: windows need at least one")
    amounts = np.broadcast_to(np.asarray(units, dtype=np.float64), starts.shape)
    if not np.all(np.isfinite(amounts)):
        raise BadSeries("units of a sample must be finite")
    backwards = np.flatnonzero(ends < starts)
    if backwards.size:
        raise BadSeries(f"sample {int(backwards[0])} ends before it starts")
    origin, span = int(starts.min()), int(ends.max() - starts.min())
    if span == 0:
        raise BadSeries("all samples start and end at one instant: windows need a duration")
    return starts - origin, ends - origin, np.asarray(amounts, dtype=np.float64), span


def _refuse_endless(span_ns: int, step_ns: int) -> None:
    if span_ns // step_ns > MOST_EDGES:
        raise BadSeries(
            f"the samples span {span_ns / 1e9:,.0f} s in steps of {step_ns / 1e6:g} ms: a stamp must be damaged"
        )


def _width_ns(window_s: float) -> int:
    width = round(window_s * 1e9) if np.isfinite(window_s) else 0
    if width < 1:
        raise BadSeries(f"a window of {window_s} s is not a duration; 1 s is usual")
    return width


def _apportion_each(known: Sequence[KnownSamples], edges: Sequence[Instants]) -> list[Floats]:
    """The units of each run over its own windows; runs are laid one behind another, an instant apart."""
    if not known:
        return []
    begins = np.concatenate(([0], np.cumsum([span + 1 for _, _, _, span in known])[:-1])).tolist()
    starts = np.concatenate([samples[0] + begin for samples, begin in zip(known, begins, strict=True)])
    ends = np.concatenate([samples[1] + begin for samples, begin in zip(known, begins, strict=True)])
    amounts = np.concatenate([samples[2] for samples in known])
    together = np.concatenate([each + begin for each, begin in zip(edges, begins, strict=True)])
    sizes = np.array([each.size for each in edges])
    last, counts = np.cumsum(sizes), [samples[0].size for samples in known]
    sums = _apportion(starts, ends, amounts, together, np.repeat(last - sizes, counts), np.repeat(last - 2, counts))
    return [sums[end - each.size : end - 1] for end, each in zip(last.tolist(), edges, strict=True)]


def _apportion(
    starts: Instants,
    ends: Instants,
    amounts: Floats,
    edges: Instants,
    lowest: int | Instants = 0,
    highest: int | Instants | None = None,
) -> Floats:
    """Each sample's units over the windows it touches, by the time it spends in each; within windows of its own."""
    count = edges.size - 1
    highest = count - 1 if highest is None else highest
    first = np.clip(np.searchsorted(edges, starts, side="right") - 1, lowest, highest)
    # A sample that ends on an edge belongs to the window it ends in, not to the next one.
    last = np.maximum(first, np.clip(np.searchsorted(edges, ends, side="left") - 1, lowest, highest))
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


@dataclass(frozen=True, slots=True)
class BestRun:
    """The best stretch of consecutive values."""

    start: int
    count: int
    mean: float


def best_run(values: Numbers, count: int, *, higher_is_better: bool) -> BestRun:
    """The best mean over `count` consecutive values: the burst of a series that is already rates or times."""
    series = as_series(values)
    count = min(count, series.size)
    if count < 1:
        raise BadSeries("a best stretch needs at least one value")
    means = np.lib.stride_tricks.sliding_window_view(series, count).mean(axis=1)
    best = int(np.argmax(means) if higher_is_better else np.argmin(means))
    return BestRun(best, count, float(means[best]))


@dataclass(frozen=True, slots=True)
class TimedMeans:
    """Means of the values that fall into each window; a window without a value is left out."""

    mean: Floats
    first: npt.NDArray[np.int64]  # index of each window's first value


def means_by_time(time_s: Numbers, values: Numbers, window_s: float) -> TimedMeans:
    """Average a timed series over windows; a last window shorter than half joins its neighbour."""
    instants, series = as_series(time_s), as_series(values)
    if instants.size != series.size or series.size == 0:
        raise BadSeries(f"{instants.size} times for {series.size} values: every value has one time")
    if np.any(np.diff(instants) < 0):
        raise BadSeries("times must not go backwards")
    if not (np.isfinite(window_s) and window_s > 0):
        raise BadSeries(f"a window of {window_s} s is not a duration; 1 s is usual")
    since = instants - instants[0]
    count = max(1, int(since[-1] / window_s + 0.5))
    window = np.minimum(np.floor(since / window_s).astype(np.int64), count - 1)
    _, first, sizes = np.unique(window, return_index=True, return_counts=True)
    return TimedMeans(np.add.reduceat(series, first) / sizes, first.astype(np.int64))
