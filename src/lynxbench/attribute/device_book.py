"""A book of exclusive times for a trace with an accelerator: its activities, and the causes of its idle time."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.accounting import CATEGORIES, LONG_GAP_NS, HostGaps, OperatorGroup, Tiles, TimeBook
from lynxbench.attribute.counters import Counted, count_by_name
from lynxbench.attribute.device_timeline import (
    Activities,
    DeviceTiles,
    device_windows,
    link_activities,
    repeating_steps,
    split_by_host,
    tile_device,
)
from lynxbench.attribute.kernels import is_skinny, kernel_kind
from lynxbench.attribute.operator_work import estimate_work
from lynxbench.attribute.operators import OperatorKind, operator_kind
from lynxbench.attribute.roofline import Ceilings, attain
from lynxbench.attribute.step_finding import Steps, find_steps, is_input
from lynxbench.attribute.timeline import ThreadLane, find_lanes, tile_steps
from lynxbench.attribute.trace_columns import NONE, EventKind, Int64, Trace, distinct, is_of
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category

EVENTS_AT_ONCE = 50_000
REPLAY_GAP_NS = 1_000.0
"""What the device still idles between two kernels of a replayed graph (0.8 to 1.3 µs on Hopper)."""

_SYNC_CALL = re.compile(r"Synchronize|EventQuery|StreamWait|StreamQuery")
_ALLOCATION_CALL = re.compile(r"Malloc|Free|HostAlloc|HostRegister|MemCreate|MemMap|MemUnmap|MemRelease|AddressReserve")
_COPY_CALL = re.compile(r"Memcpy")
_SYNC_OPERATOR = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero"})
_CODE: dict[Category, int] = {category: i for i, category in enumerate(CATEGORIES)}


def keep_device_book(trace: Trace, ceilings: Ceilings) -> tuple[TimeBook, Steps]:
    """The book of a trace with device work, and the windows it is about."""
    steps = find_steps(trace)
    if not steps.annotated:
        steps = repeating_steps(trace) or steps
    activities = link_activities(trace, steps)
    windows = device_windows(trace, steps, activities) or steps
    tiles = tile_device(trace, windows, activities)
    host = _look_at_host(trace, activities, steps.thread)
    pieces, idle, misnested = _join([_idle_causes(trace, host, tiles, part) for part in _parts(trace, windows)])
    groups, row_code, row_group = _group(trace, activities, pieces, ceilings)
    busy = pieces.row != NONE
    code = np.where(busy, row_code[pieces.row], idle)
    spent = np.zeros((len(windows), len(CATEGORIES)), dtype=np.int64)
    np.add.at(spent, (pieces.step, code), pieces.dur_ns)
    wall = windows.end_ns - windows.start_ns
    if (spent.sum(axis=1) != wall).any():
        raise BadInput(f"{trace.source}: the time of its steps cannot be tiled; its stamps are damaged")
    last = pieces.row[busy & (pieces.step == len(windows) - 1)]
    count = max(1, len(windows))
    book = TimeBook(
        wall_ns=wall,
        spent_ns=spent,
        events=_host_events(trace, windows),
        groups=groups,
        gaps=_gaps(pieces, busy),
        operators_per_step=sum(group.calls for group in groups) / count,
        misnested=misnested,
        sequence=tuple(row_group[distinct(last)].tolist()),
        stalled_ns=0.0,
        residual_ns={Category.LAUNCH: sum(group.calls for group in groups) / count * REPLAY_GAP_NS},
        tiles=Tiles(pieces.step, pieces.start_ns, pieces.end_ns, code, pieces.row),
    )
    return book, windows


def _parts(trace: Trace, windows: Steps) -> list[tuple[int, Steps]]:
    """Runs of windows with some ten thousand events each: what is worked out at once stays small for any trace."""
    seen = np.searchsorted(trace.start_ns, windows.end_ns)
    part = (seen - seen[0]) // EVENTS_AT_ONCE
    edges = np.flatnonzero(np.diff(part, prepend=-1)).tolist()
    return [
        (low, Steps(windows.thread, windows.start_ns[low:high], windows.end_ns[low:high], windows.how, 0))
        for low, high in pairwise([*edges, len(windows)])
    ]


_Causes = tuple[DeviceTiles, Int64, int]


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Ranges in time order, with the latest end so far: what holds an instant is found by bisection."""

    start_ns: Int64
    reach_ns: Int64

    def hold(self, at_ns: Int64) -> npt.NDArray[np.bool_]:
        """Which instants lie within one of the ranges."""
        if not len(self.start_ns):
            return np.zeros(len(at_ns), dtype=bool)
        at = np.searchsorted(self.start_ns, at_ns, side="right") - 1
        inside: npt.NDArray[np.bool_] = (at >= 0) & (at_ns < self.reach_ns[np.maximum(at, 0)])
        return inside


@dataclass(frozen=True, slots=True)
class _Host:
    """What the causes of idle time are read from, found once for the whole trace."""

    lanes: tuple[ThreadLane, ...]
    code_of_name: Int64
    """What a runtime call of each name means for the device that idles meanwhile."""
    input: _Ranges
    waits: _Ranges
    activity_ns: Int64
    ready_ns: Int64
    """When each activity had been launched; never where its launch is not known."""


def _look_at_host(trace: Trace, activities: Activities, thread: int) -> _Host:
    launch = activities.launched_by
    end = trace.start_ns[launch] + trace.dur_ns[launch]
    return _Host(
        lanes=find_lanes(trace, thread),
        code_of_name=np.array([_call_code(name) for name in trace.names], dtype=np.int64),
        input=_named_ranges(trace, is_input),
        waits=_named_ranges(trace, lambda name: name in _SYNC_OPERATOR),
        activity_ns=trace.start_ns[activities.row],
        ready_ns=np.where(launch != NONE, end, np.iinfo(np.int64).max),
    )


def _call_code(name: str) -> int:
    if _SYNC_CALL.search(name):
        return _CODE[Category.SYNCHRONIZATION]
    if _COPY_CALL.search(name):
        return _CODE[Category.TRANSFER]
    return _CODE[Category.ALLOCATOR if _ALLOCATION_CALL.search(name) else Category.LAUNCH]


def _named_ranges(trace: Trace, wanted: Callable[[str], bool]) -> _Ranges:
    """The host's ranges and operators of a wanted name."""
    named = np.array([wanted(name) for name in trace.names], dtype=bool)
    rows = np.flatnonzero(named[trace.name] & is_of(trace.kind, (EventKind.ANNOTATION, EventKind.OPERATOR)))
    start = trace.start_ns[rows]
    return _Ranges(start, np.maximum.accumulate(start + trace.dur_ns[rows]))


def _idle_causes(trace: Trace, known: _Host, tiles: DeviceTiles, part: tuple[int, Steps]) -> _Causes:
    """The device's tiles of some windows, idle ones cut where the cause changes, with the causes."""
    first, windows = part
    low, high = np.searchsorted(tiles.step, (first, first + len(windows)))
    mine = DeviceTiles(*(column[low:high] for column in (tiles.step, tiles.start_ns, tiles.end_ns, tiles.row)))
    host = tile_steps(trace, windows, known.lanes)
    # The host only matters where the device idles: elsewhere its edges would cut for nothing.
    pieces, host_row = split_by_host(mine, host.start_ns, host.row)
    idle = _idle_codes(trace, known, pieces, host_row)
    # Work was queued and the device did not take it up yet: its own start-up, whatever the host waits for meanwhile.
    idle[_queued(known, pieces)] = _CODE[Category.LAUNCH]
    idle[pieces.row != NONE] = NONE
    opens = np.ones(len(idle), dtype=bool)
    changes = [column[1:] != column[:-1] for column in (pieces.step, pieces.row, idle)]
    opens[1:] = changes[0] | changes[1] | changes[2]
    begins = np.flatnonzero(opens)
    ends = np.concatenate((begins[1:], [len(idle)])) - 1
    joined = DeviceTiles(pieces.step[begins], pieces.start_ns[begins], pieces.end_ns[ends], pieces.row[begins])
    return joined, idle[begins], host.misnested


def _join(parts: list[_Causes]) -> _Causes:
    columns = [(p.step, p.start_ns, p.end_ns, p.row, idle) for p, idle, _ in parts]
    step, start, end, row, idle = (np.concatenate(column) for column in zip(*columns, strict=True))
    return DeviceTiles(step, start, end, row), idle, sum(misnested for _, _, misnested in parts)


def _operator_of(trace: Trace, activities: Activities) -> Int64:
    """The operator that launched each activity, by the profiler's external id; the innermost carries it."""
    rows = trace.rows_of(EventKind.OPERATOR)
    rows = rows[trace.external[rows] != NONE]
    order = np.argsort(trace.external[rows], kind="stable")
    keys = trace.external[rows][order]
    found = np.full(len(activities.row), NONE, dtype=np.int64)
    if not len(keys):
        return found
    mine = trace.external[activities.row]
    at = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
    hit = (keys[at] == mine) & (mine != NONE)
    found[hit] = rows[order][at[hit]]
    return found


def _group(
    trace: Trace, activities: Activities, pieces: DeviceTiles, ceilings: Ceilings
) -> tuple[tuple[OperatorGroup, ...], Int64, Int64]:
    """Activities grouped by operator, operands and kernel; of every row its category and group."""
    busy = pieces.row != NONE
    own = np.bincount(pieces.row[busy], weights=pieces.dur_ns[busy], minlength=len(trace)).astype(np.int64)
    operator = np.full(len(trace), NONE, dtype=np.int64)
    operator[activities.row] = _operator_of(trace, activities)
    rows = distinct(pieces.row[busy])
    heavy = _heaviest(rows, operator[rows], own[rows])
    counted = _counted(trace)
    found: list[tuple[OperatorGroup, Int64]] = []
    for members in _alike(trace, rows, operator[rows], heavy):
        first = int(members[0])
        by = int(operator[first])
        name, signature = (int(trace.name[by]), int(trace.signature[by])) if by != NONE else (NONE, NONE)
        leads = bool(heavy[np.searchsorted(rows, first)])
        kernel, kind = int(trace.name[first]), int(trace.kind[first])
        group = _classify(trace, name, signature, kernel, leads, kind, own[members], ceilings)
        group = _as_counted(group, counted.get(kernel) if kind == EventKind.KERNEL else None)
        found.append((group, members))
    found.sort(key=lambda pair: (-pair[0].self_ns, pair[0].name))
    code = np.full(len(trace), _CODE[Category.UNATTRIBUTED], dtype=np.int64)
    number = np.full(len(trace), NONE, dtype=np.int64)
    for i, (group, members) in enumerate(found):
        code[members] = _CODE[group.category]
        number[members] = i
    return tuple(group for group, _ in found), code, number


def _alike(trace: Trace, rows: Int64, operator: Int64, heavy: npt.NDArray[np.bool_]) -> list[Int64]:
    """Rows of the same operator, operands, kernel and role together, in the order in which they first came."""
    if not len(rows):
        return []
    by = np.maximum(operator, 0)
    known = operator != NONE
    called = np.where(known, trace.name[by], NONE)
    operands = np.where(known, trace.signature[by], NONE)
    keys = (heavy, trace.name[rows], operands, called)
    order = np.lexsort((rows, *keys))
    opens = np.zeros(len(rows), dtype=bool)
    for key in keys:
        opens[1:] |= key[order][1:] != key[order][:-1]
    groups: list[Int64] = np.split(rows[order], np.flatnonzero(opens))
    return sorted(groups, key=lambda members: int(members[0]))


def _heaviest(rows: npt.NDArray[np.int64], operator: Int64, took: Int64) -> npt.NDArray[np.bool_]:
    """Of the activities of one operator call, the longest carries the operator's work; the others serve it."""
    order = np.lexsort((rows, -took, operator))
    first = np.concatenate(([True], operator[order][1:] != operator[order][:-1]))
    out = np.zeros(len(rows), dtype=bool)
    out[order[first]] = True
    out &= operator != NONE
    return out


def _classify(
    trace: Trace, name: int, signature: int, kernel: int, leads: bool, kind_code: int, took: Int64, ceilings: Ceilings
) -> OperatorGroup:
    text = trace.names[kernel]
    label = trace.names[name] if name != NONE else text
    total = int(took.sum())
    if kind_code == EventKind.MEMCPY:
        across = "DtoD" not in text
        category = Category.TRANSFER if across else Category.MEMORY_BANDWIDTH
        return OperatorGroup(text, OperatorKind.COPY, category, len(took), total, None, None)
    if kind_code == EventKind.MEMSET:
        return OperatorGroup(text, OperatorKind.DISPATCH, Category.MEMORY_BANDWIDTH, len(took), total, None, None)
    by_kernel = kernel_kind(text)
    if by_kernel is OperatorKind.COMPILED:
        return OperatorGroup(text, by_kernel, Category.UNATTRIBUTED, len(took), total, None, None)
    if by_kernel is OperatorKind.COMMUNICATION:
        return OperatorGroup(text, by_kernel, Category.COMMUNICATION, len(took), total, None, None)
    kind = operator_kind(label) if name != NONE else by_kernel
    if kind in (OperatorKind.DISPATCH, OperatorKind.FOREIGN, OperatorKind.ALLOCATION, OperatorKind.COMPILED):
        kind = by_kernel
    work = estimate_work(label, kind, trace.signatures[signature]) if leads and signature != NONE else None
    best = attain(work, ceilings) if work is not None else None
    if best is not None:
        category = best.bound
    elif kind is OperatorKind.PRODUCT and by_kernel is OperatorKind.PRODUCT and not is_skinny(text):
        category = Category.COMPUTE
    else:
        category = Category.MEMORY_BANDWIDTH
    attainable = best.ns * len(took) if best is not None and best.exact else None
    return OperatorGroup(label, kind, category, len(took), total, work, attainable)


def _counted(trace: Trace) -> dict[int, Counted]:
    if trace.counters is None:
        return {}
    kernels = trace.rows_of(EventKind.KERNEL)
    return count_by_name(trace.counters, trace.start_ns[kernels], trace.dur_ns[kernels], trace.name[kernels])


def _as_counted(group: OperatorGroup, counted: Counted | None) -> OperatorGroup:
    """Counters decide between arithmetic and memory, and how near its ceiling a kernel ran."""
    if counted is None or group.category not in (Category.COMPUTE, Category.MEMORY_BANDWIDTH, Category.UNATTRIBUTED):
        return group
    category = Category.COMPUTE if counted.arithmetic_binds else Category.MEMORY_BANDWIDTH
    return dataclasses.replace(group, category=category, attainable_ns=group.self_ns * counted.reached)


def _idle_codes(trace: Trace, known: _Host, pieces: DeviceTiles, host: Int64) -> Int64:
    """What the host does while the device idles."""
    kind = trace.kind[host]
    runtime = (host != NONE) & (kind == EventKind.RUNTIME)
    code = np.where(runtime, known.code_of_name[trace.name[host]], _CODE[Category.LAUNCH])
    awaited = known.input.hold(pieces.start_ns)
    silent = ((host == NONE) | (kind == EventKind.ANNOTATION)) & ~awaited
    code[_long_silence(pieces, silent)] = _CODE[Category.IDLE]
    code[_leading_silence(pieces, silent) & (code == _CODE[Category.IDLE])] = _CODE[Category.INPUT]
    code[known.waits.hold(pieces.start_ns)] = _CODE[Category.SYNCHRONIZATION]
    code[awaited] = _CODE[Category.INPUT]
    return code


def _queued(host: _Host, pieces: DeviceTiles) -> npt.NDArray[np.bool_]:
    """Idle stretches whose next activity had already been launched when they began."""
    count = len(host.activity_ns)
    if not count:
        return np.zeros(len(pieces.row), dtype=bool)
    following = np.searchsorted(host.activity_ns, pieces.start_ns, side="left")
    out: npt.NDArray[np.bool_] = (following < count) & (
        host.ready_ns[np.minimum(following, count - 1)] <= pieces.start_ns
    )
    return out


def _runs(pieces: DeviceTiles, flag: npt.NDArray[np.bool_]) -> tuple[Int64, Int64]:
    """Number each run of neighbouring flagged stretches of one step, and its length."""
    opens = flag & np.concatenate(([True], ~flag[:-1] | (pieces.step[1:] != pieces.step[:-1])))
    number = np.cumsum(opens) - 1
    length = (
        np.bincount(number[flag], weights=pieces.dur_ns[flag]).astype(np.int64) if flag.any() else np.zeros(1, np.int64)
    )
    return number, length


def _long_silence(pieces: DeviceTiles, silent: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    number, length = _runs(pieces, silent)
    out: npt.NDArray[np.bool_] = silent & (length[np.maximum(number, 0)] > LONG_GAP_NS)
    return out


def _leading_silence(pieces: DeviceTiles, silent: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Silence after the last activity of the step before and ahead of this step's first: the device waits to begin."""
    idle = pieces.row == NONE
    at = np.arange(len(idle))
    first = np.full(int(pieces.step.max(initial=0)) + 1, len(idle), dtype=np.int64)
    np.minimum.at(first, pieces.step[~idle], at[~idle])
    started = at >= first[pieces.step]
    leading: npt.NDArray[np.bool_] = silent & idle & ~started
    return leading


def _gaps(pieces: DeviceTiles, busy: npt.NDArray[np.bool_]) -> HostGaps:
    _, length = _runs(pieces, ~busy)
    return HostGaps(len(length), int(length.sum()), float(np.median(length)) if len(length) else 0.0, 0.0)


def _host_events(trace: Trace, windows: Steps) -> Int64:
    rows = trace.rows_of(EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME)
    start = np.sort(trace.start_ns[rows])
    counts: Int64 = np.searchsorted(start, windows.end_ns) - np.searchsorted(start, windows.start_ns)
    return counts.astype(np.int64)
