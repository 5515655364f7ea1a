"""Operands and launch geometries from the raw texts that the profiler wrote for them."""

from __future__ import annotations

import math
from typing import TypeGuard

import msgspec

from lynxbench.attribute.trace_columns import Launch, OperandTensor, OperatorCall

NOT_TENSORS = frozenset({"", "Scalar", "ScalarList", "GenericList", "None"})
"""Words in `Input type` that stand for arguments without storage."""


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


def parse_launch(grid: bytes, block: bytes) -> Launch:
    """Blocks and threads a block from the launch geometry."""
    return Launch(_product(_json_list(grid)), _product(_json_list(block)))


def _product(values: list[object]) -> int:
    return math.prod(value for value in values if isinstance(value, int))


def _json_list(text: bytes) -> list[object]:
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []
