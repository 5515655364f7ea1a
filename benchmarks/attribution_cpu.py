"""Planted bottlenecks on the CPU: how many does the attribution name, and does the named gain hold?

    python benchmarks/attribution_cpu.py [--set known|unseen|further] [--repeat 3] [--case NAME] [--keep FOLDER]

Each case of attribution_cpu_steps.py (known), of attribution_cpu_unseen.py or of attribution_cpu_further.py is a real
step of a small model, healthy or with one cause planted. It is timed bare, profiled, attributed against ceilings
measured in the same process, and, where the case has a fix, timed again with the fix applied. Exit 1 where fewer than
nine in ten are named, where one is called hardware-bound whose fix gains 1.3×, or where fewer than 85 % of the
measured gains lie in the printed range.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import attribution_cpu_further as further
import attribution_cpu_steps as planted
import attribution_cpu_unseen as unseen
from attribution_cpu_steps import Step
from lynxbench.attribute.attributing import RESOURCE_FILE, attribute_trace
from lynxbench.attribute.read.resource_record import ResourceStep
from lynxbench.engines.python_resources import account, write_accounts
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.interval import Interval
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

TRACE_FILE, TIMES_FILE = "trace.json", "times.json"
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
HOST, KERNELS = frozenset({Category.INPUT, Category.IDLE}), MEMORY | COMPUTE
ANY_BOUND = frozenset(Bound)
SOFTWARE = frozenset({Bound.SOFTWARE})
HEALTHY = frozenset({Bound.HARDWARE, Bound.UNDETERMINED})
OPEN = frozenset({Bound.SOFTWARE, Bound.UNDETERMINED})
"""Work that is not needed, of which a trace cannot show it: nobody is to be blamed, the hardware least of all."""
KNOWN: dict[str, Case] = {
    "compute": Case(planted.compute_bound, COMPUTE, HEALTHY),
    "memory": Case(planted.memory_bound, MEMORY, HEALTHY),
    "elementwise": Case(planted.elementwise, MEMORY, ANY_BOUND),
    "tiny": Case(planted.tiny_operators, LAUNCH, SOFTWARE),
    "input": Case(planted.annotated_input, frozenset({Category.INPUT}), SOFTWARE, planted.without_input),
    "silent-input": Case(planted.silent_input, frozenset({Category.INPUT}), SOFTWARE, planted.without_input),
    "loader": Case(planted.loader_input, frozenset({Category.INPUT}), SOFTWARE, planted.loader_ready),
    "copies": Case(planted.copies, MEMORY, ANY_BOUND, planted.uncopied),
    "allocator": Case(planted.allocations, frozenset({Category.ALLOCATOR}), SOFTWARE, planted.without_allocations),
    "concatenated": Case(planted.concatenated, MEMORY, SOFTWARE, planted.preallocated),
    "cast": Case(planted.cast, MEMORY, SOFTWARE, planted.uncast),
    "looped": Case(planted.looped, LAUNCH, SOFTWARE, planted.batched),
    "gathered": Case(planted.gathered, LAUNCH, SOFTWARE, planted.indexed),
    "training": Case(planted.training, COMPUTE, ANY_BOUND),
    "pause": Case(planted.python_pause, frozenset({Category.IDLE}), SOFTWARE, planted.without_pause),
}
UNSEEN: dict[str, Case] = {
    "double": Case(unseen.double, COMPUTE, SOFTWARE, unseen.single),
    "scored": Case(unseen.scored, KERNELS, SOFTWARE, unseen.fused),
    "dropping": Case(unseen.dropping, KERNELS, OPEN, unseen.evaluating),
    "one-hot": Case(unseen.one_hot, KERNELS, OPEN, unseen.looked_up),
    "sorted": Case(unseen.sorted_whole, KERNELS, OPEN, unseen.largest),
    "read-singly": Case(unseen.read_singly, LAUNCH | {Category.SYNCHRONIZATION}, SOFTWARE, unseen.read_at_once),
    "serialised": Case(unseen.serialised, HOST, SOFTWARE, unseen.unserialised),
    "tokenised": Case(unseen.tokenised, HOST, SOFTWARE, unseen.at_hand),
    "from-disk": Case(unseen.read_from_disk, HOST, SOFTWARE, unseen.at_hand),
    "handed-over": Case(unseen.handed_over, HOST, SOFTWARE, unseen.straight_on),
    "laid-anew": Case(unseen.laid_anew, MEMORY, SOFTWARE, unseen.laid_once),
    "repeated": Case(unseen.repeated, MEMORY, SOFTWARE, unseen.shared),
    "remade": Case(unseen.remade, KERNELS, OPEN, unseen.kept_table),
    "snapshots": Case(unseen.snapshots, MEMORY, SOFTWARE, unseen.no_snapshots),
    "collected": Case(unseen.collected, HOST, SOFTWARE, unseen.at_hand),
    "row-by-row": Case(unseen.written_row_by_row, LAUNCH, SOFTWARE, unseen.written_at_once),
    "weighed": Case(unseen.weighed_in_python, LAUNCH, SOFTWARE, unseen.weighed_once),
    "products": Case(unseen.products, COMPUTE, HEALTHY),
    "convolution": Case(unseen.convolution, COMPUTE, HEALTHY),
    "fetched": Case(unseen.fetched, MEMORY, ANY_BOUND),
    "attended": Case(unseen.attended, COMPUTE, HEALTHY),
}
FURTHER: dict[str, Case] = {
    "from-lists": Case(further.from_lists, HOST, SOFTWARE, further.passing),
    "pickled": Case(further.pickled, HOST, SOFTWARE, further.passing),
    "throttled": Case(further.throttled, HOST, SOFTWARE, further.passing),
    "numpy": Case(further.through_numpy, HOST, SOFTWARE, further.passing),
    "each-sample": Case(further.sample_by_sample, LAUNCH, SOFTWARE, further.all_samples),
    "grown": Case(further.grown, LAUNCH | MEMORY, SOFTWARE, further.gathered_once),
    "turned": Case(further.turned_products, MEMORY, SOFTWARE, further.straight_products),
    "passes": Case(further.passes, MEMORY, SOFTWARE, further.in_pieces),
    "summed-wide": Case(further.summed_wide, MEMORY, SOFTWARE, further.summed),
    "unrolled": Case(further.unrolled, LAUNCH, SOFTWARE, further.rolled),
    "gradients": Case(further.one_gradient_each, LAUNCH, SOFTWARE, further.one_gradient),
    "padded": Case(further.padded, COMPUTE, OPEN, further.packed),
    "batched": Case(further.batched_products, COMPUTE, HEALTHY),
    "normalised": Case(further.normalised, MEMORY, ANY_BOUND),
    "learning": Case(further.learning, KERNELS, ANY_BOUND),
}
CASES = {"known": KNOWN, "unseen": UNSEEN, "further": FURTHER}


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


def profile_case(case: Case, into: Path, *, steps: int = 8) -> float:
    """Milliseconds of a case's bare step; its trace and the kernel's account of it stay in the folder.

    The account says how long the steps waited for a CPU: without it, a core that others held looks like host code.
    """
    step = case.build()
    bare = time_steps(step, steps)
    profiled = profile_steps(step, steps, into)
    write_accounts([*bare, *profiled], "planted", 1, into / RESOURCE_FILE)
    return median_ms(bare)


def run_case(case: Case, ceilings: tuple[Ceiling, ...], into: Path, *, steps: int = 8) -> tuple[Attribution, float]:
    """The attribution of a case, and its bare step time."""
    bare_ms = profile_case(case, into, steps=steps)
    return judge_case(into, ceilings, bare_ms), bare_ms


def judge_case(folder: Path, ceilings: tuple[Ceiling, ...], bare_ms: float) -> Attribution:
    """The attribution of a profiled case from what it left in its folder."""
    return attribute_trace(
        folder / TRACE_FILE,
        ceilings=ceilings,
        precision=Precision.FP32,
        unprofiled_step_ms=Interval(bare_ms, bare_ms, bare_ms),
        owner=DEFAULT_OWNERS.__getitem__,
    )


def claimed(attribution: Attribution) -> bool:
    """Whether a gain is printed at all: an open verdict without a fix promises none."""
    return attribution.bound is not Bound.UNDETERMINED or attribution.gain_if_removed.high > 1.0


def measure_into(folder: Path, case: Case, ceilings: tuple[Ceiling, ...]) -> None:
    """Everything that a case is judged by, written down: its trace, its account, its times and the ceilings."""
    folder.mkdir(parents=True, exist_ok=True)
    bare_ms = profile_case(case, folder)
    fixed_ms = median_ms(time_steps(case.fixed(), 8)) if case.fixed is not None else None
    times = {"bare_ms": bare_ms, "fixed_ms": fixed_ms, "ceilings": [one.model_dump(mode="json") for one in ceilings]}
    (folder / TIMES_FILE).write_text(json.dumps(times))


@dataclass
class Score:
    """How many cases were named, and what became of their gains."""

    right: int = 0
    total: int = 0
    inside: int = 0
    promised: int = 0
    unpromised: int = 0
    wrongly: int = 0
    gains: dict[str, dict[str, float]] = field(default_factory=dict)
    widths: list[float] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether all bars do."""
        return self.right >= NEEDED * self.total and self.inside >= INSIDE * self.promised and not self.wrongly

    @property
    def line(self) -> str:
        """For people."""
        width = f" (median width {median(self.widths):.1f}×)" if self.widths else ""
        return (
            f"named {self.right} of {self.total}; gain inside its range in {self.inside} of {self.promised}{width}, "
            f"promised none in {self.unpromised}; called hardware wrongly: {self.wrongly}\n"
        )

    def judge(self, name: str, case: Case, folder: Path, *, evidence: bool) -> str:
        """One case from its folder: what is said of it."""
        times = json.loads((folder / TIMES_FILE).read_text())
        ceilings = tuple(Ceiling.model_validate_json(json.dumps(one)) for one in times["ceilings"])
        bare_ms, attribution = times["bare_ms"], judge_case(folder, ceilings, times["bare_ms"])
        good = attribution.bottleneck in case.right and attribution.bound in case.bound
        self.right, self.total = self.right + good, self.total + 1
        gain, measured = attribution.gain_if_removed, ""
        if times["fixed_ms"] is not None:
            true = bare_ms / times["fixed_ms"]
            self.wrongly += attribution.bound is Bound.HARDWARE and true >= SOFTWARE_GAIN
            held, promised = gain.low <= true <= gain.high, claimed(attribution)
            self.inside, self.promised = self.inside + (held and promised), self.promised + promised
            self.unpromised += not promised
            if promised:
                self.widths.append(gain.high / gain.low)
                self.gains.setdefault(f"cpu_{name}".replace("-", "_"), {"estimated": gain.estimate, "true": true})
            measured = f"  measured {true:.2f}×{'' if held else ' OUTSIDE' if promised else ', promised none'}"
        text = (
            f"{'ok ' if good else 'NOT'} {name:13} {attribution.sentence}\n"
            f"      bare {bare_ms:.2f} ms, profiled {attribution.wall_ms_per_step:.2f} ms; "
            f"gain {gain.estimate:.2f}× [{gain.low:.2f}, {gain.high:.2f}]{measured}; owner {attribution.owner}\n"
        )
        if evidence:
            text += "".join(f"        {line}\n" for line in attribution.evidence)
            text += "".join(
                f"        {o.ms_per_step:8.3f} ms {o.category:18} {o.efficiency} {o.name}\n"
                for o in attribution.operators
            )
        return text


def main() -> int:
    """Run the cases and print how many were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--set", choices=CASES, default="known")
    parser.add_argument("--case", choices=sorted(KNOWN | UNSEEN | FURTHER))
    parser.add_argument("--evidence", action="store_true", help="print the evidence lines too")
    parser.add_argument("--record", type=Path, help="keep estimated and true gains for gain_calibration.py")
    parser.add_argument("--keep", type=Path, help="folder for what was measured; what is there is judged again")
    chosen = parser.parse_args()
    score, write = Score(), sys.stdout.write
    for number in range(chosen.repeat):
        ceilings: tuple[Ceiling, ...] = ()
        for name, case in CASES[chosen.set].items():
            if chosen.case not in (None, name):
                continue
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) if chosen.keep is None else chosen.keep / f"{name}-{number}"
                if not (folder / TIMES_FILE).exists():
                    ceilings = ceilings or measure_ceilings()
                    measure_into(folder, case, ceilings)
                write(score.judge(name, case, folder, evidence=chosen.evidence))
        write("".join(f"{c.name} {c.per_s / 1e9:.1f} G{c.unit}\n" for c in ceilings))
    write(score.line)
    if chosen.record is not None:
        chosen.record.write_text(json.dumps(score.gains, indent=1))
    return 0 if score.holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
