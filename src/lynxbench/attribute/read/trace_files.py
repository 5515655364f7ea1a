"""A file of any kind that tells where time went, opened by the reader for it; a trace is held against itself.

A trace that contradicts itself (effects before causes, calls that stray) keeps its shares and loses its verdict: which
of its stamps are wrong, nobody can say.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np

from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.resource_record import ResourceRecord, is_resource, read_resource
from lynxbench.attribute.read.trace_columns import (
    DEVICE_KINDS,
    NONE,
    STEP_NAME,
    EventKind,
    Trace,
    distinct,
    match_ids,
)
from lynxbench.errors import BadInput

SQLITE_MAGIC = b"SQLite format 3"
HEAD_BYTES = 512
"""Enough to tell what kind of file it is."""
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


def read_source(path: Path) -> Trace | ResourceRecord:
    """A trace of PyTorch or Nsight Systems, or a resource record; BadInput in one line where it cannot be used."""
    head = _head(path)
    if is_resource(head):
        return read_resource(path)
    if head.startswith(SQLITE_MAGIC):
        from lynxbench.attribute.read.nsight import read_nsight  # with it comes SQLite

        return _checked(read_nsight(path))
    return _checked(read_trace(path))


def is_chrome_trace(path: Path) -> bool:
    """Whether a file that was read is text whose events others can read as they stand."""
    return not _head(path).startswith(SQLITE_MAGIC)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a trace file") from None


def _checked(trace: Trace) -> Trace:
    """The trace, marked as damaged with a note for each contradiction in it."""
    checks = (_early_activities, _unlaunched, _without_effect, _stray_calls, _shared_ids, _crossing_steps)
    notes = [note for check in checks if (note := check(trace))]
    return dataclasses.replace(trace, notes=(*trace.notes, *notes), damaged=True) if notes else trace


def _early_activities(trace: Trace) -> str | None:
    calls, activities = trace.rows_of(EventKind.RUNTIME), trace.rows_of(*DEVICE_KINDS)
    at = match_ids(trace.correlation[calls], trace.correlation[activities])
    known = at != NONE
    if not known.any():
        return None
    early = trace.start_ns[activities[known]] < trace.start_ns[calls[at[known]]] - CLOCK_SLACK_NS
    if early.mean() <= TOLERATED:
        return None
    return f"{early.mean():.0%} of the device's activities begin before the call that launched them: a clock jumped"


def _unlaunched(trace: Trace) -> str | None:
    calls, activities = trace.rows_of(EventKind.RUNTIME), trace.rows_of(*DEVICE_KINDS)
    if not len(activities):
        return None
    lost = float((match_ids(trace.correlation[calls], trace.correlation[activities]) == NONE).mean())
    if lost <= LOST:
        return None
    return f"{lost:.0%} of the device's activities have no call that launched them: why the device idled is not known"


def _without_effect(trace: Trace) -> str | None:
    calls, activities = trace.rows_named(_LAUNCHES.match, EventKind.RUNTIME), trace.rows_of(*DEVICE_KINDS)
    if not len(calls):
        return None
    lost = float((match_ids(trace.correlation[activities], trace.correlation[calls]) == NONE).mean())
    if lost <= LOST_WORK:
        return None
    return f"{lost:.0%} of the calls that start device work show none: the device's activities are missing"


def _crossing_steps(trace: Trace) -> str | None:
    rows = trace.rows_named(STEP_NAME.match, EventKind.ANNOTATION, EventKind.OPERATOR)
    family = trace.names_where(lambda name: name.lower().startswith("profilerstep"))[trace.name[rows]]
    keys = trace.thread[rows] * 2 + family
    crossing = total = 0
    for key in distinct(keys).tolist():
        mine = rows[keys == key]
        reach = np.maximum.accumulate(trace.end_ns[mine])[:-1]
        begins, ends = trace.start_ns[mine][1:], trace.end_ns[mine][1:]
        crossing += int(((begins < reach - STRAY_SLACK_NS) & (ends > reach + STRAY_SLACK_NS)).sum())
        total += len(mine)
    if crossing <= TOLERATED * total:
        return None
    return f"{crossing} of {total} marked steps begin before the one before them ends: which time is whose is not known"


def _stray_calls(trace: Trace) -> str | None:
    calls, operators = trace.rows_of(EventKind.RUNTIME), trace.rows_of(EventKind.OPERATOR)
    at = match_ids(trace.external[operators], trace.external[calls])
    known = at != NONE
    if not known.any():
        return None
    inner, outer = calls[known], operators[at[known]]
    same = trace.thread[inner] == trace.thread[outer]
    stray = same & (
        (trace.start_ns[inner] < trace.start_ns[outer] - STRAY_SLACK_NS)
        | (trace.end_ns[inner] > trace.end_ns[outer] + STRAY_SLACK_NS)
    )
    if stray.mean() <= TOLERATED:
        return None
    return f"{stray.mean():.0%} of the calls lie outside the operator that made them: a clock jumped"


def _shared_ids(trace: Trace) -> str | None:
    ids = trace.correlation[trace.rows_of(EventKind.RUNTIME)]
    ids = np.sort(ids[ids > 0])
    if len(ids) < 2:
        return None
    shared = float((ids[1:] == ids[:-1]).mean())
    if shared <= TOLERATED:
        return None
    return f"{shared:.0%} of the calls share their id with another: which launched what is not known"
