"""lynxbench's ceilings against the best that plain code reaches on the same card in the same call.

    PYTHONPATH=src python benchmarks/gpu_ceilings.py [--precision bf16]

Plain: torch.mm, torch._scaled_mm and torch._int_mm at two sizes, a 4 GiB copy, copies over the bus, by do_bench's
minimum and by event bursts of this file's own. Exit 1 where a ceiling is under 97 % of the best of them; 4 without a
CUDA device.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from gpu_setting import describe, find_device, finish, rest

BAR = 0.97
SIDES = (4096, 8192)
COPIED_BYTES = 4 << 30
BUS_BYTES = 512 << 20
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")


def plain_product(precision: str, side: int, device: Any) -> Callable[[], object]:
    """The library's own call on random data."""
    import torch

    a, b = (torch.randn(side, side, device=device) for _ in range(2))
    if precision == "int8":
        left, right = (torch.randint(-127, 128, (side, side), device=device, dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(left, right.t())
    if precision == "fp8":
        one = torch.ones((), device=device)
        left, right = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        return lambda: torch._scaled_mm(left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    kinds = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    left, right = a.to(kinds[precision]), b.to(kinds[precision])
    return lambda: torch.mm(left, right.t())


def best_s(work: Callable[[], object]) -> float:
    """The shortest by do_bench and by bursts of ten after a rest."""
    import torch
    from triton.testing import do_bench

    work()
    torch.cuda.synchronize()
    rest(0.2)
    best = float(do_bench(work, warmup=10, rep=60, return_mode="min"))
    for _ in range(3):
        rest(0.1)
        work()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(11)]
        marks[0].record()
        for mark in marks[1:]:
            work()
            mark.record()
        torch.cuda.synchronize()
        best = min(best, *(before.elapsed_time(after) for before, after in pairwise(marks)))
    return best / 1e3


def best_bus_s(work: Callable[[], object]) -> float:
    """The shortest by the host's clock: a copy from pageable memory keeps the host."""
    import torch

    work()
    taken = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return min(taken)


def plain_streams(device: Any) -> dict[str, float]:
    """Bytes a second of plain copies within the device and over the bus."""
    import torch

    pair = [torch.rand(COPIED_BYTES // 4, device=device) for _ in range(2)]
    found = {"copy": 2 * COPIED_BYTES / best_s(lambda: pair[0].copy_(pair[1]))}
    pair.clear()
    there = torch.randint(0, 256, (BUS_BYTES,), device=device, dtype=torch.uint8)
    pageable = torch.randint(0, 256, (BUS_BYTES,), dtype=torch.uint8)
    for word, host in (("pageable", pageable), ("pinned", pageable.pin_memory())):
        found[f"h2d_{word}"] = BUS_BYTES / best_bus_s(lambda host=host: there.copy_(host, non_blocking=True))  # type: ignore[misc]
        found[f"d2h_{word}"] = BUS_BYTES / best_bus_s(lambda host=host: host.copy_(there, non_blocking=True))  # type: ignore[misc]
    return found


def main() -> int:
    """Measure both and print one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=PRECISIONS, action="append")
    chosen = parser.parse_args()
    device = find_device()
    import torch

    from lynxbench.engines.torch.ceilings import measure_ceilings, recheck_ceilings
    from lynxbench.engines.torch.device import set_float32_products
    from lynxbench.model.precision import Precision

    began = time.perf_counter()
    lines: dict[str, dict[str, Any]] = {}
    first: dict[str, Any] = {}
    for name in chosen.precision or PRECISIONS:
        precision = Precision(name)
        set_float32_products(device, precision)
        ours = measure_ceilings(precision, device)
        first[name] = ours
        best = max(2.0 * side**3 / best_s(plain_product(name, side, device)) for side in SIDES)
        (product,) = (one for one in ours if one.name == "matmul")
        lines[f"matmul {name}"] = _line(product.per_s, best, product.how)
        torch.cuda.empty_cache()
    streams = plain_streams(device)
    for one in next(iter(first.values())):
        if one.name in streams:
            lines[one.name] = _line(one.per_s, streams[one.name], one.how)
        elif one.name != "matmul":
            lines[one.name] = {"lynxbench_per_s": one.per_s, "how": one.how}
    name, known = next(iter(first.items()))
    set_float32_products(device, Precision(name))
    again = time.perf_counter()
    checked = recheck_ceilings(known, Precision(name), device)
    document = {
        "benchmark": "gpu_ceilings",
        **describe(device),
        "bar": BAR,
        "ceilings": lines,
        "recheck": {"seconds": round(time.perf_counter() - again, 2), "how": [one.how for one in checked]},
        "seconds": round(time.perf_counter() - began, 1),
        "pass": all(line.get("ratio", 1.0) >= BAR for line in lines.values()),
    }
    return finish(document)


def _line(ours: float, best: float, how: str) -> dict[str, Any]:
    return {"lynxbench_per_s": ours, "best_plain_per_s": best, "ratio": ours / best, "how": how}


if __name__ == "__main__":
    raise SystemExit(main())
