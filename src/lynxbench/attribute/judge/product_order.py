"""Products in a dear order: of A·B only products and sums are made, so that A·(B·C) would never write A·B.

A trace shows sizes, not which tensor is read. So nothing is said but where the result is larger than either factor and
no other tensor of the step has as many elements: then every operand of that size is such a result. Everything that
reads one has to be a product or a sum; a mask, a softmax or a scale in between forbids the other order, or hides that
it is allowed. Who reads the result after the step is not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from lynxbench.attribute.judge.unread_results import LaunchedOperator
from lynxbench.attribute.read.operands import OperandTensor

SUMS = frozenset({"aten::sum", "aten::mean"})
TIMES_LARGER = 2.0
"""How much larger than its factors a result must be before it is looked at."""


@dataclass(frozen=True, slots=True)
class DearOrder:
    """Products of one step whose results only products and sums read, and what the other order takes."""

    elements: int
    """Of each result."""
    took_ns: float
    """Those products and all that read their results."""
    flops: float
    """Of the other order."""
    moved_bytes: float
    dtype: str

    def saved_ns(self, flops_per_s: float | None, bytes_per_s: float | None, reached: float = 1.0) -> float:
        """What the other order saves by kernels that reach so much of their ceilings; 0 where none was measured."""
        if not flops_per_s or not bytes_per_s:
            return 0.0
        least_ns = max(self.flops / flops_per_s, self.moved_bytes / bytes_per_s) * 1e9
        return max(0.0, self.took_ns - least_ns / reached)


@dataclass(frozen=True, slots=True)
class _Product:
    """A product [matrices, rows, inner] × [matrices, inner, columns] at its place in the step."""

    place: int
    matrices: int
    rows: int
    inner: int
    columns: int
    dtype: str
    item_bytes: int
    took_ns: int

    @property
    def elements(self) -> int:
        return self.matrices * self.rows * self.columns

    @property
    def shape(self) -> tuple[int, int, int, int, str]:
        return self.matrices, self.rows, self.inner, self.columns, self.dtype

    @property
    def is_larger(self) -> bool:
        """Whether the result is much larger than the factors."""
        inputs = self.matrices * self.inner * max(self.rows, self.columns)
        return self.elements >= TIMES_LARGER * inputs


class _Read(NamedTuple):
    """An operand as large as some product's result, and who has it."""

    place: int
    operator: LaunchedOperator
    tensor: OperandTensor


def find_dear_order(launched: Sequence[LaunchedOperator]) -> DearOrder | None:
    """Of a step's operators in their order: the results whose other order saves most; None where none are shown."""
    products = [one for place, operator in enumerate(launched) if (one := _product(place, operator)) is not None]
    large = sorted((one for one in products if one.is_larger), key=lambda one: (one.elements, one.place))
    if not large:
        return None
    unknown = max((place for place, operator in enumerate(launched) if not operator.known), default=-1)
    reads: dict[int, list[_Read]] = {product.elements: [] for product in large}
    for place, operator in enumerate(launched):
        for tensor in operator.call.tensors:
            if tensor.elements in reads:
                reads[tensor.elements].append(_Read(place, operator, tensor))
    sizes = ((size, tuple(made)) for size, made in groupby(large, key=lambda one: one.elements))
    found = (_other_order(made, reads[size]) for size, made in sizes if made[0].place > unknown)
    return max((one for one in found if one is not None), key=lambda one: one.took_ns, default=None)


def _product(place: int, operator: LaunchedOperator) -> _Product | None:
    if operator.factors is None:
        return None
    left, right = operator.factors
    rows, inner = left.sizes[-2:]
    matrices = left.elements // (rows * inner)
    return _Product(place, matrices, rows, inner, right.sizes[-1], left.dtype, left.item_bytes, operator.took_ns)


def _other_order(made: tuple[_Product, ...], reads: Sequence[_Read]) -> DearOrder | None:
    """What the other order takes for results of one size; None where one of them may be wanted as it is."""
    one = made[0]
    makers = {product.place for product in made}
    once = len({read.place for read in reads}) == len(reads) >= len(made)
    if not once or any(product.shape != one.shape for product in made):
        return None
    took, flops, moved = float(sum(product.took_ns for product in made)), 0.0, 0.0
    for read in reads:
        width = _width_of(read.operator, read.tensor) if read.tensor.dtype == one.dtype else 0
        if not width or read.place < one.place or read.place in makers:
            return None
        took += read.operator.took_ns
        flops += 2.0 * one.matrices * one.inner * width * (one.rows + one.columns)
        factors = one.matrices * one.inner * (one.rows + one.columns + 2 * width)
        moved += one.item_bytes * (factors + one.matrices * width * (one.rows + one.columns))
    return DearOrder(one.elements, took, flops, moved, one.dtype)


def _width_of(operator: LaunchedOperator, read: OperandTensor) -> int:
    """Columns that an operator makes of what it reads: of the other factor, 1 of a sum, 0 of anything else."""
    if operator.name in SUMS:
        return 1
    left, right = operator.factors or (None, None)
    if left is None or right is None:
        return 0
    if read is left:
        return right.sizes[-1]
    return left.sizes[-2] if read is right else 0  # what a product is added to is no factor of it
