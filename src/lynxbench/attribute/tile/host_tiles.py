"""Every nanosecond of a step to exactly one event: the innermost one at work on the thread that drives the step.

Worker threads add no wall time. Where the driving thread waits for another one that runs the backward pass, the time
belongs to what runs there. Stretches with no event keep the number of the event before them, or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.read.trace_columns import (
    HOST_KINDS,
    NONE,
    EventKind,
    Flags,
    Int32,
    Int64,
    Trace,
    distinct,
    is_of,
    nest_events,
)
from lynxbench.attribute.tile.steps import Steps, is_input


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches that tile every step exactly, in order: step, bounds, and the row at work (or NONE)."""

    step: Int64
    start_ns: Int64
    end_ns: Int64
    row: Int64

    @property
    def dur_ns(self) -> Int64:
        """How long each stretch is."""
        return self.end_ns - self.start_ns

    def fill(self, steps: Steps) -> bool:
        """Whether the stretches of each step add up to its wall time, to the nanosecond."""
        spent = np.zeros(len(steps), dtype=np.int64)
        np.add.at(spent, self.step, self.dur_ns)
        return bool((spent == steps.wall_ns).all() and (self.dur_ns >= 0).all())

    def opens_step(self) -> Flags:
        """Which stretches are the first of their step."""
        return np.concatenate(([True], self.step[1:] != self.step[:-1]))

    def runs(self, flag: Flags) -> tuple[Int64, Int64, Int64]:
        """Neighbouring flagged stretches of one step as runs: each stretch's run, the first of each, their lengths."""
        opens = flag & (self.opens_step() | np.concatenate(([True], ~flag[:-1])))
        number = np.cumsum(opens) - 1
        length = np.bincount(number[flag], weights=self.dur_ns[flag]).astype(np.int64)
        return number, np.flatnonzero(opens), length


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
    is_host = is_of(trace.kind, HOST_KINDS) & (trace.dur_ns > 0)
    return tuple(_lane(trace, is_host, number) for number in (thread, *_backward_threads(trace, thread)))


def _lane(trace: Trace, is_host: Flags, thread: int) -> ThreadLane:
    rows = np.flatnonzero(is_host & (trace.thread == thread))
    end = trace.start_ns[rows] + trace.dur_ns[rows]
    return ThreadLane(rows.astype(np.int32), np.maximum.accumulate(end, out=end))


def tile_host(trace: Trace, steps: Steps, lanes: tuple[ThreadLane, ...] | None = None) -> tuple[Stretches, int]:
    """Each step by the innermost event on its thread, and by the backward pass where that runs elsewhere.

    With it comes how many events outlasted the one around them and were cut: a sign of a damaged clock.
    """
    lanes = find_lanes(trace, steps.thread) if lanes is None else lanes
    low, high = int(steps.start_ns[0]), int(steps.end_ns[-1])
    own, misnested = _flatten(trace, lanes[0].between(trace, low, high))
    stretches = _clip(own, steps)
    for lane in lanes[1:]:
        other, more = _flatten(trace, lane.between(trace, low, high))
        misnested += more
        stretches = _overlay(trace, stretches, other)
    return stretches, misnested


_Tiles = tuple[Int64, Int64, Int64]


def _backward_threads(trace: Trace, main: int) -> list[int]:
    """Threads on which the autograd engine works; the driving thread waits for them without an event of its own."""
    rows = trace.rows_named(lambda name: name.startswith("autograd::engine::evaluate_function"), EventKind.OPERATOR)
    return [int(thread) for thread in distinct(trace.thread[rows]) if thread != main]


def _flatten(trace: Trace, rows: Int32) -> tuple[_Tiles, int]:
    """Non-overlapping stretches, each with its innermost event. Rows come ordered by start, longest first."""
    start = trace.start_ns[rows]
    parent, end, misnested = nest_events(start, start + trace.dur_ns[rows])
    # Boundaries in time order; of those at one instant, inner events end first, and outer ones begin first.
    when = np.concatenate((end[::-1], start))
    order = np.argsort(when, kind="stable")
    at = np.concatenate((parent[::-1], np.arange(len(rows))))[order]
    when = when[order]
    keep = (when[1:] > when[:-1]) & (at[:-1] != NONE)
    return (when[:-1][keep], when[1:][keep], rows[at[:-1][keep]].astype(np.int64)), misnested


def _clip(tiles: _Tiles, steps: Steps) -> Stretches:
    """Tiles cut to the steps, and the uncovered rest of each step filled with NONE."""
    starts, ends, owner = tiles
    parts: list[tuple[Int64, Int64, Int64, Int64]] = []
    for i in range(len(steps)):
        low, high = int(steps.start_ns[i]), int(steps.end_ns[i])
        first = int(np.searchsorted(ends, low, side="right"))
        last = int(np.searchsorted(starts, high, side="left"))
        begin = np.clip(starts[first:last], low, high)
        end = np.clip(ends[first:last], low, high)
        # Interleave each tile with the gap before it, and close with the gap after the last.
        begin_all = np.empty(2 * len(begin) + 1, dtype=np.int64)
        end_all = np.empty_like(begin_all)
        row_all = np.full_like(begin_all, NONE)
        begin_all[0::2], end_all[0::2] = np.concatenate(([low], end)), np.concatenate((begin, [high]))
        begin_all[1::2], end_all[1::2], row_all[1::2] = begin, end, owner[first:last]
        keep = end_all > begin_all
        parts.append((np.full(int(keep.sum()), i, dtype=np.int64), begin_all[keep], end_all[keep], row_all[keep]))
    return Stretches(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _overlay(trace: Trace, base: Stretches, other: _Tiles) -> Stretches:
    """Where the driving thread shows no operator, the other thread's events take the time they cover."""
    awaits_input = trace.names_where(is_input)
    waiting = (base.row == NONE) | (
        (trace.kind[base.row] == EventKind.ANNOTATION) & ~awaits_input[trace.name[base.row]]
    )
    columns = (base.step, base.start_ns, base.end_ns, base.row, waiting)
    out: list[tuple[int, int, int, int]] = []
    for step, low, high, row, waits in zip(*(column.tolist() for column in columns), strict=True):
        if not waits:
            out.append((step, low, high, row))
            continue
        at = low
        first = int(np.searchsorted(other[1], low, side="right"))
        last = int(np.searchsorted(other[0], high, side="left"))
        for i in range(first, last):
            begin, end = max(low, int(other[0][i])), min(high, int(other[1][i]))
            if begin > at:
                out.append((step, at, begin, row))
            if end > begin:
                out.append((step, begin, end, int(other[2][i])))
                at = end
        if high > at:
            out.append((step, at, high, row))
    return Stretches(*np.array(out, dtype=np.int64).reshape(-1, 4).T)
