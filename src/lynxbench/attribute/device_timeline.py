"""The device's side of a step: which activity runs at each instant, and what the host does where none runs.

A host range is not the step: the device works on behind it. A step's window ends when the last activity launched in it
ends, and begins where the window before it ended, so that windows follow each other without a gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.kernels import kernel_kind
from lynxbench.attribute.operators import OperatorKind
from lynxbench.attribute.step_finding import Steps, find_period
from lynxbench.attribute.trace_columns import DEVICE_KINDS, NONE, EventKind, Int64, Trace, distinct


@dataclass(frozen=True, slots=True)
class Activities:
    """Device rows in time order, with the row of the host call that launched each, or NONE."""

    row: Int64
    launched_by: Int64
    step: Int64
    """The step whose host range holds the launch, or NONE."""


@dataclass(frozen=True, slots=True)
class DeviceTiles:
    """Stretches that tile each window: the device row at work, or NONE."""

    step: Int64
    start_ns: Int64
    end_ns: Int64
    row: Int64

    @property
    def dur_ns(self) -> Int64:
        """How long each stretch is."""
        return self.end_ns - self.start_ns


def link_activities(trace: Trace, steps: Steps) -> Activities:
    """Each device activity with its launch, by correlation; the newest call of a correlation wins."""
    rows = trace.rows_of(*DEVICE_KINDS)
    calls = trace.rows_of(EventKind.RUNTIME)
    calls = calls[trace.correlation[calls] != NONE]
    order = np.argsort(trace.correlation[calls], kind="stable")
    keys = trace.correlation[calls][order]
    launched = np.full(len(rows), NONE, dtype=np.int64)
    if len(keys):
        at = np.minimum(np.searchsorted(keys, trace.correlation[rows]), len(keys) - 1)
        found = keys[at] == trace.correlation[rows]
        launched[found] = calls[order][at[found]]
    when = np.where(launched != NONE, trace.start_ns[launched], trace.start_ns[rows])
    step = np.searchsorted(steps.start_ns, when, side="right") - 1
    outside = (step < 0) | (when >= steps.end_ns[np.maximum(step, 0)])
    return Activities(rows.astype(np.int64), launched, np.where(outside, NONE, step))


def device_windows(trace: Trace, steps: Steps, activities: Activities) -> Steps | None:
    """Windows between the ends of successive steps' device work; None where fewer than two steps have any."""
    count = len(steps)
    last = np.full(count, -1, dtype=np.int64)
    inside = activities.step != NONE
    np.maximum.at(last, activities.step[inside], trace.end_ns[activities.row[inside]])
    last = last[last >= 0]
    if len(last) < 2:
        return None
    last = np.maximum.accumulate(last)
    keep = last[1:] > last[:-1]
    if not keep.any():
        return None
    how = f"{steps.how}, taken on the device"
    return Steps(steps.thread, last[:-1][keep], last[1:][keep], how, steps.dropped + 1)


def repeating_steps(trace: Trace) -> Steps | None:
    """Steps of a trace without marks, by the repetition of the device's activities; ranges are of their launches."""
    rows = trace.rows_of(*DEVICE_KINDS)
    period = find_period(trace.name[rows])
    if period is None or len(rows) // period < 2:
        return None
    count = len(rows) // period
    start = trace.start_ns[rows[np.arange(count) * period]]
    last = trace.end_ns[rows[np.arange(1, count + 1) * period - 1]]
    thread = int(np.bincount(trace.thread[trace.rows_of(EventKind.RUNTIME, EventKind.OPERATOR)]).argmax())
    how = f"found by repetition: {count} runs of the same {period} device activities"
    return Steps(thread, np.minimum.accumulate(start[::-1])[::-1], np.maximum.accumulate(last), how, 0)


def tile_device(trace: Trace, windows: Steps, activities: Activities) -> DeviceTiles:
    """Kernels first, then collectives and copies where no kernel runs: what is exposed is what counts."""
    kind = trace.kind[activities.row]
    collective = np.array([kernel_kind(name) is OperatorKind.COMMUNICATION for name in trace.names], dtype=bool)
    is_kernel = kind == EventKind.KERNEL
    talks = is_kernel & collective[trace.name[activities.row]]
    tiles = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    for lane in (is_kernel & ~talks, kind == EventKind.MEMCPY, talks, kind == EventKind.MEMSET):
        tiles = _fill(tiles, _apart(trace, activities.row[lane]))
    return _cut_to_windows(tiles, windows)


_Tiles = tuple[Int64, Int64, Int64]


def _apart(trace: Trace, rows: Int64) -> _Tiles:
    """Rows as stretches that do not overlap: where two run at once, the one that began first keeps the time."""
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    if not len(rows):
        return start, end, rows
    before = np.concatenate(([start[0]], np.maximum.accumulate(end)[:-1]))
    start = np.maximum(start, before)
    keep = end > start
    return start[keep], end[keep], rows[keep]


def _fill(tiles: _Tiles, more: _Tiles) -> _Tiles:
    """`tiles`, and of `more` what they leave free."""
    if not len(tiles[0]) or not len(more[0]):
        return tiles if len(tiles[0]) else more
    edges = distinct(np.concatenate((tiles[0], tiles[1], more[0], more[1])))
    low, high = edges[:-1], edges[1:]
    first, second = _owner(tiles, low), _owner(more, low)
    row = np.where(first != NONE, first, second)
    keep = row != NONE
    return low[keep], high[keep], row[keep]


def _owner(tiles: _Tiles, at_ns: Int64) -> Int64:
    at = np.searchsorted(tiles[0], at_ns, side="right") - 1
    held = (at >= 0) & (at_ns < tiles[1][np.maximum(at, 0)])
    return np.where(held, tiles[2][np.maximum(at, 0)], NONE)


def _cut_to_windows(tiles: _Tiles, windows: Steps) -> DeviceTiles:
    """Every instant of every window: a device row, or NONE."""
    edges = distinct(np.concatenate((windows.start_ns, windows.end_ns, tiles[0], tiles[1])))
    low, high = edges[:-1], edges[1:]
    step = np.searchsorted(windows.start_ns, low, side="right") - 1
    keep = (step >= 0) & (low < windows.end_ns[np.maximum(step, 0)])
    row = _owner(tiles, low) if len(tiles[0]) else np.full(len(low), NONE, dtype=np.int64)
    return DeviceTiles(step[keep], low[keep], high[keep], row[keep])


def split_by_host(tiles: DeviceTiles, start_ns: Int64, row: Int64) -> tuple[DeviceTiles, Int64]:
    """Idle tiles cut at the host's stretches (which tile the same windows), with the host row at the start of each."""
    at = np.searchsorted(tiles.start_ns, start_ns, side="right") - 1
    inside = (at >= 0) & (tiles.row[at] == NONE) & (start_ns > tiles.start_ns[at]) & (start_ns < tiles.end_ns[at])
    cuts, of = start_ns[inside], at[inside]
    low = np.concatenate((tiles.start_ns, cuts))
    order = np.argsort(low, kind="stable")
    low = low[order]
    of = np.concatenate((np.arange(len(tiles.row)), of))[order]
    high = np.minimum(np.concatenate((low[1:], tiles.end_ns[-1:])), tiles.end_ns[of])
    host: npt.NDArray[np.int64] = row[np.maximum(np.searchsorted(start_ns, low, side="right") - 1, 0)]
    return DeviceTiles(tiles.step[of], low, high, tiles.row[of]), host
