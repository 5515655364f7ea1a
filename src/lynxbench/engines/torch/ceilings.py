"""The best this device does on bare kernels: product, copy, read, links to the host, launches. Not the workload."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import nn

from lynxbench.engines.host_ceilings import filled_block, stream_bytes
from lynxbench.engines.torch.device import last_level_cache_bytes, measure_best_s, release_memory, time_once_s
from lynxbench.engines.torch.number_formats import FORMATS, compute_dtype, product_recipe, supports
from lynxbench.errors import CannotRun
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
CUDA_STREAM_BYTES = 2 << 30
"""A copy of so much takes about a millisecond on an H200: its fixed cost is a thousandth of it."""
RECHECK_SHARE = 0.4
"""Share of the usual time that a re-check of known ceilings takes."""
HELD, LINK_HELD = 0.03, 0.15
"""A ceiling holds while a re-check comes within this of it: what bursts on one card differ by from call to call; links
and launches go through the host, which is less steady."""
ON_DEVICE = ("matmul", "copy", "read")
SHARE_OF_FREE = 4
"""Arrays that are streamed take so much of the free memory at the most, two of them half."""
COPIED_BYTES = 256 << 20
"""Large against a copy's fixed cost: 5 ms over PCIe 5 from pinned memory."""
COPIES = 4
LAUNCHES, LAUNCH_ROUNDS = 2000, 3

FORMAT_OF: dict[str, Precision | None] = {
    "float": Precision.FP32, "c10::BFloat16": Precision.BF16, "c10::Half": Precision.FP16, "double": None,
}  # fmt: skip
"""The profiler's words for what products may take; no precision of ours is as wide as the last."""


def measure_ceilings(precision: Precision, device: torch.device, share: float = 1.0) -> tuple[Ceiling, ...]:
    """Matrix-product, copy and read ceilings, on a device also its links and launches, measured now."""
    release_memory(device)
    with torch.inference_mode():
        product = _fitting(lambda: [_product(precision, device, share)])
        return (*product, *_fitting(lambda: _streams(device, share)), *_beside(device))


def measure_used_ceilings(
    precision: Precision, used: Iterable[str], device: torch.device, known: tuple[Ceiling, ...] = ()
) -> tuple[Ceiling, ...]:
    """Ceilings for somebody else's step: at its contract's precision, and in every format that its products took.

    Known ones of an earlier run stand where the contract's product and the streams, tried again, still reach theirs.
    """
    formats = {FORMAT_OF[word] for word in used if word in FORMAT_OF}
    wanted = {precision} | {each for each in formats if each is not None}
    if Precision.FP32 in wanted and supports(device, Precision.TF32):
        wanted.add(Precision.TF32)
    release_memory(device)
    with torch.inference_mode():
        held = _still_held(known, precision, device)
        products: list[Ceiling] = []
        for each in sorted(wanted):
            with contextlib.suppress(CannotRun, torch.OutOfMemoryError):
                products.append(held.get(("matmul", each)) or _product_as(each, device, 1.0))
        if None in formats:
            with contextlib.suppress(torch.OutOfMemoryError):
                products.append(held.get(("matmul", None)) or _wide_product(device))
        if held:
            return (*products, *(ceiling for ceiling in held.values() if ceiling.name != "matmul"))
        return (*products, *_fitting(lambda: _streams(device, 1.0)), *_beside(device))


def _beside(device: torch.device) -> tuple[Ceiling, ...]:
    """Links and launches of a device that has them."""
    if device.type != "cuda":
        return ()
    return (*_fitting(lambda: _links(device)), *_fitting(lambda: [_launches(device)]))


def _fitting(measure: Callable[[], Iterable[Ceiling]]) -> tuple[Ceiling, ...]:
    """What is measured; nothing where the step, or another process, leaves the device no memory for it."""
    try:
        return tuple(measure())
    except torch.OutOfMemoryError:
        return ()


def _still_held(
    known: tuple[Ceiling, ...], precision: Precision, device: torch.device
) -> dict[tuple[str, Precision | None], Ceiling]:
    """The known ceilings by name and precision; none of them where one that was tried again did not hold."""
    earlier = {(ceiling.name, ceiling.precision): ceiling for ceiling in known}
    if not earlier:
        return {}
    product = _fitting(lambda: [_product_as(precision, device, RECHECK_SHARE)])
    tried = (*product, *_fitting(lambda: _streams(device, RECHECK_SHARE)))
    if len(tried) < len(ON_DEVICE):
        return {}
    checked = [_checked(earlier.get((now.name, now.precision)), now) for now in tried]
    held = [ceiling for ceiling in checked if ceiling is not None]
    return earlier | {(one.name, one.precision): one for one in held} if len(held) == len(tried) else {}


def _product_as(precision: Precision, device: torch.device, share: float) -> Ceiling:
    with _float32_products(precision):
        return _product(precision, device, share)


@contextlib.contextmanager
def _float32_products(precision: Precision) -> Iterator[None]:
    """fp32 products as the precision means them, whatever the step's own setting is; that is put back."""
    flags, narrow = torch.backends.cuda.matmul, precision is Precision.TF32
    name = "fp32_precision" if hasattr(flags, "fp32_precision") else "allow_tf32"  # the latter in older releases
    before = getattr(flags, name)
    setattr(flags, name, narrow if name == "allow_tf32" else "tf32" if narrow else "ieee")
    try:
        yield
    finally:
        setattr(flags, name, before)


def recheck_ceilings(known: tuple[Ceiling, ...], precision: Precision, device: torch.device) -> tuple[Ceiling, ...]:
    """Known ceilings held against brief measurements of the same; where one does not hold, all are measured anew."""
    earlier = {(ceiling.name, ceiling.precision): ceiling for ceiling in known}

    def beside(ceilings: tuple[Ceiling, ...]) -> list[tuple[Ceiling | None, Ceiling]]:
        return [(earlier.get((ceiling.name, ceiling.precision)), ceiling) for ceiling in ceilings]

    checked = [_checked(before, now) for before, now in beside(measure_ceilings(precision, device, RECHECK_SHARE))]
    held = tuple(ceiling for ceiling in checked if ceiling is not None)
    if len(held) == len(checked):
        return held
    return tuple(_replaced(before, now) for before, now in beside(measure_ceilings(precision, device)))


def _holds(known: Ceiling, now: Ceiling) -> bool:
    return now.per_s >= known.per_s * (1 - (HELD if now.name in ON_DEVICE else LINK_HELD))


def _checked(known: Ceiling | None, now: Ceiling) -> Ceiling | None:
    """The better of the two, since a ceiling is the best that was seen; None where the known one does not hold."""
    if known is None or not _holds(known, now):
        return None
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
    recipe = product_recipe(precision, device)
    wide = str(compute_dtype(precision, device)).removeprefix("torch.")
    plain = f"torch linear {wide}, weights widened" if FORMATS[precision].quantised else f"torch linear {precision}"
    product = plain if recipe is None else recipe.product
    named = product.format(engine=torch.backends.quantized.engine)
    how = f"{size} {named}, random data, best of repeats, {_threads(device)}"
    return Ceiling(name="matmul", precision=precision, per_s=best, unit=unit, how=how)


def _product_at(precision: Precision, device: torch.device, rows: int, inner: int, outer: int) -> Callable[[], object]:
    dtype = compute_dtype(precision, device)
    x = torch.randn(rows, inner, device=device, dtype=torch.float32).to(dtype)
    linear = nn.Linear(inner, outer, bias=False, device=device, dtype=dtype)
    linear.weight.copy_(torch.randn(outer, inner, device=device, dtype=torch.float32))
    recipe = product_recipe(precision, device)
    return (lambda: linear(x)) if recipe is None else recipe.layer(linear, dtype).bare(x)


def _wide_product(device: torch.device) -> Ceiling:
    """The product in 64-bit floating point: nobody contracts for it, but programs fall into it."""
    side = (CUDA_SHAPES if device.type == "cuda" else CPU_SHAPES)[0][0]
    left, right = (torch.randn(side, side, device=device, dtype=torch.float64) for _ in range(2))
    best_s = measure_best_s(lambda: torch.mm(left, right), device, PRODUCT_BUDGET_S)
    how = f"{side}×{side}×{side} torch mm float64, random data, best of repeats, {_threads(device)}"
    return Ceiling(name="matmul", precision=None, per_s=2.0 * side**3 / best_s, unit="FLOP/s", how=how)


def _streams(device: torch.device, share: float) -> tuple[Ceiling, ...]:
    """None where what fits into the device's memory would fit into its cache as well."""
    size = least = stream_bytes(last_level_cache_bytes(device))
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        size = min(max(size, CUDA_STREAM_BYTES), free // SHARE_OF_FREE)
        if size < least:
            return ()
    width = 4096
    rows = size // 4 // width
    block = _filled(2 * rows, width, device)
    source, target = block[:rows], block[rows:]
    budget_s = STREAM_BUDGET_S * share
    copy_s = measure_best_s(lambda: target.copy_(source), device, budget_s)
    vector = torch.ones(width, device=device)
    by_product_s = measure_best_s(lambda: torch.mv(block, vector), device, budget_s)
    by_sum_s = measure_best_s(block.sum, device, budget_s)
    read_s, read_how = min((by_product_s, "matrix times vector"), (by_sum_s, "sum"))

    def ceiling(name: str, nbytes: int, best_s: float, how: str) -> Ceiling:
        how = f"torch {how}, {nbytes >> 20} MiB of fp32, best of repeats, {_threads(device)}"
        return Ceiling(name=name, precision=None, per_s=nbytes / best_s, unit="B/s", how=how)

    return (
        ceiling("copy", source.nbytes + target.nbytes, copy_s, "copy_"),
        ceiling("read", block.nbytes, read_s, read_how),
    )


def _filled(rows: int, width: int, device: torch.device) -> torch.Tensor:
    """Random numbers in memory that is there."""
    if device.type == "cpu":
        return torch.from_numpy(filled_block(rows * width * 4)).view(rows, width)
    return torch.rand(rows, width, dtype=torch.float32, device=device)


def _threads(device: torch.device) -> str:
    return "on the device" if device.type == "cuda" else f"{torch.get_num_threads()} threads"


def _links(device: torch.device) -> Iterator[Ceiling]:
    """Host to device and back, from pageable and from pinned memory."""
    pageable = torch.randint(0, 256, (COPIED_BYTES,), dtype=torch.uint8)
    on_device = pageable.to(device)
    for word, memory in (("pageable", pageable), ("pinned", pageable.pin_memory())):
        for name, target, source in (("h2d", on_device, memory), ("d2h", memory, on_device)):
            copy = partial(target.copy_, source, non_blocking=True)
            copy()
            best_s = min(time_once_s(copy, device) for _ in range(COPIES))
            how = f"torch copy_ of {COPIED_BYTES >> 20} MiB random bytes, {word} host memory, best of {COPIES}"
            per_s = COPIED_BYTES / best_s
            yield Ceiling(name=f"{name}_{word}", precision=None, per_s=per_s, unit="B/s", how=how)


def _launches(device: torch.device) -> Ceiling:
    """The least kernel there is, queued again and again: what one operator costs the host, and so a step of many."""
    number = torch.rand(1, device=device)

    def launch() -> None:
        for _ in range(LAUNCHES):
            number.mul_(1.0)

    best_s = min(time_once_s(launch, device) for _ in range(LAUNCH_ROUNDS)) / LAUNCHES
    how = f"{LAUNCHES} in-place products of one number in a row, {best_s * 1e6:.2f} µs each, best of {LAUNCH_ROUNDS}"
    return Ceiling(name="launch", precision=None, per_s=1 / best_s, unit="launch/s", how=how)
