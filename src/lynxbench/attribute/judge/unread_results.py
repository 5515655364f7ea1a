"""Products of whose result only a part is read: what follows them in the step shows it, by sizes and strides.

A view that leaves rows or columns out keeps the strides of the whole: an operand [4, 64000] with strides
(65 536 000, 1) is one place in 1024 of a result of 4 × 1024 × 64 000. That alone may be a view of something else, and
the rest may be read by others. So nothing is said where another operand of the step is as large as the result, where an
activity behind the product shows no operands, or where all that is read behind it could be half of the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.judge.roofline import FIXED_COST_NS
from lynxbench.attribute.judge.time_book import TimeBook
from lynxbench.attribute.read.operands import OperandTensor, OperatorCall
from lynxbench.attribute.read.operator_names import OperatorKind, is_view, operator_kind
from lynxbench.attribute.read.trace import NONE, EventKind, distinct
from lynxbench.attribute.tile.tiling import LEAF_SHARE, find_launching

FACTORS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2)}
"""Products by the places of their two factors among the arguments."""
WORTH_A_WORD = 0.2
"""Share of a step that a product must take before it is looked at."""
MOST_READ = 0.5
"""Share of a result that everything behind it may read at the most before nothing is said of it."""


@dataclass(frozen=True, slots=True)
class UnreadResult:
    """A product of one step, and how little of its result is read there."""

    operator: str
    elements: int
    read: int
    """Elements that operators behind it read, of whatever: its own at the most."""
    took_ns: float
    weight_bytes: float
    """What the product reads however few of its rows are wanted; where its diagonal is, both factors."""
    diagonal: bool = False

    @property
    def part(self) -> float:
        """The share of the result that is read at the most."""
        return self.read / self.elements

    def saved_ns(self, bytes_per_s: float | None, reached: float = 1.0) -> float:
        """What the product takes less where it makes only what is read, by a kernel that reaches so much of memory."""
        weights_ns = self.weight_bytes / (bytes_per_s * reached) * 1e9 if bytes_per_s else self.took_ns
        return max(0.0, self.took_ns - max(self.part * self.took_ns, weights_ns))


@dataclass(frozen=True, slots=True)
class LaunchedOperator:
    """An operator of the last step that the device, or the host itself, worked for."""

    name: str
    call: OperatorCall
    took_ns: int
    known: bool
    """Whether its operands were recorded."""

    @property
    def writes_first(self) -> bool:
        """Whether it changes its first operand in place."""
        return self.name.endswith("_")

    @property
    def factors(self) -> tuple[OperandTensor, OperandTensor] | None:
        """Of a product: the tensors that are multiplied."""
        try:
            left, right = (self.call.tensor(place) for place in FACTORS[self.name])
        except (KeyError, IndexError):
            return None
        whole = len(left.sizes) == len(right.sizes) >= 2 and left.elements > 0 and right.elements > 0
        return (left, right) if whole else None


def find_unread(launched: Sequence[LaunchedOperator], step_ns: float, *, diagonals: bool = True) -> UnreadResult | None:
    """Of a step's operators in their order: the product that makes most in vain; None where no operands show it.

    `diagonals`: also where its diagonal is all that is read.
    """
    least_ns = WORTH_A_WORD * step_ns
    places = [place for place, one in enumerate(launched) if one.took_ns >= least_ns and one.factors is not None]
    found = [one for place in places if (one := _unread(launched, place, diagonals)) is not None]
    return max(found, key=lambda one: one.took_ns * (1.0 - one.part), default=None)


def launched_operators(book: TimeBook, *, on_host: bool = True) -> tuple[LaunchedOperator, ...]:
    """Operators of the last step in the order in which they were taken up; `on_host`: also where that was the host."""
    if book.tiling.on_device:
        return tuple(_launched(book))
    return tuple(_run(book)) if on_host else ()


def _run(book: TimeBook) -> Iterator[LaunchedOperator]:
    """Operators of the last step that worked on the host; who only calls others, or makes a view, did not."""
    tiling = book.tiling
    trace, stretches = tiling.trace, tiling.stretches
    mine = (stretches.row != NONE) & (stretches.step == len(book) - 1)
    rows = distinct(stretches.row[mine])
    own = np.bincount(stretches.row[mine], weights=stretches.dur_ns[mine], minlength=len(trace))
    for row in rows[trace.kind[rows] == EventKind.OPERATOR].tolist():
        name = trace.names[trace.name[row]]
        kind = operator_kind(name)
        works = kind is not OperatorKind.ALLOCATION and not is_view(name)
        if kind is OperatorKind.DISPATCH:
            works &= own[row] >= max(LEAF_SHARE * trace.dur_ns[row], FIXED_COST_NS)
        if works:
            known = trace.signature[row] != NONE
            call = trace.signatures[trace.signature[row]] if known else OperatorCall()
            yield LaunchedOperator(name, call, int(own[row]), known)


def _launched(book: TimeBook) -> Iterator[LaunchedOperator]:
    tiling = book.tiling
    trace, stretches = tiling.trace, tiling.stretches
    mine = (stretches.row != NONE) & (stretches.step == len(book) - 1)
    rows = distinct(stretches.row[mine])
    rows = rows[trace.kind[rows] != EventKind.MEMSET]
    own = np.bincount(stretches.row[mine], weights=stretches.dur_ns[mine], minlength=len(trace))
    seen: dict[int, tuple[int, int]] = {}
    for number, (row, operator) in enumerate(zip(rows.tolist(), find_launching(trace, rows).tolist(), strict=True)):
        key = operator if operator != NONE else -2 - number
        took = int(own[row]) + seen.pop(key, (NONE, 0))[1]  # to its last activity
        seen[key] = operator, took
    for operator, took in seen.values():
        known = operator != NONE and trace.signature[operator] != NONE
        call = trace.signatures[trace.signature[operator]] if known else OperatorCall()
        name = trace.names[trace.name[operator]] if operator != NONE else ""
        yield LaunchedOperator(name, call, took, bool(call.tensors))


def _unread(launched: Sequence[LaunchedOperator], place: int, diagonals: bool) -> UnreadResult | None:
    product, behind = launched[place], launched[place + 1 :]
    if product.factors is None or not all(one.known for one in behind):
        return None
    left, right = product.factors
    width = right.sizes[-1]
    elements = left.elements // left.sizes[-1] * width
    views: set[int] = set()
    needed_bytes = float(right.footprint)
    for one in behind:
        for number, tensor in enumerate(one.call.tensors):
            step = _outer_step(tensor, elements) if tensor.dtype == left.dtype else 0
            across = diagonals and tensor.dtype == left.dtype and _is_diagonal(tensor, left.sizes[-2], width, elements)
            if across or (step and step % width == 0):
                if number == 0 and one.writes_first:
                    return None  # a part is changed in its place: somebody wants the whole
                views.add(width + 1 if across else step)
                needed_bytes = float(left.footprint + right.footprint) if across else needed_bytes
    read = sum(tensor.footprint // tensor.item_bytes for one in behind for tensor in one.call.tensors)
    if not views or read > MOST_READ * elements or any(_may_be_read(one, elements, views) for one in launched):
        return None
    return UnreadResult(product.name, elements, read, float(product.took_ns), needed_bytes, width + 1 in views)


def _outer_step(tensor: OperandTensor, elements: int) -> int:
    """The outermost stride of a view that leaves parts of so many elements out; 0 where it is no such view."""
    if tensor.strides is None or not tensor.sizes or not 0 < tensor.elements < elements or min(tensor.strides) <= 0:
        return 0
    size, step = max(zip(tensor.sizes, tensor.strides, strict=True), key=lambda pair: pair[1])
    return step if size * step == elements and tensor.strides != _dense(tensor.sizes) else 0


def _is_diagonal(tensor: OperandTensor, rows: int, width: int, elements: int) -> bool:
    """Whether an operand is the diagonal of each matrix of a result of so many elements."""
    if tensor.strides is None or not tensor.sizes or tensor.strides[-1] != width + 1:
        return False
    matrices = elements // (rows * width)
    return tensor.sizes[-1] == min(rows, width) > 1 and tensor.elements == matrices * tensor.sizes[-1]


def _may_be_read(one: LaunchedOperator, elements: int, views: set[int]) -> bool:
    """Whether an operand is as large as the result, and may be it or what the views are of.

    The second factor of a product is a weight: views with strides that it does not have are not of it.
    """
    for tensor in one.call.tensors:
        weight = one.factors is not None and tensor is one.factors[1]
        strides = set(tensor.strides or _dense(tensor.sizes))
        if tensor.elements == elements and (not weight or strides & views):
            return True
    return False


def _dense(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor of these sizes without gaps."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))
