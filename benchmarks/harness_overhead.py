"""What the harness adds: a callable of one millisecond, in the loop of lynxbench and in a bare loop, in one process.

python benchmarks/harness_overhead.py [--json] [--seconds 4]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median

from lynxbench.load.inprocess import StopRule, drive
from lynxbench.load.journal import Journal

ROUNDS = 9


def spin_a_millisecond() -> None:
    """One millisecond by the clock that both loops read."""
    until_ns = time.perf_counter_ns() + 1_000_000
    while time.perf_counter_ns() < until_ns:
        pass


class Session:
    """The least a driver needs."""

    unit = "call"

    def __init__(self, work: Callable[[], object]) -> None:
        self.marks: list[int] = []
        self._work = work

    def step(self, index: int) -> int:
        """One call."""
        self._work()
        return 1


def harness_ns(work: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Median of a call as lynxbench stamps it, and median distance from one start to the next."""
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        drive(Session(work), journal, StopRule(seconds, seconds, lambda _: False))  # type: ignore[arg-type]
        rows = journal.iterations()
        starts = rows.start_ns.tolist()
        apart_ns = median(later - earlier for earlier, later in pairwise(starts))
        return median((rows.end_ns - rows.start_ns).tolist()), apart_ns


def bare_ns(work: Callable[[], object], seconds: float) -> float:
    """Median of a call in the barest loop there is."""
    taken: list[int] = []
    until_ns = time.perf_counter_ns() + int(seconds * 1e9)
    clock = time.perf_counter_ns
    while clock() < until_ns:
        start_ns = clock()
        work()
        taken.append(clock() - start_ns)
    return median(taken)


def measure(seconds: float) -> dict[str, float]:
    """Both loops, alternating; medians over rounds."""
    share = seconds / ROUNDS / 2
    pairs = [(harness_ns(spin_a_millisecond, share)[0], bare_ns(spin_a_millisecond, share)) for _ in range(ROUNDS)]
    cost_ns = median(harness_ns(lambda: None, share / 4)[1] for _ in range(ROUNDS))
    return {
        "harness_ms": median(h for h, _ in pairs) / 1e6,
        "bare_ms": median(b for _, b in pairs) / 1e6,
        "difference": median(h / b for h, b in pairs) - 1,
        "cost_us_per_iteration": cost_ns / 1e3,
    }


def main() -> None:
    """Measure and print; exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    found = measure(options.seconds)
    if options.json:
        print(json.dumps(found))
    else:
        print(f"1 ms callable: {found['harness_ms']:.5f} ms in lynxbench, {found['bare_ms']:.5f} ms in a bare loop")
        cost = f"a whole iteration costs {found['cost_us_per_iteration']:.2f} µs (bar: 2)"
        print(f"difference {found['difference']:+.3%} (bar: 0.5 %); {cost}")
    if abs(found["difference"]) > 0.005 or found["cost_us_per_iteration"] > 2:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
