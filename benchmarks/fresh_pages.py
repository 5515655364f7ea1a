"""What memory that is new in each step costs, and what an allocator that keeps it gains: steps of a CPU, either way.

    python benchmarks/fresh_pages.py [--case NAME ...] [--steps 6]

Each step of `attribution_structure.py` runs in two processes of its own: as it is, and with glibc's thresholds above
any tensor (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_). Printed are its time, its pages, what the system took, and
the ratio of the two times beside what leaving the system's part out would gain.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 33), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
WARM = 12
CASES = ("moved", "thumbnails", "covariances", "turned-about", "phased")


def measure(name: str, count: int) -> dict[str, float]:
    """A usual step: milliseconds, pages, and milliseconds of the system."""
    import torch

    from attribution_structure import STEPS

    torch.set_num_threads(1)
    step = STEPS[name]
    step.setup()
    for index in range(WARM):
        step(index)
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    for index in range(count):
        step(index)
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "ms": took / count * 1e3,
        "pages": (after.ru_minflt - before.ru_minflt) / count,
        "system_ms": (after.ru_stime - before.ru_stime) / count * 1e3,
    }


def main() -> int:
    """A line for each step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--case", action="append")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.steps)))
        return 0
    for name in options.case or CASES:
        found = []
        for kept in ({}, KEPT):
            command = [sys.executable, __file__, "--measure", name, "--steps", str(options.steps)]
            done = subprocess.run(command, env={**os.environ, **kept}, capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
        usual, kept_ = found
        told = usual["ms"] / max(usual["ms"] - usual["system_ms"], 1e-3)
        print(
            f"{name:14} {usual['ms']:6.1f} ms, {usual['pages']:7.0f} pages, the system's {usual['system_ms']:5.1f} ms; "
            f"kept {kept_['ms']:6.1f} ms, {kept_['pages']:5.0f} pages: {usual['ms'] / kept_['ms']:5.2f} times as fast, "
            f"{told:5.2f} told",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
