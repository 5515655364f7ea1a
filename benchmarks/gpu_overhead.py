"""What the harness adds to a step of about a millisecond on a GPU: driver, journal, device clock, telemetry.

    PYTHONPATH=src python benchmarks/gpu_overhead.py [--seconds 0.6]

The step is a copy within the device's memory, which no power cap slows. Bare: so many copies queued in a row between
two events. lynxbench: the same number through its driver, each timed and written down, without and with telemetry at
10 Hz beside it. In turns, medians over rounds. Exit 1 above 0.5 %; 4 without a CUDA device.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from gpu_setting import describe, drive_for, find_device, finish

BAR = 0.005
ROUNDS = 7
STEP_S = 1e-3


def step_of(device: Any, size: int) -> Callable[[int], object]:
    """A copy of so many bytes."""
    import torch

    source = torch.rand(size // 4, device=device)
    target = torch.empty_like(source)
    return lambda index: target.copy_(source)


def sized(device: Any) -> tuple[Callable[[int], object], float]:
    """A copy that takes about a millisecond here, and how long it takes."""
    size = 256 << 20
    while True:
        step = step_of(device, size)
        seconds = bare_s(step, 50)
        if seconds > 0.8 * STEP_S or size >= 8 << 30:
            return step, seconds
        size = int(size * max(min(STEP_S / seconds, 4), 1.2)) // 4096 * 4096


def bare_s(step: Callable[[int], object], count: int) -> float:
    """Seconds a step in a plain queue of them."""
    import torch

    for index in range(5):
        step(index)
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for index in range(count):
        step(index)
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1e3 / count


def driven_s(step: Callable[[int], object], device: Any, seconds: float) -> float:
    """Mean seconds a step as lynxbench has them, all of the time between the first and the last in it."""
    rows = drive_for(step, device, seconds)
    part = rows.part(5)
    return float(part.end_ns[-1] - part.start_ns[0]) / 1e9 / len(part)


def main() -> int:
    """Measure in turns and print one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.6, help="of each pass")
    chosen = parser.parse_args()
    device = find_device()
    from lynxbench.measure.telemetry import TelemetrySampler

    step, seconds = sized(device)
    count = int(chosen.seconds / seconds)
    bare_s(step, count)
    rounds: list[tuple[float, float, float]] = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            bare = bare_s(step, count)
            plain = driven_s(step, device, chosen.seconds)
            with TelemetrySampler(Path(folder) / f"{number}.csv") as sampler:
                beside = driven_s(step, device, chosen.seconds)
            rounds.append((bare, plain, beside))
        sampling = sampler.spent_s
    overhead = median(plain / bare for bare, plain, _ in rounds) - 1
    telemetry = median(beside / bare for bare, _, beside in rounds) - 1
    document = {
        "benchmark": "gpu_overhead",
        **describe(device),
        "bar": BAR,
        "step_ms": median(bare for bare, _, _ in rounds) * 1e3,
        "driven_ms": median(plain for _, plain, _ in rounds) * 1e3,
        "overhead": overhead,
        "overhead_with_telemetry_in_the_same_process": telemetry,
        "sampler_cpu_s_last_pass": sampling,
        "rounds": [[one * 1e3 for one in row] for row in rounds],
        "seconds": round(time.perf_counter() - began, 1),
        "pass": overhead <= BAR and telemetry <= BAR,
    }
    return finish(document)


if __name__ == "__main__":
    raise SystemExit(main())
