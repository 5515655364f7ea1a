"""What a person looks at beside the verdict: steps, the worst gap, the roofline, copies and collectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.accounting import CATEGORIES, Book
from lynxbench.attribute.kernels import kernel_kind
from lynxbench.attribute.operators import OperatorKind
from lynxbench.attribute.roofline import Ceilings
from lynxbench.attribute.steps import Steps
from lynxbench.attribute.trace import DEVICE_KINDS, NONE, EventKind, Int64, Trace
from lynxbench.model.attribution import Category

SHOWN_STEPS = 60
SHOWN_POINTS = 40
SHOWN_STRETCHES = 160
AROUND_GAP = 0.6
"""How much of the gap's own length is shown on either side of it."""
LEAST_AROUND_NS = 20_000
AT_WORK = (Category.COMPUTE, Category.MEMORY_BANDWIDTH)


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step and what it was spent on, in milliseconds."""

    index: int
    ms: float
    spent_ms: dict[Category, float]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A named stretch on a lane, relative to the beginning of the picture."""

    lane: str
    name: str
    category: Category | None
    start_us: float
    dur_us: float


@dataclass(frozen=True, slots=True)
class WorstGap:
    """The longest stretch of a step in which no kernel worked, and what lies around it."""

    step: int
    category: Category
    start_us: float
    dur_us: float
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """An operator against the roofline: operations a byte, operations a second, and what its ceilings allow."""

    name: str
    category: Category
    intensity: float
    per_s: float
    attainable_per_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Movement:
    """Copies of one kind: `HtoD (Pageable -> Device)`, or the collectives, in a step."""

    name: str
    ms_per_step: float
    exposed_ms_per_step: float
    bytes_per_step: float | None

    @property
    def bytes_per_s(self) -> float | None:
        """What each copy reached."""
        return self.bytes_per_step / self.ms_per_step * 1e3 if self.bytes_per_step and self.ms_per_step else None


@dataclass(frozen=True, slots=True)
class Detail:
    """Small enough to travel between processes, whatever the trace weighed."""

    source: str
    device: str
    rank: int | None
    raw_bytes: int
    events: int
    steps: tuple[StepTime, ...]
    gap: WorstGap | None
    points: tuple[RooflinePoint, ...]
    movements: tuple[Movement, ...]
    arithmetic_per_s: float | None
    bytes_per_s: float | None
    """The ceilings that the roofline is drawn with."""


def describe(trace: Trace, book: Book, windows: Steps, ceilings: Ceilings, device: str) -> Detail:
    """The details of an attributed trace."""
    return Detail(
        source=trace.source,
        device=device,
        rank=trace.rank,
        raw_bytes=trace.raw_bytes,
        events=len(trace),
        steps=_steps(book),
        gap=_worst_gap(trace, book),
        points=_points(book),
        movements=_movements(trace, book, windows),
        arithmetic_per_s=ceilings.named("matmul", ceilings.precision) or ceilings.any_arithmetic_per_s(),
        bytes_per_s=ceilings.copy_bytes_per_s,
    )


def _steps(book: Book) -> tuple[StepTime, ...]:
    count = len(book.wall_ns)
    shown = np.unique(np.linspace(0, count - 1, min(count, SHOWN_STEPS)).astype(np.int64)).tolist()
    return tuple(
        StepTime(
            i,
            float(book.wall_ns[i]) / 1e6,
            {c: float(book.spent_ns[i, k]) / 1e6 for k, c in enumerate(CATEGORIES) if book.spent_ns[i, k] > 0},
        )
        for i in shown
    )


def _worst_gap(trace: Trace, book: Book) -> WorstGap | None:
    tiles = book.tiles
    idle = ~np.isin(tiles.code, [CATEGORIES.index(category) for category in AT_WORK])
    if not idle.any():
        return None
    opens = idle & np.concatenate(([True], ~idle[:-1] | (tiles.step[1:] != tiles.step[:-1])))
    number = np.cumsum(opens) - 1
    spent = np.bincount(number[idle], weights=(tiles.end_ns - tiles.start_ns)[idle])
    worst = int(np.argmax(spent))
    members = np.flatnonzero(idle & (number == worst))
    low, high = int(tiles.start_ns[members[0]]), int(tiles.end_ns[members[-1]])
    by_code = np.bincount(
        tiles.code[members], weights=(tiles.end_ns - tiles.start_ns)[members], minlength=len(CATEGORIES)
    )
    around = max(LEAST_AROUND_NS, int((high - low) * AROUND_GAP))
    return WorstGap(
        step=int(tiles.step[members[0]]),
        category=CATEGORIES[int(np.argmax(by_code))],
        start_us=float(around) / 1e3,
        dur_us=(high - low) / 1e3,
        stretches=_stretches(trace, book, low - around, high + around),
    )


def _stretches(trace: Trace, book: Book, low: int, high: int) -> tuple[Stretch, ...]:
    """Lanes of the picture: our categories, the device where there is one, and the host thread at work."""
    out: list[Stretch] = []

    def add(lane: str, name: str, category: Category | None, start: int, end: int) -> None:
        start, end = max(start, low), min(end, high)
        if end > start:
            out.append(Stretch(lane, name, category, (start - low) / 1e3, (end - start) / 1e3))

    tiles = book.tiles
    seen = np.flatnonzero((tiles.end_ns > low) & (tiles.start_ns < high))
    for start, end, code in merged(tiles.start_ns[seen], tiles.end_ns[seen], tiles.code[seen])[:SHOWN_STRETCHES]:
        add("category", CATEGORIES[code].value, CATEGORIES[code], start, end)
    inside = (trace.start_ns < high) & (trace.end_ns > low) & (trace.dur_ns > 0)
    device = np.isin(trace.kind, [int(kind) for kind in DEVICE_KINDS])
    host = np.isin(trace.kind, [int(EventKind.OPERATOR), int(EventKind.RUNTIME), int(EventKind.ANNOTATION)])
    for lane, wanted in (("device", device), ("host", host)):
        rows = np.flatnonzero(inside & wanted)
        rows = rows[np.argsort(-trace.dur_ns[rows], kind="stable")[:SHOWN_STRETCHES]]
        for row in np.sort(rows).tolist():
            add(lane, trace.names[trace.name[row]], None, int(trace.start_ns[row]), int(trace.end_ns[row]))
    return tuple(out)


def merged(start: Int64, end: Int64, code: Int64) -> list[tuple[int, int, int]]:
    """Neighbouring stretches of one category as one."""
    if not len(code):
        return []
    opens = np.concatenate(([True], (code[1:] != code[:-1]) | (start[1:] != end[:-1])))
    first = np.flatnonzero(opens)
    last = np.concatenate((first[1:], [len(code)])) - 1
    return list(zip(start[first].tolist(), end[last].tolist(), code[first].tolist(), strict=True))


def _points(book: Book) -> tuple[RooflinePoint, ...]:
    wall = float(book.wall_ns.sum()) or 1.0
    out = []
    for group in book.groups:
        if group.work is None or group.attainable_ns is None or group.self_ns <= 0 or group.work.flops <= 0:
            continue
        if not group.work.total_bytes:
            continue
        done = group.work.flops * group.calls
        out.append(
            RooflinePoint(
                group.name,
                group.category,
                group.work.intensity,
                done / group.self_ns * 1e9,
                done / group.attainable_ns * 1e9,
                group.self_ns / wall,
            )
        )
    return tuple(sorted(out, key=lambda point: -point.share)[:SHOWN_POINTS])


def _movements(trace: Trace, book: Book, windows: Steps) -> tuple[Movement, ...]:
    """Copies by kind and the collectives: all their time, and the part that nothing hides."""
    rows = trace.rows_of(EventKind.MEMCPY, EventKind.KERNEL)
    if not len(rows):
        return ()
    talks = np.array([kernel_kind(name) is OperatorKind.COMMUNICATION for name in trace.names], dtype=bool)
    copies = trace.kind[rows] == EventKind.MEMCPY
    rows = rows[copies | talks[trace.name[rows]]]
    span = (trace.start_ns[rows] >= windows.start_ns[0]) & (trace.start_ns[rows] < windows.end_ns[-1])
    rows = rows[span]
    if not len(rows):
        return ()
    tiles = book.tiles
    busy = tiles.row != NONE
    exposed = np.bincount(tiles.row[busy], weights=(tiles.end_ns - tiles.start_ns)[busy], minlength=len(trace))
    count = len(book.wall_ns)
    found: dict[str, list[float]] = {}
    for row in rows.tolist():
        collective = trace.kind[row] == EventKind.KERNEL
        name = "collectives" if collective else trace.names[trace.name[row]]
        entry = found.setdefault(name, [0.0, 0.0, 0.0, 0.0])
        entry[0] += float(trace.dur_ns[row])
        entry[1] += float(exposed[row])
        entry[2] += max(0.0, float(trace.nbytes[row]))
        entry[3] += trace.nbytes[row] > 0
    return tuple(
        Movement(name, took / count / 1e6, bare / count / 1e6, moved / count if known else None)
        for name, (took, bare, moved, known) in sorted(found.items(), key=lambda item: -item[1][0])
    )
