"""A file of any kind that tells where time went, opened by the reader for it; a trace is held against itself.

A trace that contradicts itself (effects before causes, calls that stray) keeps its shares and loses its verdict: which
of its stamps are wrong, nobody can say.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.nsight_compute import read_compute
from lynxbench.attribute.read.recognising import RecordKind, recognise
from lynxbench.attribute.read.resource_record import ResourceRecord, read_resource
from lynxbench.attribute.read.rocprof import read_rocprof_document, read_rocprof_table
from lynxbench.attribute.read.tensorrt import read_layers, read_times
from lynxbench.attribute.read.trace import DEVICE_KINDS, NONE, STEP_NAME, EventKind, Trace, distinct, match_ids
from lynxbench.attribute.read.trace_columns import read_columns
from lynxbench.attribute.read.triton_requests import RequestTrace, read_requests
from lynxbench.attribute.read.xla import read_xla

TOLERATED = 0.01
"""Share of events that may contradict each other: profilers drop a few records at their edges."""
LOST = 0.1
"""Share of the device's activities that may lack their call: what was queued before the profiler started."""
LOST_WORK = 0.5
"""… and of the launching calls that may show no activity: those that a graph recorded have none of their own."""
CLOCK_SLACK_NS = 100_000
"""Device and host clocks are matched by the driver to some microseconds, worst to some tens."""
STRAY_SLACK_NS = 2_000
_LAUNCHES = re.compile(r"^(cuda|cu|hip)(LaunchKernel|GraphLaunch|Memcpy|Memset|ModuleLaunchKernel|LaunchCooperative)")


READERS: dict[RecordKind, Callable[[Path], Trace]] = {
    RecordKind.CHROME: read_trace,
    RecordKind.COLUMNS: read_columns,
    RecordKind.XLA: read_xla,
    RecordKind.NSIGHT_COMPUTE: read_compute,
    RecordKind.ROCPROF_TABLE: read_rocprof_table,
    RecordKind.ROCPROF_DOCUMENT: read_rocprof_document,
    RecordKind.TENSORRT_LAYERS: read_layers,
    RecordKind.TENSORRT_TIMES: read_times,
}
"""Readers of traces, by what a file is; Nsight Systems exports are read where SQLite is loaded."""


def read_source(path: Path) -> Trace | ResourceRecord | RequestTrace:
    """A trace, a resource record or traced requests; BadInput in one line where it cannot be used."""
    kind = recognise(path)
    if kind is RecordKind.RESOURCE:
        return read_resource(path)
    if kind is RecordKind.TRITON:
        return read_requests(path)
    if kind is RecordKind.NSIGHT_SYSTEMS:
        from lynxbench.attribute.read.nsight import read_nsight  # with it comes SQLite

        trace = read_nsight(path)
    else:
        trace = READERS[kind](path)
    notes = (*_clock_notes(trace), *_step_notes(trace))
    return dataclasses.replace(trace, notes=(*trace.notes, *notes), damaged=True) if notes else trace


def is_chrome_trace(path: Path) -> bool:
    """Whether a file that was read is text whose events others can read as they stand."""
    return recognise(path) in (RecordKind.CHROME, RecordKind.XLA)


def _clock_notes(trace: Trace) -> Iterator[str]:
    """Launches, calls and operators that do not fit together."""
    start, end = trace.start_ns, trace.end_ns
    calls, activities, operators = (
        trace.rows_of(*kinds) for kinds in ((EventKind.RUNTIME,), DEVICE_KINDS, (EventKind.OPERATOR,))
    )
    ids = trace.correlation[calls]
    call = match_ids(ids, trace.correlation[activities])
    launched, by = activities[call != NONE], calls[call[call != NONE]]
    early = _share(start[launched] < start[by] - CLOCK_SLACK_NS)
    if early > TOLERATED:
        yield f"{early:.0%} of the device's activities begin before the call that launched them: a clock jumped"
    lost = _share(call == NONE)
    if lost > LOST and trace.unseen is None:
        why = "why the device idled is not known"
        yield f"{lost:.0%} of the device's activities have no call that launched them: {why}"
    launches = trace.rows_named(_LAUNCHES.match, EventKind.RUNTIME)
    without = _share(match_ids(trace.correlation[activities], trace.correlation[launches]) == NONE)
    if without > LOST_WORK and trace.unseen is None:
        yield f"{without:.0%} of the calls that start device work show none: the device's activities are missing"
    around = match_ids(trace.external[operators], trace.external[calls])
    inner, outer = calls[around != NONE], operators[around[around != NONE]]
    outside = (start[inner] < start[outer] - STRAY_SLACK_NS) | (end[inner] > end[outer] + STRAY_SLACK_NS)
    stray = _share((trace.thread[inner] == trace.thread[outer]) & outside)
    if stray > TOLERATED:
        yield f"{stray:.0%} of the calls lie outside the operator that made them: a clock jumped"
    ids = np.sort(ids[ids > 0])
    shared = _share(ids[1:] == ids[:-1])
    if shared > TOLERATED:
        yield f"{shared:.0%} of the calls share their id with another: which launched what is not known"


def _share(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    return float(flags.mean()) if len(flags) else 0.0


def _step_notes(trace: Trace) -> Iterator[str]:
    """Marked steps that cross each other."""
    rows = trace.rows_named(STEP_NAME.match, EventKind.ANNOTATION, EventKind.OPERATOR)
    family = trace.names_where(lambda name: name.lower().startswith("profilerstep"))[trace.name[rows]]
    keys = trace.thread[rows] * 2 + family
    crossing = 0
    for key in distinct(keys).tolist():
        mine = rows[keys == key]
        reach = np.maximum.accumulate(trace.end_ns[mine])[:-1]
        begins, ends = trace.start_ns[mine][1:], trace.end_ns[mine][1:]
        crossing += int(((begins < reach - STRAY_SLACK_NS) & (ends > reach + STRAY_SLACK_NS)).sum())
    if crossing > TOLERATED * len(rows):
        yield (
            f"{crossing} of {len(rows)} marked steps begin before the one before them ends: which time is whose is "
            "not known"
        )
