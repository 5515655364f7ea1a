"""Work at the hardware's full speed that need not be done: what values show that were followed through a step.

A trace holds sizes and times. Which tensor an operator reads is seen where the step was run operator by operator
besides (`read/dataflow.py`). Both are brought together by name and sizes, and only where the step has as many such
calls in the one as in the other.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from lynxbench.attribute.judge.causes import (
    DONE_AGAIN,
    MASKED_RESULTS,
    ON_ZEROS,
    PARTLY_READ,
    REPEATED_ROWS,
    SAME_EACH_STEP,
    SLICES_COPIED,
    SPLIT_PRODUCTS,
    UNUSED_RESULTS,
    WRITTEN_OUT,
    CategoryCause,
)
from lynxbench.attribute.judge.roofline import TYPICAL_EFFICIENCY, Ceilings
from lynxbench.attribute.judge.time_book import KERNELS, TimeBook
from lynxbench.attribute.judge.unread_results import FACTORS, LaunchedOperator
from lynxbench.attribute.judge.written_out import find_written_out
from lynxbench.attribute.read.dataflow import Key, OperatorFlow
from lynxbench.attribute.read.operands import OperandTensor, OperatorCall
from lynxbench.attribute.read.trace import NONE, EventKind, distinct
from lynxbench.attribute.tile.tiling import find_launching

MOST_UNSEEN = 0.02
"""Share of a step in activities that no operator launched: beyond, somebody may read or write what is not seen."""
SPARSE_COST = 8.0
"""What a kernel takes for each element that is not 0, where it leaves the zeros out, over one that multiplies all."""
LEAST_CHANGED = {True: 0.01, False: 0.1}
"""Share of the kernels' time in work that differs from step to step, by whether products are part of it: below, the
inputs may stand still for the sake of a measurement, and what differs be a number or two."""
AGAIN, UNUSED, ZEROS, SPLIT = "again", "unused", "zeros", "split"
CONSTANT, STRUCTURE, SLICED = "constant", "structure", "sliced"
DROPPED, PARTLY, REPEATED = "dropped", "partly", "repeated"
ROWS = (ZEROS, DROPPED, PARTLY, REPEATED)
NEWER = (CONSTANT, STRUCTURE, SLICED, DROPPED, PARTLY, REPEATED)
"""Since edition 13, the last three since edition 15."""
KINDS = (AGAIN, UNUSED, ZEROS, SPLIT, *NEWER)
_CAUSES = {
    AGAIN: DONE_AGAIN,
    UNUSED: UNUSED_RESULTS,
    ZEROS: ON_ZEROS,
    SPLIT: SPLIT_PRODUCTS,
    CONSTANT: SAME_EACH_STEP,
    STRUCTURE: WRITTEN_OUT,
    SLICED: SLICES_COPIED,
    DROPPED: MASKED_RESULTS,
    PARTLY: PARTLY_READ,
    REPEATED: REPEATED_ROWS,
}


@dataclass(frozen=True, slots=True)
class AvoidableWork:
    """What one step would not have needed, by kind of needlessness."""

    usual_ns: dict[str, float]
    """By kind: what is saved by good kernels."""
    most_ns: dict[str, float]
    """By kind: … by kernels at their ceilings, and none for what is 0."""
    shown_ns: float
    """Of all kinds: the most that a change of code surely reaches. Zeros here and there are none: no dense product
    leaves them out; what a mask drops often lies together, and code that knows the mask leaves it out."""
    launches: float
    """Kernels that are started for it, and by nobody where it is left out."""
    names: dict[str, tuple[str, ...]]
    """By kind: the operators, the dearest first."""

    @property
    def kind(self) -> str:
        """What saves most."""
        return max(KINDS, key=lambda kind: (self.usual_ns.get(kind, 0.0), self.most_ns.get(kind, 0.0)))

    @property
    def cause(self) -> CategoryCause:
        """What that means, and what removes it."""
        return _CAUSES[self.kind]

    @property
    def doubt(self) -> CategoryCause:
        """The same of what may save most, where nothing surely saves enough."""
        return _CAUSES[max(KINDS, key=lambda kind: (self.usual_ns if kind == ZEROS else self.most_ns).get(kind, 0.0))]

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


def find_avoidable(book: TimeBook, *, newer: bool = True, masked: bool = True) -> AvoidableWork | None:
    """Of the last step; None where its values were not followed, or nothing in them was needless.

    `newer`: also what is the same in each step, what is made of few numbers, and copies that a slice would spare;
    `masked`: also what is dropped, not read, or made of rows that come again.
    """
    flow = book.tiling.trace.dataflow
    if flow is None or not flow.whole or not flow.operators:
        return None
    flows = [one if newer else _as_before(one) for one in flow.operators]
    flows = flows if masked else [_before_masks(one) for one in flows]
    matched = list(_matched(book, {one.key: one for one in flows}))
    if _stands_still(book, matched, flow.multiplies_anew):
        matched = [
            dataclasses.replace(one, flow=msgspec.structs.replace(one.flow, constant=0, same_rows=0.0))
            for one in matched
        ]
    usual, most = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)
    shown_ns = launches = 0.0
    names: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    usually = [_saved(one, book.ceilings, TYPICAL_EFFICIENCY, SPARSE_COST) for one in matched]
    # Zeros that are no reason by themselves take nothing from what others save at the most.
    zeros = not masked or any(likely[ZEROS] for likely in usually)
    for one, likely in zip(matched, usually, strict=True):
        largest = _saved(one if zeros else _without_zeros(one), book.ceilings, 1.0, 1.0)
        shown = _saved(one, book.ceilings, 1.0, SPARSE_COST) | {DROPPED: largest[DROPPED]}
        shown_ns += sum(shown.values())
        launches += one.kernels * _gone(one.flow, likely)
        for kind in likely:
            usual[kind] += likely[kind]
            most[kind] += largest[kind]
            names[kind][one.flow.name] += int(largest[kind] if kind in NEWER else likely[kind])
    most[STRUCTURE] += _making_ns(matched) if most[STRUCTURE] and masked else 0.0
    kinds = [kind for kind in KINDS if usual[kind] > 0 or (kind in NEWER and most[kind] > 0)]
    if not kinds:
        return None
    dearest = {kind: tuple(name for name, saved_ns in names[kind].most_common() if saved_ns) for kind in kinds}
    usual, most = ({kind: saved[kind] for kind in kinds} for saved in (usual, most))
    return AvoidableWork(usual, most, shown_ns, launches, dearest)


def doubt_unfollowed(book: TimeBook, launched: Sequence[LaunchedOperator]) -> AvoidableWork | None:
    """The same of a step whose values were not followed, where sizes alone raise a doubt: nothing of it is usual."""
    flow = book.tiling.trace.dataflow
    if flow is not None and flow.whole:
        return None
    spared = find_written_out(launched, book.usual_ns, book.ceilings.read_bytes_per_s)
    if not spared:
        return None
    total_ns = sum(spared.values())
    names = tuple(sorted(spared, key=lambda name: -spared[name]))
    return AvoidableWork({STRUCTURE: 0.0}, {STRUCTURE: total_ns}, total_ns, 0.0, {STRUCTURE: names})


def _as_before(flow: OperatorFlow) -> OperatorFlow:
    return msgspec.structs.replace(flow, constant=0, structured=0, factored=0, few=1.0, sliced=0)


def _without_zeros(matched: _Matched) -> _Matched:
    return dataclasses.replace(matched, flow=msgspec.structs.replace(matched.flow, nonzero=1.0, zero_rows=0.0))


def _before_masks(flow: OperatorFlow) -> OperatorFlow:
    return msgspec.structs.replace(
        flow, masked=0.0, masked_rows=0.0, partly=0.0, perhaps=0.0, repeated=0.0, surely_repeated=0.0, same_rows=0.0
    )


def _stands_still(book: TimeBook, matched: Sequence[_Matched], multiplies_anew: bool) -> bool:
    """Whether so little of a step has other inputs that its inputs may be the same for the sake of a measurement."""
    kernels_ns = float(sum(book.of(category)[-1] for category in KERNELS))
    shares = ((one, one.flow.constant / one.flow.calls) for one in matched)
    constant_ns = sum(one.took_ns * (share + (1.0 - share) * one.flow.same_rows) for one, share in shares)
    return constant_ns > (1.0 - LEAST_CHANGED[multiplies_anew]) * kernels_ns


def _gone(flow: OperatorFlow, saved: dict[str, float]) -> float:
    """The share of an operator's calls that are made no more; products with zeros are still made."""
    gone = flow.again + min(flow.unread, flow.calls) + flow.adding + flow.constant + flow.sliced
    if saved.get(SPLIT):
        gone += flow.calls - min(left for left in (flow.batches, flow.sums, flow.calls) if left)
    return min(1.0, gone / flow.calls)


def _saved(matched: _Matched, ceilings: Ceilings, reached: float, sparse_cost: float) -> dict[str, float]:
    """By kind, what the calls of one operator would not have taken; each kind of what the one before leaves."""
    flow, took_ns = matched.flow, matched.took_ns
    saved = {AGAIN: took_ns * flow.again / flow.calls, UNUSED: took_ns * min(flow.unread, flow.calls) / flow.calls}
    left_ns = took_ns - min(took_ns, sum(saved.values()))
    saved[CONSTANT] = min(left_ns, took_ns * flow.constant / flow.calls + left_ns * flow.same_rows)
    left_ns -= saved[CONSTANT]
    saved |= _of_rows(matched, left_ns, ceilings, reached, sparse_cost)
    left_ns -= sum(saved[kind] for kind in ROWS)
    saved[SLICED] = left_ns * flow.sliced / flow.calls
    left_ns -= saved[SLICED]
    saved[STRUCTURE] = left_ns * _spared(matched, ceilings, reached)
    left_ns -= saved[STRUCTURE]
    saved[SPLIT] = left_ns * flow.adding / flow.calls
    together_ns = _together_ns(matched, ceilings)
    if together_ns is not None:
        saved[SPLIT] = max(saved[SPLIT], left_ns - together_ns / reached)
    return saved


def _of_rows(
    matched: _Matched, left_ns: float, ceilings: Ceilings, reached: float, sparse_cost: float
) -> dict[str, float]:
    """What is saved of rows that are empty, dropped, not read, or there before.

    Usually by the kind that saves most, as the same rows may be of several: padding is alike, and dropped in the end;
    and the other factor is read however few are left. At the most (`reached` 1) by each of what the one before leaves.
    """
    flow, usual = matched.flow, reached < 1.0
    shares = {
        ZEROS: max(flow.zero_rows, 1.0 - min(1.0, flow.nonzero * sparse_cost)),
        DROPPED: max(flow.masked_rows, 1.0 - min(1.0, (1.0 - flow.masked) * sparse_cost)),
        PARTLY: flow.partly if usual else max(flow.partly, flow.perhaps),
        REPEATED: flow.surely_repeated if usual else flow.repeated,
    }
    saved = dict.fromkeys(ROWS, 0.0)
    if usual:
        first = max(ROWS, key=shares.__getitem__)
        least_ns = _weights_ns(matched, ceilings, reached) if first in (PARTLY, REPEATED) else 0.0
        saved[first] = max(0.0, min(left_ns * shares[first], left_ns - least_ns))
        return saved
    for kind in ROWS:
        least_ns = _weights_ns(matched, ceilings, reached) if kind == PARTLY else 0.0
        saved[kind] = max(0.0, min(left_ns * shares[kind], left_ns - least_ns))
        left_ns -= saved[kind]
    return saved


def _weights_ns(matched: _Matched, ceilings: Ceilings, reached: float) -> float:
    """What it takes to read the second factors of products."""
    factors, read = _factors(matched.flow.name, matched.call), ceilings.read_bytes_per_s
    if factors is None or not read:
        return 0.0
    return matched.flow.calls * factors[1].footprint / (read * reached) * 1e9


def _spared(matched: _Matched, ceilings: Ceilings, reached: float) -> float:
    """The share of products that another order of their sums would spare, where a factor is made of few numbers.

    At the most (`reached` 1) each row is multiplied with each number once. Usually only where an order is known, and
    then by the factors in turn: of a Kronecker product of two alike, which has 2/n numbers for each element, they take
    2/√n of its operations; repeated rows and matrices of low rank take fewer. The other operand and the result are
    moved however it is done, and what lies between two factors with them.
    """
    flow, stages = matched.flow, 1 if reached >= 1.0 else 2
    calls = flow.structured if reached >= 1.0 else flow.factored
    operations = flow.few if reached >= 1.0 else min(1.0, math.sqrt(2.0 * flow.few))
    factors, read = _factors(flow.name, matched.call), ceilings.read_bytes_per_s
    if not calls:
        return 0.0
    moved = 0.0
    if factors is not None and read and matched.took_ns > 0:
        left, right = factors
        result = left.elements // left.sizes[-1] * right.sizes[-1] * left.item_bytes
        least_ns = stages * (min(left.footprint, right.footprint) + result) / (read * reached) * 1e9
        moved = least_ns * flow.calls / matched.took_ns
    return calls / flow.calls * (1.0 - min(1.0, max(operations, moved)))


def _making_ns(matched: Sequence[_Matched]) -> float:
    """What products take that may have written out a table: their results are as large. It is made no more, either."""
    products = [(one, factors) for one in matched if (factors := _factors(one.flow.name, one.call)) is not None]
    tables = {factor.sizes[-2:] for one, factors in products if one.flow.structured for factor in factors}
    makers = (one for one, (left, right) in products if (left.sizes[-2], right.sizes[-1]) in tables)
    return sum(one.took_ns for one in makers if not one.flow.structured)


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
