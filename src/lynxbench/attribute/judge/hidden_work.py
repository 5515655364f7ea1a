"""Operators whose least work their operands do not tell, so that nobody can say how near its ceiling they ran.

Decompositions, transforms, recurrent layers, searches and counts read what they read many times, or in turn; random
numbers are computed, on a processor one after the other; what is stored sparsely has fewer elements than its sizes say;
and windows that overlap show each value to a sum as often as it lies in one.
"""

from lynxbench.attribute.read.operands import OperandTensor, OperatorCall
from lynxbench.attribute.read.operator_names import OperatorKind, draws_numbers, hides_work, is_ordering
from lynxbench.model.attribution import Category

SHOWN_TIMES = 4.0
"""How often a reduction reads each value of an operand before its sizes say nothing of its least work."""
FACTORS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "matmul")
"""Products that take operands that are stored sparsely, too."""


def is_hidden(name: str, kind: OperatorKind, call: OperatorCall | None, *, on_device: bool) -> bool:
    """Whether a call's operands do not tell what it has to do."""
    if hides_work(name) or (draws_numbers(name) and not on_device):
        return True
    if call is None:
        return False
    if kind is OperatorKind.PRODUCT and name.rpartition("::")[2].partition(".")[0] in FACTORS:
        stored = [tensor.strides is not None for tensor in call.tensors if tensor.sizes]
        return any(stored) and not all(stored)
    return kind is OperatorKind.REDUCTION and any(times_shown(tensor) >= SHOWN_TIMES for tensor in call.tensors)


def times_shown(tensor: OperandTensor) -> float:
    """How often a view shows each value that it spans, not counting dimensions that only repeat; 1 of usual ones."""
    span = tensor.span_bytes
    return tensor.footprint / span if span else 1.0


def hidden_category(name: str, kind: OperatorKind) -> Category:
    """What such an operator's time goes to: most compute; those that put in order, and sums over windows, move."""
    computes = (hides_work(name) and not is_ordering(name)) or draws_numbers(name) or kind is OperatorKind.PRODUCT
    return Category.COMPUTE if computes else Category.MEMORY_BANDWIDTH
