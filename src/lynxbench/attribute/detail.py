"""What a person looks at beside the verdict: steps, the worst gap, the roofline, copies and collectives."""

from __future__ import annotations

import numpy as np

from lynxbench.attribute.accounting import CATEGORIES, TimeBook
from lynxbench.attribute.kernels import kernel_kind
from lynxbench.attribute.operators import OperatorKind
from lynxbench.attribute.roofline import Ceilings
from lynxbench.attribute.step_finding import Steps
from lynxbench.attribute.trace_columns import DEVICE_KINDS, NONE, EventKind, Int64, Trace, distinct, is_of
from lynxbench.model.attribution import Category
from lynxbench.model.trace_detail import Detail, Movement, RooflinePoint, StepTime, Stretch, WorstGap

SHOWN_STEPS = 60
SHOWN_POINTS = 40
SHOWN_STRETCHES = 160
PICTURE_COLUMNS = 400
AROUND_GAP = 0.6
"""How much of the gap's own length is shown on either side of it."""
LEAST_AROUND_NS = 20_000
AT_WORK = (Category.COMPUTE, Category.MEMORY_BANDWIDTH)


def describe(trace: Trace, book: TimeBook, windows: Steps, ceilings: Ceilings, device: str) -> Detail:
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


def _steps(book: TimeBook) -> tuple[StepTime, ...]:
    count = len(book.wall_ns)
    shown = distinct(np.linspace(0, count - 1, min(count, SHOWN_STEPS)).astype(np.int64)).tolist()
    return tuple(
        StepTime(
            i,
            float(book.wall_ns[i]) / 1e6,
            {c: float(book.spent_ns[i, k]) / 1e6 for k, c in enumerate(CATEGORIES) if book.spent_ns[i, k] > 0},
        )
        for i in shown
    )


def _worst_gap(trace: Trace, book: TimeBook) -> WorstGap | None:
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


def _stretches(trace: Trace, book: TimeBook, low: int, high: int) -> tuple[Stretch, ...]:
    """Lanes of the picture: our categories, the device where there is one, and the host thread at work."""
    out: list[Stretch] = []

    def add(lane: str, name: str, category: Category | None, start: int, end: int) -> None:
        start, end = max(start, low), min(end, high)
        if end > start:
            out.append(Stretch(lane, name, category, (start - low) / 1e3, (end - start) / 1e3))

    tiles = book.tiles
    seen = np.flatnonzero((tiles.end_ns > low) & (tiles.start_ns < high))
    stretches = merged(tiles.start_ns[seen], tiles.end_ns[seen], tiles.code[seen])
    if len(stretches) > SHOWN_STRETCHES:
        stretches = _sampled(tiles.start_ns[seen], tiles.end_ns[seen], tiles.code[seen], low, high)
    for start, end, code in stretches:
        add("category", CATEGORIES[code].value, CATEGORIES[code], start, end)
    category_of = dict(zip(tiles.row[seen].tolist(), tiles.code[seen].tolist(), strict=True))
    until = int(np.searchsorted(trace.start_ns, high))
    begins, took = trace.start_ns[:until], trace.dur_ns[:until]
    inside = np.flatnonzero((begins + took > low) & (took > 0))
    host_kinds = (EventKind.OPERATOR, EventKind.RUNTIME, EventKind.ANNOTATION)
    for lane, kinds in (("device", DEVICE_KINDS), ("host", host_kinds)):
        rows = inside[is_of(trace.kind[inside], kinds)]
        rows = rows[np.argsort(-took[rows], kind="stable")[:SHOWN_STRETCHES]]
        for row in np.sort(rows).tolist():
            begin = int(begins[row])
            category = CATEGORIES[category_of[row]] if lane == "device" and row in category_of else None
            add(lane, trace.names[trace.name[row]], category, begin, begin + int(took[row]))
    return tuple(out)


def _sampled(start: Int64, end: Int64, code: Int64, low: int, high: int) -> list[tuple[int, int, int]]:
    """What is drawn of more stretches than a picture has room for: the category at each of its columns."""
    edges = np.linspace(low, high, PICTURE_COLUMNS + 1).astype(np.int64)
    centre = (edges[1:] + edges[:-1]) // 2
    at = np.maximum(np.searchsorted(start, centre, side="right") - 1, 0)
    inside = (centre >= start[at]) & (centre < end[at])
    return merged(edges[:-1][inside], edges[1:][inside], code[at[inside]])


def merged(start: Int64, end: Int64, code: Int64) -> list[tuple[int, int, int]]:
    """Neighbouring stretches of one category as one."""
    if not len(code):
        return []
    opens = np.concatenate(([True], (code[1:] != code[:-1]) | (start[1:] != end[:-1])))
    first = np.flatnonzero(opens)
    last = np.concatenate((first[1:], [len(code)])) - 1
    return list(zip(start[first].tolist(), end[last].tolist(), code[first].tolist(), strict=True))


def _points(book: TimeBook) -> tuple[RooflinePoint, ...]:
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


def _movements(trace: Trace, book: TimeBook, windows: Steps) -> tuple[Movement, ...]:
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
    lane_of = np.where(trace.kind[rows] == EventKind.KERNEL, NONE, trace.name[rows])
    kinds = distinct(lane_of)
    of = np.searchsorted(kinds, lane_of)
    took, bare = np.bincount(of, weights=trace.dur_ns[rows]), np.bincount(of, weights=exposed[rows])
    moved = np.bincount(of, weights=np.maximum(trace.nbytes[rows], 0))
    found = [
        Movement(
            "collectives" if kind == NONE else trace.names[kind],
            float(took[i]) / count / 1e6,
            float(bare[i]) / count / 1e6,
            float(moved[i]) / count if moved[i] > 0 else None,
        )
        for i, kind in enumerate(kinds.tolist())
    ]
    return tuple(sorted(found, key=lambda one: (-one.ms_per_step, one.name)))
