"""Work of ONNX operators. ONNX Runtime's profile gives results as well as operands, but leaves out packed weights."""

from __future__ import annotations

import math
from collections.abc import Callable

from lynxbench.attribute.judge.roofline import OperatorWork
from lynxbench.attribute.read.operands import ITEM_BYTES, OperandTensor, OperatorCall
from lynxbench.attribute.read.operator_names import ONNX_INTEGER_PRODUCTS, OperatorKind

INTEGER_DTYPE = "int8"
NBITS_BYTES = 0.5
"""Weights of MatMulNBits are four bits wide in every model seen; scales add a few percent and are operands."""
GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}


def estimate_onnx(short: str, kind: OperatorKind, call: OperatorCall) -> OperatorWork | None:
    """The work of one node from its operands and results; None where they do not tell."""
    tensors = call.tensors
    if not tensors or not call.results or not call.results[0]:
        return None
    if kind is OperatorKind.PRODUCT:
        return _PRODUCTS.get(short, _product)(short, call)
    written = _result_bytes(call)
    elements = math.prod(call.results[0])
    if kind is OperatorKind.GATHER:
        picked = float(elements * tensors[0].item_bytes)
        return OperatorWork(0.0, picked + sum(t.footprint for t in tensors[1:]), picked, tensors[0].dtype)
    if kind is OperatorKind.COPY:
        # A slice reads what it keeps.
        return OperatorWork(0.0, min(call.footprint, written), written, tensors[0].dtype)
    passes = 5.0 if kind is OperatorKind.NORMALISATION else 1.0
    most = max(elements, *(t.elements for t in tensors))
    return OperatorWork(passes * most, call.footprint, written, tensors[0].dtype)


def _result_bytes(call: OperatorCall) -> float:
    return float(sum(math.prod(sizes) for sizes in call.results) * call.tensors[0].item_bytes)


def _computed_in(short: str, x: OperandTensor) -> tuple[str, int]:
    """The element type of the product, and the bytes of a weight that is not shown."""
    return (INTEGER_DTYPE, 1) if short in ONNX_INTEGER_PRODUCTS else (x.dtype, x.item_bytes)


def _product(short: str, call: OperatorCall) -> OperatorWork | None:
    """`left @ right`, either of them transposed or packed: the result says rows and columns, the left operand k."""
    (left, *others), result = call.tensors, call.results[0]
    n = result[-1]
    elements = math.prod(result)
    right = next((t for t in others if len(t.sizes) >= 2 and n in t.sizes), None)
    k = left.sizes[-1] if left.sizes else 0
    if right is not None and short != "MatMulNBits":
        inner = [a for a, b in (right.sizes[-2:], right.sizes[:-3:-1]) if b == n]
        k = k if k in inner or not inner else inner[0]
    if k <= 0 or n <= 0 or not elements:
        return None
    dtype, weight_bytes = _computed_in(short, left)
    hidden = 0.0 if right is not None else k * n * (NBITS_BYTES if short == "MatMulNBits" else weight_bytes)
    written = elements * (ITEM_BYTES["float"] if short in ONNX_INTEGER_PRODUCTS else left.item_bytes)
    return OperatorWork(2.0 * elements * k, call.footprint + hidden, float(written), dtype)


def _convolution(short: str, call: OperatorCall) -> OperatorWork | None:
    (x, *others), result = call.tensors, call.results[0]
    weight = next((t for t in others if len(t.sizes) == len(x.sizes) and len(t.sizes) >= 3), None)
    if weight is None:
        return None
    positions = x.elements if short == "ConvTranspose" else math.prod(result)
    flops = 2.0 * positions * math.prod(weight.sizes[1:])
    return OperatorWork(flops, call.footprint, math.prod(result) * float(x.item_bytes), _computed_in(short, x)[0])


def _attention(short: str, call: OperatorCall) -> OperatorWork | None:
    """Two products over queries and keys, and for the operator that holds them, the three projections before."""
    (x, *others), results = call.tensors, call.results
    if len(x.sizes) != 3 or len(results[0]) != 3:
        return None
    batch, rows, width = results[0]
    columns = rows
    if short == "MultiHeadAttention" and others and len(others[0].sizes) == 3:
        columns = others[0].sizes[1]
    if len(results) > 1 and len(results[1]) in (4, 5):  # the keys so far: [batch, heads, columns, size]
        columns = max(columns, results[1][-2])
    flops = 4.0 * batch * rows * columns * width
    read = call.footprint
    dtype, weight_bytes = _computed_in(short, x)
    if short in ("Attention", "QAttention"):
        flops += 2.0 * batch * rows * x.sizes[-1] * 3 * width
        if not any(len(t.sizes) == 2 and t.sizes[0] == x.sizes[-1] for t in others):
            read += x.sizes[-1] * 3 * width * weight_bytes
    return OperatorWork(flops, read, _result_bytes(call), dtype)


def _recurrent(short: str, call: OperatorCall) -> OperatorWork | None:
    x, result = call.tensors[0], call.results[0]
    if len(x.sizes) != 3 or len(result) != 4:
        return None
    steps, directions, batch, hidden = result
    cells = directions * GATES[short] * hidden * (x.sizes[-1] + hidden)
    dtype, weight_bytes = _computed_in(short, x)
    read = float(x.footprint + cells * weight_bytes)
    return OperatorWork(2.0 * steps * batch * cells, read, _result_bytes(call), dtype)


_PRODUCTS: dict[str, Callable[[str, OperatorCall], OperatorWork | None]] = {
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv", "ConvTranspose"), _convolution),
    **dict.fromkeys(("QLinearConv", "ConvInteger"), _convolution),
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"), _attention),
    **dict.fromkeys(GATES, _recurrent),
}
