"""One row times eight-bit weights on a GPU: how fast each choice of tile reads, beside cuBLAS on bf16.

    python benchmarks/one_row_products.py [--format fp8|int8 ...]

The products are those of decoding one token by Llama 3.1 8B. Each choice is recorded 20 times into a CUDA graph over
copies of the weight that the L2 cache cannot hold together, and the best of three replays counts. Prints the quickest
five, the engine's own choice and the relative error. Exit 1 where the engine's own is over 1.3 times as slow as the
best or an answer is wrong, 4 without a device.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import torch

from gpu_setting import find_device

PRODUCTS = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096))
"""Rows and inner size: queries with keys and values, attention's output, gate with up, down, the output head."""
CHOICES = (
    (1, 1024, 2), (1, 2048, 2), (1, 2048, 4), (1, 4096, 4), (1, 4096, 8), (2, 512, 2), (2, 1024, 4), (2, 2048, 4),
    (4, 512, 2), (4, 512, 4), (4, 1024, 4), (8, 256, 2), (8, 512, 4), (8, 1024, 8), (16, 256, 4), (16, 512, 8),
    (32, 128, 4),
)  # fmt: skip
"""Rows at once, elements of each at once, warps."""
COPIES_BYTES = 400e6
REPEATS, REPLAYS = 20, 3
SLOWEST, WRONG = 1.3, 0.01


def microseconds(call: Callable[[int], object]) -> float:
    """Of one call, in a graph of many."""
    for _ in range(3):
        call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(REPEATS):
            call(number)
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / REPEATS * 1e3)
    return min(times)


def main() -> int:
    """Every product in every format; one line each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--format", action="append", choices=["fp8", "int8"])
    options = parser.parse_args()
    device = find_device()
    import triton

    from lynxbench.engines.torch import one_row

    torch.manual_seed(0)
    fails = False
    for name in options.format or ("fp8", "int8"):
        largest, dtype = (448.0, torch.float8_e4m3fn) if name == "fp8" else (127.0, torch.int8)
        kernel = one_row.one_row_gemv_fp8e4 if name == "fp8" else one_row.one_row_gemv_int8pack
        for outer, inner in PRODUCTS:
            weight = torch.randn(outer, inner, device=device) * 0.02
            scales = weight.abs().amax(1) / largest
            scaled = weight / scales[:, None]
            stored = (scaled if name == "fp8" else scaled.round()).to(dtype)
            count = max(1, min(12, int(COPIES_BYTES / stored.nbytes) + 1))
            copies = [stored.clone() for _ in range(count)]
            x = torch.randn(1, inner, device=device, dtype=torch.bfloat16)
            expected = x.float() @ (stored.float() * scales[:, None]).t()
            y = torch.empty(1, outer, device=device, dtype=torch.bfloat16)
            found = []
            for rows, depth, warps in CHOICES:

                def call(number: int, rows: int = rows, depth: int = depth, warps: int = warps) -> None:
                    grid = (triton.cdiv(outer, rows),)  # noqa: B023  # called before the loop goes on
                    kernel[grid](  # noqa: B023
                        x, copies[number % count], scales, y, outer, INNER=inner,  # noqa: B023
                        ROWS=rows, DEPTH=depth, num_warps=warps,
                    )  # fmt: skip

                found.append((microseconds(call), (rows, depth, warps)))
            error = float((y.float() - expected).norm() / expected.norm())
            own = next(us for us, choice in found if choice == (one_row.ROWS, one_row.DEPTH, one_row.WARPS))
            best = sorted(found)[:5]
            wide = [weight.bfloat16() for _ in range(max(1, count // 2))]
            bf16 = microseconds(lambda number, wide=wide, x=x: torch.mm(x, wide[number % len(wide)].t()))
            said = ", ".join(f"{choice} {us:.1f}" for us, choice in best)
            print(
                f"{name} {outer}x{inner}: own {own:.1f} µs ({stored.nbytes / own / 1e6:.2f} TB/s), best {said}; "
                f"bf16 by cuBLAS {bf16:.1f} µs ({2 * stored.nbytes / bf16 / 1e6:.2f} TB/s); error {error:.4f}",
                flush=True,
            )
            fails = fails or own > SLOWEST * best[0][0] or error > WRONG
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
