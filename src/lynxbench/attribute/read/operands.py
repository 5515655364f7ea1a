"""What an operator was called with, from the raw texts that the profiler wrote for it."""

import math
from dataclasses import dataclass
from typing import TypeGuard

import msgspec

from lynxbench.model.precision import Precision
from lynxbench.tables import read_table

NOT_TENSORS = frozenset({"", "Scalar", "ScalarList", "GenericList", "None"})
"""Words in `Input type` that stand for arguments without storage."""
_TYPES = read_table("attribute/read/element_types.toml")
DTYPE_PRECISION = {word: Precision(name) for name, words in _TYPES["precisions"].items() for word in words}
ITEM_BYTES = {word: int(size) for size, words in _TYPES["bytes"].items() for word in words}
DEFAULT_ITEM_BYTES = 4
"""For lists of tensors, whose element type the profiler does not record."""


@dataclass(frozen=True, slots=True)
class OperandTensor:
    """One operand: its sizes, its strides where recorded, and the profiler's word for its element type."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str

    @property
    def elements(self) -> int:
        """How many elements, repeated ones included."""
        return math.prod(self.sizes)

    @property
    def item_bytes(self) -> int:
        """Bytes an element takes."""
        return ITEM_BYTES.get(self.dtype, DEFAULT_ITEM_BYTES)

    @property
    def whole_bytes(self) -> int:
        """Bytes of all elements, repeated ones included."""
        return self.elements * self.item_bytes

    @property
    def footprint(self) -> int:
        """Bytes of distinct elements: a dimension of stride 0 repeats what is there."""
        if self.strides is None:
            return self.whole_bytes
        distinct = (size for size, step in zip(self.sizes, self.strides, strict=True) if step != 0 or size == 0)
        return math.prod(distinct) * self.item_bytes

    @property
    def span_bytes(self) -> int:
        """Bytes from the first element to the last: windows that overlap have more elements than these hold."""
        if self.strides is None or not self.elements:
            return self.whole_bytes
        steps = zip(self.sizes, self.strides, strict=True)
        return min(self.footprint, (1 + sum((size - 1) * abs(step) for size, step in steps)) * self.item_bytes)


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """What an operator was called with, argument by argument; a list of tensors is flattened in place."""

    arguments: tuple[tuple[OperandTensor, ...], ...] = ()
    concrete: tuple[str, ...] = ()
    results: tuple[tuple[int, ...], ...] = ()
    """Sizes of what it returned, where the profiler says so or an inner allocation tells."""

    @property
    def tensors(self) -> tuple[OperandTensor, ...]:
        """All operands in order."""
        return tuple(tensor for argument in self.arguments for tensor in argument)

    def tensor(self, argument: int) -> OperandTensor:
        """The operand of an argument; IndexError where that has none."""
        return self.arguments[argument][0]

    @property
    def footprint(self) -> float:
        """Bytes of all operands' distinct elements."""
        return float(sum(tensor.footprint for tensor in self.tensors))


def parse_signature(dims: bytes, types: bytes, strides: bytes, concrete: bytes, results: bytes = b"") -> OperatorCall:
    """Operands from the profiler's parallel lists; an argument that cannot be read is an argument without tensors."""
    sizes, words = _json_list(dims), _json_list(types)
    steps, values = _json_list(strides), _json_list(concrete)
    arguments = []
    for i, size in enumerate(sizes):
        word = words[i] if i < len(words) and isinstance(words[i], str) else ""
        step = steps[i] if i < len(steps) else None
        arguments.append(_tensors(size, step, str(word)))
    returned = tuple(tuple(size) for size in _json_list(results) if _is_sizes(size))
    return OperatorCall(tuple(arguments), tuple(str(value) for value in values), returned)


def _is_sizes(size: object) -> TypeGuard[list[int]]:
    return isinstance(size, list) and all(isinstance(item, int) and item >= 0 for item in size)


def _tensors(size: object, step: object, word: str) -> tuple[OperandTensor, ...]:
    if not isinstance(size, list) or word in NOT_TENSORS:
        return ()
    if word == "TensorList" or (size and all(isinstance(item, list) for item in size)):
        inner = step if isinstance(step, list) and len(step) == len(size) else [None] * len(size)
        return tuple(t for item, s in zip(size, inner, strict=True) for t in _tensors(item, s, "list element"))
    if not _is_sizes(size):
        return ()
    whole = isinstance(step, list) and len(step) == len(size) and all(isinstance(item, int) for item in step)
    return (OperandTensor(tuple(size), tuple(step) if whole and isinstance(step, list) else None, word),)


def _json_list(text: bytes) -> list[object]:
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []
