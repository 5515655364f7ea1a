"""The stretches of each step to exclusive categories, and the operators with their work, time and roofline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.operands import OperatorWork
from lynxbench.attribute.operator_work import estimate_work
from lynxbench.attribute.operators import OperatorKind, operator_kind
from lynxbench.attribute.roofline import Ceilings, attain, is_tiny
from lynxbench.attribute.step_finding import Steps, is_input
from lynxbench.attribute.timeline import Timeline, conserved
from lynxbench.attribute.trace_columns import NONE, EventKind, Int64, Trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category

LONG_GAP_NS = 1_000_000
"""A gap between operators is the framework getting to the next one: microseconds, tens of them on slow hosts. One that
lasts a millisecond is host code other than dispatch, at work or asleep."""

STALLED_TIMES = 20.0
"""A call that lasts a millisecond and this many times as long as its like did not work throughout: it lost its core."""
FEWEST_ALIKE = 5
"""Calls of a kind needed before one of them can be called an exception."""
LEAF_SHARE = 0.9
"""An operator with this much of its time to itself called no other to do its work."""
COMPILED_OPERATOR_NS = 2_000.0
"""What a small operator still costs in compiled code: a call, a loop over its few elements, a write."""

CATEGORIES: tuple[Category, ...] = tuple(Category)
_CODE: dict[Category, int] = {category: i for i, category in enumerate(CATEGORIES)}


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """All calls of one operator with the same operands."""

    name: str
    kind: OperatorKind
    category: Category
    calls: int
    self_ns: int
    work: OperatorWork | None
    attainable_ns: float | None
    """Of all calls together; None where shapes or ceilings are missing."""

    @property
    def efficiency(self) -> float | None:
        """Attainable over taken time; above 1 where operands came from a cache the ceiling did not measure."""
        if self.attainable_ns is None or self.self_ns <= 0:
            return None
        return self.attainable_ns / self.self_ns


@dataclass(frozen=True, slots=True)
class HostGaps:
    """Stretches of the steps without an operator."""

    count: int
    total_ns: int
    median_ns: float
    leading_ns: float
    """Median, over steps, of what precedes the first operator, where that is long; else 0."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The steps' time as stretches: bounds, step, number of the category, and the row at work (or NONE)."""

    step: Int64
    start_ns: Int64
    end_ns: Int64
    code: Int64
    row: Int64


@dataclass(frozen=True, slots=True)
class TimeBook:
    """Per step and category, exact nanoseconds; the sum over categories is the wall time of the step."""

    wall_ns: Int64
    spent_ns: Int64
    """[steps, categories] in the order of CATEGORIES."""
    events: Int64
    """Profiled events per step on the threads that drive it: what the profiler's own cost is proportional to."""
    groups: tuple[OperatorGroup, ...]
    gaps: HostGaps | None
    operators_per_step: float
    misnested: int
    sequence: tuple[int, ...]
    """The groups in the order in which the last step ran them."""
    stalled_ns: float
    """Time a step, inside IDLE, that operators took beyond what their like take: the process was not scheduled."""
    residual_ns: dict[Category, float]
    """What of a category a fix would leave in each step: a compiled step still has to start its kernels."""
    tiles: Tiles

    def of(self, category: Category) -> Int64:
        """Nanoseconds of a category, step by step."""
        column: Int64 = self.spent_ns[:, _CODE[category]]
        return column


def keep_book(trace: Trace, steps: Steps, timeline: Timeline, ceilings: Ceilings) -> TimeBook:
    """Every stretch to its category; raises when the time would not be conserved."""
    if not conserved(timeline, steps):
        raise BadInput(f"{trace.source}: the time of its steps cannot be tiled; its stamps are damaged")
    acts = _acts(trace, timeline)
    code = np.full(len(timeline.row), _CODE[Category.LAUNCH], dtype=np.int64)
    groups, row_code, row_group, stalled = _group(trace, timeline, acts, ceilings)
    code[acts] = row_code[timeline.row[acts]]
    awaited = _within_input(trace, steps, timeline)
    gaps = _book_gaps(timeline, acts | awaited, code, _allocates(trace, timeline))
    code[awaited] = _CODE[Category.INPUT]
    spent = np.zeros((len(steps), len(CATEGORIES)), dtype=np.int64)
    np.add.at(spent, (timeline.step, code), timeline.dur_ns)
    stalled_ns = _move_stalls(timeline, acts & ~awaited, code, stalled, spent)
    wall = steps.end_ns - steps.start_ns
    remainder = wall - spent.sum(axis=1)
    if (remainder != 0).any():
        raise BadInput(f"{trace.source}: categories miss the steps' wall time by up to {abs(remainder).max()} ns")
    return TimeBook(
        wall_ns=wall,
        spent_ns=spent,
        events=_events(trace, steps, timeline),
        groups=groups,
        gaps=gaps,
        operators_per_step=float(sum(group.calls for group in groups)) / len(steps),
        misnested=timeline.misnested,
        stalled_ns=stalled_ns,
        residual_ns=_residual(groups, len(steps)),
        sequence=tuple(row_group[np.unique(timeline.row[acts & (timeline.step == len(steps) - 1)])].tolist()),
        tiles=Tiles(timeline.step, timeline.start_ns, timeline.end_ns, code, timeline.row),
    )


def _residual(groups: tuple[OperatorGroup, ...], steps: int) -> dict[Category, float]:
    working = sum(g.calls for g in groups if g.category is Category.LAUNCH and g.kind not in _WITHOUT_WORK)
    return {Category.LAUNCH: working * COMPILED_OPERATOR_NS / max(1, steps)}


def _acts(trace: Trace, timeline: Timeline) -> npt.NDArray[np.bool_]:
    """Which stretches belong to an operator; annotations only frame them, except around compiled code."""
    compiled = np.array([operator_kind(name) is OperatorKind.COMPILED for name in trace.names], dtype=bool)
    row = timeline.row
    framed = (trace.kind[row] == EventKind.ANNOTATION) & ~compiled[trace.name[row]]
    acts: npt.NDArray[np.bool_] = (row != NONE) & ~framed
    return acts


def _group(
    trace: Trace, timeline: Timeline, acts: npt.NDArray[np.bool_], ceilings: Ceilings
) -> tuple[tuple[OperatorGroup, ...], Int64, Int64, Int64]:
    """Operators grouped by name and operands, longest first; and of every row its category, group and stalled time."""
    own = np.bincount(timeline.row[acts], weights=timeline.dur_ns[acts], minlength=len(trace)).astype(np.int64)
    rows = np.unique(timeline.row[acts])
    code = np.full(len(trace), _CODE[Category.UNATTRIBUTED], dtype=np.int64)
    key = trace.name[rows].astype(np.int64) * (len(trace.signatures) + 1) + trace.signature[rows] + 1
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1))
    stalled = np.zeros(len(trace), dtype=np.int64)
    found: list[tuple[OperatorGroup, npt.NDArray[np.intp]]] = []
    for members in np.split(rows[order], edges[1:]) if len(rows) else []:
        name, signature = trace.names[trace.name[members[0]]], int(trace.signature[members[0]])
        took = own[members]
        kind = operator_kind(name)
        work = estimate_work(name, kind, trace.signatures[signature]) if signature != NONE else None
        stalled[members] = _stalls(took)
        leaf = float(np.median(took / np.maximum(trace.dur_ns[members], 1))) >= LEAF_SHARE
        group = _classify(name, kind, took - stalled[members], work, ceilings, leaf=leaf)
        code[members] = _CODE[group.category]
        found.append((group, members))
    found.sort(key=lambda pair: (-pair[0].self_ns, pair[0].name))
    number = np.full(len(trace), NONE, dtype=np.int64)
    for i, (_, members) in enumerate(found):
        number[members] = i
    return tuple(group for group, _ in found), code, number, stalled


def _stalls(took: Int64) -> Int64:
    """Of each call, what lies beyond its like where that can only be a stall."""
    usual = int(np.median(took))
    if len(took) < FEWEST_ALIKE:
        return np.zeros_like(took)
    beyond: Int64 = np.where((took > LONG_GAP_NS) & (took > STALLED_TIMES * usual), took - usual, 0)
    return beyond


def _move_stalls(timeline: Timeline, moves: npt.NDArray[np.bool_], code: Int64, stalled: Int64, spent: Int64) -> float:
    """Move stalled time from the operators' categories to IDLE, in `spent`; what moved, a step on average."""
    rows, first = np.unique(timeline.row[moves], return_index=True)
    at = np.flatnonzero(moves)[first]
    excess = stalled[rows]
    np.subtract.at(spent, (timeline.step[at], code[at]), excess)
    np.add.at(spent[:, _CODE[Category.IDLE]], timeline.step[at], excess)
    return float(excess.sum()) / len(spent)


def _classify(
    name: str, kind: OperatorKind, took: Int64, work: OperatorWork | None, ceilings: Ceilings, *, leaf: bool
) -> OperatorGroup:
    usual = float(np.median(took))
    best = attain(work, ceilings) if work is not None else None
    per_call = best.ns if best is not None else None
    if kind is OperatorKind.DISPATCH and leaf and work is not None and not is_tiny(usual, per_call):
        kind = OperatorKind.PRODUCT  # a wrapper that did the work itself: some back ends show no inner operator
    fixed = _BY_KIND.get(kind)
    if fixed is not None:
        category = fixed
    elif is_tiny(usual, per_call):
        category = Category.LAUNCH
    elif kind in (OperatorKind.FOREIGN, OperatorKind.COMPILED):
        category = Category.UNATTRIBUTED
    elif best is not None:
        category = best.bound
    else:
        category = Category.COMPUTE if kind is OperatorKind.PRODUCT else Category.MEMORY_BANDWIDTH
    exact = best is not None and best.exact and category in (Category.COMPUTE, Category.MEMORY_BANDWIDTH)
    attainable = per_call * len(took) if exact and per_call is not None else None
    return OperatorGroup(name, kind, category, len(took), int(took.sum()), work, attainable)


_WITHOUT_WORK = (OperatorKind.DISPATCH, OperatorKind.ALLOCATION, OperatorKind.SYNCHRONIZATION)
_BY_KIND: dict[OperatorKind, Category] = {
    OperatorKind.DISPATCH: Category.LAUNCH,
    OperatorKind.ALLOCATION: Category.ALLOCATOR,
    OperatorKind.COMMUNICATION: Category.COMMUNICATION,
    OperatorKind.SYNCHRONIZATION: Category.LAUNCH,  # on a CPU there is nothing to wait for
}


def _allocates(trace: Trace, timeline: Timeline) -> npt.NDArray[np.bool_]:
    by_name = np.array([operator_kind(name) is OperatorKind.ALLOCATION for name in trace.names], dtype=bool)
    out: npt.NDArray[np.bool_] = (timeline.row != NONE) & by_name[trace.name[timeline.row]]
    return out


def _book_gaps(
    timeline: Timeline, acts: npt.NDArray[np.bool_], code: Int64, allocates: npt.NDArray[np.bool_]
) -> HostGaps:
    """Merge neighbouring stretches without an operator and tell what they are; `code` is filled in place."""
    idle = ~acts
    if not idle.any():
        return HostGaps(0, 0, 0.0, 0.0)
    opens = idle & np.concatenate(([True], acts[:-1] | (timeline.step[1:] != timeline.step[:-1])))
    number = np.cumsum(opens) - 1
    run = np.bincount(number[idle], weights=timeline.dur_ns[idle]).astype(np.int64)
    first = np.flatnonzero(opens)
    leading = np.concatenate(([True], timeline.step[1:] != timeline.step[:-1]))[first]
    usual = float(np.median(run[~leading])) if (~leading).any() else 0.0
    is_long = run > LONG_GAP_NS
    verdict = np.full(len(run), _CODE[Category.LAUNCH])
    verdict[is_long] = _CODE[Category.IDLE]
    verdict[is_long & leading] = _CODE[Category.INPUT]
    # Between two allocations the program only drops one buffer and asks for the next.
    last = np.flatnonzero(idle & np.concatenate((acts[1:] | (timeline.step[1:] != timeline.step[:-1]), [True])))
    before, after = allocates[np.maximum(first - 1, 0)], allocates[np.minimum(last + 1, len(allocates) - 1)]
    verdict[before & after & ~leading & ~is_long] = _CODE[Category.ALLOCATOR]
    code[idle] = verdict[number[idle]]
    waits = run[is_long & leading]
    steps = int(timeline.step[-1]) + 1
    awaited = float(np.median(np.concatenate((waits, np.zeros(steps - len(waits))))))
    return HostGaps(len(run), int(run.sum()), usual, awaited)


def _within_input(trace: Trace, steps: Steps, timeline: Timeline) -> npt.NDArray[np.bool_]:
    """Stretches inside a range that someone named as input work, whatever runs in it."""
    named = np.array([is_input(name) for name in trace.names], dtype=bool)
    rows = trace.rows_of(EventKind.ANNOTATION, EventKind.OPERATOR)
    rows = rows[named[trace.name[rows]] & (trace.thread[rows] == steps.thread)]
    loader = np.array([trace.names[i].startswith("enumerate(DataLoader)") for i in trace.name[rows]], dtype=bool)
    rows = rows[(trace.kind[rows] == EventKind.ANNOTATION) | loader]
    if not len(rows):
        return np.zeros(len(timeline.row), dtype=bool)
    start = trace.start_ns[rows]
    reach = np.maximum.accumulate(trace.end_ns[rows])
    at = np.searchsorted(start, timeline.start_ns, side="right") - 1
    inside: npt.NDArray[np.bool_] = (at >= 0) & (timeline.start_ns < reach[np.maximum(at, 0)])
    return inside


def _events(trace: Trace, steps: Steps, timeline: Timeline) -> Int64:
    """Profiled host events that begin inside each step."""
    threads = np.unique(trace.thread[timeline.row[timeline.row != NONE]])
    rows = trace.rows_of(EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME)
    start = np.sort(trace.start_ns[rows[np.isin(trace.thread[rows], threads)]])
    counts: Int64 = np.searchsorted(start, steps.end_ns) - np.searchsorted(start, steps.start_ns)
    return counts.astype(np.int64)
