"""Every nanosecond of a step to exactly one event: the innermost one at work on the thread that drives the step.

Worker threads add no wall time. Where the driving thread waits for another one that runs the backward pass, the time
belongs to what runs there. Stretches with no event keep the number of the event before them, or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lynxbench.attribute.read.trace import (
    HOST_KINDS,
    NONE,
    EventKind,
    Flags,
    Int32,
    Int64,
    Trace,
    distinct,
    flatten_events,
    is_of,
)
from lynxbench.attribute.tile.steps import Steps, is_input


class Tiles(NamedTuple):
    """Rows at work, each over a stretch of its own: in time order, and apart."""

    start_ns: Int64
    end_ns: Int64
    row: Int64

    def at(self, when_ns: Int64) -> Int64:
        """The row at work at each instant, or NONE."""
        if not len(self.row):
            return np.full(len(when_ns), NONE, dtype=np.int64)
        last = np.maximum(np.searchsorted(self.start_ns, when_ns, side="right") - 1, 0)
        held = (when_ns >= self.start_ns[last]) & (when_ns < self.end_ns[last])
        return np.where(held, self.row[last], NONE)


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches that tile every step exactly, in order: step, bounds, and the row at work (or NONE)."""

    step: Int64
    start_ns: Int64
    end_ns: Int64
    row: Int64

    @classmethod
    def of(cls, tiles: Tiles, steps: Steps) -> Stretches:
        """Every instant of every step: the row at work, or NONE."""
        edges = distinct(np.concatenate((steps.start_ns, steps.end_ns, tiles.start_ns, tiles.end_ns)))
        start, end = edges[:-1], edges[1:]
        step = np.searchsorted(steps.start_ns, start, side="right") - 1
        keep = (step >= 0) & (start < steps.end_ns[np.maximum(step, 0)])
        return cls(step[keep], start[keep], end[keep], tiles.at(start[keep]))

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

    def cut(self, flag: Flags, at_ns: Int64) -> tuple[Stretches, Int64]:
        """Flagged stretches cut at some instants, the others as they are; and of each piece the stretch it is of."""
        of = np.searchsorted(self.start_ns, at_ns, side="right") - 1
        inside = (of >= 0) & flag[of] & (at_ns > self.start_ns[of]) & (at_ns < self.end_ns[of])
        start = np.concatenate((self.start_ns, at_ns[inside]))
        order = np.argsort(start, kind="stable")
        start, of = start[order], np.concatenate((np.arange(len(self.row)), of[inside]))[order]
        end = np.minimum(np.concatenate((start[1:], self.end_ns[-1:])), self.end_ns[of])
        return Stretches(self.step[of], start, end, self.row[of]), of


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
    # The autograd engine works on threads of its own; the driving one waits for them without an event of its own.
    engine = trace.rows_named(lambda name: name.startswith("autograd::engine::evaluate_function"), EventKind.OPERATOR)
    others = (number for number in distinct(trace.thread[engine]).tolist() if number != thread)
    lanes = []
    for number in (thread, *others):
        rows = np.flatnonzero(is_host & (trace.thread == number))
        lanes.append(
            ThreadLane(rows.astype(np.int32), np.maximum.accumulate(trace.start_ns[rows] + trace.dur_ns[rows]))
        )
    return tuple(lanes)


def tile_host(trace: Trace, steps: Steps, lanes: tuple[ThreadLane, ...] | None = None) -> tuple[Stretches, int]:
    """Each step by the innermost event on its thread, and by the backward pass where that runs elsewhere.

    With it comes how many events outlasted the one around them and were cut: a sign of a damaged clock.
    """
    lanes = find_lanes(trace, steps.thread) if lanes is None else lanes
    low, high = int(steps.start_ns[0]), int(steps.end_ns[-1])
    own, misnested = _flatten(trace, lanes[0].between(trace, low, high))
    stretches = Stretches.of(own, steps)
    for lane in lanes[1:]:
        other, more = _flatten(trace, lane.between(trace, low, high))
        misnested += more
        stretches = _overlay(trace, stretches, other)
    return stretches, misnested


def _flatten(trace: Trace, rows: Int32) -> tuple[Tiles, int]:
    """Non-overlapping stretches, each with its innermost event. Rows come ordered by start, longest first."""
    begins, ends, at, misnested = flatten_events(trace.start_ns[rows], trace.start_ns[rows] + trace.dur_ns[rows])
    return Tiles(begins, ends, rows[at].astype(np.int64)), misnested


def _overlay(trace: Trace, base: Stretches, other: Tiles) -> Stretches:
    """Where the driving thread shows no operator, the other thread's events take the time they cover."""
    awaits_input = trace.names_where(is_input)[trace.name[base.row]]
    waiting = (base.row == NONE) | ((trace.kind[base.row] == EventKind.ANNOTATION) & ~awaits_input)
    pieces, of = base.cut(waiting, distinct(np.concatenate((other.start_ns, other.end_ns))))
    row = np.where(waiting[of], other.at(pieces.start_ns), NONE)
    return Stretches(pieces.step, pieces.start_ns, pieces.end_ns, np.where(row != NONE, row, pieces.row))
