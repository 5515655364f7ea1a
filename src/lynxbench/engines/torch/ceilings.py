"""The best this device does on bare kernels: matrix product, copy, read. The envelope, not the workload."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from lynxbench.engines.torch.device import last_level_cache_bytes
from lynxbench.engines.torch.linear import (
    Fp8Dynamic,
    Int8DynamicCpu,
    Int8DynamicCuda,
    Int8WeightOnly,
)
from lynxbench.engines.torch.links import measure_links
from lynxbench.engines.torch.number_formats import compute_dtype
from lynxbench.engines.torch.timing import measure_best_s
from lynxbench.model.attribution import Ceiling
from lynxbench.model.precision import Precision

NOTE = ";"
"""What follows it in a ceiling's `how` is about earlier measurements."""
CPU_SHAPES = ((256, 256, 256), (512, 1024, 1024), (1024, 1024, 1024))
CUDA_SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192))
"""rows × inner × outer. A CPU's best is often a size that fits its caches; a GPU's one that fills it."""
PRODUCT_BUDGET_S = 0.3
PRODUCTS_LIMIT_S = 1.5
"""Once so much time has gone into products, no larger one is begun: emulated formats are slow at every size."""
STREAM_BUDGET_S = 0.35
STREAM_CACHES = 4
"""Arrays of at least so many times the last-level cache (McCalpin's rule for STREAM)."""
LARGEST_STREAM_BYTES = 1 << 30
CUDA_STREAM_BYTES = 2 << 30
"""A copy of so much takes about a millisecond on an H200: its fixed cost is a thousandth of it."""
RECHECK_SHARE = 0.4
"""Share of the usual time that a re-check of known ceilings takes."""
HELD, LINK_HELD = 0.03, 0.15
"""A ceiling holds while a re-check comes within this of it: what bursts on one card differ by from call to call; links
and launches go through the host, which is less steady."""
ON_DEVICE = ("matmul", "copy", "read")


def measure_ceilings(precision: Precision, device: torch.device, share: float = 1.0) -> tuple[Ceiling, ...]:
    """Matrix-product, copy and read ceilings, on a device also its links and launches, measured now."""
    with torch.inference_mode():
        return (_product(precision, device, share), *_streams(device, share), *measure_links(device))


def recheck_ceilings(known: tuple[Ceiling, ...], precision: Precision, device: torch.device) -> tuple[Ceiling, ...]:
    """Known ceilings held against brief measurements of the same; where one does not hold, all are measured anew."""
    earlier = {(one.name, one.precision): one for one in known}
    brief = measure_ceilings(precision, device, RECHECK_SHARE)
    if all(_holds(earlier.get((one.name, one.precision)), one) for one in brief):
        return tuple(_kept(earlier[one.name, one.precision], one) for one in brief)
    again = measure_ceilings(precision, device)
    return tuple(_replaced(earlier.get((one.name, one.precision)), one) for one in again)


def _holds(known: Ceiling | None, now: Ceiling) -> bool:
    return known is not None and now.per_s >= known.per_s * (1 - (HELD if now.name in ON_DEVICE else LINK_HELD))


def _kept(known: Ceiling, now: Ceiling) -> Ceiling:
    """The better of the two: a ceiling is the best that was seen."""
    if now.per_s > known.per_s:
        return now
    how = known.how.partition(NOTE)[0]
    return known.model_copy(update={"how": f"{how}{NOTE} re-checked now at {now.per_s / known.per_s:.1%}"})


def _replaced(known: Ceiling | None, now: Ceiling) -> Ceiling:
    if known is None or _holds(known, now):
        return now
    return now.model_copy(update={"how": f"{now.how}{NOTE} an earlier run here reached {known.per_s:.4g} {known.unit}"})


def _product(precision: Precision, device: torch.device, share: float) -> Ceiling:
    best, shape_of_best, began = 0.0, (0, 0, 0), time.perf_counter()
    for rows, inner, outer in CUDA_SHAPES if device.type == "cuda" else CPU_SHAPES:
        if best and time.perf_counter() - began > PRODUCTS_LIMIT_S:
            break
        work = _product_at(precision, device, rows, inner, outer)
        per_s = 2.0 * rows * inner * outer / measure_best_s(work, device, PRODUCT_BUDGET_S * share)
        if per_s > best:
            best, shape_of_best = per_s, (rows, inner, outer)
    size = "×".join(map(str, shape_of_best))
    unit = "OP/s" if precision is Precision.INT8 else "FLOP/s"
    how = f"{size} {_called(precision, device)}, random data, best of repeats, {_threads(device)}"
    return Ceiling(name="matmul", precision=precision, per_s=best, unit=unit, how=how)


def _product_at(precision: Precision, device: torch.device, rows: int, inner: int, outer: int) -> Callable[[], object]:
    dtype = compute_dtype(precision, device)
    x = torch.randn(rows, inner, device=device, dtype=torch.float32).to(dtype)
    linear = nn.Linear(inner, outer, bias=False, device=device, dtype=dtype)
    linear.weight.copy_(torch.randn(outer, inner, device=device, dtype=torch.float32))
    layer = linear
    if precision is Precision.INT8:
        layer = Int8DynamicCuda(linear) if device.type == "cuda" else Int8DynamicCpu(linear)
        return _bare_int8(layer, x, device)
    if precision is Precision.INT8_WEIGHT_ONLY:
        layer = Int8WeightOnly(linear, dtype)
    if precision is Precision.FP8:
        return _bare_fp8(Fp8Dynamic(linear, dtype), x)
    return lambda: layer(x)


def _bare_int8(layer: nn.Module, x: torch.Tensor, device: torch.device) -> Callable[[], object]:
    if device.type == "cpu":
        return lambda: torch.ops.quantized.linear_dynamic(x, layer.packed, layer.reduce_range)
    quantised = torch.randint(-127, 128, x.shape, device=device, dtype=torch.int8)
    return lambda: torch._int_mm(quantised, layer.stored.t())


def _bare_fp8(layer: Fp8Dynamic, x: torch.Tensor) -> Callable[[], object]:
    quantised = x.to(torch.float8_e4m3fn)
    one = torch.ones((), device=x.device)
    weight = layer.stored.t()
    return lambda: torch._scaled_mm(quantised, weight, scale_a=one, scale_b=layer.scale, out_dtype=layer.dtype)


def _called(precision: Precision, device: torch.device) -> str:
    if precision is Precision.INT8:
        library = torch.backends.quantized.engine
        return "torch._int_mm" if device.type == "cuda" else f"quantized::linear_dynamic ({library})"
    if precision is Precision.FP8:
        return "torch._scaled_mm e4m3"
    if precision is Precision.INT8_WEIGHT_ONLY:
        return "linear on int8 weights, dequantised"
    return f"torch linear {precision}"


def _streams(device: torch.device, share: float) -> tuple[Ceiling, Ceiling]:
    size = min(max(STREAM_CACHES * last_level_cache_bytes(device), 64 << 20), LARGEST_STREAM_BYTES)
    size = max(size, CUDA_STREAM_BYTES) if device.type == "cuda" else size
    words = size // 4
    source = torch.rand(words, dtype=torch.float32, device=device)  # never zeros: constant bits cost less power
    target = torch.empty_like(source)
    budget_s = STREAM_BUDGET_S * share
    copy_s = measure_best_s(lambda: target.copy_(source), device, budget_s)
    width = 4096
    matrix, vector = source[: words // width * width].view(-1, width), torch.ones(width, device=device)
    by_product_s = measure_best_s(lambda: torch.mv(matrix, vector), device, budget_s)
    by_sum_s = measure_best_s(matrix.sum, device, budget_s)
    read_s, read_how = min((by_product_s, "matrix times vector"), (by_sum_s, "sum"))
    said = f"{size >> 20} MiB of fp32, best of repeats, {_threads(device)}"
    read_per_s = matrix.numel() * 4 / read_s
    return (
        Ceiling(name="copy", precision=None, per_s=2 * words * 4 / copy_s, unit="B/s", how=f"torch copy_, {said}"),
        Ceiling(name="read", precision=None, per_s=read_per_s, unit="B/s", how=f"torch {read_how}, {said}"),
    )


def _threads(device: torch.device) -> str:
    return "on the device" if device.type == "cuda" else f"{torch.get_num_threads()} threads"
