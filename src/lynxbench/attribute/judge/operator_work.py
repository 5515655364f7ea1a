"""What one call of an operator has to do, from its operands: arithmetic, and bytes read and written at the least.

Outputs are not recorded by the profiler; they follow from the inputs by the operator's kind. Bytes count each distinct
element once (a dimension of stride 0 is read once), so the figure is a floor and an efficiency from it never flatters.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from lynxbench.attribute.judge.convolution_work import WRAPPERS, estimate_convolution
from lynxbench.attribute.judge.roofline import OperatorWork
from lynxbench.attribute.read.operands import (
    DEFAULT_ITEM_BYTES,
    DTYPE_PRECISION,
    ITEM_BYTES,
    OperandTensor,
    OperatorCall,
)
from lynxbench.attribute.read.operator_names import ONNX, ONNX_INTEGER_PRODUCTS, OperatorKind, place_of_result

PACKED_DTYPE = "c10::qint8"
PACKED_ITEM_BYTES = 1
"""Packed weights are those of the 8-bit kernels; activations are brought to 8 bits inside the operator."""
INTEGER_DTYPE = "int8"
NBITS_BYTES = 0.5
"""Weights of MatMulNBits are four bits wide in every model seen; scales add a few percent and are operands."""
TRUTHS = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isneginf", "isposinf"}
    | {"logical_and", "logical_or", "logical_not", "logical_xor"}
)
"""Passes whose results take a byte each."""
SCANS = frozenset({"cumsum", "cumsum_", "cumprod", "cumprod_", "logcumsumexp", "_logcumsumexp"})
GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}
_INTEGERS = re.compile(r"\[(\s*-?\d+\s*(?:,\s*-?\d+\s*)*)\]")


def estimate_work(
    name: str,
    kind: OperatorKind,
    call: OperatorCall,
    *,
    broadcast: bool = True,
    scans: bool = True,
    convolutions: bool = True,
    given: bool = True,
) -> OperatorWork | None:
    """The work of one call, or None where the operands do not tell.

    `broadcast`: a pass writes what its operands make together, and not only as much as the largest of them. `scans`:
    running sums and their kind write as much as they read. `convolutions`: each by its own order of lists, transposed
    ones too, and backward what is asked for. `given`: a result whose place was handed in (`out=`) is not read.
    """
    call = _without_result(name, call) if given else call
    if not call.tensors:
        return None
    short = name.rpartition("::")[2].partition(".")[0]
    try:
        if name.startswith(ONNX):
            work = _estimate_onnx(short, kind, call)
        else:
            rule = _scan if scans and short in SCANS else _RULES.get(short)
            if convolutions and ("conv" in short if kind is OperatorKind.PRODUCT else short in WRAPPERS):
                rule = estimate_convolution
            rule = rule or (_product_rule(short) if kind is OperatorKind.PRODUCT else _BY_KIND.get(kind))
            work = rule(short, call) if rule is not None else None
            if broadcast and rule is _elementwise and work is not None:
                work = _broadcast_work(short, call, work)
    except (IndexError, ValueError):
        return None  # an operand list unlike any seen: say nothing rather than something wrong
    if work is None or (work.flops <= 0 and work.total_bytes <= 0):
        return None
    return work


def _without_result(name: str, call: OperatorCall) -> OperatorCall:
    place = place_of_result(name)
    return call if place is None else replace(call, arguments=call.arguments[:place])


_Rule = Callable[[str, OperatorCall], OperatorWork | None]


def _product_rule(short: str) -> _Rule:
    return _attention if "attention" in short else _convolution if "conv" in short else _linear


def _product(
    left: OperandTensor, right: OperandTensor, m: int, n: int, k: int, batch: int = 1, extra: int = 0
) -> OperatorWork:
    written = batch * m * n * left.item_bytes
    return OperatorWork(2.0 * batch * m * n * k, left.footprint + right.footprint + extra, written, left.dtype)


def _mv(short: str, call: OperatorCall) -> OperatorWork | None:
    first = 1 if short == "addmv" else 0
    matrix, vector = call.tensor(first), call.tensor(first + 1)
    m, k = matrix.sizes
    return _product(matrix, vector, m, 1, k)


def _dot(short: str, call: OperatorCall) -> OperatorWork | None:
    left, right = call.tensor(0), call.tensor(1)
    return _product(left, right, 1, 1, left.elements)


def _linear(short: str, call: OperatorCall) -> OperatorWork | None:
    """`x @ weight.T`: the weight is the second operand, [out, in]; a packed one shows only in the result's width."""
    x = call.tensor(0)
    if call.results and (len(call.arguments) < 2 or not call.arguments[1]):
        return _packed_linear(x, call.results[0])
    weight = call.tensor(1)
    if len(weight.sizes) != 2 or not x.sizes:
        return None
    k = x.sizes[-1]
    n = weight.sizes[0] if weight.sizes[1] == k else weight.sizes[1] if weight.sizes[0] == k else 0
    rows = x.elements // k if k else 0
    return _product(x, weight, rows, n, k) if n and rows else None


def _packed_linear(x: OperandTensor, result: tuple[int, ...]) -> OperatorWork | None:
    k, n = x.sizes[-1], result[-1]
    rows = x.elements // k if k else 0
    if not rows or not n or math.prod(result) != rows * n:
        return None
    read = x.footprint + k * n * PACKED_ITEM_BYTES
    return OperatorWork(2.0 * rows * n * k, read, rows * n * x.item_bytes, PACKED_DTYPE)


def _matmul(short: str, call: OperatorCall) -> OperatorWork | None:
    """Over the last two dimensions; `addmm` and its like add their first operand to the product of the next two."""
    first = 1 if "add" in short else 0
    left, right = call.tensor(first), call.tensor(first + 1)
    if len(left.sizes) < 2 or len(right.sizes) < 2 or left.sizes[-1] != right.sizes[-2]:
        return None
    m, k, n = left.sizes[-2], left.sizes[-1], right.sizes[-1]
    batch = max(math.prod(left.sizes[:-2]), math.prod(right.sizes[:-2]))
    extra = call.tensor(0).footprint if "addmm" in short and call.arguments[0] else 0
    return _product(left, right, m, n, k, batch, extra)


def _attention(short: str, call: OperatorCall) -> OperatorWork | None:
    """Two products over queries and keys; a causal mask halves them. Backward: five products instead of two."""
    backward = "backward" in short
    q, k, v = (call.tensor(i + (1 if backward else 0)) for i in range(3))
    if len(q.sizes) != 4 or len(k.sizes) != 4:
        return None
    batch, heads, rows, width = q.sizes
    columns = k.sizes[2]
    if short.startswith(("_flash_attention", "_efficient_attention")):  # rows before heads
        rows, heads, columns = heads, rows, k.sizes[1]
    causal = rows == columns and rows > 1 and "True" in call.concrete
    products = (5.0 if backward else 2.0) * 2.0 * batch * heads * rows * columns * width
    moved = q.footprint + k.footprint + v.footprint
    flops = products / (2 if causal else 1)
    return OperatorWork(flops, moved * (2 if backward else 1), q.footprint * (3 if backward else 1), q.dtype)


def _convolution(short: str, call: OperatorCall) -> OperatorWork | None:
    """As editions of the rules before 15 estimated it: right of the usual operators alone."""
    if "backward" in short:
        grad, x, weight = (call.tensor(i) for i in range(3))
        moved = grad.footprint + x.footprint + weight.footprint
        flops = 4.0 * grad.elements * math.prod(weight.sizes[1:])
        return OperatorWork(flops, 2.0 * moved, x.footprint + weight.footprint, x.dtype)
    x, weight = call.tensor(0), call.tensor(1)
    spatial = len(x.sizes) - 2
    if spatial < 1 or len(weight.sizes) != spatial + 2:
        return None
    lists = [numbers for text in call.concrete if (numbers := _numbers(text)) and len(numbers) in (1, spatial)]
    if short == "_slow_conv2d_forward":
        stride, padding, dilation = lists[1], lists[2], [1] * spatial
    else:
        stride, padding, dilation = (*lists[:3],)
        if short in ("mkldnn_convolution", "_convolution_pointwise") or short.startswith("cudnn_convolution"):
            stride, padding = padding, stride
    positions = 1
    for axis in range(spatial):
        p, s, d = (part[axis % len(part)] for part in (padding, stride, dilation))
        reach = d * (weight.sizes[2 + axis] - 1) + 1
        positions *= (x.sizes[2 + axis] + 2 * p - reach) // max(1, s) + 1
    outputs = x.sizes[0] * weight.sizes[0] * positions
    if outputs <= 0:
        return None
    flops = 2.0 * outputs * math.prod(weight.sizes[1:])
    return OperatorWork(flops, x.footprint + weight.footprint, outputs * x.item_bytes, x.dtype)


def _numbers(text: str) -> list[int]:
    match = _INTEGERS.fullmatch(text)
    return [int(part) for part in match[1].split(",")] if match else []


def _elementwise(short: str, call: OperatorCall) -> OperatorWork | None:
    """Reads every operand, writes one result of the widest shape; in place, the first operand is the result."""
    if len(call.arguments[0]) > 1 or short.startswith(("_foreach", "_fused")):
        written = float(sum(tensor.footprint for tensor in call.arguments[0]))
        if short.startswith("_fused_adam"):  # parameters and both moments are written back
            written = 3.0 * written
        return OperatorWork(call.footprint / DEFAULT_ITEM_BYTES * 2, call.footprint, written, "float")
    wide = _widest(call)
    floating = next((tensor for tensor in call.tensors if tensor.sizes and tensor.dtype in DTYPE_PRECISION), wide)
    return OperatorWork(float(wide.elements), call.footprint, float(wide.elements * floating.item_bytes), wide.dtype)


def _broadcast_work(short: str, call: OperatorCall, work: OperatorWork) -> OperatorWork:
    """The same with the result that operands of different sizes make: rows against columns make a table."""
    sizes = broadcast_sizes([tensor.sizes for tensor in call.tensors])
    if sizes is None or len(call.arguments[0]) > 1 or short.startswith(("_foreach", "_fused")):
        return work
    elements = float(math.prod(sizes))
    formats = [tensor.item_bytes for tensor in call.tensors if tensor.sizes and tensor.dtype in DTYPE_PRECISION]
    item_bytes = max(formats, default=_widest(call).item_bytes)
    if short.endswith("_") and call.arguments[0]:
        item_bytes = call.tensor(0).item_bytes
    elif short in TRUTHS:
        item_bytes = 1
    return replace(work, flops=elements, written_bytes=elements * item_bytes)


def broadcast_sizes(operands: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The sizes of what operands make together, aligned at their last dimension; None where they do not go together."""
    longest = max(map(len, operands), default=0)
    aligned = zip(*((1,) * (longest - len(sizes)) + sizes for sizes in operands), strict=True)
    whole = []
    for column in aligned:
        wide = {size for size in column if size != 1}
        if len(wide) > 1:
            return None
        whole.append(wide.pop() if wide else 1)
    return tuple(whole)


def _widest(call: OperatorCall) -> OperandTensor:
    return max(call.tensors, key=lambda tensor: (tensor.elements, tensor.item_bytes))


def _fill(short: str, call: OperatorCall) -> OperatorWork | None:
    return OperatorWork(0.0, 0.0, float(call.tensor(0).footprint), call.tensor(0).dtype)


def _copy(short: str, call: OperatorCall) -> OperatorWork | None:
    into, source = call.tensor(0), call.tensor(1)
    return OperatorWork(0.0, float(source.footprint), float(into.whole_bytes), into.dtype)


def _cat(short: str, call: OperatorCall) -> OperatorWork | None:
    return OperatorWork(0.0, call.footprint, call.footprint, call.tensors[0].dtype)


def _reduction(short: str, call: OperatorCall) -> OperatorWork | None:
    wide = _widest(call)
    return OperatorWork(float(wide.elements), call.footprint, 0.0, wide.dtype)


def _scan(short: str, call: OperatorCall) -> OperatorWork | None:
    """Each element read once and a result of its size written once, given as `out` or not."""
    x = call.tensor(0)
    return OperatorWork(float(x.elements), float(x.footprint), float(x.whole_bytes), x.dtype)


def _normalisation(short: str, call: OperatorCall) -> OperatorWork | None:
    wide = _widest(call)
    return OperatorWork(5.0 * wide.elements, call.footprint, float(wide.whole_bytes), wide.dtype)


def _gather(short: str, call: OperatorCall) -> OperatorWork | None:
    """Rows picked by an index: what is picked is read and written once, the rest of the table is not touched."""
    table, *others = call.tensors
    index = next((tensor for tensor in others if tensor.dtype in ("long int", "int", "long", "long long")), None)
    if index is None:
        return None
    picked = index.elements * table.item_bytes
    if short not in ("gather", "scatter", "scatter_", "scatter_add_", "take_along_dim"):
        picked *= table.sizes[-1] if table.sizes else 1
    return OperatorWork(0.0, float(picked + index.footprint), float(picked), table.dtype)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("mm", "addmm", "_addmm_activation", "_int_mm", "_scaled_mm"), _matmul),
    **dict.fromkeys(("matmul", "bmm", "baddbmm", "addbmm"), _matmul),
    **dict.fromkeys(("mv", "addmv"), _mv),
    **dict.fromkeys(("dot", "vdot"), _dot),
    "linear": _linear,
    **dict.fromkeys(("fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_"), _fill),
    "copy_": _copy,
    **dict.fromkeys(("cat", "_cat"), _cat),
}
_BY_KIND: dict[OperatorKind, _Rule] = {
    OperatorKind.ELEMENTWISE: _elementwise,
    OperatorKind.REDUCTION: _reduction,
    OperatorKind.NORMALISATION: _normalisation,
    OperatorKind.COPY: _elementwise,
    OperatorKind.GATHER: _gather,
}


# --- ONNX operators --------------------------------------------------------------------------------------------------


def _estimate_onnx(short: str, kind: OperatorKind, call: OperatorCall) -> OperatorWork | None:
    """The work of one node: its results are recorded as well as its operands, but packed weights are left out."""
    tensors = call.tensors
    if not call.results or not call.results[0]:
        return None
    if kind is OperatorKind.PRODUCT:
        return _ONNX_RULES.get(short, _onnx_product)(short, call)
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


def _onnx_product(short: str, call: OperatorCall) -> OperatorWork | None:
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


def _onnx_convolution(short: str, call: OperatorCall) -> OperatorWork | None:
    (x, *others), result = call.tensors, call.results[0]
    weight = next((t for t in others if len(t.sizes) == len(x.sizes) and len(t.sizes) >= 3), None)
    if weight is None:
        return None
    positions = x.elements if short == "ConvTranspose" else math.prod(result)
    flops = 2.0 * positions * math.prod(weight.sizes[1:])
    return OperatorWork(flops, call.footprint, math.prod(result) * float(x.item_bytes), _computed_in(short, x)[0])


def _onnx_attention(short: str, call: OperatorCall) -> OperatorWork | None:
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


def _onnx_recurrent(short: str, call: OperatorCall) -> OperatorWork | None:
    x, result = call.tensors[0], call.results[0]
    if len(x.sizes) != 3 or len(result) != 4:
        return None
    steps, directions, batch, hidden = result
    cells = directions * GATES[short] * hidden * (x.sizes[-1] + hidden)
    dtype, weight_bytes = _computed_in(short, x)
    read = float(x.footprint + cells * weight_bytes)
    return OperatorWork(2.0 * steps * batch * cells, read, _result_bytes(call), dtype)


_ONNX_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv", "ConvTranspose"), _onnx_convolution),
    **dict.fromkeys(("QLinearConv", "ConvInteger"), _onnx_convolution),
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"), _onnx_attention),
    **dict.fromkeys(GATES, _onnx_recurrent),
}
