"""Planted bottlenecks on the CPU: how many does the attribution name, and does the named gain hold?

    python benchmarks/attribution_cpu.py [--repeat 3] [--case NAME]

Each case is a real step of a small model in which one cause was planted. It is timed bare, profiled, attributed against
ceilings measured in the same process, and, where the case has a fix, timed again with the fix applied.
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
from typing import TYPE_CHECKING

from lynxbench.attribute.attributing import RESOURCE_FILE, attribute_trace
from lynxbench.attribute.read.resource_record import ResourceStep
from lynxbench.engines.python_resources import account, write_accounts
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.interval import Interval
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

if TYPE_CHECKING:
    import torch

Step = Callable[[], object]
PAUSE_S = 0.03
TRACE_FILE = "trace.json"


@dataclass(frozen=True)
class Case:
    """A step with a planted cause, the categories that name it, and the step without it."""

    build: Callable[[], Step]
    right: frozenset[Category]
    bound: frozenset[Bound]
    fixed: Callable[[], Step] | None = None


def block(width: int, depth: int) -> torch.nn.Module:
    """A small residual network of normalisation and two products a layer."""
    import torch
    from torch import nn

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = (
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.down(torch.relu(self.up(self.norm(x))))
            return x + hidden

    torch.manual_seed(0)
    return nn.Sequential(*(Layer() for _ in range(depth))).eval()


def forward(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """One inference."""
    import torch

    with torch.inference_mode():
        out: torch.Tensor = model(x)
    return out


def compute_bound() -> Step:
    """Many rows through wide products: arithmetic."""
    import torch

    model, x = block(384, 2), torch.randn(384, 384)
    return lambda: forward(model, x)


def memory_bound() -> Step:
    """One row through weights far beyond the caches: every weight is read for two operations."""
    import torch

    model, x = block(2048, 2), torch.randn(1, 2048)
    return lambda: forward(model, x)


def elementwise() -> Step:
    """Passes over a tensor far beyond the caches."""
    import torch

    x, y = torch.randn(8 << 20), torch.randn(8 << 20)
    out = torch.empty_like(x)

    def step() -> torch.Tensor:
        torch.add(x, y, out=out)
        torch.mul(out, y, out=out)
        return torch.maximum(out, x, out=out)

    return step


def tiny_operators() -> Step:
    """Hundreds of operators on a few numbers each."""
    import torch

    model, x = block(16, 40), torch.randn(1, 16)
    return lambda: forward(model, x)


def annotated_input() -> Step:
    """A model that waits for its tokens, in a range that says so."""
    import torch
    from torch.profiler import record_function

    model, x = block(128, 2), torch.randn(32, 128)

    def step() -> torch.Tensor:
        with record_function("prepare_input"):
            time.sleep(PAUSE_S)
        return forward(model, x)

    return step


def silent_input() -> Step:
    """The same wait with nothing to announce it."""
    import torch

    model, x = block(128, 2), torch.randn(32, 128)

    def step() -> torch.Tensor:
        time.sleep(PAUSE_S)
        return forward(model, x)

    return step


def without_input() -> Step:
    """The model with its input at hand."""
    import torch

    model, x = block(128, 2), torch.randn(32, 128)
    return lambda: forward(model, x)


def loader_input() -> Step:
    """A data loader that makes each batch on the step's path."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Slow(Dataset[torch.Tensor]):  # type: ignore[misc]
        def __len__(self) -> int:
            return 1 << 20

        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.0004)
            return torch.randn(256)

    model, batches = block(256, 1), iter(DataLoader(Slow(), batch_size=64))
    return lambda: forward(model, next(batches))


def copies() -> Step:
    """Transposes made contiguous over and over around little arithmetic."""
    import torch

    x = torch.randn(2048, 2048)

    def step() -> torch.Tensor:
        out = x
        for _ in range(4):
            out = out.t().contiguous().clone()
        return out.sum()

    return step


def allocations() -> Step:
    """Buffers asked for and dropped, hardly used."""
    import torch

    model, x = block(64, 2), torch.randn(4, 64)

    def step() -> torch.Tensor:
        for _ in range(800):
            torch.empty(1 << 18)
        return forward(model, x)

    return step


def training() -> Step:
    """A healthy training step: forward, backward and update in products of a good size."""
    import torch

    model = block(384, 1).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(384, 384), torch.randn(384, 384)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def python_pause() -> Step:
    """Host code in the middle of a step that the framework knows nothing of."""
    import torch

    model, x = block(128, 2), torch.randn(32, 128)

    def step() -> torch.Tensor:
        first = forward(model, x)
        time.sleep(PAUSE_S)
        return forward(model, first.clone())

    return step


MEMORY, COMPUTE = frozenset({Category.MEMORY_BANDWIDTH}), frozenset({Category.COMPUTE})
ANY_BOUND = frozenset(Bound)
SOFTWARE = frozenset({Bound.SOFTWARE})
CASES: dict[str, Case] = {
    "compute": Case(compute_bound, COMPUTE, frozenset({Bound.HARDWARE, Bound.UNDETERMINED})),
    "memory": Case(memory_bound, MEMORY, frozenset({Bound.HARDWARE, Bound.UNDETERMINED})),
    "elementwise": Case(elementwise, MEMORY, ANY_BOUND),
    "tiny": Case(tiny_operators, frozenset({Category.LAUNCH}), SOFTWARE),
    "input": Case(annotated_input, frozenset({Category.INPUT}), SOFTWARE, without_input),
    "silent-input": Case(silent_input, frozenset({Category.INPUT}), SOFTWARE, without_input),
    "loader": Case(loader_input, frozenset({Category.INPUT}), SOFTWARE, without_input),
    "copies": Case(copies, MEMORY, ANY_BOUND),
    "allocator": Case(allocations, frozenset({Category.ALLOCATOR}), SOFTWARE),
    "training": Case(training, COMPUTE, ANY_BOUND),
    "pause": Case(python_pause, frozenset({Category.IDLE}), SOFTWARE, without_input),
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
    right = total = 0
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
            gain = attribution.gain_if_removed
            measured = f"  measured {bare_ms / median_ms(time_steps(case.fixed(), 8)):.2f}×" if case.fixed else ""
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
    write(f"named {right} of {total}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
