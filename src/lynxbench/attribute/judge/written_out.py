"""Factors that the step wrote out from far fewer numbers, as sizes show it where values were not followed.

A trace shows sizes, not which tensor is read. So it is a doubt and no more, and only where all that reads a tensor of
that size from there on is a product with it as a factor, or a copy. An exponential of it, a softmax or a mask forbids
the cheaper order, and shows as an operator that reads as much.
"""

import math
from collections.abc import Iterator, Sequence

from lynxbench.attribute.judge.operator_work import broadcast_sizes
from lynxbench.attribute.judge.unread_results import WORTH_A_WORD, LaunchedOperator
from lynxbench.attribute.read.dataflow import FAR_FEWER
from lynxbench.attribute.read.operands import OperandTensor

MULTIPLYING_OUT = frozenset({"aten::mul", "aten::add", "aten::sub"})
COPY = "aten::copy_"


def find_written_out(
    launched: Sequence[LaunchedOperator], step_ns: float, bytes_per_s: float | None
) -> dict[str, float]:
    """By product, nanoseconds that another order might spare at the most; empty where no sizes show any."""
    spared: dict[str, float] = {}
    for place, product in enumerate(launched):
        share = _share_left(launched, place, bytes_per_s) if product.took_ns >= WORTH_A_WORD * step_ns else 1.0
        if share < 1.0:
            spared[product.name] = spared.get(product.name, 0.0) + product.took_ns * (1.0 - share)
    return spared


def _share_left(launched: Sequence[LaunchedOperator], place: int, bytes_per_s: float | None) -> float:
    """What a product takes at the least where a factor was made of far fewer numbers, over what it took; else 1."""
    product = launched[place]
    if product.factors is None or product.took_ns <= 0:
        return 1.0
    left, right = product.factors
    result = left.elements // left.sizes[-1] * right.sizes[-1] * left.item_bytes
    shares = [1.0]
    for factor, other in ((left, right), (right, left)):
        moved_ns = (other.footprint + result) / bytes_per_s * 1e9 if bytes_per_s else 0.0
        one = factor.sizes[-1] * factor.sizes[-2]
        for maker, elements, numbers in _makers(launched[:place], factor.dtype):
            as_large = elements == factor.elements and numbers * FAR_FEWER <= one
            if as_large and _is_only_multiplied(launched[maker + 1 :], factor):
                shares.append(max(numbers / one, moved_ns / product.took_ns))
    return min(shares)


def _makers(launched: Sequence[LaunchedOperator], dtype: str) -> Iterator[tuple[int, int, float]]:
    """Operators that wrote such a tensor: their place, its elements, and the numbers that they read for it."""
    for place, one in enumerate(launched):
        tensors = [tensor for tensor in one.call.tensors if tensor.sizes]
        if one.name == COPY and len(tensors) == 2 and tensors[0].dtype == dtype:
            yield place, tensors[0].elements, tensors[1].footprint / tensors[1].item_bytes
        elif one.name in MULTIPLYING_OUT and len(tensors) == 2 and all(one.dtype == dtype for one in tensors):
            sizes = broadcast_sizes([tensor.sizes for tensor in tensors])
            if sizes is not None:
                yield place, math.prod(sizes), sum(one.footprint / one.item_bytes for one in tensors)


def _is_only_multiplied(behind: Sequence[LaunchedOperator], factor: OperandTensor) -> bool:
    """Whether all that reads a tensor as large is a product with it as a factor, or a copy, and nothing is hidden."""
    return all(one.known for one in behind) and all(
        one.name == COPY or any(tensor is other for other in one.factors or ())
        for one in behind
        for tensor in one.call.tensors
        if tensor.elements == factor.elements
    )
