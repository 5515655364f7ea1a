"""Contradictions inside a trace that no reader sees event by event: effects before causes, calls that stray.

A trace that contradicts itself keeps its shares and loses its verdict: which of its stamps are wrong, nobody can say.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from lynxbench.attribute.step_finding import STEP_NAME
from lynxbench.attribute.trace_columns import DEVICE_KINDS, NONE, EventKind, Int64, Trace, distinct

TOLERATED = 0.01
"""Share of events that may contradict each other: profilers drop a few records at their edges."""
LOST = 0.1
"""Share of the device's activities that may lack their call: what was queued before the profiler started."""
LOST_WORK = 0.5
"""… and of the launching calls that may show no activity: those that a graph recorded have none of their own."""
CLOCK_SLACK_NS = 100_000
"""Device and host clocks are matched by the driver to some microseconds, worst to some tens."""
NESTING_SLACK_NS = 2_000
_LAUNCHES = re.compile(r"^(cuda|cu|hip)(LaunchKernel|GraphLaunch|Memcpy|Memset|ModuleLaunchKernel|LaunchCooperative)")


def check_consistency(trace: Trace) -> Trace:
    """The trace, marked as damaged with a note for each contradiction found."""
    checks = (_early_activities, _unlaunched, _without_effect, _stray_calls, _shared_ids, _crossing_steps)
    notes = [note for check in checks if (note := check(trace))]
    return dataclasses.replace(trace, notes=(*trace.notes, *notes), damaged=True) if notes else trace


def _matching(keys: Int64, wanted: Int64) -> tuple[Int64, Int64]:
    """For each wanted id, where it first stands among the keys; and which were found."""
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), max(0, len(keys) - 1))
    found = np.flatnonzero((keys[order][at] == wanted) & (wanted != NONE)) if len(keys) else np.empty(0, np.int64)
    return (order[at] if len(keys) else at), found


def _early_activities(trace: Trace) -> str | None:
    calls, activities = trace.rows_of(EventKind.RUNTIME), trace.rows_of(*DEVICE_KINDS)
    at, found = _matching(trace.correlation[calls], trace.correlation[activities])
    if not len(found):
        return None
    early = trace.start_ns[activities[found]] < trace.start_ns[calls[at[found]]] - CLOCK_SLACK_NS
    if early.mean() <= TOLERATED:
        return None
    return f"{early.mean():.0%} of the device's activities begin before the call that launched them: a clock jumped"


def _unlaunched(trace: Trace) -> str | None:
    calls, activities = trace.rows_of(EventKind.RUNTIME), trace.rows_of(*DEVICE_KINDS)
    if not len(activities):
        return None
    _, found = _matching(trace.correlation[calls], trace.correlation[activities])
    lost = 1.0 - len(found) / len(activities)
    if lost <= LOST:
        return None
    return f"{lost:.0%} of the device's activities have no call that launched them: why the device idled is not known"


def _without_effect(trace: Trace) -> str | None:
    calls, activities = trace.rows_of(EventKind.RUNTIME), trace.rows_of(*DEVICE_KINDS)
    launches = np.array([_LAUNCHES.match(name) is not None for name in trace.names], dtype=bool)
    calls = calls[launches[trace.name[calls]]]
    if not len(calls):
        return None
    _, found = _matching(trace.correlation[activities], trace.correlation[calls])
    lost = 1.0 - len(found) / len(calls)
    if lost <= LOST_WORK:
        return None
    return f"{lost:.0%} of the calls that start device work show none: the device's activities are missing"


def _crossing_steps(trace: Trace) -> str | None:
    named = np.array([STEP_NAME.match(name) is not None for name in trace.names], dtype=bool)
    family = np.array([name.lower().startswith("profilerstep") for name in trace.names], dtype=bool)
    rows = trace.rows_of(EventKind.ANNOTATION, EventKind.OPERATOR)
    rows = rows[named[trace.name[rows]]]
    crossing = total = 0
    for key in distinct(trace.thread[rows] * 2 + family[trace.name[rows]]).tolist():
        mine = rows[trace.thread[rows] * 2 + family[trace.name[rows]] == key]
        reach = np.maximum.accumulate(trace.end_ns[mine])[:-1]
        begins, ends = trace.start_ns[mine][1:], trace.end_ns[mine][1:]
        crossing += int(((begins < reach - NESTING_SLACK_NS) & (ends > reach + NESTING_SLACK_NS)).sum())
        total += len(mine)
    if crossing <= TOLERATED * total:
        return None
    return f"{crossing} of {total} marked steps begin before the one before them ends: which time is whose is not known"


def _stray_calls(trace: Trace) -> str | None:
    calls, operators = trace.rows_of(EventKind.RUNTIME), trace.rows_of(EventKind.OPERATOR)
    at, found = _matching(trace.external[operators], trace.external[calls])
    if not len(found):
        return None
    inner, outer = calls[found], operators[at[found]]
    same = trace.thread[inner] == trace.thread[outer]
    stray = same & (
        (trace.start_ns[inner] < trace.start_ns[outer] - NESTING_SLACK_NS)
        | (trace.end_ns[inner] > trace.end_ns[outer] + NESTING_SLACK_NS)
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
