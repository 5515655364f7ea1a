"""A single row times eight-bit weights, by a Triton kernel of the engine's own. Imported where triton is installed.

Decoding for one reader is such products. The kernels that the compiler writes for them read int8 weights more slowly
than cuBLAS reads bf16, and torchao has none of its own; here every weight is read once, sixteen bytes at a time to a
thread, and widened in registers.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"
import torch
import triton
import triton.language as tl

ROWS, DEPTH, WARPS = 4, 1024, 4
"""Rows of the weight and elements of each that a program works on at a time: two loads to each of its threads."""


@triton.jit
def _multiply(x, stored, scales, y, outer, INNER: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    along = tl.arange(0, DEPTH)
    held = at < outer
    total = tl.zeros((ROWS, DEPTH), dtype=tl.float32)
    for start in range(0, INNER, DEPTH):
        inside = start + along < INNER
        row = tl.load(x + start + along, mask=inside, other=0.0).to(tl.float32)
        place = at[:, None].to(tl.int64) * INNER + (start + along)[None, :]
        weight = tl.load(stored + place, mask=held[:, None] & inside[None, :], other=0.0)
        total += weight.to(tl.float32) * row[None, :]
    scale = tl.load(scales + at, mask=held, other=0.0).to(tl.float32)
    tl.store(y + at, (tl.sum(total, axis=1) * scale).to(y.dtype.element_ty), mask=held)


# What the kernels are called tells the profile of their operands, as the names of library kernels do.
@triton.jit
def one_row_gemv_fp8e4(x, stored, scales, y, outer, INNER: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr):  # noqa: N803
    _multiply(x, stored, scales, y, outer, INNER, ROWS, DEPTH)


@triton.jit
def one_row_gemv_int8pack(x, stored, scales, y, outer, INNER: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr):  # noqa: N803
    _multiply(x, stored, scales, y, outer, INNER, ROWS, DEPTH)


@torch.library.triton_op("lynxbench::multiply_one_row", mutates_args={})
def multiply_one_row(x: torch.Tensor, stored: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """x · Wᵀ for x of one row, W stored in eight bits with a scale for each of its rows."""
    outer, inner = stored.shape
    y = torch.empty((1, outer), dtype=x.dtype, device=x.device)
    kernel = one_row_gemv_int8pack if stored.dtype is torch.int8 else one_row_gemv_fp8e4
    torch.library.wrap_triton(kernel)[(triton.cdiv(outer, ROWS),)](
        x, stored, scales, y, outer, INNER=inner, ROWS=ROWS, DEPTH=DEPTH, num_warps=WARPS
    )
    return y
