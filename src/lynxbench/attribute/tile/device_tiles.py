"""The device's side of a step: which activity runs at each instant, and what the host does where none runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lynxbench.attribute.read.operator_names import OperatorKind, kernel_kind, operator_kind
from lynxbench.attribute.read.trace import NONE, EventKind, Flags, Int64, Trace, distinct, match_ids
from lynxbench.attribute.tile.host_tiles import Stretches, ThreadLane, Tiles, find_lanes, tile_host
from lynxbench.attribute.tile.steps import Activities, Steps, find_steps, is_input
from lynxbench.model.attribution import Category

CODE: dict[Category, int] = {category: i for i, category in enumerate(Category)}
"""Categories as numbers, for columns."""
LONG_GAP_NS = 1_000_000
"""A gap between operators is the framework getting to the next one: microseconds, tens of them on slow hosts. One that
lasts a millisecond is host code other than dispatch, at work or asleep."""
EVENTS_AT_ONCE = 50_000
LARGE_BYTES = 1 << 20
"""A copy of less takes tens of microseconds: no reason to think that the host works on it for long."""
HOST_WORK = 4
"""The edition of the rules since which an operator that computes on the host for long is not called dispatch."""
OWN_TAIL = 6
"""… since which a pause that began before the host began a step is not that step's input."""
SHORT_WORK = 11
"""… since which that holds for short operators too, where they start nothing on the device."""
WORKED_BYTES = 1 << 16
"""Operands that a core needs longer for than an operator takes to start (5 µs, at 10 GB/s)."""
MOST_BYTES_PER_NS = 200.0
"""What no host moves: an operator that is through its operands faster only looked at them."""

_CALLS = (
    (re.compile(r"Synchronize|EventQuery|StreamWait|StreamQuery"), Category.SYNCHRONIZATION),
    (re.compile(r"Memcpy"), Category.TRANSFER),
    (
        re.compile(r"Malloc|Free|HostAlloc|HostRegister|MemCreate|MemMap|MemUnmap|MemRelease|AddressReserve"),
        Category.ALLOCATOR,
    ),
)
"""What the device waits for while the host is in a call of that name; others launch."""
_SYNC_OPERATOR = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero"})


@dataclass(frozen=True, slots=True)
class DeviceTiles:
    """What a device did in some windows, why it idled, and what the host did meanwhile."""

    stretches: Stretches
    cause: Int64
    """Of idle stretches, the number of a category; NONE where the device works."""
    host_ns: Int64
    """[windows, categories]: the driving thread's time by what it was in, whether the device idled or not."""
    misnested: int
    worked_ns: Int64
    """By name: the driving thread's time in short operators that worked on the host."""


def tile_device(trace: Trace, windows: Steps, activities: Activities, rules: int) -> DeviceTiles:
    """The windows' stretches, what causes the idle ones, and the host's own time."""
    busy = _tile_activities(trace, windows, activities)
    host = _look_at_host(trace, activities, windows, rules)
    parts = [_idle_causes(trace, host, busy, windows, *part) for part in _parts(trace, windows)]
    columns = [(p.stretches.step, p.stretches.start_ns, p.stretches.end_ns, p.stretches.row, p.cause) for p in parts]
    *stretches, cause = (np.concatenate(column) for column in zip(*columns, strict=True))
    host_ns = np.concatenate([part.host_ns for part in parts])
    worked_ns: Int64 = np.stack([part.worked_ns for part in parts]).sum(axis=0)
    return DeviceTiles(Stretches(*stretches), cause, host_ns, sum(part.misnested for part in parts), worked_ns)


def is_collective(name: str) -> bool:
    """Whether a kernel exchanges data with other processes."""
    return kernel_kind(name) is OperatorKind.COMMUNICATION


def _tile_activities(trace: Trace, windows: Steps, activities: Activities) -> Stretches:
    """Kernels first, then collectives and copies where no kernel runs: what is exposed is what counts."""
    kind = trace.kind[activities.row]
    is_kernel = kind == EventKind.KERNEL
    talks = is_kernel & trace.names_where(is_collective)[trace.name[activities.row]]
    nothing = np.empty(0, np.int64)
    tiles = Tiles(nothing, nothing, nothing)
    for lane in (is_kernel & ~talks, kind == EventKind.MEMCPY, talks, kind == EventKind.MEMSET):
        tiles = _fill(tiles, _apart(trace, activities.row[lane]))
    return Stretches.of(tiles, windows)


def _apart(trace: Trace, rows: Int64) -> Tiles:
    """Rows as stretches that do not overlap: where two run at once, the one that began first keeps the time."""
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    start[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    keep = end > start
    return Tiles(start[keep], end[keep], rows[keep])


def _fill(tiles: Tiles, more: Tiles) -> Tiles:
    """`tiles`, and of `more` what they leave free."""
    if not len(tiles.row) or not len(more.row):
        return tiles if len(tiles.row) else more
    edges = distinct(np.concatenate((tiles.start_ns, tiles.end_ns, more.start_ns, more.end_ns)))
    low, high = edges[:-1], edges[1:]
    first = tiles.at(low)
    row = np.where(first != NONE, first, more.at(low))
    keep = row != NONE
    return Tiles(low[keep], high[keep], row[keep])


# --- why the device idles -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedRanges:
    """Ranges in time order, with the latest end so far: what holds an instant is found by bisection."""

    start_ns: Int64
    reach_ns: Int64

    @classmethod
    def of(cls, trace: Trace, rows: Int64) -> NamedRanges:
        """The ranges that rows in time order span."""
        return cls(trace.start_ns[rows], np.maximum.accumulate(trace.start_ns[rows] + trace.dur_ns[rows]))

    def hold(self, at_ns: Int64) -> Flags:
        """Which instants lie within one of the ranges."""
        if not len(self.start_ns):
            return np.zeros(len(at_ns), dtype=bool)
        at = np.searchsorted(self.start_ns, at_ns, side="right") - 1
        inside: Flags = (at >= 0) & (at_ns < self.reach_ns[np.maximum(at, 0)])
        return inside


@dataclass(frozen=True, slots=True)
class _Host:
    """What the causes of idle time are read from, found once for the whole trace."""

    lanes: tuple[ThreadLane, ...]
    code_of_name: Int64
    """What a runtime call of each name means for the device that idles meanwhile."""
    input: NamedRanges
    waits: NamedRanges
    activity_ns: Int64
    ready_ns: Int64
    """When each activity had been launched; never where its launch is not known."""
    took_ns: Int64
    fetched: Flags
    """Activities that brought so much to the host that what it does next may be work on it."""
    computes: Flags
    """By name: operators that do work of their own on the host, where they launch nothing."""
    computed: Flags
    """Rows that did such work on the host, however short: on operands worth it, and without any call of the device."""
    begins_ns: Int64
    """When the host began each annotated step; empty where that is not asked."""
    windows_end_ns: Int64


def _look_at_host(trace: Trace, activities: Activities, windows: Steps, rules: int) -> _Host:
    launch = activities.launched_by
    computes = trace.names_where(lambda name: rules >= HOST_WORK and _is_work(name))
    kinds = (EventKind.ANNOTATION, EventKind.OPERATOR)
    end = trace.start_ns[launch] + trace.dur_ns[launch]
    return _Host(
        lanes=find_lanes(trace, windows.thread),
        code_of_name=np.array([_call_code(name) for name in trace.names], dtype=np.int64),
        input=NamedRanges.of(trace, trace.rows_named(is_input, *kinds)),
        waits=NamedRanges.of(trace, trace.rows_named(_SYNC_OPERATOR.__contains__, *kinds)),
        activity_ns=trace.start_ns[activities.row],
        ready_ns=np.where(launch != NONE, end, np.iinfo(np.int64).max),
        took_ns=trace.dur_ns[activities.row],
        fetched=_fetches(trace, rules)[trace.name[activities.row]] & (trace.nbytes[activities.row] >= LARGE_BYTES),
        computes=computes,
        computed=_computed_on_host(trace, computes, activities)
        if rules >= SHORT_WORK
        else np.zeros(len(trace), dtype=bool),
        begins_ns=find_steps(trace).start_ns if rules >= OWN_TAIL and windows.annotated else np.empty(0, np.int64),
        windows_end_ns=windows.end_ns,
    )


def _call_code(name: str) -> int:
    return CODE[next((category for pattern, category in _CALLS if pattern.search(name)), Category.LAUNCH)]


def _fetches(trace: Trace, rules: int) -> Flags:
    return trace.names_where(lambda name: rules >= HOST_WORK and name.startswith("Memcpy DtoH"))


def _is_work(name: str) -> bool:
    return operator_kind(name) not in (OperatorKind.DISPATCH, OperatorKind.ALLOCATION, OperatorKind.SYNCHRONIZATION)


def _computed_on_host(trace: Trace, computes: Flags, activities: Activities) -> Flags:
    """Operators that call nothing of the device's runtime in their time, and had operands to work on.

    One whose number a device's activity bears launched it, whether the call was recorded or not.
    """
    computed = np.zeros(len(trace), dtype=bool)
    calls, operators = trace.rows_of(EventKind.RUNTIME), trace.rows_of(EventKind.OPERATOR)
    operators = operators[computes[trace.name[operators]] & (trace.signature[operators] != NONE)]
    operators = operators[match_ids(trace.external[activities.row], trace.external[operators]) == NONE]
    if not len(calls) or not len(operators):
        return computed  # without calls in the trace nobody knows who launched
    nbytes = np.array([call.footprint for call in trace.signatures])[trace.signature[operators]]
    lasts = trace.dur_ns[operators]
    worth = operators[(nbytes >= WORKED_BYTES) & (nbytes <= lasts * MOST_BYTES_PER_NS)]
    for thread in distinct(trace.thread[worth]).tolist():
        mine = worth[trace.thread[worth] == thread]
        begun = np.sort(trace.start_ns[calls[trace.thread[calls] == thread]])
        inside = np.searchsorted(begun, trace.end_ns[mine]) - np.searchsorted(begun, trace.start_ns[mine])
        computed[mine[inside == 0]] = True
    return computed


def _parts(trace: Trace, windows: Steps) -> list[tuple[int, int]]:
    """Runs of windows with some ten thousand events each: what is worked out at once stays small for any trace."""
    seen = np.searchsorted(trace.start_ns, windows.end_ns)
    edges = np.flatnonzero(np.diff((seen - seen[0]) // EVENTS_AT_ONCE, prepend=-1)).tolist()
    return list(pairwise([*edges, len(windows)]))


def _idle_causes(trace: Trace, known: _Host, busy: Stretches, windows: Steps, first: int, last: int) -> DeviceTiles:
    """The device's stretches of some windows, idle ones cut where the cause changes, with the causes."""
    low, high = np.searchsorted(busy.step, (first, last))
    mine = Stretches(busy.step[low:high], busy.start_ns[low:high], busy.end_ns[low:high], busy.row[low:high])
    host, misnested = tile_host(trace, windows.part(first, last), known.lanes)
    # The host only matters where the device idles: elsewhere its edges would cut for nothing.
    pieces, _ = mine.cut(mine.row == NONE, host.start_ns)
    at = np.maximum(np.searchsorted(host.start_ns, pieces.start_ns, side="right") - 1, 0)
    cause = _idle_codes(trace, known, pieces, host.row[at], host.dur_ns[at])
    # Work was queued and the device did not take it up yet: its own start-up, whatever the host waits for meanwhile.
    cause[_queued(known, pieces)] = CODE[Category.LAUNCH]
    if trace.unseen is not None:
        cause[:] = CODE[Category.UNATTRIBUTED]
    cause[pieces.row != NONE] = NONE
    opens = pieces.opens_step()
    opens[1:] |= (pieces.row[1:] != pieces.row[:-1]) | (cause[1:] != cause[:-1])
    begins = np.flatnonzero(opens)
    ends = np.concatenate((begins[1:], [len(cause)])) - 1
    joined = Stretches(pieces.step[begins], pieces.start_ns[begins], pieces.end_ns[ends], pieces.row[begins])
    host_ns = np.zeros((last - first, len(CODE)), dtype=np.int64)
    np.add.at(host_ns, (host.step, _idle_codes(trace, known, host, host.row, host.dur_ns)), host.dur_ns)
    worked = (host.row != NONE) & known.computed[host.row]
    worked_ns = np.bincount(trace.name[host.row[worked]], weights=host.dur_ns[worked], minlength=len(trace.names))
    return DeviceTiles(joined, cause[begins], host_ns, misnested, worked_ns.astype(np.int64))


def _idle_codes(trace: Trace, known: _Host, pieces: Stretches, host: Int64, lasts_ns: Int64) -> Int64:
    """What the host does in each piece; `lasts_ns`: how long the row that it is in keeps it, there and outside."""
    kind = trace.kind[host]
    runtime = (host != NONE) & (kind == EventKind.RUNTIME)
    code = np.where(runtime, known.code_of_name[trace.name[host]], CODE[Category.LAUNCH])
    awaited = known.input.hold(pieces.start_ns)
    silent = ((host == NONE) | (kind == EventKind.ANNOTATION)) & ~awaited
    if silent.any():
        number, _, length = pieces.runs(silent)
        long = silent & (length[np.maximum(number, 0)] > LONG_GAP_NS)
        code[long] = CODE[Category.IDLE]
        code[long & _before_first(pieces) & ~_step_before(known, pieces)] = CODE[Category.INPUT]
        after, fetch_ns = _after_fetch(known, pieces)
        code[long & after & (length[np.maximum(number, 0)] <= fetch_ns)] = CODE[Category.TRANSFER]
    worked = (host != NONE) & (kind == EventKind.OPERATOR) & (lasts_ns > LONG_GAP_NS) & known.computes[trace.name[host]]
    worked |= (host != NONE) & known.computed[host]
    if worked.any():  # on a processor, while the device has nothing to do
        code[worked] = CODE[Category.IDLE]
        code[worked & _before_first(pieces) & ~_step_before(known, pieces)] = CODE[Category.INPUT]
        code[worked & _after_fetch(known, pieces)[0]] = CODE[Category.TRANSFER]
    code[known.waits.hold(pieces.start_ns)] = CODE[Category.SYNCHRONIZATION]
    code[awaited] = CODE[Category.INPUT]
    return code


def _queued(host: _Host, pieces: Stretches) -> Flags:
    """Idle stretches whose next activity had already been launched when they began."""
    count = len(host.activity_ns)
    following = np.searchsorted(host.activity_ns, pieces.start_ns, side="left")
    queued: Flags = (following < count) & (host.ready_ns[np.minimum(following, count - 1)] <= pieces.start_ns)
    return queued


def _after_fetch(known: _Host, pieces: Stretches) -> tuple[Flags, Int64]:
    """Pieces before which the last activity brought much to the host, which works on it, and how long that took.

    Silence as long as the copy at the most is taken for that too: its buffer is read, and given back.
    """
    last = np.maximum(np.searchsorted(known.activity_ns, pieces.start_ns, side="right") - 1, 0)
    after: Flags = known.fetched[last] & (known.activity_ns[last] <= pieces.start_ns)
    return after, known.took_ns[last]


def _step_before(known: _Host, pieces: Stretches) -> Flags:
    """Pieces that began while the host was in an earlier step than the one whose device work their window ends with."""
    if not len(known.begins_ns):
        return np.zeros(len(pieces.start_ns), dtype=bool)
    never = np.iinfo(np.int64).max
    begin = np.append(known.begins_ns, never)[np.searchsorted(known.begins_ns, pieces.start_ns, side="right")]
    end = np.append(known.windows_end_ns, never)[np.searchsorted(known.windows_end_ns, pieces.start_ns, side="right")]
    earlier: Flags = begin < end
    return earlier


def _before_first(pieces: Stretches) -> Flags:
    """After the last activity of the step before and ahead of this step's first: the device waits to begin."""
    idle = pieces.row == NONE
    at = np.arange(len(idle))
    first = np.full(int(pieces.step.max(initial=0)) + 1, len(idle), dtype=np.int64)
    np.minimum.at(first, pieces.step[~idle], at[~idle])
    leading: Flags = idle & (at < first[pieces.step])
    return leading
