"""Work of ONNX operators. ONNX Runtime's profile gives results as well as operands, but leaves out packed weights."""

from __future__ import annotations

import math
from collections.abc import Callable

from lynxbench.attribute.operands import ITEM_BYTES, OperatorWork, count_elements, footprint, item_bytes
from lynxbench.attribute.operators import ONNX_INTEGER_PRODUCTS, OperatorKind
from lynxbench.attribute.trace_columns import OperandTensor, OperatorCall

INTEGER_DTYPE = "int8"
NBITS_BYTES = 0.5
"""Weights of MatMulNBits are four bits wide in every model seen; scales add a few percent and are operands."""
GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}


def estimate_onnx(short: str, kind: OperatorKind, signature: OperatorCall) -> OperatorWork | None:
    """The work of one node from its operands and results; None where they do not tell."""
    tensors = signature.tensors
    if not tensors or not signature.results or not signature.results[0]:
        return None
    if kind is OperatorKind.PRODUCT:
        rule = _PRODUCTS.get(short, _product)
        return rule(short, tensors, signature.results)
    out = _result_bytes(tensors, signature.results)
    elements = math.prod(signature.results[0])
    if kind is OperatorKind.GATHER:
        picked = elements * item_bytes(tensors[0])
        return OperatorWork(
            0.0, float(picked + sum(footprint(t) for t in tensors[1:])), float(picked), tensors[0].dtype
        )
    if kind is OperatorKind.COPY:
        read = min(float(sum(footprint(t) for t in tensors)), out)  # a slice reads what it keeps
        return OperatorWork(0.0, read, out, tensors[0].dtype)
    passes = 5.0 if kind is OperatorKind.NORMALISATION else 1.0
    most = max(elements, *(count_elements(t) for t in tensors))
    return OperatorWork(passes * most, float(sum(footprint(t) for t in tensors)), out, tensors[0].dtype)


def _result_bytes(tensors: tuple[OperandTensor, ...], results: tuple[tuple[int, ...], ...]) -> float:
    return float(sum(math.prod(sizes) for sizes in results) * item_bytes(tensors[0]))


def _product(
    short: str, tensors: tuple[OperandTensor, ...], results: tuple[tuple[int, ...], ...]
) -> OperatorWork | None:
    """`left @ right`, either of them transposed or packed: the result says rows and columns, the left operand k."""
    left, out = tensors[0], results[0]
    n = out[-1]
    elements = math.prod(out)
    right = next((t for t in tensors[1:] if len(t.sizes) >= 2 and n in t.sizes), None)
    k = left.sizes[-1] if left.sizes else 0
    if right is not None and short != "MatMulNBits":
        inner = [a for a, b in (right.sizes[-2:], right.sizes[:-3:-1]) if b == n]
        k = k if k in inner or not inner else inner[0]
    if k <= 0 or n <= 0 or not elements:
        return None
    integer = short in ONNX_INTEGER_PRODUCTS
    if right is not None:
        weights = float(footprint(right))
    elif short == "MatMulNBits":
        weights = k * n * NBITS_BYTES
    else:
        weights = float(k * n * (1 if integer else item_bytes(left)))
    extra = sum(footprint(t) for t in tensors[1:] if t is not right)
    written = elements * (ITEM_BYTES["float"] if integer else item_bytes(left))
    dtype = INTEGER_DTYPE if integer else left.dtype
    return OperatorWork(2.0 * elements * k, footprint(left) + weights + extra, float(written), dtype)


def _convolution(
    short: str, tensors: tuple[OperandTensor, ...], results: tuple[tuple[int, ...], ...]
) -> OperatorWork | None:
    x, out = tensors[0], results[0]
    weight = next((t for t in tensors[1:] if len(t.sizes) == len(x.sizes) and len(t.sizes) >= 3), None)
    if weight is None:
        return None
    integer = short in ONNX_INTEGER_PRODUCTS
    flops = 2.0 * math.prod(out) * math.prod(weight.sizes[1:])
    if short == "ConvTranspose":
        flops = 2.0 * count_elements(x) * math.prod(weight.sizes[1:])
    read = float(sum(footprint(t) for t in tensors))
    return OperatorWork(flops, read, math.prod(out) * float(item_bytes(x)), INTEGER_DTYPE if integer else x.dtype)


def _attention(
    short: str, tensors: tuple[OperandTensor, ...], results: tuple[tuple[int, ...], ...]
) -> OperatorWork | None:
    """Two products over queries and keys, and for the operator that holds them, the three projections before."""
    x, out = tensors[0], results[0]
    if len(x.sizes) != 3 or len(out) != 3:
        return None
    batch, rows, width = out
    columns = rows
    if short == "MultiHeadAttention" and len(tensors) > 1 and len(tensors[1].sizes) == 3:
        columns = tensors[1].sizes[1]
    if len(results) > 1 and len(results[1]) in (4, 5):  # the keys so far: [batch, heads, columns, size]
        columns = max(columns, results[1][-2])
    flops = 4.0 * batch * rows * columns * width
    read = float(sum(footprint(t) for t in tensors))
    projects = short in ("Attention", "QAttention")
    if projects:
        flops += 2.0 * batch * rows * x.sizes[-1] * 3 * width
        if not any(len(t.sizes) == 2 and t.sizes[0] == x.sizes[-1] for t in tensors[1:]):
            read += x.sizes[-1] * 3 * width * (1 if short == "QAttention" else item_bytes(x))
    dtype = INTEGER_DTYPE if short == "QAttention" else x.dtype
    return OperatorWork(flops, read, _result_bytes(tensors, results), dtype)


def _recurrent(
    short: str, tensors: tuple[OperandTensor, ...], results: tuple[tuple[int, ...], ...]
) -> OperatorWork | None:
    x, out = tensors[0], results[0]
    if len(x.sizes) != 3 or len(out) != 4:
        return None
    steps, directions, batch, hidden = out
    cells = directions * GATES[short] * hidden * (x.sizes[-1] + hidden)
    integer = short in ONNX_INTEGER_PRODUCTS
    read = float(footprint(x) + cells * (1 if integer else item_bytes(x)))
    dtype = INTEGER_DTYPE if integer else x.dtype
    return OperatorWork(2.0 * steps * batch * cells, read, _result_bytes(tensors, results), dtype)


_Rule = Callable[[str, tuple[OperandTensor, ...], tuple[tuple[int, ...], ...]], "OperatorWork | None"]
_PRODUCTS: dict[str, _Rule] = {
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv", "ConvTranspose"), _convolution),
    **dict.fromkeys(("QLinearConv", "ConvInteger"), _convolution),
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"), _attention),
    **dict.fromkeys(GATES, _recurrent),
}
