"""Work at the hardware's full speed that need not be done: what values show that were followed through a step.

A trace holds sizes and times. Which tensor an operator reads is seen where the step was run operator by operator
besides (`read/dataflow.py`). Both are brought together by name and sizes, and only where the step has as many such
calls in the one as in the other.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.judge.roofline import TYPICAL_EFFICIENCY, Ceilings
from lynxbench.attribute.judge.time_book import TimeBook
from lynxbench.attribute.judge.unread_results import FACTORS
from lynxbench.attribute.read.dataflow import OperatorFlow
from lynxbench.attribute.read.operands import OperandTensor, OperatorCall
from lynxbench.attribute.read.trace import NONE, EventKind, distinct
from lynxbench.attribute.tile.tiling import find_launching

MOST_UNSEEN = 0.02
"""Share of a step in activities that no operator launched: beyond, somebody may read or write what is not seen."""
SPARSE_COST = 8.0
"""What a kernel takes for each element that is not 0, where it leaves the zeros out, over one that multiplies all."""
AGAIN, UNUSED, ZEROS, SPLIT = "again", "unused", "zeros", "split"
KINDS = (AGAIN, UNUSED, ZEROS, SPLIT)

Key = tuple[str, tuple[tuple[int, ...], ...]]


@dataclass(frozen=True, slots=True)
class AvoidableWork:
    """What one step would not have needed, by kind of needlessness."""

    usual_ns: dict[str, float]
    """By kind: what is saved by good kernels."""
    most_ns: dict[str, float]
    """By kind: … by kernels at their ceilings, and none for what is 0."""
    shown_ns: float
    """Of all kinds: the most that a change of code surely reaches. Zeros here and there are none: no dense product
    leaves them out."""
    launches: float
    """Kernels that are started for it, and by nobody where it is left out."""
    names: dict[str, tuple[str, ...]]
    """By kind: the operators, the dearest first."""

    @property
    def kind(self) -> str:
        """What saves most."""
        return max(KINDS, key=lambda kind: self.usual_ns.get(kind, 0.0))

    def total_ns(self, *, most: bool = False) -> float:
        """Of all kinds together."""
        return sum((self.most_ns if most else self.usual_ns).values())


@dataclass(frozen=True, slots=True)
class _Matched:
    """Calls of a step that both the trace and the dataflow have."""

    flow: OperatorFlow
    call: OperatorCall
    took_ns: float
    kernels: int
    """That they started."""


def find_avoidable(book: TimeBook) -> AvoidableWork | None:
    """Of the last step; None where its values were not followed, or nothing in them was needless."""
    flow = book.tiling.trace.dataflow
    if flow is None or not flow.whole or not flow.operators:
        return None
    usual, most = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)
    shown_ns = launches = 0.0
    names: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for matched in _matched(book, {one.key: one for one in flow.operators}):
        likely = _saved(matched, book.ceilings, TYPICAL_EFFICIENCY, SPARSE_COST)
        largest = _saved(matched, book.ceilings, 1.0, 1.0)
        shown_ns += sum(_saved(matched, book.ceilings, 1.0, SPARSE_COST).values())
        launches += matched.kernels * _gone(matched.flow, likely)
        for kind in likely:
            usual[kind] += likely[kind]
            most[kind] += largest[kind]
            names[kind][matched.flow.name] += int(likely[kind])
    kinds = [kind for kind in KINDS if usual[kind] > 0]
    if not kinds:
        return None
    dearest = {kind: tuple(name for name, saved_ns in names[kind].most_common() if saved_ns) for kind in kinds}
    usual, most = ({kind: saved[kind] for kind in kinds} for saved in (usual, most))
    return AvoidableWork(usual, most, shown_ns, launches, dearest)


def _gone(flow: OperatorFlow, saved: dict[str, float]) -> float:
    """The share of an operator's calls that are made no more; products with zeros are still made."""
    gone = flow.again + min(flow.unread, flow.calls) + flow.adding
    if saved.get(SPLIT):
        gone += flow.calls - min(left for left in (flow.batches, flow.sums, flow.calls) if left)
    return min(1.0, gone / flow.calls)


def _saved(matched: _Matched, ceilings: Ceilings, reached: float, sparse_cost: float) -> dict[str, float]:
    """By kind, what the calls of one operator would not have taken; each kind of what the one before leaves."""
    flow, took_ns = matched.flow, matched.took_ns
    saved = {AGAIN: took_ns * flow.again / flow.calls, UNUSED: took_ns * min(flow.unread, flow.calls) / flow.calls}
    left_ns = took_ns - min(took_ns, sum(saved.values()))
    empty = max(flow.zero_rows, 1.0 - min(1.0, flow.nonzero * sparse_cost))
    saved[ZEROS] = left_ns * empty
    left_ns -= saved[ZEROS]
    saved[SPLIT] = left_ns * flow.adding / flow.calls
    together_ns = _together_ns(matched, ceilings)
    if together_ns is not None:
        saved[SPLIT] = max(saved[SPLIT], left_ns - together_ns / reached)
    return saved


def _together_ns(matched: _Matched, ceilings: Ceilings) -> float | None:
    """The least that products take which are one, by the way that moves less; None where it is not known.

    They read their shared second factor once for all, or they write once what is only added up.
    """
    flow, factors = matched.flow, _factors(matched.flow.name, matched.call)
    if factors is None or not any(0 < left < flow.calls for left in (flow.batches, flow.sums)):
        return None
    left, right = factors
    arithmetic, read = ceilings.arithmetic_per_s(left.dtype), ceilings.read_bytes_per_s
    if not arithmetic or not read:
        return None
    rows, inner, columns = left.elements // left.sizes[-1], left.sizes[-1], right.sizes[-1]
    flops = 2.0 * rows * inner * columns * flow.calls
    result = rows * columns * left.item_bytes
    read_once = (flow.batches or flow.calls) * right.footprint + flow.calls * (left.footprint + result)
    written_once = flow.calls * (left.footprint + right.footprint) + (flow.sums or flow.calls) * result
    moved = min(read_once, written_once)
    return max(flops / arithmetic, moved / read) * 1e9


def _factors(name: str, call: OperatorCall) -> tuple[OperandTensor, OperandTensor] | None:
    try:
        left, right = (call.tensor(place) for place in FACTORS[name])
    except (KeyError, IndexError):
        return None
    return (left, right) if min(len(left.sizes), len(right.sizes)) >= 2 and left.elements else None


# --- the calls of the last step ---------------------------------------------------------------------------------------


def _matched(book: TimeBook, flows: dict[Key, OperatorFlow]) -> Iterator[_Matched]:
    """Each operator that was followed and that the last step called as often."""
    tiling = book.tiling
    trace, stretches = tiling.trace, tiling.stretches
    mine = (stretches.row != NONE) & (stretches.step == len(book) - 1)
    rows = distinct(stretches.row[mine])
    own_ns = np.bincount(stretches.row[mine], weights=stretches.dur_ns[mine], minlength=len(trace))
    operators = find_launching(trace, rows) if tiling.on_device else rows
    unseen_ns = float(own_ns[rows[operators == NONE]].sum()) if tiling.on_device else 0.0
    if unseen_ns > MOST_UNSEEN * float(book.wall_ns[-1]):
        return
    around = _around(book)
    took: Counter[int] = Counter()
    kernels: Counter[int] = Counter()
    keys: dict[int, Key] = {}
    for row, inner in zip(rows.tolist(), operators.tolist(), strict=True):
        operator = inner
        while operator != NONE and (key := _key(book, operator)) not in flows:
            operator = around.get(operator, NONE)
        if operator != NONE:
            took[operator] += int(own_ns[row])
            kernels[operator] += 1
            keys[operator] = key
    calls = Counter(keys.values())
    for key, flow in flows.items():
        same = [operator for operator, its in keys.items() if its == key]
        if same and calls[key] == flow.calls:
            call = trace.signatures[trace.signature[same[0]]]
            yield _Matched(flow, call, float(sum(took[one] for one in same)), sum(kernels[one] for one in same))


def _key(book: TimeBook, row: int) -> Key:
    trace = book.tiling.trace
    number = trace.signature[row]
    call = trace.signatures[number] if number != NONE else OperatorCall()
    return trace.names[trace.name[row]], tuple(tensor.sizes for tensor in call.tensors if tensor.sizes)


def _around(book: TimeBook) -> dict[int, int]:
    """The operator around each of the last step's operators, on whatever thread."""
    tiling = book.tiling
    trace, steps = tiling.trace, tiling.steps
    rows = trace.rows_of(EventKind.OPERATOR)
    start_ns = trace.start_ns[rows]
    rows = rows[(start_ns >= steps.start_ns[-1]) & (start_ns < steps.end_ns[-1])]
    open_by_thread: dict[int, list[tuple[int, int]]] = {}
    around: dict[int, int] = {}
    ends_ns, threads = trace.end_ns[rows].tolist(), trace.thread[rows].tolist()
    for row, begin_ns, end_ns, thread in zip(
        rows.tolist(), trace.start_ns[rows].tolist(), ends_ns, threads, strict=True
    ):
        inside = open_by_thread.setdefault(thread, [])
        while inside and inside[-1][1] <= begin_ns:
            inside.pop()
        if inside:
            around[row] = inside[-1][0]
        inside.append((row, end_ns))
    return around
