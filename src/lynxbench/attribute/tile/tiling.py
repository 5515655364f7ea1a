"""A trace's steps tiled: every nanosecond to the row at work or to a cause, and the rows that did alike together."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.read.counters import Counted
from lynxbench.attribute.read.operands import OperatorCall
from lynxbench.attribute.read.operator_names import OperatorKind, operator_kind
from lynxbench.attribute.read.trace import HOST_KINDS, NONE, EventKind, Flags, Int64, Trace, distinct, match_ids
from lynxbench.attribute.tile.device_tiles import CODE, LONG_GAP_NS, NamedRanges, tile_device
from lynxbench.attribute.tile.host_tiles import Stretches, tile_host
from lynxbench.attribute.tile.steps import Steps, find_steps, find_windows, is_input
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category
from lynxbench.model.result import RULES

GAPS = 15
"""The edition of the rules since which a gap on a host is long by its share of a short step as well: of a tenth, but
never below what dispatch takes on slow hosts."""
LONG_GAP_SHARE, LEAST_LONG_GAP_NS = 0.1, 100_000
STALLED_TIMES = 20.0
"""A call that lasts a millisecond and this many times as long as its like did not work throughout: it lost its core."""
FEWEST_ALIKE = 5
"""Calls of a kind needed before one of them can be called an exception."""
LEAF_SHARE = 0.9
"""An operator with this much of its time to itself called no other to do its work."""


@dataclass(frozen=True, slots=True)
class HostGaps:
    """Stretches of the steps without an operator."""

    count: int
    total_ns: int
    median_ns: float
    leading_ns: float = 0.0
    """Median, over steps, of what precedes the first operator, where that is long; else 0."""


@dataclass(frozen=True, slots=True)
class AlikeCalls:
    """Rows of one operator with the same operands; on a device, of one kernel in one role of its operator."""

    operator: str | None
    kernel: str | None
    """The device's own name for it; None on the host."""
    kind: EventKind
    call: OperatorCall | None
    """What the operator was called with, where these rows carry its work."""
    rows: Int64
    took_ns: Int64
    """Exclusive time of each row, without what it lost its core for."""
    stalled_ns: Int64
    is_leaf: bool = True
    """Whether the operator did its work itself, without another inside."""
    counted: Counted | None = None
    """What hardware counters say of the kernel."""
    signature: int = NONE
    """The number of the operands of the operator whose work these rows do: on a device, the kernel that carries it, in
    as many pieces as it was cut into; other kernels of the call serve it, and have none."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of a trace as exclusive stretches."""

    trace: Trace
    steps: Steps
    stretches: Stretches
    cause: Int64
    """The number of a category, where a stretch is not the work of its row; NONE where it is."""
    calls: tuple[AlikeCalls, ...]
    gaps: HostGaps
    events: Int64
    """Profiled events per step on the threads that drive it: what the profiler's own cost is proportional to."""
    misnested: int
    on_device: bool
    host_ns: Int64 | None = None
    """On a device, [steps, categories]: what the driving thread was in, whether the device idled or not."""
    waits: Int64 | None = None
    """On a device, how often the host waited for it in each step."""
    worked_ns: Int64 | None = None
    """By name, beside a device: what operators took in all steps that worked on the host and started nothing there."""


def tile_trace(trace: Trace, rules: int = RULES) -> Tiling:
    """Tile the steps on the accelerator, or on the host where there is none; BadInput where stamps forbid it."""
    tiling = _tile_device(trace, rules) if trace.has_device_work else _tile_host(trace, rules)
    if not tiling.stretches.fill(tiling.steps):
        raise BadInput(f"{trace.source}: the time of its steps cannot be tiled; its stamps are damaged")
    return tiling


def _tile_device(trace: Trace, rules: int) -> Tiling:
    windows, activities = find_windows(trace)
    tiles = tile_device(trace, windows, activities, rules)
    stretches = tiles.stretches
    _, _, gaps = stretches.runs(stretches.row == NONE)
    return Tiling(
        trace=trace,
        steps=windows,
        stretches=stretches,
        cause=tiles.cause,
        calls=_alike_calls(trace, stretches, on_device=True),
        gaps=HostGaps(len(gaps), int(gaps.sum()), float(np.median(gaps)) if len(gaps) else 0.0),
        events=_events(trace, windows, trace.rows_of(*HOST_KINDS)),
        misnested=tiles.misnested,
        on_device=True,
        host_ns=tiles.host_ns,
        waits=_events(trace, windows, trace.rows_named(lambda name: "Synchronize" in name, EventKind.RUNTIME)),
        worked_ns=tiles.worked_ns,
    )


def _tile_host(trace: Trace, rules: int) -> Tiling:
    steps = find_steps(trace)
    stretches, misnested = tile_host(trace, steps)
    row = stretches.row
    threads = distinct(trace.thread[row[row != NONE]])
    host = trace.rows_of(*HOST_KINDS)
    # Annotations only frame operators, except around compiled code.
    compiled = trace.names_where(lambda name: operator_kind(name) is OperatorKind.COMPILED)
    works = (row != NONE) & ((trace.kind[row] != EventKind.ANNOTATION) | compiled[trace.name[row]])
    awaited = _awaited_input(trace, steps.thread).hold(stretches.start_ns)
    cause = np.full(len(row), NONE, dtype=np.int64)
    gaps = _name_gaps(trace, stretches, works | awaited, cause, _long_gap_ns(steps) if rules >= GAPS else LONG_GAP_NS)
    cause[awaited] = CODE[Category.INPUT]
    worked = Stretches(stretches.step, stretches.start_ns, stretches.end_ns, np.where(works, row, NONE))
    return Tiling(
        trace=trace,
        steps=steps,
        stretches=worked,
        cause=cause,
        calls=_alike_calls(trace, worked, on_device=False),
        gaps=gaps,
        events=_events(trace, steps, host[np.isin(trace.thread[host], threads)]),
        misnested=misnested,
        on_device=False,
    )


def _events(trace: Trace, steps: Steps, rows: npt.NDArray[np.intp]) -> Int64:
    """How many of the rows begin inside each step."""
    start = np.sort(trace.start_ns[rows])
    counts: Int64 = np.searchsorted(start, steps.end_ns) - np.searchsorted(start, steps.start_ns)
    return counts.astype(np.int64)


def _awaited_input(trace: Trace, thread: int) -> NamedRanges:
    """Ranges that someone named as input work, whatever runs in them."""
    rows = trace.rows_named(is_input, EventKind.ANNOTATION, EventKind.OPERATOR)
    loader = trace.names_where(lambda name: name.startswith("enumerate(DataLoader)"))[trace.name[rows]]
    marked = (trace.kind[rows] == EventKind.ANNOTATION) | loader
    return NamedRanges.of(trace, rows[marked & (trace.thread[rows] == thread)])


def _long_gap_ns(steps: Steps) -> float:
    """A gap of a tenth of a short step is host code other than dispatch as well, if dispatch never takes so long."""
    return min(LONG_GAP_NS, max(LEAST_LONG_GAP_NS, LONG_GAP_SHARE * float(np.median(steps.wall_ns))))


def _name_gaps(trace: Trace, stretches: Stretches, works: Flags, cause: Int64, long_gap_ns: float) -> HostGaps:
    """Merge neighbouring stretches without an operator and tell what they are; `cause` is filled in place."""
    idle = ~works
    if not idle.any():
        return HostGaps(0, 0, 0.0)
    number, first, length = stretches.runs(idle)
    leading = stretches.opens_step()[first]
    usual = float(np.median(length[~leading])) if (~leading).any() else 0.0
    is_long = length > long_gap_ns
    named = np.full(len(length), CODE[Category.LAUNCH])
    named[is_long] = CODE[Category.IDLE]
    named[is_long & leading] = CODE[Category.INPUT]
    # Between two allocations the program only drops one buffer and asks for the next.
    by_name = trace.names_where(lambda name: operator_kind(name) is OperatorKind.ALLOCATION)
    allocates = (stretches.row != NONE) & by_name[trace.name[stretches.row]]
    last = np.flatnonzero(idle & np.concatenate((works[1:] | stretches.opens_step()[1:], [True])))
    before, after = allocates[np.maximum(first - 1, 0)], allocates[np.minimum(last + 1, len(allocates) - 1)]
    named[before & after & ~leading & ~is_long] = CODE[Category.ALLOCATOR]
    cause[idle] = named[number[idle]]
    waits = length[is_long & leading]
    steps = int(stretches.step[-1]) + 1
    awaited = float(np.median(np.concatenate((waits, np.zeros(steps - len(waits))))))
    return HostGaps(len(length), int(length.sum()), usual, awaited)


# --- what ran alike -------------------------------------------------------------------------------------------------


def _alike_calls(trace: Trace, stretches: Stretches, *, on_device: bool) -> tuple[AlikeCalls, ...]:
    """Rows by operator and operands; on a device also by kernel and role, in the order in which they first came."""
    busy = stretches.row != NONE
    rows = distinct(stretches.row[busy])
    own = np.bincount(stretches.row[busy], weights=stretches.dur_ns[busy], minlength=len(trace)).astype(np.int64)
    operator = find_launching(trace, rows) if on_device else rows
    leads = _heaviest(rows, operator, own[rows]) if on_device else np.ones(len(rows), dtype=bool)
    kernel = trace.name[rows] if on_device else np.full(len(rows), NONE)
    name = np.where(operator != NONE, trace.name[operator], NONE)
    signature = np.where(leads & (operator != NONE), trace.signature[operator], NONE)
    counted = trace.counted() if on_device else {}
    serves = np.where(operator != NONE, trace.signature[operator], NONE)
    alike = _as_leading(operator, kernel, leads)
    groups = _together(rows, leads, kernel, serves, name)
    calls = []
    for members in sorted(groups, key=lambda group: int(group[0])) if on_device else groups:
        at, first, took = int(np.searchsorted(rows, members[0])), members[0], own[members]
        kind = EventKind(int(trace.kind[first]))
        stalled = np.zeros_like(took) if on_device else _stalls(took)
        calls.append(
            AlikeCalls(
                operator=trace.names[name[at]] if name[at] != NONE else None,
                kernel=trace.names[kernel[at]] if on_device else None,
                kind=kind,
                call=trace.signatures[signature[at]] if signature[at] != NONE else None,
                rows=members,
                took_ns=took - stalled,
                stalled_ns=stalled,
                is_leaf=float(np.median(took / np.maximum(trace.dur_ns[members], 1))) >= LEAF_SHARE,
                counted=counted.get(int(kernel[at])) if kind is EventKind.KERNEL else None,
                signature=int(serves[at]) if alike[at] else NONE,
            )
        )
    return tuple(calls)


def _stalls(took: Int64) -> Int64:
    """Of each call, what lies beyond its like where that can only be a stall."""
    if len(took) < FEWEST_ALIKE:
        return np.zeros_like(took)
    usual = int(np.median(took))
    beyond: Int64 = np.where((took > LONG_GAP_NS) & (took > STALLED_TIMES * usual), took - usual, 0)
    return beyond


def find_launching(trace: Trace, rows: Int64) -> Int64:
    """The operator that launched each activity, by the profiler's external id; the innermost carries it."""
    operators = trace.rows_of(EventKind.OPERATOR)
    at = match_ids(trace.external[operators], trace.external[rows])
    operator = np.full(len(rows), NONE, dtype=np.int64)
    operator[at != NONE] = operators[at[at != NONE]]
    return operator


def _together(rows: Int64, *keys: npt.NDArray[np.generic]) -> list[Int64]:
    """Rows that agree in all keys together, ordered by the last key first."""
    if not len(rows):
        return []
    order = np.lexsort((rows, *keys))
    opens = np.zeros(len(rows), dtype=bool)
    for key in keys:
        opens[1:] |= key[order][1:] != key[order][:-1]
    groups: list[Int64] = np.split(rows[order], np.flatnonzero(opens))
    return groups


def _as_leading(operator: Int64, kernel: Int64, leads: Flags) -> Flags:
    """Activities of the same name as the one that carries their operator's work."""
    if not len(operator):
        return np.zeros(0, dtype=bool)
    leading = np.full(int(operator.max()) + 2, NONE, dtype=np.int64)
    known = leads & (operator != NONE)
    leading[operator[known]] = kernel[known]
    alike: Flags = (operator != NONE) & (leading[operator] == kernel)
    return alike


def _heaviest(rows: Int64, operator: Int64, took: Int64) -> Flags:
    """Of the activities of one operator call, the longest carries the operator's work; the others serve it."""
    order = np.lexsort((rows, -took, operator))
    first = np.concatenate(([True], operator[order][1:] != operator[order][:-1]))
    leads = np.zeros(len(rows), dtype=bool)
    leads[order[first[: len(rows)]]] = True
    leads &= operator != NONE
    return leads
