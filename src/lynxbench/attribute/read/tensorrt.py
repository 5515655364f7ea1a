"""What trtexec exports: the mean time of each layer (`--exportProfile`); when an inference did what (`--exportTimes`).

A layer profile has no clock: its layers are laid end to end, as one inference. The times have one, but no layers.
"""

import re
from pathlib import Path

import msgspec
import numpy as np

from lynxbench.attribute.read.chrome_text import FileReading, ListDecoder, T, read_pieces
from lynxbench.attribute.read.trace import EventKind, Trace, Unseen
from lynxbench.attribute.read.trace_rows import LATEST_NS, UNUSABLE, TraceRows, nanoseconds, whole
from lynxbench.errors import BadInput

MS = 1e6
ENGINE = "TensorRT engine"
PERCENT_SLACK = 1.0
"""Percentages are written with six digits; more than this apart from the times, they are of other times."""
ROUGH = 0.05
"""Stamps rounded to more than this share of an inference are worth a word."""
_SPOKEN = bytes(32 if code < 32 and code not in b"\t\n\r" else code for code in range(256))
"""trtexec writes names as they are, with the control characters that newer versions separate layers by."""
_UNNAMED = re.compile(r"^\((Unnamed Layer[^)]*)\)")
_REFORMAT = re.compile(r"^(Reformatting CopyNode) (?=[^(])(.*)$", re.DOTALL)

_PROFILE = Unseen(
    "a layer profile holds layers alone: the host, copies, and what lies between layers are not in it",
    "record the inference with Nsight Systems (--trace=cuda,nvtx), or give trtexec's --exportTimes for copies and gaps",
)
_TIMES = Unseen(
    "trtexec feeds the engine itself, so neither layers nor what an application does around an inference are recorded",
    "give trtexec's --exportProfile for the layers, and a trace of the application itself for what surrounds them",
)


class _LayerTime(msgspec.Struct):
    """A layer's times over all inferences, or, first in the file, how many those were."""

    count: int | None = None
    name: str = ""
    total_ms: float | None = msgspec.field(name="timeMs", default=None)
    mean_ms: float | None = msgspec.field(name="averageMs", default=None)
    percentage: float | None = None


class _InferenceTimes(msgspec.Struct, rename="camel"):
    """One inference, in milliseconds since trtexec began."""

    start_enq_ms: float | None = None
    end_enq_ms: float | None = None
    start_h2d_ms: float | None = msgspec.field(name="startH2dMs", default=None)
    end_h2d_ms: float | None = msgspec.field(name="endH2dMs", default=None)
    start_compute_ms: float | None = None
    end_compute_ms: float | None = None
    start_d2h_ms: float | None = msgspec.field(name="startD2hMs", default=None)
    end_d2h_ms: float | None = msgspec.field(name="endD2hMs", default=None)
    h2d_ms: float | None = msgspec.field(name="h2dMs", default=None)
    compute_ms: float | None = None
    d2h_ms: float | None = msgspec.field(name="d2hMs", default=None)


def read_layers(path: Path) -> Trace:
    """The layers of `--exportProfile` as one inference; BadInput in one line where there are none."""
    rows = TraceRows()
    entries = _read(path, _LayerTime, rows)
    count = whole(next((entry.count for entry in entries if entry.count is not None), None))
    layers = [entry for entry in entries if entry.count is None]
    if count > 0:
        taken = [nanoseconds(layer.total_ms, MS / count) for layer in layers]
    else:
        taken = [nanoseconds(layer.mean_ms, MS) for layer in layers]
    at = 0
    for layer, took_ns in zip(layers, taken, strict=True):
        if took_ns < 0 or not layer.name:
            rows.unusable += 1
        elif took_ns > 0:  # a layer that was fused away or does nothing is listed with no time
            rows.add(EventKind.KERNEL, _layer_name(layer.name), at, at + took_ns, ("device 0", "layers"))
            at += took_ns
    if not rows or at >= LATEST_NS:
        losses = f" ({rows.unusable:,} {UNUSABLE})" if rows.unusable else ""
        raise BadInput(f"{path}: holds no layer with a time{losses}; export it with trtexec --exportProfile=FILE")
    if count <= 0 and len(layers) < len(entries):
        rows.notes.append("over how many inferences the times are is no number that can be")
    if not _percentages_fit(layers):
        rows.notes.append("the layers' percentages do not fit their times: one of them was changed")
    rows.add(EventKind.ANNOTATION, "step#0", 0, at, ("trtexec", "inference"))
    over = f"{count:,} inferences" if count > 0 else "inferences that the file does not count"
    return rows.trace(path, unseen=_PROFILE, remarks=(f"times are means over {over}, as trtexec wrote them",))


def read_times(path: Path) -> Trace:
    """The inferences of `--exportTimes`, each a step from the start of its copies; BadInput where there are none."""
    rows = TraceRows()
    starts: list[int] = []
    latest = 0
    computed: list[int] = []
    enqueued: list[float] = []
    for each in _read(path, _InferenceTimes, rows):
        spans = (
            (EventKind.MEMCPY, "Memcpy HtoD (trtexec's input)", each.start_h2d_ms, each.end_h2d_ms, each.h2d_ms),
            (EventKind.KERNEL, ENGINE, each.start_compute_ms, each.end_compute_ms, each.compute_ms),
            (EventKind.MEMCPY, "Memcpy DtoH (trtexec's output)", each.start_d2h_ms, each.end_d2h_ms, each.d2h_ms),
        )
        begins = [nanoseconds(start, MS) for _, _, start, _, _ in spans]
        # Durations are written with six digits of their own, stamps with six since trtexec began: much less is left.
        ends = [
            begin + nanoseconds(took, MS) if took is not None and took >= 0 else nanoseconds(end, MS)
            for begin, (_, _, _, end, took) in zip(begins, spans, strict=True)
        ]
        if min(begins) < 0 or any(end < begin for begin, end in zip(begins, ends, strict=True)):
            rows.unusable += 1
            continue
        for (kind, name, *_), begin, end in zip(spans, begins, ends, strict=True):
            if end > begin:
                rows.add(kind, name, begin, end, ("device 0", "inferences"))
        starts.append(begins[0])
        latest = max(latest, *ends)
        computed.append(ends[1] - begins[1])
        if each.start_enq_ms is not None and each.end_enq_ms is not None:
            enqueued.append((each.end_enq_ms - each.start_enq_ms) * MS)
    if not rows:
        losses = f" ({rows.unusable:,} {UNUSABLE})" if rows.unusable else ""
        raise BadInput(f"{path}: holds no inference with a time{losses}; export it with trtexec --exportTimes=FILE")
    starts.sort()
    for number, (begin, end) in enumerate(zip(starts, [*starts[1:], latest], strict=True)):
        rows.add(EventKind.ANNOTATION, f"step#{number}", begin, end, ("trtexec", "inferences"))
    return rows.trace(path, unseen=_TIMES, remarks=_remarks(starts, latest, computed, enqueued))


def _read(path: Path, kind: type[T], rows: TraceRows) -> list[T]:
    reading, decode = FileReading(), ListDecoder(kind)
    pieces = read_pieces(path, lambda text: decode(text.translate(_SPOKEN)), reading)
    entries = [entry for piece in pieces for entry in piece]
    rows.notes += reading.notes
    if decode.refused:
        rows.notes.append(f"{decode.refused:,} entries with fields of the wrong type were left out")
    return entries


def _layer_name(name: str) -> str:
    """A layer's name with what it does in front and what it does it to in brackets, as kernels are named."""
    return _REFORMAT.sub(r"\1 (\2)", _UNNAMED.sub(r"\1", name))


def _percentages_fit(layers: list[_LayerTime]) -> bool:
    known = [(each.total_ms, each.percentage) for each in layers if each.total_ms is not None]
    total = sum(ms for ms, _ in known)
    return all(said is None or abs(100.0 * ms / total - said) <= PERCENT_SLACK for ms, said in known) if total else True


def _remarks(starts: list[int], latest: int, computed: list[int], enqueued: list[float]) -> tuple[str, ...]:
    step_ns = float(np.median(np.diff(starts))) if len(starts) > 1 else float(latest - starts[0])
    remarks = []
    rounded_ns = 10.0 ** (np.floor(np.log10(max(latest / MS, 1.0))) - 5) * MS
    if rounded_ns > ROUGH * step_ns:
        remarks.append(f"trtexec wrote its stamps to {rounded_ns / 1e3:.3g} µs: gaps shorter than that do not show")
    if enqueued:
        host, device = float(np.median(enqueued)), float(np.median(computed))
        longer = ": longer than the engine works, so the host may hold it back" if host > device else ""
        remarks.append(
            f"enqueueing takes {host / MS:.3g} ms an inference, the engine {device / MS:.3g} ms (medians){longer}"
        )
    return tuple(remarks)
