"""Every nanosecond of a step to exactly one event: the innermost one at work on the thread that drives the step.

Worker threads add no wall time. Where the driving thread waits for another one that runs the backward pass, the time
belongs to what runs there. Stretches with no event keep the number of the event before them, or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.step_finding import Steps, is_input
from lynxbench.attribute.trace_columns import NONE, EventKind, Int32, Int64, Trace, distinct, is_of

NESTING_SLACK_NS = 1_000
"""Stamps of begin and end are taken a little apart; an inner event may outlast its outer one by this much."""

_HOST_KINDS = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Stretches that tile every step exactly, in order: step, bounds, and the innermost event (or NONE)."""

    step: Int64
    start_ns: Int64
    end_ns: Int64
    row: Int64
    misnested: int
    """Events that outlasted the one around them by more than the slack, and were cut: a sign of a damaged clock."""

    @property
    def dur_ns(self) -> Int64:
        """How long each stretch is."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class ThreadLane:
    """A host thread's events in time order, found once for a trace however many parts it is tiled in."""

    row: Int32
    reach_ns: Int64
    """The latest end so far: it only grows, so that what ended before an instant is found by bisection."""

    def between(self, trace: Trace, low_ns: int, high_ns: int) -> Int32:
        """The rows that reach into a span."""
        first = int(np.searchsorted(self.reach_ns, low_ns, side="right"))
        last = int(np.searchsorted(self.row, np.searchsorted(trace.start_ns, high_ns)))
        rows = self.row[first:last]
        return rows[trace.start_ns[rows] + trace.dur_ns[rows] > low_ns]


def find_lanes(trace: Trace, thread: int) -> tuple[ThreadLane, ...]:
    """The driving thread first, then those on which the backward pass runs."""
    is_host = is_of(trace.kind, _HOST_KINDS) & (trace.dur_ns > 0)
    return tuple(_lane(trace, is_host, one) for one in (thread, *_backward_threads(trace, thread)))


def _lane(trace: Trace, is_host: npt.NDArray[np.bool_], thread: int) -> ThreadLane:
    rows = np.flatnonzero(is_host & (trace.thread == thread))
    end = trace.start_ns[rows] + trace.dur_ns[rows]
    return ThreadLane(rows.astype(np.int32), np.maximum.accumulate(end, out=end))


def tile_steps(trace: Trace, steps: Steps, lanes: tuple[ThreadLane, ...] | None = None) -> Timeline:
    """Tile each step with the innermost event on its thread, and with the backward pass where that runs elsewhere."""
    lanes = find_lanes(trace, steps.thread) if lanes is None else lanes
    low, high = int(steps.start_ns[0]), int(steps.end_ns[-1])
    own, misnested = _flatten(trace, lanes[0].between(trace, low, high))
    starts, ends, rows, which = _clip(own, steps)
    for lane in lanes[1:]:
        other, more = _flatten(trace, lane.between(trace, low, high))
        misnested += more
        starts, ends, rows, which = _overlay(trace, (starts, ends, rows, which), other)
    return Timeline(which, starts, ends, rows, misnested)


def conserved(timeline: Timeline, steps: Steps) -> bool:
    """Whether the stretches of each step add up to its wall time, to the nanosecond."""
    spent = np.zeros(len(steps), dtype=np.int64)
    np.add.at(spent, timeline.step, timeline.dur_ns)
    return bool((spent == steps.end_ns - steps.start_ns).all() and (timeline.dur_ns >= 0).all())


_Tiles = tuple[Int64, Int64, Int64]


def _backward_threads(trace: Trace, main: int) -> list[int]:
    """Threads on which the autograd engine works; the driving thread waits for them without an event of its own."""
    engine = np.array([name.startswith("autograd::engine::evaluate_function") for name in trace.names], dtype=bool)
    if not engine.any():
        return []
    rows = trace.rows_of(EventKind.OPERATOR)
    threads = distinct(trace.thread[rows[engine[trace.name[rows]]]])
    return [int(thread) for thread in threads if thread != main]


def _flatten(trace: Trace, rows: Int32) -> tuple[_Tiles, int]:
    """Non-overlapping stretches, each with its innermost event. Rows come ordered by start, longest first."""
    start = trace.start_ns[rows]
    end = start + trace.dur_ns[rows]
    parent, end, misnested = nest_events(start, end)
    # Boundaries in time order; of those at one instant, inner events end first, and outer ones begin first.
    when = np.concatenate((end[::-1], start))
    order = np.argsort(when, kind="stable")
    count = len(rows)
    at = np.concatenate((parent[::-1], np.arange(count)))[order]
    when = when[order]
    keep = (when[1:] > when[:-1]) & (at[:-1] != NONE)
    return (when[:-1][keep], when[1:][keep], rows[at[:-1][keep]].astype(np.int64)), misnested


def nest_events(start: Int64, end: Int64) -> tuple[Int64, Int64, int]:
    """The event around each (or NONE), ends cut to it, and how many outlasted it by more than the slack."""
    misnested = 0
    while True:
        parent = _parents(start, end)
        limit = np.where(parent != NONE, end[parent], end)
        if (limit <= start).any():
            return _nest_one_by_one(start, end, misnested)
        over = end - limit
        if not (over > 0).any():
            return parent, end, misnested
        misnested += int((over > NESTING_SLACK_NS).sum())
        end = np.minimum(end, limit)  # a cut can free events that began in the overhang: look again


def _nest_one_by_one(start: Int64, end: Int64, misnested: int) -> tuple[Int64, Int64, int]:
    """The same for events that cross each other, where no level can be trusted."""
    parent = np.full(len(start), NONE, dtype=np.int64)
    ends = end.tolist()
    stack: list[int] = []
    for i, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack:
            parent[i] = stack[-1]
            misnested += ends[i] - ends[stack[-1]] > NESTING_SLACK_NS
            ends[i] = min(ends[i], ends[stack[-1]])
        stack.append(i)
    return parent, np.array(ends, dtype=np.int64), misnested


def _parents(start: Int64, end: Int64) -> Int64:
    """The innermost event open when each begins, level by level."""
    count = len(start)
    # Of the events before it, those that have ended are not around it.
    depth = np.arange(count) - np.searchsorted(np.sort(end, kind="stable"), start, side="right")
    parent = np.full(count, NONE, dtype=np.int64)
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    for level in range(1, len(edges) - 1):
        outer, inner = order[edges[level - 1] : edges[level]], order[edges[level] : edges[level + 1]]
        parent[inner] = outer[np.searchsorted(outer, inner) - 1]
    return parent


def _clip(tiles: _Tiles, steps: Steps) -> tuple[Int64, Int64, Int64, Int64]:
    """Tiles cut to the steps, and the uncovered rest of each step filled with NONE."""
    starts, ends, owner = tiles
    out: list[tuple[Int64, Int64, Int64, Int64]] = []
    for i in range(len(steps)):
        low, high = int(steps.start_ns[i]), int(steps.end_ns[i])
        first = int(np.searchsorted(ends, low, side="right"))
        last = int(np.searchsorted(starts, high, side="left"))
        begin = np.clip(starts[first:last], low, high)
        end = np.clip(ends[first:last], low, high)
        # Interleave each tile with the gap before it, and close with the gap after the last.
        edges_from = np.concatenate(([low], end))
        edges_to = np.concatenate((begin, [high]))
        begin_all = np.empty(2 * len(begin) + 1, dtype=np.int64)
        end_all = np.empty_like(begin_all)
        row_all = np.full_like(begin_all, NONE)
        begin_all[0::2], end_all[0::2] = edges_from, edges_to
        begin_all[1::2], end_all[1::2], row_all[1::2] = begin, end, owner[first:last]
        keep = end_all > begin_all
        out.append((begin_all[keep], end_all[keep], row_all[keep], np.full(int(keep.sum()), i, dtype=np.int64)))
    return (
        np.concatenate([part[0] for part in out]),
        np.concatenate([part[1] for part in out]),
        np.concatenate([part[2] for part in out]),
        np.concatenate([part[3] for part in out]),
    )


def _overlay(trace: Trace, base: tuple[Int64, Int64, Int64, Int64], other: _Tiles) -> tuple[Int64, Int64, Int64, Int64]:
    """Where the driving thread shows no operator, the other thread's events take the time they cover."""
    starts, ends, rows, which = base
    awaits_input = np.array([is_input(name) for name in trace.names], dtype=bool)
    waiting = (rows == NONE) | ((trace.kind[rows] == EventKind.ANNOTATION) & ~awaits_input[trace.name[rows]])
    out: list[tuple[int, int, int, int]] = []
    for low, high, row, step, waits in zip(
        starts.tolist(), ends.tolist(), rows.tolist(), which.tolist(), waiting.tolist(), strict=True
    ):
        if not waits:
            out.append((low, high, row, step))
            continue
        at = low
        first = int(np.searchsorted(other[1], low, side="right"))
        last = int(np.searchsorted(other[0], high, side="left"))
        for i in range(first, last):
            begin, end = max(low, int(other[0][i])), min(high, int(other[1][i]))
            if begin > at:
                out.append((at, begin, row, step))
            if end > begin:
                out.append((begin, end, int(other[2][i]), step))
                at = end
        if high > at:
            out.append((at, high, row, step))
    array = np.array(out, dtype=np.int64).reshape(-1, 4)
    return array[:, 0], array[:, 1], array[:, 2], array[:, 3]
