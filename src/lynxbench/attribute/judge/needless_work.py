"""Work that a step could do without, as operands and kernels show it: look-ups by products, layouts, copies, masks."""

import math
import re
from collections.abc import Iterator

import numpy as np

from lynxbench.attribute.judge.time_book import TimeBook
from lynxbench.attribute.read.operands import OperatorCall
from lynxbench.attribute.read.operator_names import OperatorKind, is_attention, is_layout, operator_kind
from lynxbench.attribute.read.trace import NONE, EventKind, Flags
from lynxbench.attribute.tile.tiling import AlikeCalls

TURNING = frozenset({"aten::_convolution", "aten::addmm", "aten::baddbmm", "aten::addbmm", "aten::addmv"})
"""Products that copy what they were given, on a CPU."""
MASK_PLACE = 3
"""Queries, keys and values stand before it."""
LARGE_ROW_BYTES = 1 << 16
"""A row of a table of embeddings is smaller; what one reader has in a cache, or one sample in a batch, is larger."""
MOST_ROWS = 0.5
"""Of a tensor: who picks fewer rows looks them up."""
BY_ROWS = "vectorized_gather_kernel"
"""PyTorch's kernel for an index that picks whole rows."""
_PLACE = re.compile(r"-?\d+")
WHOLE_NUMBERS = frozenset({"long int", "int", "unsigned char", "signed char", "bool"})

# --- rows picked by a product with ones and zeros ---------------------------------------------------------------------


def find_picking(book: TimeBook, *, surely: bool = False) -> tuple[float, float]:
    """Nanoseconds and kernels a step in work on one-hot rows: what a look-up does without arithmetic.

    Scores that are picked from are as large as the rows that pick. `surely`: only work on whole numbers of that size,
    and on two operands: what works on one alone may be the making of the scores.
    """
    tiling = book.tiling
    rows = tiling.trace.rows_named("aten::one_hot".__eq__, EventKind.OPERATOR)
    numbers = set(tiling.trace.signature[rows].tolist()) - {NONE}
    sizes = {_one_hot_elements(tiling.trace.signatures[number]) for number in numbers} - {0}
    took = count = 0
    for calls in tiling.calls if sizes else ():
        as_large = [t for t in calls.call.tensors if t.elements in sizes] if calls.call is not None else []
        if not as_large or calls.call is None:
            continue
        whole = any(tensor.dtype in WHOLE_NUMBERS for tensor in as_large)
        if surely and not whole and len(calls.call.tensors) < 2:
            continue
        took += int(calls.took_ns.sum())
        count += len(calls.took_ns)
    return took / len(book), count / len(book)


def _one_hot_elements(call: OperatorCall) -> int:
    """Elements of the rows that were made; 0 where the number of classes was left to the data."""
    classes = [int(text) for text in call.concrete if text.isdigit()]
    return call.tensors[0].elements * classes[0] if call.tensors and classes else 0


# --- operands laid out anew inside an operator ------------------------------------------------------------------------


def find_relaid(book: TimeBook) -> tuple[float, float]:
    """Nanoseconds and kernels a step that only bring operands into the layout of the kernel that computes."""
    relaid = [calls for calls in book.tiling.calls if is_layout(calls.kernel or "")]
    took = sum(int(calls.took_ns.sum()) for calls in relaid)
    return took / len(book), sum(len(calls.took_ns) for calls in relaid) / len(book)


def find_own_copies(book: TimeBook) -> tuple[float, float]:
    """Nanoseconds and calls a step on the host in copies inside a product: it turns its operands for itself, or begins
    with what is added."""
    took = count = 0
    for calls, inside in _own_copies(book):
        took += int(calls.took_ns[inside].sum())
        count += int(inside.sum())
    return took / len(book), count / len(book)


def _own_copies(book: TimeBook) -> Iterator[tuple[AlikeCalls, Flags]]:
    """Copies on the host, and which of their calls are inside a product."""
    trace = book.tiling.trace
    outer = trace.rows_named(TURNING.__contains__, EventKind.OPERATOR)
    if book.tiling.on_device or not len(outer):
        return
    outer = outer[np.argsort(trace.start_ns[outer], kind="stable")]
    begins, ends = trace.start_ns[outer], trace.end_ns[outer]
    for calls in book.tiling.calls:
        if calls.operator is None or operator_kind(calls.operator) is not OperatorKind.COPY:
            continue
        at = np.searchsorted(begins, trace.start_ns[calls.rows], side="right") - 1
        inside = (at >= 0) & (trace.end_ns[calls.rows] <= ends[np.maximum(at, 0)])
        inside &= trace.thread[calls.rows] == trace.thread[outer[np.maximum(at, 0)]]
        yield calls, inside


# --- rows in another order --------------------------------------------------------------------------------------------


def find_reordered(book: TimeBook, *, fetched: bool = True) -> tuple[float, float]:
    """Nanoseconds and kernels a step that only write a tensor's rows again, most of them and large ones, by index.

    `fetched`: by any operator that picks along one dimension, and not by `gather` alone.
    """
    again = [
        calls for calls in book.tiling.calls if calls.call is not None and _is_reordering(calls.call, calls.operator)
    ]
    again += _fetching(book) if fetched else []
    took = sum(int(calls.took_ns.sum()) for calls in again)
    return took / len(book), sum(len(calls.took_ns) for calls in again) / len(book)


def _is_reordering(call: OperatorCall, operator: str | None) -> bool:
    """A gather whose index says the same for whole rows: as PyTorch picks rows on a device."""
    if operator != "aten::gather" or len(call.tensors) < 2:
        return False
    source, index = call.tensors[:2]
    if index.dtype not in WHOLE_NUMBERS or not index.elements or not source.elements:
        return False
    indices = index.footprint / (index.whole_bytes / index.elements)
    row_bytes = index.elements / max(1.0, indices) * source.whole_bytes / source.elements
    return row_bytes >= LARGE_ROW_BYTES and index.elements >= MOST_ROWS * source.elements


def _fetching(book: TimeBook) -> list[AlikeCalls]:
    """What writes large rows again by an index, with the further kernels that a call of it takes for long results."""
    known = {id(calls): calls for calls, _, _ in _fetched_rows(book)}
    alike = {(calls.operator, calls.kernel) for calls in known.values()}
    others = [calls for calls in book.tiling.calls if id(calls) not in known]
    alike -= {(calls.operator, calls.kernel) for calls in others if calls.call is not None}
    return [*known.values(), *(calls for calls in others if (calls.operator, calls.kernel) in alike)]


def _fetched_rows(book: TimeBook) -> Iterator[tuple[AlikeCalls, int, int]]:
    """Calls on a device that write most of a tensor's large rows again, picked along a dimension; elements before and
    after.

    What an index picks the profiler does not record: it is known where values were followed, and that it picks whole
    rows is told by the kernel.
    """
    flow = book.tiling.trace.dataflow
    moved = {one.key: one.moved for one in flow.operators} if flow is not None and flow.whole else {}
    for calls in book.tiling.calls if book.tiling.on_device else ():
        source = calls.call.tensors[0] if calls.call is not None and calls.call.tensors else None
        if source is None or calls.call is None or not source.sizes or not source.elements:
            continue
        place, picked = 0, 0
        if calls.operator == "aten::index_select" and len(calls.call.tensors) > 1:
            place = int(next((text for text in calls.call.concrete if _PLACE.fullmatch(text)), "0"))
            picked = calls.call.tensors[1].elements
        elif calls.operator == "aten::index" and BY_ROWS in (calls.kernel or ""):
            row_bytes = source.whole_bytes // source.sizes[0]
            sizes = tuple(tensor.sizes for tensor in calls.call.tensors if tensor.sizes)
            picked = moved.get((calls.operator, sizes), 0) // 2 // row_bytes
        if -len(source.sizes) <= place < len(source.sizes) and picked >= MOST_ROWS * source.sizes[place]:
            row = math.prod(source.sizes[place:][1:])
            if row * source.item_bytes >= LARGE_ROW_BYTES:
                yield calls, source.elements, source.elements // source.sizes[place] * picked


# --- operands that are larger than they need be ---------------------------------------------------------------------


def find_expansion(book: TimeBook, *, but_own: bool = True, fetched: bool = True) -> float:
    """Nanoseconds a step that kernels take longer because they read a copy that repeats what it was made from.

    `but_own`: not those that a product makes for itself, as it does of what is added; nobody else reads these.
    `fetched`: those that an index makes, too.
    """
    calls = [calls for calls in book.tiling.calls if calls.call is not None]
    own = {id(copies) for copies, inside in _own_copies(book) if inside.all()} if but_own else set()
    times: dict[int, float] = {}
    copies = (one for one in calls if operator_kind(one.operator or "") is OperatorKind.COPY)
    for call in (one.call for one in copies if id(one) not in own):
        for tensor in call.tensors if call is not None else ():
            if tensor.footprint and tensor.footprint < tensor.whole_bytes:
                times[tensor.elements] = tensor.whole_bytes / tensor.footprint
    rows = list(_fetched_rows(book)) if fetched else []
    times |= {after: after / before for _, before, after in rows if after > before}
    fetching = {id(one) for one, _, _ in rows}
    saved = 0.0
    for one in calls if times else ():
        if one.call is None or operator_kind(one.operator or "") is OperatorKind.COPY or id(one) in fetching:
            continue
        needed = sum(tensor.footprint / times.get(tensor.elements, 1.0) for tensor in one.call.tensors)
        saved += float(one.took_ns.sum()) * (1.0 - needed / max(1, one.call.footprint))
    return saved / len(book)


def find_masked(book: TimeBook) -> float:
    """Nanoseconds a step of attention whose mask is written out: as many numbers as there are pairs of positions."""
    took = 0
    for calls in book.tiling.calls:
        if calls.call is None or not is_attention(calls.operator or "") or len(calls.call.tensors) < MASK_PLACE + 1:
            continue
        query, mask = calls.call.tensors[0], calls.call.tensors[MASK_PLACE]
        square = len(mask.sizes) >= 2 and mask.sizes[-1] == mask.sizes[-2] > 1
        took += int(calls.took_ns.sum()) if square and mask.sizes[-2] in query.sizes[1:3] else 0
    return took / len(book)
