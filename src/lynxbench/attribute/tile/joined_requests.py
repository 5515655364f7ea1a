"""A trace of a server laid over the requests that it served meanwhile: by the time of day, which both know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.read.trace import DEVICE_KINDS, EventKind, Int64, Trace

EPOCH_LIKE_NS = 1_000_000_000_000_000_000
"""Stamps beyond September 2001 are times of day already; others count from something else."""


@dataclass(frozen=True, slots=True)
class JoinedRequests:
    """What the server's kernels and the client's requests say of each other."""

    open_ns: int
    """Time with at least one request open, within the trace."""
    busy_ns: int
    """… of it, with at least one kernel running."""
    work_ns: int
    """Time with at least one kernel running, requests or not."""
    requests: int
    """Requests that were open during some of the trace."""


def unix_offset_ns(trace: Trace) -> int | None:
    """What its stamps lack to the time of day; None where nobody knows."""
    if trace.base_ns is not None:
        return trace.base_ns
    return 0 if len(trace) and int(trace.start_ns[0]) > EPOCH_LIKE_NS else None


def join_requests(trace: Trace, spans: Sequence[tuple[int, int]]) -> JoinedRequests | None:
    """Lay requests (from sending to the last byte, times of day) over a trace; None where its clock is not known."""
    offset = unix_offset_ns(trace)
    if offset is None:
        return None
    kinds = DEVICE_KINDS if trace.has_device_work else (EventKind.OPERATOR,)
    rows = trace.rows_of(*kinds)
    if not len(rows):
        return JoinedRequests(0, 0, 0, 0)
    start, end = _merged(trace.start_ns[rows] + offset, trace.end_ns[rows] + offset)
    # Whatever was recorded was recorded while the profiler was on: a request may begin before the first kernel.
    first, last = int(trace.start_ns.min()) + offset, int(trace.end_ns.max()) + offset
    clipped = np.clip(np.array(spans, dtype=np.int64).reshape(-1, 2), first, last)
    clipped = clipped[clipped[:, 1] > clipped[:, 0]]
    open_start, open_end = _merged(clipped[:, 0], clipped[:, 1])
    return JoinedRequests(
        open_ns=int((open_end - open_start).sum()),
        busy_ns=_overlap(start, end, open_start, open_end),
        work_ns=int((end - start).sum()),
        requests=len(clipped),
    )


def _merged(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Stretches that touch each other become one."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > end[:-1]))
    last = np.concatenate((first[1:], [True]))
    return start[first], end[last]


def _overlap(start: Int64, end: Int64, other_start: Int64, other_end: Int64) -> int:
    """Time in both of two sets of stretches that do not touch within themselves."""
    if not len(start) or not len(other_start):
        return 0
    lengths = np.concatenate(([0], np.cumsum(other_end - other_start)))

    def covered(moment: Int64) -> Int64:
        place = np.searchsorted(other_start, moment, side="right")
        within = np.where(place > 0, np.minimum(moment, other_end[place - 1]) - other_start[place - 1], 0)
        return np.asarray(lengths[np.maximum(place - 1, 0)] * (place > 0) + within, dtype=np.int64)

    return int((covered(end) - covered(start)).sum())
