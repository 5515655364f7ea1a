"""Samples thinned for drawing: bins, not statistics. What a figure says comes from the result alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lynxbench.model.activity import THROTTLE_REASONS
from lynxbench.model.contract import SloMetric
from lynxbench.model.requests import tokens_after_first
from lynxbench.model.result import PrecisionResult
from lynxbench.model.samples import CountedProcess, Float64, Phase, ProcessSamples, Telemetry

MOST_BINS = 240
"""Points a line needs at the width it is drawn; more would only make the file larger."""
HISTOGRAM_BINS = 64
THROTTLE_COLUMN = "throttle_reasons"
DRAWN_TAIL = 0.998
"""A histogram's axis ends here; what lies beyond is counted in words."""


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A stretch of one phase in seconds since the process began."""

    phase: Phase
    start_s: float
    end_s: float
    counted: bool = False


@dataclass(frozen=True, slots=True)
class DrawnRate:
    """Window means of the rate of one process."""

    process: int
    precision: str
    at_s: Float64
    per_s: Float64
    spans: tuple[PhaseSpan, ...]
    window_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counted latencies of one metric at one precision."""

    metric: str
    edges_ms: Float64
    counts: Float64
    total: int
    beyond: int


@dataclass(frozen=True, slots=True)
class ProcessSpan:
    """When a process ran, on the telemetry's axis."""

    precision: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Track:
    """One telemetry column, thinned."""

    name: str
    at_s: Float64
    values: Float64


def rate_series(counted: CountedProcess, window_s: float) -> DrawnRate:
    """Work done per busy second of a window; an iteration's units are spread evenly over the time it took."""
    samples = counted.samples
    it = samples.iterations
    zero = samples.setup_ns[0]
    spans = _spans(counted)
    end_s = spans[-1].end_s if spans else 0.0
    if len(it) == 0:
        nothing = np.zeros(0)
        return DrawnRate(samples.process, samples.precision, nothing, nothing, spans, window_s, end_s)
    first, last = (int(it.start_ns[0]) - zero) / 1e9, (int(it.end_ns.max()) - zero) / 1e9
    window = max(window_s, (last - first) / MOST_BINS, 1e-9)
    many = max(1, int((last - first) / window))
    edges: Float64 = np.asarray(first + window * np.arange(many + 1), dtype=np.float64)
    if overlaps(samples):
        rate = _came_out(samples, zero + (edges * 1e9).astype(np.int64)) / window
        return DrawnRate(samples.process, samples.precision, edges[:-1] + window / 2, rate, spans, window, end_s)
    corners = np.empty(2 * len(it))
    corners[0::2], corners[1::2] = (it.start_ns - zero) / 1e9, (it.end_ns - zero) / 1e9
    done = np.empty(2 * len(it))
    total = np.cumsum(it.units)
    done[0::2], done[1::2] = total - it.units, total
    busy = np.empty(2 * len(it))
    spent_s = np.cumsum(it.seconds)
    busy[0::2], busy[1::2] = spent_s - it.seconds, spent_s
    moments = np.maximum.accumulate(corners)
    # Over the time spent inside iterations, as the figures are: a pause of the harness is no dip of the executor.
    busy_s = np.maximum(np.diff(np.interp(edges, moments, busy)), 1e-9)
    rate = np.diff(np.interp(edges, moments, done)) / busy_s
    return DrawnRate(samples.process, samples.precision, edges[:-1] + window / 2, rate, spans, window, end_s)


def overlaps(samples: ProcessSamples) -> bool:
    """Whether rows are requests that were open at the same time, and not one iteration after the other."""
    it = samples.iterations
    return bool((it.start_ns[1:] < it.end_ns[:-1]).any())


def _came_out(samples: ProcessSamples, edges_ns: npt.NDArray[np.int64]) -> Float64:
    """Work of overlapping requests in each window: over the marks of those that have some, else at their end."""
    it, marks = samples.iterations, samples.marks
    many = np.bincount(marks.iteration, minlength=len(it))
    silent = many == 0
    stamps = np.concatenate([marks.at_ns, it.end_ns[silent]])
    work = np.concatenate([(it.units / np.maximum(many, 1))[marks.iteration], it.units[silent].astype(np.float64)])
    return np.asarray(np.histogram(stamps, edges_ns, weights=work)[0], dtype=np.float64)


def _spans(counted: CountedProcess) -> tuple[PhaseSpan, ...]:
    samples = counted.samples
    zero = samples.setup_ns[0]
    spans = [PhaseSpan(Phase.SETUP, 0.0, (samples.setup_ns[1] - zero) / 1e9)]
    if samples.compile_ns is not None:
        spans.append(
            PhaseSpan(Phase.COMPILE, (samples.compile_ns[0] - zero) / 1e9, (samples.compile_ns[1] - zero) / 1e9)
        )
    phases = counted.phase
    if len(phases):
        cuts = np.flatnonzero(np.diff(phases)) + 1
        starts, ends = np.concatenate([[0], cuts]), np.concatenate([cuts, [len(phases)]])
        it = samples.iterations
        taken = counted.counted
        spans += [
            PhaseSpan(
                Phase(int(phases[a])),
                (int(it.start_ns[a]) - zero) / 1e9,
                (int(it.end_ns[b - 1]) - zero) / 1e9,
                counted=bool(taken[a]),
            )
            for a, b in zip(starts, ends, strict=True)
        ]
    return tuple(spans)


def latency_track(counted: CountedProcess, metric: str, window_s: float) -> Track | None:
    """The median of a latency in each window of a process, excluded stretches too; None where it was not measured."""
    samples = counted.samples
    it, marks = samples.iterations, samples.marks
    if not len(it) or (metric != SloMetric.LATENCY and not len(marks.at_ns)):
        return None
    stamps, values = it.end_ns, it.seconds * 1e3
    if metric == SloMetric.TIME_TO_FIRST_TOKEN:
        opens = np.concatenate([[True], marks.iteration[1:] != marks.iteration[:-1]])
        stamps = marks.at_ns[opens]
        values = (stamps - it.start_ns[marks.iteration[opens]]) / 1e6
    at = (stamps - samples.setup_ns[0]) / 1e9
    order = np.argsort(at, kind="stable")
    at, values = at[order], values[order]
    window = max(window_s, float(at[-1] - at[0]) / MOST_BINS, 1e-9)
    cuts = np.searchsorted(at, np.arange(at[0] + window, at[-1], window))
    stretches = [(a, b) for a, b in pairwise([0, *cuts.tolist(), len(at)]) if b > a]
    middles = np.array([np.median(values[a:b]) for a, b in stretches])
    return Track(f"process {samples.process}", np.array([at[a:b].mean() for a, b in stretches]), middles)


def counted_ms(counted: CountedProcess, metric: str, *, served: bool = False, first_share: float = 0.0) -> Float64:
    """The counted latencies of one process in milliseconds: per iteration, to the first token, or between tokens.

    A server's marks are events, which are not tokens and may have been read together: there a request's mean is taken,
    of the tokens after its first event, which held `first_share` of it where events hold several.
    """
    samples = counted.samples
    steady = counted.counted
    if metric == SloMetric.LATENCY or not len(samples.marks.at_ns):
        return np.asarray(samples.iterations.seconds[steady] * 1e3, dtype=np.float64)
    if served and metric == SloMetric.TIME_PER_TOKEN:
        return _request_ms_per_token(samples, steady, first_share)
    return _token_ms(samples, steady, first=metric == SloMetric.TIME_TO_FIRST_TOKEN)


def first_share_of(figures: PrecisionResult) -> float:
    """What the first event of a server's answers held of them, where its events hold several tokens; else nothing."""
    return 0.0 if figures.load is None else figures.load.tokens.first_share or 0.0


def _request_ms_per_token(samples: ProcessSamples, steady: npt.NDArray[np.bool_], first_share: float) -> Float64:
    rows, at, many = samples.marks.iteration, samples.marks.at_ns, len(samples.iterations)
    first, last = np.full(many, np.iinfo(np.int64).max), np.zeros(many, dtype=np.int64)
    np.minimum.at(first, rows, at)
    np.maximum.at(last, rows, at)
    kept = steady & (last > 0) & (samples.iterations.units > 1)
    after = tokens_after_first(samples.iterations.units, np.bincount(rows, minlength=many), first_share)
    return np.asarray((last - first)[kept] / 1e6 / after[kept], dtype=np.float64)


def _token_ms(samples: ProcessSamples, steady: npt.NDArray[np.bool_], *, first: bool) -> Float64:
    rows, at = samples.marks.iteration, samples.marks.at_ns
    opens = np.concatenate([[True], rows[1:] != rows[:-1]])
    kept = steady[rows]
    if first:
        return np.asarray((at - samples.iterations.start_ns[rows])[opens & kept] / 1e6, dtype=np.float64)
    return np.asarray(np.diff(at, prepend=at[:1])[~opens & kept] / 1e6, dtype=np.float64)


def histogram(parts: list[Float64], metric: str) -> Histogram | None:
    """Counts in equal bins up to the drawn tail; None without samples."""
    values = np.concatenate(parts) if parts else np.zeros(0)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    ordered = np.sort(values)
    low, high = float(ordered[0]), float(ordered[min(len(ordered) - 1, int(DRAWN_TAIL * len(ordered)))])
    if high <= low:
        low, high = low * 0.99, high * 1.01 + 1e-9
    counts, edges = np.histogram(ordered, bins=min(HISTOGRAM_BINS, max(8, len(ordered) // 4)), range=(low, high))
    return Histogram(metric, edges, counts.astype(np.float64), len(ordered), int((ordered > high).sum()))


def tracks(telemetry: Telemetry) -> tuple[Track, ...]:
    """Every column with at least one reading, thinned to bin means; time starts with the first reading."""
    if not len(telemetry.at_ns):
        return ()
    at = (telemetry.at_ns - telemetry.at_ns[0]) / 1e9
    group = np.minimum((np.arange(len(at)) * MOST_BINS) // max(len(at), MOST_BINS), MOST_BINS - 1)
    return tuple(
        Track(name, _bin_means(at, group), _bin_means(values, group))
        for name, values in telemetry.columns.items()
        if np.isfinite(values).any()
    )


def throttle_tracks(telemetry: Telemetry) -> tuple[Track, ...]:
    """Each throttle reason that was ever set, as 1 where it was; masks are split before thinning, bits have no mean."""
    if not len(telemetry.at_ns):
        return ()
    at = (telemetry.at_ns - telemetry.at_ns[0]) / 1e9
    tracks = []
    for name, values in telemetry.columns.items():
        if not name.endswith(THROTTLE_COLUMN):
            continue
        mask = np.nan_to_num(values).astype(np.int64)
        for bit, reason in THROTTLE_REASONS.items():
            on = (mask & bit) != 0
            if on.any():
                device = name.removesuffix(THROTTLE_COLUMN).strip("_")
                tracks.append(Track(f"{device} {reason}".strip(), at, on.astype(np.float64)))
    return tuple(tracks)


def process_spans(processes: Sequence[CountedProcess], telemetry: Telemetry | None) -> tuple[ProcessSpan, ...]:
    """When each process ran, in seconds since telemetry began."""
    if telemetry is None or not len(telemetry.at_ns):
        return ()
    zero = int(telemetry.at_ns[0])
    ran = [process.samples for process in processes if len(process.samples.iterations)]
    return tuple(
        ProcessSpan(
            samples.precision, (samples.setup_ns[0] - zero) / 1e9, (int(samples.iterations.end_ns[-1]) - zero) / 1e9
        )
        for samples in sorted(ran, key=lambda samples: samples.setup_ns[0])
    )


def _bin_means(values: Float64, group: npt.NDArray[np.int64]) -> Float64:
    known = np.isfinite(values)
    totals = np.bincount(group[known], weights=values[known], minlength=int(group[-1]) + 1)
    many = np.bincount(group[known], minlength=int(group[-1]) + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(many > 0, totals / np.maximum(many, 1), np.nan)
