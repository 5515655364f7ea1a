"""Planted bottlenecks on the CPU: how many does the attribution name, and does the named gain hold?

    python benchmarks/attribution_cpu.py [--repeat 3] [--case NAME]

Each case of attribution_cpu_steps.py is a real step of a small model, healthy or with one cause planted. It is timed
bare, profiled, attributed against ceilings measured in the same process, and, where the case has a fix, timed again
with the fix applied. Exit 1 where fewer than nine in ten are named, where one is called hardware-bound whose fix gains
1.3×, or where fewer than 85 % of the measured gains lie in the printed range.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import attribution_cpu_steps as planted
from attribution_cpu_steps import Step
from lynxbench.attribute.attributing import RESOURCE_FILE, attribute_trace
from lynxbench.attribute.read.resource_record import ResourceStep
from lynxbench.engines.python_resources import account, write_accounts
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.interval import Interval
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

TRACE_FILE = "trace.json"
NEEDED, INSIDE, SOFTWARE_GAIN = 0.9, 0.85, 1.3


@dataclass(frozen=True)
class Case:
    """A step with a planted cause, the categories that name it, and the step without it."""

    build: Callable[[], Step]
    right: frozenset[Category]
    bound: frozenset[Bound]
    fixed: Callable[[], Step] | None = None


MEMORY, COMPUTE = frozenset({Category.MEMORY_BANDWIDTH}), frozenset({Category.COMPUTE})
LAUNCH = frozenset({Category.LAUNCH})
ANY_BOUND = frozenset(Bound)
SOFTWARE = frozenset({Bound.SOFTWARE})
CASES: dict[str, Case] = {
    "compute": Case(planted.compute_bound, COMPUTE, frozenset({Bound.HARDWARE, Bound.UNDETERMINED})),
    "memory": Case(planted.memory_bound, MEMORY, frozenset({Bound.HARDWARE, Bound.UNDETERMINED})),
    "elementwise": Case(planted.elementwise, MEMORY, ANY_BOUND),
    "tiny": Case(planted.tiny_operators, LAUNCH, SOFTWARE),
    "input": Case(planted.annotated_input, frozenset({Category.INPUT}), SOFTWARE, planted.without_input),
    "silent-input": Case(planted.silent_input, frozenset({Category.INPUT}), SOFTWARE, planted.without_input),
    "loader": Case(planted.loader_input, frozenset({Category.INPUT}), SOFTWARE, planted.loader_ready),
    "copies": Case(planted.copies, MEMORY, ANY_BOUND),
    "allocator": Case(planted.allocations, frozenset({Category.ALLOCATOR}), SOFTWARE, planted.without_allocations),
    "concatenated": Case(planted.concatenated, MEMORY, SOFTWARE, planted.preallocated),
    "cast": Case(planted.cast, MEMORY, SOFTWARE, planted.uncast),
    "looped": Case(planted.looped, LAUNCH, SOFTWARE, planted.batched),
    "gathered": Case(planted.gathered, LAUNCH, SOFTWARE, planted.indexed),
    "training": Case(planted.training, COMPUTE, ANY_BOUND),
    "pause": Case(planted.python_pause, frozenset({Category.IDLE}), SOFTWARE, planted.without_pause),
}


def best_rate(work: Callable[[], object], amount: float, seconds: float = 0.4) -> float:
    """The best of repeated calls, as amount a second."""
    work()
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return amount / best


def measure_ceilings() -> tuple[Ceiling, ...]:
    """Bare product, copy and read of this machine, now."""
    import torch

    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    source, into = torch.randn(16 << 20), torch.empty(16 << 20)
    matrix, vector = torch.randn(4096, 4096), torch.randn(4096)
    size = source.numel() * 4
    product = best_rate(lambda: torch.mm(a, b), 2 * 1024**3)
    copy = best_rate(lambda: into.copy_(source), 2 * size)
    read = max(best_rate(lambda: torch.mv(matrix, vector), matrix.numel() * 4), best_rate(source.sum, size))
    return (
        Ceiling(name="matmul", precision=Precision.FP32, per_s=product, unit="operations/s", how="1024³ product, best"),
        Ceiling(name="copy", precision=None, per_s=copy, unit="bytes/s", how="64 MiB copy, read and written, best"),
        Ceiling(
            name="read", precision=None, per_s=read, unit="bytes/s", how="4096² matrix by vector or 64 MiB sum, best"
        ),
    )


def time_steps(step: Step, count: int) -> list[ResourceStep]:
    """Bare steps, with what the kernel accounted to each."""
    step()
    return [account(lambda _: (step(), 1)[1], index) for index in range(count)]


def profile_steps(step: Step, count: int, into: Path) -> list[ResourceStep]:
    """A trace of that many annotated steps, and what the kernel accounted to them."""
    from torch.profiler import ProfilerActivity, profile, record_function

    def annotated(index: int) -> int:
        with record_function(f"step#{index}"):
            step()
        return 1

    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        accounts = [account(annotated, index) for index in range(count)]
    profiler.export_chrome_trace(str(into / TRACE_FILE))
    return accounts


def median_ms(accounts: list[ResourceStep]) -> float:
    """Milliseconds of the step in the middle."""
    return median(one.wall_ns for one in accounts) / 1e6


def run_case(case: Case, ceilings: tuple[Ceiling, ...], into: Path, *, steps: int = 8) -> tuple[Attribution, float]:
    """The attribution of a case, and its bare step time; the trace and the kernel's account of it stay in the folder.

    The account says how long the steps waited for a CPU: without it, a core that others held looks like host code.
    """
    step = case.build()
    bare = time_steps(step, steps)
    profiled = profile_steps(step, steps, into)
    write_accounts([*bare, *profiled], "planted", 1, into / RESOURCE_FILE)
    return judge_case(into, ceilings, median_ms(bare)), median_ms(bare)


def judge_case(folder: Path, ceilings: tuple[Ceiling, ...], bare_ms: float) -> Attribution:
    """The attribution of a profiled case from what it left in its folder."""
    return attribute_trace(
        folder / TRACE_FILE,
        ceilings=ceilings,
        precision=Precision.FP32,
        unprofiled_step_ms=Interval(bare_ms, bare_ms, bare_ms),
        owner=DEFAULT_OWNERS.__getitem__,
    )


def main() -> int:
    """Run the cases and print how many were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--evidence", action="store_true", help="print the evidence lines too")
    chosen = parser.parse_args()
    write = sys.stdout.write
    right = total = inside = fixes = wrongly = 0
    for _ in range(chosen.repeat):
        ceilings = measure_ceilings()
        write("  ".join(f"{c.name} {c.per_s / 1e9:.1f} G{c.unit}" for c in ceilings) + "\n")
        for name, case in CASES.items():
            if chosen.case not in (None, name):
                continue
            with tempfile.TemporaryDirectory() as folder:
                attribution, bare_ms = run_case(case, ceilings, Path(folder))
            good = attribution.bottleneck in case.right and attribution.bound in case.bound
            right, total = right + good, total + 1
            gain, measured = attribution.gain_if_removed, ""
            if case.fixed is not None:
                true = bare_ms / median_ms(time_steps(case.fixed(), 8))
                held = gain.low <= true <= gain.high
                inside, fixes = inside + held, fixes + 1
                wrongly += attribution.bound is Bound.HARDWARE and true >= SOFTWARE_GAIN
                measured = f"  measured {true:.2f}×{'' if held else ' OUTSIDE'}"
            write(
                f"{'ok ' if good else 'NOT'} {name:13} {attribution.sentence}\n"
                f"      bare {bare_ms:.2f} ms, profiled {attribution.wall_ms_per_step:.2f} ms; "
                f"gain {gain.estimate:.2f}× [{gain.low:.2f}, {gain.high:.2f}]{measured}; owner {attribution.owner}\n"
            )
            if chosen.evidence:
                write("".join(f"        {line}\n" for line in attribution.evidence))
                write(
                    "".join(
                        f"        {o.ms_per_step:8.3f} ms {o.category:18} {o.efficiency} {o.name}\n"
                        for o in attribution.operators
                    )
                )
    write(
        f"named {right} of {total}; gain inside its range in {inside} of {fixes}; called hardware wrongly: {wrongly}\n"
    )
    return 0 if right >= NEEDED * total and inside >= INSIDE * fixes and not wrongly else 1


if __name__ == "__main__":
    raise SystemExit(main())
