"""The room's door: a trace file in, an attribution out, and on demand what people look at beside it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lynxbench.attribute.accounting import TimeBook, keep_book
from lynxbench.attribute.consistency import check_consistency
from lynxbench.attribute.contention import Contention, measure_contention
from lynxbench.attribute.detail import describe
from lynxbench.attribute.device_book import keep_device_book
from lynxbench.attribute.faster_hardware import STANDARD_SWAPS, Swap, SwapGain, estimate_swap
from lynxbench.attribute.inflation import correct_shares
from lynxbench.attribute.kineto import read_trace
from lynxbench.attribute.operands import DTYPE_PRECISION
from lynxbench.attribute.operators import OperatorKind, operator_kind
from lynxbench.attribute.packed_results import add_results
from lynxbench.attribute.resource import attribute_resource, is_resource, read_resource
from lynxbench.attribute.roofline import Ceilings
from lynxbench.attribute.step_finding import Steps, find_steps
from lynxbench.attribute.timeline import tile_steps
from lynxbench.attribute.trace_columns import NONE, EventKind, Trace
from lynxbench.attribute.verdict import Owner, attribute_steps
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Ceiling, StepWork
from lynxbench.model.interval import Interval
from lynxbench.model.precision import Precision
from lynxbench.model.trace_detail import Detail

CPU_READS_AS_COPY = 0.5
SQLITE_MAGIC = b"SQLite format 3"
HEAD_BYTES = 512
"""Enough to tell what kind of file it is."""
MISNESTED_LIMIT = 0.01
"""Share of a trace's events that may outlast the one around them before its clock is not believed."""
RESOURCE_FILE = "resource.json"
"""What the operating system accounted to the same steps, where an engine left it beside the trace."""


@dataclass(frozen=True, slots=True)
class TraceAnalysis:
    """An attribution, what a person looks at beside it, and what other hardware would gain (estimates)."""

    attribution: Attribution
    detail: Detail | None
    swaps: tuple[SwapGain, ...]


@dataclass(frozen=True, slots=True)
class _Judged:
    attribution: Attribution
    book: TimeBook
    windows: Steps
    ceilings: Ceilings


def attribute_trace(
    path: Path | str,
    *,
    ceilings: tuple[Ceiling, ...],
    precision: Precision,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    device: str = "cpu",
    work: StepWork | None = None,
) -> Attribution:
    """Say where the time of a profiler trace or resource record went; BadInput in one line where it cannot be used."""
    path = Path(path)
    if is_resource(_head(path)):
        return attribute_resource(read_resource(path), owner=owner)
    known = Ceilings(ceilings, precision)
    return _judge(_read(path), known, unprofiled_step_ms, owner, device, _contention(path), work).attribution


def analyse_trace(
    path: Path | str,
    *,
    ceilings: tuple[Ceiling, ...],
    precision: Precision | None,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    device: str = "cpu",
    swaps: tuple[Swap, ...] = STANDARD_SWAPS,
    perfetto: Path | None = None,
) -> TraceAnalysis:
    """The same with details and what-if replays; `perfetto` also writes our categories as a track of the trace."""
    path = Path(path)
    if is_resource(_head(path)):
        said = attribute_resource(read_resource(path), owner=owner)
        return TraceAnalysis(said, None, tuple(estimate_swap(said.shares, swap) for swap in swaps))
    trace = _read(path)
    known = Ceilings(ceilings, precision or infer_precision(trace))
    judged = _judge(trace, known, unprofiled_step_ms, owner, device, _contention(path))
    step_ms = judged.attribution.unprofiled_ms_per_step
    shares = correct_shares(judged.book, step_ms * 1e6 if step_ms else None).of
    gains = tuple(estimate_swap(shares, swap, judged.book.groups, judged.ceilings) for swap in swaps)
    if perfetto is not None:
        from lynxbench.attribute.perfetto import write_perfetto

        write_perfetto(path, trace, judged.book, perfetto)
    name = trace.device or device
    return TraceAnalysis(judged.attribution, describe(trace, judged.book, judged.windows, known, name), gains)


def infer_precision(trace: Trace) -> Precision:
    """The precision of most of the products' time, by operands; TF32 where kernels are named so."""
    rows = trace.rows_of(EventKind.OPERATOR)
    product = np.array([operator_kind(name) is OperatorKind.PRODUCT for name in trace.names], dtype=bool)
    rows = rows[product[trace.name[rows]] & (trace.signature[rows] != NONE)]
    taken = np.bincount(trace.signature[rows], weights=trace.dur_ns[rows]) if len(rows) else np.zeros(0)
    spent: Counter[Precision] = Counter()
    for signature in np.flatnonzero(taken).tolist():
        tensors = trace.signatures[signature].tensors
        found = next((DTYPE_PRECISION[t.dtype] for t in tensors if t.dtype in DTYPE_PRECISION), None)
        if found is not None:
            spent[found] += int(taken[signature])
    common = spent.most_common(1)[0][0] if spent else Precision.FP32
    narrow = common is Precision.FP32 and any("tf32" in name.lower() for name in trace.names)
    return Precision.TF32 if narrow else common


def attribute_device(
    trace: Trace, *, ceilings: Ceilings, unprofiled_step_ms: Interval | float | None, owner: Owner, device: str
) -> Attribution:
    """Where the time of a trace's steps went on its accelerator, and why that idled."""
    return _judge_device(trace, ceilings, unprofiled_step_ms, owner, device).attribution


def attribute_cpu(
    trace: Trace, *, ceilings: Ceilings, unprofiled_step_ms: Interval | float | None, owner: Owner, device: str = "cpu"
) -> Attribution:
    """Where the time of a trace's steps went on the host."""
    return _judge_cpu(trace, ceilings, unprofiled_step_ms, owner, device, None).attribution


def _read(path: Path) -> Trace:
    if _head(path).startswith(SQLITE_MAGIC):
        from lynxbench.attribute.nsight import read_nsight  # with it comes SQLite

        return check_consistency(read_nsight(path))
    return check_consistency(add_results(read_trace(path)))


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a trace file") from None


def _contention(path: Path) -> Contention | None:
    """Waits for a CPU in the same steps without the profiler, where an engine accounted them."""
    beside = path.parent / RESOURCE_FILE
    if beside == path or not beside.is_file():
        return None
    try:
        record = read_resource(beside)
    except BadInput:
        return None  # a stray file of that name is no reason to refuse the trace
    return measure_contention(record.steps, record.cpus)


def _judge(
    trace: Trace,
    ceilings: Ceilings,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    device: str,
    contention: Contention | None,
    work: StepWork | None = None,
) -> _Judged:
    if trace.has_device_work:
        return _judge_device(trace, ceilings, unprofiled_step_ms, owner, device, work)
    return _judge_cpu(trace, ceilings, unprofiled_step_ms, owner, device, contention)


def _judge_device(
    trace: Trace,
    ceilings: Ceilings,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    device: str,
    work: StepWork | None = None,
) -> _Judged:
    book, windows = keep_device_book(trace, ceilings)
    said = attribute_steps(
        book,
        ceilings=ceilings,
        unprofiled_step_ms=unprofiled_step_ms,
        owner=owner,
        steps_how=windows.how,
        annotated=windows.annotated,
        notes=(*trace.notes, *_counter_note(trace)),
        damaged=trace.damaged or book.misnested > MISNESTED_LIMIT * max(1, len(trace)),
        device=trace.device or device,
        work=work,
    )
    return _Judged(said, book, windows, ceilings)


def _counter_note(trace: Trace) -> tuple[str, ...]:
    if trace.counters is None:
        return ()
    return (f"{len(trace.counters):,} samples of hardware counters decide which ceiling binds a kernel",)


def _judge_cpu(
    trace: Trace,
    ceilings: Ceilings,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    device: str,
    contention: Contention | None,
) -> _Judged:
    ceilings = dataclasses.replace(ceilings, reads_as_copy=CPU_READS_AS_COPY)
    steps = find_steps(trace)
    timeline = tile_steps(trace, steps)
    book = keep_book(trace, steps, timeline, ceilings)
    said = attribute_steps(
        book,
        ceilings=ceilings,
        unprofiled_step_ms=unprofiled_step_ms,
        owner=owner,
        steps_how=steps.how,
        annotated=steps.annotated,
        notes=trace.notes,
        damaged=trace.damaged or not book.groups or timeline.misnested > MISNESTED_LIMIT * max(1, len(trace)),
        device=device,
        contention=contention,
    )
    return _Judged(said, book, steps, ceilings)
