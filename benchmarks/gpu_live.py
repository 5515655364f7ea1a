"""Causes planted in functions as users write them, run by `lynxbench run` on a GPU: what it names, what a fix gains.

    python benchmarks/gpu_live.py [--case NAME ...] [--seconds 4]

Each case of gpu_live_cases.py is measured through a callable contract; the gain of its fix is measured beside it
without any profiler. A verdict is right where bound and bottleneck are among the accepted ones; no case whose fix gains
1.3× may be called hardware-bound. Exit 1 where fewer than nine in ten are right or one is called hardware's; 4 without
a device.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_setting import find_device

NEEDED = 0.9
SOFTWARE_GAIN = 1.3
KERNELS = ("compute", "memory_bandwidth")
ACCEPTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "products": ("hardware", ("compute",)),
    "doubles": ("software", ("compute",)),
    "singles": ("software", ("compute",)),
    "masked": ("software", KERNELS),
    "concatenated": ("software", ("memory_bandwidth",)),
    "repeated": ("software", ("memory_bandwidth",)),
    "cast": ("software", KERNELS),
    "items": ("software", ("synchronization",)),
    "logits": ("software", ("transfer",)),
    "built": ("software", ("input", "idle")),
    "unfused": ("software", ("memory_bandwidth",)),
    "tiny": ("software", ("launch",)),
    "emptied": ("software", ("allocator",)),
}
"""By case: the bound that is right, and the bottlenecks."""
CONTRACT = """\
lynxbench: 1
name: {case}
question: What bounds this step?
regime: throughput
workload: {{task: callable, model: {{source: callable, target: "gpu_live_cases:{case}"}}, precisions: [bf16]}}
engine: {{name: callable}}
protocol: {{restarts: 1, min_duration: {seconds} s, limit: {seconds} s, steady: {{drift: 20 %}}}}
"""


def timed_s(step: Any, seconds: float) -> float:
    """The usual time of a step with a wait at its end, as the callable engine takes it."""
    import torch

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def true_gain(case: str) -> float:
    """Planted over fixed, measured here and now."""
    function = getattr(importlib.import_module("gpu_live_cases"), case)
    function.setup()
    gain = timed_s(function, 0.5) / timed_s(function.fixed, 0.5)
    function.__dict__.clear()
    import torch

    torch.cuda.empty_cache()
    return gain


def verdict(case: str, seconds: float, home: Path) -> dict[str, Any]:
    """What a run says of a case."""
    (home / "contract.yaml").write_text(CONTRACT.format(case=case, seconds=f"{seconds:g}"))
    beside = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    place = {**os.environ, "LYNXBENCH_HOME": str(home / "home"), "PYTHONPATH": beside}
    command = [sys.executable, "-m", "lynxbench", "run", "contract.yaml", "--json"]
    done = subprocess.run(command, cwd=home, env=place, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise RuntimeError(f"{case}: {done.stderr[-1500:]}")
    precision = json.loads(done.stdout)["per_precision"][0]
    found = precision["attribution"]
    if found is None:
        raise RuntimeError(f"{case}: {precision['attribution_missing']}")
    return dict(found)


def main() -> int:
    """Every case, one line each, and the score."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--case", action="append", choices=list(ACCEPTED))
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each case runs")
    options = parser.parse_args()
    find_device()
    right = inside = wrongly_hardware = 0
    cases = options.case or list(ACCEPTED)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            gain = true_gain(case)
            found = verdict(case, options.seconds, Path(folder))
            bound, bottlenecks = ACCEPTED[case]
            named = found["bound"] == bound and found["bottleneck"] in bottlenecks
            predicted = found["gain_if_removed"]
            held = predicted["low"] <= gain <= predicted["high"]
            right, inside = right + named, inside + held
            wrongly_hardware += found["bound"] == "hardware" and gain >= SOFTWARE_GAIN
            low, estimate, high = (predicted[key] for key in ("low", "estimate", "high"))
            print(
                f"{'right' if named else 'WRONG'}  {case}: {found['sentence']} | {found['layer']} {found['owner']} | "
                f"gain {estimate:.2f} [{low:.2f}, {high:.2f}], true {gain:.2f}{'' if held else ' OUTSIDE'}",
                flush=True,
            )
    print(f"{right} of {len(cases)} right, gain inside in {inside}, hardware-bound wrongly {wrongly_hardware}")
    return 0 if right >= NEEDED * len(cases) and not wrongly_hardware else 1


if __name__ == "__main__":
    sys.exit(main())
