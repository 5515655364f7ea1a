"""What an operator with packed weights returned: no weight is shown, but the allocation of its result is."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from lynxbench.attribute.trace_columns import NONE, EventKind, OperatorCall, Trace

_PACKED = re.compile(r"^(quantized|onednn|mkldnn|_quantized)::\w*(linear|matmul)\w*$")
_ALLOCATION = re.compile(r"^aten::(empty|_empty_affine_quantized)$")
_SIZES = re.compile(r"^\[(\d+(?:, ?\d+)*)\]$")


def add_results(trace: Trace) -> Trace:
    """The trace with the result's sizes on calls whose weights are packed, where an allocation inside tells them."""
    packed = np.array([_PACKED.match(name) is not None for name in trace.names], dtype=bool)
    if not packed.any():
        return trace
    operators = trace.rows_of(EventKind.OPERATOR)
    calls = operators[packed[trace.name[operators]] & (trace.signature[operators] != NONE)]
    made = np.array([_ALLOCATION.match(name) is not None for name in trace.names], dtype=bool)
    inner = operators[made[trace.name[operators]] & (trace.signature[operators] != NONE)]
    if not len(calls) or not len(inner):
        return trace
    table = list(trace.signatures)
    column = trace.signature.copy()
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    first = np.searchsorted(trace.start_ns[inner], trace.start_ns[calls])
    last = np.searchsorted(trace.start_ns[inner], trace.end_ns[calls])
    for row, low, high in zip(calls.tolist(), first.tolist(), last.tolist(), strict=True):
        signature = int(trace.signature[row])
        sizes = _result(trace, trace.signatures[signature], inner[low:high].tolist(), int(trace.thread[row]))
        if sizes is None:
            continue
        key = (signature, sizes)
        if key not in known:
            known[key] = len(table)
            table.append(dataclasses.replace(trace.signatures[signature], results=(sizes,)))
        column[row] = known[key]
    return dataclasses.replace(trace, signatures=tuple(table), signature=column)


def _result(trace: Trace, call: OperatorCall, inner: list[int], thread: int) -> tuple[int, ...] | None:
    """The last allocation inside the call that holds a row for every row of the operand."""
    if not call.tensors or not call.tensors[0].sizes:
        return None
    rows = int(np.prod(call.tensors[0].sizes[:-1], dtype=np.int64))
    for row in reversed(inner):
        concrete = trace.signatures[trace.signature[row]].concrete
        match = _SIZES.match(concrete[0]) if concrete and int(trace.thread[row]) == thread else None
        if match is None:
            continue
        sizes = tuple(int(part) for part in match.group(1).split(","))
        if int(np.prod(sizes[:-1], dtype=np.int64)) == rows:
            return sizes
    return None
