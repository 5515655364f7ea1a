"""What one call of an operator has to do, from its operands: arithmetic, and bytes read and written at the least.

Outputs are not recorded by the profiler; they follow from the inputs by the operator's kind. Bytes count each distinct
element once (a dimension of stride 0 is read once), so the figure is a floor and an efficiency from it never flatters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lynxbench.attribute.onnx_work import estimate_onnx
from lynxbench.attribute.operands import (
    DEFAULT_ITEM_BYTES,
    DTYPE_PRECISION,
    OperatorWork,
    count_elements,
    footprint,
    item_bytes,
)
from lynxbench.attribute.operators import ONNX, OperatorKind
from lynxbench.attribute.trace_columns import OperandTensor, OperatorCall

PACKED_DTYPE = "c10::qint8"
PACKED_ITEM_BYTES = 1
"""Packed weights are those of the 8-bit kernels; activations are brought to 8 bits inside the operator."""


def estimate_work(name: str, kind: OperatorKind, signature: OperatorCall) -> OperatorWork | None:
    """The work of one call, or None where the operands do not tell."""
    short = name.rpartition("::")[2].partition(".")[0]
    rule = _RULES.get(short)
    if name.startswith(ONNX):
        rule = lambda short, signature: estimate_onnx(short, kind, signature)  # noqa: E731
    elif rule is None and kind is OperatorKind.PRODUCT:
        rule = _attention if "attention" in short else _convolution if "conv" in short else _linear
    if rule is None:
        rule = _BY_KIND.get(kind)
    if rule is None or not signature.tensors:
        return None
    try:
        work = rule(short, signature)
    except (IndexError, ValueError):
        return None  # an operand list unlike any seen: say nothing rather than something wrong
    if work is None or (work.flops <= 0 and work.total_bytes <= 0):
        return None
    return work


def _widest(tensors: tuple[OperandTensor, ...]) -> OperandTensor:
    return max(tensors, key=lambda t: (count_elements(t), item_bytes(t)))


def _only(signature: OperatorCall, index: int) -> OperandTensor:
    return signature.arguments[index][0]


def _product(
    left: OperandTensor, right: OperandTensor, m: int, n: int, k: int, batch: int = 1, extra: int = 0
) -> OperatorWork:
    out = batch * m * n * item_bytes(left)
    return OperatorWork(2.0 * batch * m * n * k, footprint(left) + footprint(right) + extra, out, left.dtype)


def _mm(short: str, signature: OperatorCall) -> OperatorWork | None:
    first = 1 if short.startswith(("addmm", "_addmm")) else 0
    left, right = _only(signature, first), _only(signature, first + 1)
    (m, k), (k2, n) = left.sizes, right.sizes
    if k != k2:
        return None
    extra = footprint(_only(signature, 0)) if first and signature.arguments[0] else 0
    return _product(left, right, m, n, k, extra=extra)


def _bmm(short: str, signature: OperatorCall) -> OperatorWork | None:
    first = 1 if short in ("baddbmm", "addbmm") else 0
    left, right = _only(signature, first), _only(signature, first + 1)
    (batch, m, k), (_, _, n) = left.sizes, right.sizes
    return _product(left, right, m, n, k, batch)


def _mv(short: str, signature: OperatorCall) -> OperatorWork | None:
    first = 1 if short == "addmv" else 0
    matrix, vector = _only(signature, first), _only(signature, first + 1)
    m, k = matrix.sizes
    return _product(matrix, vector, m, 1, k)


def _dot(short: str, signature: OperatorCall) -> OperatorWork | None:
    left, right = _only(signature, 0), _only(signature, 1)
    return _product(left, right, 1, 1, count_elements(left))


def _linear(short: str, signature: OperatorCall) -> OperatorWork | None:
    """`x @ weight.T`: the weight is the second operand, [out, in]; a packed one shows only in the result's width."""
    x = _only(signature, 0)
    if signature.results and (len(signature.arguments) < 2 or not signature.arguments[1]):
        return _packed_linear(x, signature.results[0])
    weight = _only(signature, 1)
    if len(weight.sizes) != 2 or not x.sizes:
        return None
    k = x.sizes[-1]
    n = weight.sizes[0] if weight.sizes[1] == k else weight.sizes[1] if weight.sizes[0] == k else 0
    rows = count_elements(x) // k if k else 0
    return _product(x, weight, rows, n, k) if n and rows else None


def _packed_linear(x: OperandTensor, result: tuple[int, ...]) -> OperatorWork | None:
    k, n = x.sizes[-1], result[-1]
    rows = count_elements(x) // k if k else 0
    if not rows or not n or math.prod(result) != rows * n:
        return None
    return OperatorWork(
        2.0 * rows * n * k, footprint(x) + k * n * PACKED_ITEM_BYTES, rows * n * item_bytes(x), PACKED_DTYPE
    )


def _matmul(short: str, signature: OperatorCall) -> OperatorWork | None:
    left, right = _only(signature, 0), _only(signature, 1)
    if len(left.sizes) < 2 or len(right.sizes) < 2 or left.sizes[-1] != right.sizes[-2]:
        return None
    m, k, n = left.sizes[-2], left.sizes[-1], right.sizes[-1]
    batch = max(math.prod(left.sizes[:-2]), math.prod(right.sizes[:-2]))
    return _product(left, right, m, n, k, batch)


def _attention(short: str, signature: OperatorCall) -> OperatorWork | None:
    """Two products over queries and keys; a causal mask halves them. Backward: five products instead of two."""
    backward = "backward" in short
    q, k, v = (_only(signature, i + (1 if backward else 0)) for i in range(3))
    if len(q.sizes) != 4 or len(k.sizes) != 4:
        return None
    heads_first = not short.startswith(("_flash_attention", "_efficient_attention"))
    if heads_first:
        batch, heads, rows, width = q.sizes
        columns = k.sizes[2]
    else:
        batch, rows, heads, width = q.sizes
        columns = k.sizes[1]
    causal = rows == columns and rows > 1 and "True" in signature.concrete
    products = (5.0 if backward else 2.0) * 2.0 * batch * heads * rows * columns * width
    moved = footprint(q) + footprint(k) + footprint(v)
    flops = products / (2 if causal else 1)
    return OperatorWork(flops, moved * (2 if backward else 1), footprint(q) * (3 if backward else 1), q.dtype)


def _convolution(short: str, signature: OperatorCall) -> OperatorWork | None:
    """Output positions times the products under one of them; positions follow from padding, stride and dilation."""
    if "backward" in short:
        grad, x, weight = (_only(signature, i) for i in range(3))
        per_output = math.prod(weight.sizes[1:])
        moved = footprint(grad) + footprint(x) + footprint(weight)
        return OperatorWork(
            4.0 * count_elements(grad) * per_output, 2.0 * moved, footprint(x) + footprint(weight), x.dtype
        )
    x, weight = _only(signature, 0), _only(signature, 1)
    spatial = len(x.sizes) - 2
    if spatial < 1 or len(weight.sizes) != spatial + 2:
        return None
    lists = [numbers for text in signature.concrete if (numbers := _numbers(text)) and len(numbers) in (1, spatial)]
    if short in ("mkldnn_convolution", "_convolution_pointwise") or short.startswith("cudnn_convolution"):
        padding, stride, dilation = (*lists[:3],)
    elif short == "_slow_conv2d_forward":
        stride, padding, dilation = lists[1], lists[2], [1] * spatial
    else:
        stride, padding, dilation = (*lists[:3],)
    positions = 1
    for axis in range(spatial):
        p, s, d = (part[axis % len(part)] for part in (padding, stride, dilation))
        reach = d * (weight.sizes[2 + axis] - 1) + 1
        positions *= (x.sizes[2 + axis] + 2 * p - reach) // max(1, s) + 1
    outputs = x.sizes[0] * weight.sizes[0] * positions
    if outputs <= 0:
        return None
    flops = 2.0 * outputs * math.prod(weight.sizes[1:])
    return OperatorWork(flops, footprint(x) + footprint(weight), outputs * item_bytes(x), x.dtype)


def _numbers(text: str) -> list[int]:
    if not (text.startswith("[") and text.endswith("]")):
        return []
    try:
        return [int(part) for part in text[1:-1].split(",")]
    except ValueError:
        return []


def _elementwise(short: str, signature: OperatorCall) -> OperatorWork | None:
    """Reads every operand, writes one result of the widest shape; in place, the first operand is the result."""
    tensors = signature.tensors
    wide = _widest(tensors)
    lists = len(signature.arguments[0]) > 1 or short.startswith(("_foreach", "_fused"))
    if lists:
        read = float(sum(footprint(t) for t in tensors))
        written = float(sum(footprint(t) for t in signature.arguments[0]))
        if short.startswith("_fused_adam"):  # parameters and both moments are written back
            written = 3.0 * written
        return OperatorWork(read / DEFAULT_ITEM_BYTES * 2, read, written, "float")
    out = count_elements(wide) * item_bytes(_first_floating(tensors) or wide)
    return OperatorWork(float(count_elements(wide)), float(sum(footprint(t) for t in tensors)), float(out), wide.dtype)


def _first_floating(tensors: tuple[OperandTensor, ...]) -> OperandTensor | None:
    return next((t for t in tensors if t.sizes and t.dtype in DTYPE_PRECISION), None)


def _fill(short: str, signature: OperatorCall) -> OperatorWork | None:
    return OperatorWork(0.0, 0.0, float(footprint(_only(signature, 0))), _only(signature, 0).dtype)


def _copy(short: str, signature: OperatorCall) -> OperatorWork | None:
    into, source = _only(signature, 0), _only(signature, 1)
    return OperatorWork(0.0, float(footprint(source)), float(count_elements(into) * item_bytes(into)), into.dtype)


def _cat(short: str, signature: OperatorCall) -> OperatorWork | None:
    read = float(sum(footprint(t) for t in signature.tensors))
    return OperatorWork(0.0, read, read, signature.tensors[0].dtype)


def _reduction(short: str, signature: OperatorCall) -> OperatorWork | None:
    tensors = signature.tensors
    wide = _widest(tensors)
    return OperatorWork(float(count_elements(wide)), float(sum(footprint(t) for t in tensors)), 0.0, wide.dtype)


def _normalisation(short: str, signature: OperatorCall) -> OperatorWork | None:
    tensors = signature.tensors
    wide = _widest(tensors)
    out = float(count_elements(wide) * item_bytes(wide))
    return OperatorWork(5.0 * count_elements(wide), float(sum(footprint(t) for t in tensors)), out, wide.dtype)


def _gather(short: str, signature: OperatorCall) -> OperatorWork | None:
    """Rows picked by an index: what is picked is read and written once, the rest of the table is not touched."""
    tensors = signature.tensors
    index = next((t for t in tensors[1:] if t.dtype in ("long int", "int", "long", "long long")), None)
    if index is None:
        return None
    table = tensors[0]
    if short in ("gather", "scatter", "scatter_", "scatter_add_", "take_along_dim"):
        picked = count_elements(index) * item_bytes(table)
    else:
        picked = count_elements(index) * (table.sizes[-1] if table.sizes else 1) * item_bytes(table)
    return OperatorWork(0.0, float(picked + footprint(index)), float(picked), table.dtype)


_Rule = Callable[[str, OperatorCall], "OperatorWork | None"]
_RULES: dict[str, _Rule] = {
    "mm": _mm,
    "addmm": _mm,
    "_addmm_activation": _mm,
    "_int_mm": _mm,
    "_scaled_mm": _mm,
    "bmm": _bmm,
    "baddbmm": _bmm,
    "addbmm": _bmm,
    "mv": _mv,
    "addmv": _mv,
    "dot": _dot,
    "vdot": _dot,
    "linear": _linear,
    "matmul": _matmul,
    "fill_": _fill,
    "zero_": _fill,
    "normal_": _fill,
    "uniform_": _fill,
    "random_": _fill,
    "bernoulli_": _fill,
    "copy_": _copy,
    "cat": _cat,
    "_cat": _cat,
}
_BY_KIND: dict[OperatorKind, _Rule] = {
    OperatorKind.ELEMENTWISE: _elementwise,
    OperatorKind.REDUCTION: _reduction,
    OperatorKind.NORMALISATION: _normalisation,
    OperatorKind.COPY: _elementwise,
    OperatorKind.GATHER: _gather,
}
