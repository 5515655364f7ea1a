"""What a person looks at beside the verdict: steps, the worst gap, the roofline, copies and collectives."""

import numpy as np

from lynxbench.attribute.judge.time_book import CATEGORIES, KERNELS, TimeBook
from lynxbench.attribute.read.trace import DEVICE_KINDS, HOST_KINDS, NONE, EventKind, Int64, distinct, is_of
from lynxbench.attribute.tile.device_tiles import CODE, is_collective
from lynxbench.model.attribution import Category
from lynxbench.model.trace_detail import Detail, Movement, RooflinePoint, StepTime, Stretch, WorstGap

SHOWN_STEPS = 60
SHOWN_POINTS = 40
SHOWN_STRETCHES = 160
PICTURE_COLUMNS = 400
AROUND_GAP = 0.6
"""How much of the gap's own length is shown on either side of it."""
LEAST_AROUND_NS = 20_000


def describe(book: TimeBook) -> Detail:
    """The details of an attributed trace."""
    trace, ceilings = book.tiling.trace, book.ceilings
    return Detail(
        device=trace.device or ("not named" if book.tiling.on_device else "cpu"),
        rank=trace.rank,
        steps=_steps(book),
        gap=_worst_gap(book),
        points=_points(book),
        movements=_movements(book),
        arithmetic_per_s=ceilings.named("matmul", ceilings.precision) or ceilings.named("matmul", None),
        bytes_per_s=ceilings.copy_bytes_per_s,
    )


def _steps(book: TimeBook) -> tuple[StepTime, ...]:
    count = len(book)
    shown = distinct(np.linspace(0, count - 1, min(count, SHOWN_STEPS)).astype(np.int64)).tolist()
    return tuple(
        StepTime(
            i,
            float(book.wall_ns[i]) / 1e6,
            {c: float(book.spent_ns[i, k]) / 1e6 for k, c in enumerate(CATEGORIES) if book.spent_ns[i, k] > 0},
        )
        for i in shown
    )


def _worst_gap(book: TimeBook) -> WorstGap | None:
    tiles = book.tiling.stretches
    idle = ~np.isin(book.code, [CODE[category] for category in KERNELS])
    if not idle.any():
        return None
    number, _, length = tiles.runs(idle)
    members = np.flatnonzero(idle & (number == np.argmax(length)))
    low, high = int(tiles.start_ns[members[0]]), int(tiles.end_ns[members[-1]])
    by_code = np.bincount(book.code[members], weights=tiles.dur_ns[members], minlength=len(CATEGORIES))
    around = max(LEAST_AROUND_NS, int((high - low) * AROUND_GAP))
    return WorstGap(
        step=int(tiles.step[members[0]]),
        category=CATEGORIES[int(np.argmax(by_code))],
        start_us=float(around) / 1e3,
        dur_us=(high - low) / 1e3,
        stretches=_stretches(book, low - around, high + around),
    )


def _stretches(book: TimeBook, low: int, high: int) -> tuple[Stretch, ...]:
    """Lanes of the picture: our categories, the device where there is one, and the host thread at work."""
    out: list[Stretch] = []

    def add(lane: str, name: str, category: Category | None, start: int, end: int) -> None:
        start, end = max(start, low), min(end, high)
        if end > start:
            out.append(Stretch(lane, name, category, (start - low) / 1e3, (end - start) / 1e3))

    trace, tiles = book.tiling.trace, book.tiling.stretches
    seen = np.flatnonzero((tiles.end_ns > low) & (tiles.start_ns < high))
    columns = tiles.start_ns[seen], tiles.end_ns[seen], book.code[seen]
    stretches = merged(*columns)
    if len(stretches) > SHOWN_STRETCHES:
        stretches = _sampled(*columns, low, high)
    for start, end, code in stretches:
        add("category", CATEGORIES[code].value, CATEGORIES[code], start, end)
    category_of = dict(zip(tiles.row[seen].tolist(), book.code[seen].tolist(), strict=True))
    until = int(np.searchsorted(trace.start_ns, high))
    begins, took = trace.start_ns[:until], trace.dur_ns[:until]
    inside = np.flatnonzero((begins + took > low) & (took > 0))
    for lane, kinds in (("device", DEVICE_KINDS), ("host", HOST_KINDS)):
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
    points = []
    for group in book.groups:
        work, took, best = group.work, group.self_ns, group.attainable_ns
        if work is None or best is None or took <= 0 or work.flops <= 0 or not work.total_bytes:
            continue
        done = work.flops * group.calls
        rates = done / took * 1e9, done / best * 1e9
        points.append(RooflinePoint(group.name, group.category, work.intensity, *rates, took / wall))
    return tuple(sorted(points, key=lambda point: -point.share)[:SHOWN_POINTS])


def _movements(book: TimeBook) -> tuple[Movement, ...]:
    """Copies by kind and the collectives: all their time, and the part that nothing hides."""
    trace, tiles, steps = book.tiling.trace, book.tiling.stretches, book.tiling.steps
    rows = trace.rows_of(EventKind.MEMCPY, EventKind.KERNEL)
    talks = trace.names_where(is_collective)
    rows = rows[(trace.kind[rows] == EventKind.MEMCPY) | talks[trace.name[rows]]]
    rows = rows[(trace.start_ns[rows] >= steps.start_ns[0]) & (trace.start_ns[rows] < steps.end_ns[-1])]
    if not len(rows):
        return ()
    busy = tiles.row != NONE
    exposed = np.bincount(tiles.row[busy], weights=tiles.dur_ns[busy], minlength=len(trace))
    count = len(book)
    lane_of = np.where(trace.kind[rows] == EventKind.KERNEL, NONE, trace.name[rows])
    kinds = distinct(lane_of)
    of = np.searchsorted(kinds, lane_of)
    took, bare = np.bincount(of, weights=trace.dur_ns[rows]), np.bincount(of, weights=exposed[rows])
    moved = np.bincount(of, weights=np.maximum(trace.nbytes[rows], 0))
    movements = [
        Movement(
            "collectives" if kind == NONE else trace.names[kind],
            float(took[i]) / count / 1e6,
            float(bare[i]) / count / 1e6,
            float(moved[i]) / count if moved[i] > 0 else None,
        )
        for i, kind in enumerate(kinds.tolist())
    ]
    return tuple(sorted(movements, key=lambda movement: (-movement.ms_per_step, movement.name)))
