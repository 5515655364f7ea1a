"""Structure that products ignore, work that is the same in each step, places picked by index: is it named, and rightly?

    python benchmarks/attribution_structure.py [--set first ... sixth] [--case NAME ...] [--rules 14 15]
        [--steps 6] [--evidence]

Each step of a set (attribution_structure_steps.py, _second.py and so on) goes through the callable engine: it is timed
bare, profiled, followed and judged against ceilings measured in the same process. A planted one is timed against its
fix in turns, and its fix must give the same. A planted step is right where it is called software-bound with the
application as its layer, or undetermined; none whose fix gains 1.3 may be called hardware-bound. A healthy one is right
where the newest of the rules blames the application of nothing that the older do not; how many are called software-
bound, whoever is blamed, is counted besides. Exit 1 where a planted step is called hardware-bound, or a healthy one is
blamed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

import attribution_structure_fifth as fifth
import attribution_structure_fourth as fourth
import attribution_structure_second as second
import attribution_structure_sixth as sixth
import attribution_structure_steps as first
import attribution_structure_third as third
from attribution_structure_steps import Step, near
from lynxbench.attribute.attributing import attribute_trace
from lynxbench.engines.callable import CallablePythonEngine
from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.contract import Contract
from lynxbench.model.job import Job
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES

SOFTWARE_GAIN = 1.3
ROOMS = {"first": first, "second": second, "third": third, "fourth": fourth, "fifth": fifth, "sixth": sixth}
SETS = {name: room.PLANTED | room.HEALTHY for name, room in ROOMS.items()}
STEPS = {name: step for steps in SETS.values() for name, step in steps.items()}
sys.modules.setdefault("attribution_structure", sys.modules[__name__])
globals().update({name.replace("-", "_"): step for name, step in STEPS.items()})


def job_of(name: str) -> Job:
    """A callable contract as a user writes it."""
    target = f"attribution_structure:{name.replace('-', '_')}"
    workload = {"task": "callable", "model": {"source": "callable", "target": target}, "precisions": ["fp32"]}
    words = {"lynxbench": 1, "name": "structure", "question": "What bounds this step?", "regime": "throughput"}
    protocol = {"limit": "8 s", "min_duration": "4 s"}
    contract = {**words, "workload": workload, "engine": {"name": "callable"}, "protocol": protocol}
    asked = Contract.model_validate(contract, strict=False)
    return Job(index=0, restart=0, contract=asked, precision=Precision.FP32, threads=1)


def timed_ms(steps: tuple[Any, ...], count: int) -> list[float]:
    """Each step's usual milliseconds, in turns."""
    times: list[list[float]] = [[] for _ in steps]
    for index in range(count + 1):
        for step, taken in zip(steps, times, strict=True):
            start = time.perf_counter()
            step(index)
            taken.append((time.perf_counter() - start) * 1e3)
    return [median(taken[1:]) for taken in times]


def judge(name: str, rules: list[int], count: int) -> tuple[dict[int, Attribution], float | None]:
    """What each edition says of a step, and the true gain of its fix."""
    step: Step = STEPS[name]
    session = CallablePythonEngine().open(job_of(name))
    session.compile()
    gain = None
    (bare_ms,) = timed_ms((session.step,), count)
    with tempfile.TemporaryDirectory() as folder:
        trace = session.profile(count, Path(folder))
        ceilings = session.ceilings()
        found = {
            edition: attribute_trace(
                trace or Path(folder), ceilings=ceilings, precision=Precision.FP32, unprofiled_step_ms=bare_ms,
                owner=DEFAULT_OWNERS.__getitem__, rules=edition,
            )
            for edition in rules
        }  # fmt: skip
    if step.fixed is not None:
        step.setup()
        planted = step(0)
        step.setup()
        if not near(step.fixed(0), planted):
            print(f"{name}: its fix gives something else")
        planted_ms, fixed_ms = timed_ms((step, step.fixed), count)
        gain = planted_ms / fixed_ms
    return found, gain


def main() -> int:
    """Every step, a line for each edition, and the score."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--set", choices=list(SETS), default="first")
    parser.add_argument("--case", action="append", choices=list(STEPS))
    parser.add_argument("--rules", type=int, nargs="+", default=[RULES - 1, RULES])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--evidence", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wrong = dict.fromkeys(options.rules, 0)
    named, inside, among, blamed_well, well = (dict.fromkeys(options.rules, 0) for _ in range(5))
    for name in options.case or SETS[options.set]:
        found, gain = judge(name, options.rules, options.steps)
        for edition, one in found.items():
            range_, blamed = one.gain_if_removed, one.bound is Bound.SOFTWARE and one.layer is Layer.APPLICATION
            before = found[options.rules[0]]
            was_blamed = before.bound is Bound.SOFTWARE and before.layer is Layer.APPLICATION
            if gain is None:
                bad = blamed and not was_blamed
                blamed_well[edition] += one.bound is Bound.SOFTWARE
                well[edition] += 1
            else:
                bad = one.bound is Bound.HARDWARE and gain >= SOFTWARE_GAIN
                named[edition] += blamed
                inside[edition] += range_.low <= gain <= range_.high
                among[edition] += 1
            wrong[edition] += bad
            true = "healthy" if gain is None else f"true {gain:.2f}"
            print(
                f"{'WRONG' if bad else '  ok '} {name:15} [{edition}] {true}, said {range_.estimate:.2f} "
                f"[{range_.low:.2f}, {range_.high:.2f}] | {one.layer} | {one.sentence[:190]}",
                flush=True,
            )
            if options.evidence:
                print("".join(f"        {line}\n" for line in one.evidence), end="", flush=True)
    for edition in options.rules:
        print(
            f"edition {edition}: {named[edition]} of {among[edition]} planted named, gain inside in {inside[edition]}; "
            f"of {well[edition]} healthy {blamed_well[edition]} software-bound; wrong: {wrong[edition]}"
        )
    return 1 if wrong[options.rules[-1]] else 0


if __name__ == "__main__":
    sys.exit(main())
