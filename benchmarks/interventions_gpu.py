"""Every intervention on a CUDA device: what the shares predict beside what was measured.

    PYTHONPATH=src python benchmarks/interventions_gpu.py [--case NAME] [--seconds 1.5] [--processes]

Each case is a preset model (seeded random weights) in the torch engine. It is measured, profiled and attributed in this
process; then each change is made, its steps are measured the same way, twice, with an unchanged pass in between, and
the verdict is confirmed or corrected. `--processes` adds one case through `lynxbench run --intervene`.
Exit 1 where an intervention that applies did not run, or where a changed step gives other tokens than the plain one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.intervention_tests import (
    InterventionProposal,
    judge_intervention,
    not_measured,
    propose_interventions,
    with_interventions,
)
from lynxbench.engines.torch import TorchAdapter
from lynxbench.errors import CannotRun
from lynxbench.model.attribution import Attribution, Intervention
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import Change, InterventionScope
from lynxbench.model.job import Job
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

WARM_UP_STEPS = 5
PROFILED_STEPS = 6
SAME_ANSWERS = (Change.REPLAY, Change.PRESTAGE, Change.PIN, Change.NO_SYNC)


@dataclass(frozen=True)
class Case:
    """A preset model at work: task, tokens in and out, batch, precision."""

    task: str
    model: str
    precision: str
    batch: int
    tokens: tuple[int, int] = (0, 0)


CASES: dict[str, Case] = {
    "decode, one row": Case("generate", "smollm2-135m", "bf16", 1, (32, 32)),
    "embed, small batch": Case("embed", "minilm-l6", "fp32", 4, (32, 0)),
    "training step": Case("train-step", "minilm-l6", "fp32", 16, (64, 0)),
    "classify, wide products": Case("classify", "bert-large", "fp32", 32, (256, 0)),
    "images": Case("classify", "vit-b-16", "bf16", 32),
}
BRIEF = ("decode, one row", "embed, small batch", "training step")
"""What runs without --case: under three minutes, most of it compiling."""


def contract_of(case: Case, device: str) -> Contract:
    """The case as a contract."""
    workload: dict[str, Any] = {
        "task": case.task,
        "model": {"source": "preset", "name": case.model},
        "precisions": [case.precision],
        "batch": case.batch,
    }
    if case.tokens[0]:
        workload["input_tokens"] = {"distribution": "fixed", "value": case.tokens[0]}
    if case.tokens[1]:
        workload["output_tokens"] = {"distribution": "fixed", "value": case.tokens[1]}
    document = {
        "lynxbench": 1,
        "name": "intervention",
        "question": "What does each change gain?",
        "regime": "throughput",
        "workload": workload,
        "engine": {"name": "torch", "device": device},
        "protocol": {
            "restarts": 1,
            "min_duration": "4 s",
            "limit": "5 s",
            "steady": {"drift": "20 %", "window": "500 ms"},
            "foreign_load": "100 %",
        },
    }
    return Contract.model_validate_json(json.dumps(document))


def open_session(contract: Contract, precision: Precision, change: Change | None) -> Any:
    """A session that is ready to be timed."""
    job = Job(index=0, restart=0, contract=contract, precision=precision, threads=8, change=change)
    skip = TorchAdapter().estimate(job)
    if skip is not None:
        raise CannotRun(f"does not apply: {skip.reason}")
    session = TorchAdapter().open(job)
    session.compile()
    return session


def rate(session: Any, seconds: float) -> float:
    """Units of work a second, the queue drained at both ends."""
    from lynxbench.engines.torch.device import synchronise

    device = session._loaded.device
    for index in range(WARM_UP_STEPS):
        session.step(index)
    synchronise(device)
    units, index, began = 0, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        units += session.step(index)
        index += 1
    synchronise(device)
    session.marks.clear()
    return units / (time.perf_counter() - began)


def attribute(session: Any, precision: Precision, step_ms: float) -> Attribution:
    """Where the time of the plain step goes."""
    with tempfile.TemporaryDirectory() as folder:
        return attribute_trace(
            session.profile(PROFILED_STEPS, Path(folder)),
            ceilings=session.ceilings(),
            precision=precision,
            unprofiled_step_ms=step_ms,
            owner=DEFAULT_OWNERS.__getitem__,
        )


def same_tokens(plain: Any, changed: Any) -> bool | None:
    """Whether two sessions generate the same tokens; None where the task generates none."""
    if not hasattr(plain._work, "last_tokens"):
        return None
    plain.step(3)
    changed.step(3)
    return bool(plain._work.last_tokens == changed._work.last_tokens)


def test(proposal: InterventionProposal, plain: Any, baseline: list[float], seconds: float) -> tuple[Intervention, str]:
    """One intervention, and what went wrong with it."""
    if proposal.inapplicable is not None:
        return judge_intervention(proposal, baseline, []), ""
    changed = None
    try:
        changed = open_session(proposal.contract, proposal.precision, proposal.inside_engine)
        gained = [rate(changed, seconds)]
        baseline.append(rate(plain, seconds))
        gained.append(rate(changed, seconds))
        same = same_tokens(plain, changed) if proposal.change in SAME_ANSWERS else None
    except CannotRun as error:
        done = not_measured(proposal, str(error))
        return done, "" if done.note.startswith("does not apply") else done.note
    except Exception as error:  # one that fails must not hide the others
        traceback.print_exc(limit=-3)
        return not_measured(proposal, f"{type(error).__name__}: {error}".splitlines()[0]), "failed"
    finally:
        if changed is not None:
            changed.close()
        gc.collect()
    return judge_intervention(proposal, baseline, gained), "other tokens than the plain step" if same is False else ""


def run_case(name: str, case: Case, device: str, seconds: float) -> bool:
    """Measure, attribute, intervene, and print it; False where something that applies went wrong."""
    write = sys.stdout.write
    contract, precision = contract_of(case, device), Precision(case.precision)
    plain = open_session(contract, precision, None)
    first = rate(plain, seconds)
    per_step = plain.step(0)
    found = attribute(plain, precision, per_step / first * 1e3)
    plain.marks.clear()
    baseline = [first, rate(plain, seconds)]
    write(f"\n{name}: {case.model} {case.precision} batch {case.batch}: {first:,.1f} {plain.unit}/s\n")
    write(f"  before  {found.sentence}\n")
    good = True
    done: list[tuple[InterventionProposal, Intervention]] = []
    proposals = propose_interventions(contract, found, precision=precision, device=device, scope=InterventionScope.ALL)
    for proposal in proposals:
        began = time.perf_counter()
        one, problem = test(proposal, plain, baseline, seconds)
        done.append((proposal, one))
        good = good and not problem
        if one.measured.known:
            p, m = one.predicted, one.measured
            said = (
                f"predicted {p.estimate:5.2f}x [{p.low:.2f}, {p.high:.2f}]  "
                f"measured {m.estimate:5.2f}x [{m.low:.2f}, {m.high:.2f}]  {one.note}"
            )
        else:
            said = one.note
        wrong = f"  WRONG: {problem}" if problem else ""
        write(f"  {one.name:32} {said}{wrong}  ({time.perf_counter() - began:.0f} s)\n")
        sys.stdout.flush()
    after = with_interventions(found, done)
    write(f"  after   {after.sentence}\n          next: {after.next_step}\n")
    plain.close()
    return good


def run_as_users_do(device: str) -> bool:
    """One case through the whole program, in fresh processes."""
    case = CASES["decode, one row"]
    with tempfile.TemporaryDirectory() as folder:
        document = contract_of(case, device).canonical()
        path = Path(folder) / "contract.yaml"
        path.write_text(json.dumps(document))
        command = [sys.executable, "-m", "lynxbench", "run", str(path), "--intervene", "--json", "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        for one in json.loads(done.stdout)["attribution"]["interventions"]:
            sys.stdout.write(f"  {one['name']:32} predicted {one['predicted']}  measured {one['measured']}\n")
        return True
    sys.stdout.write(done.stderr[-1500:] + "\n")
    return False


def main() -> int:
    """Run the cases; exit 1 where something that applies did not work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=sorted(CASES), action="append", help="more than the three brief ones")
    parser.add_argument("--seconds", type=float, default=0.8, help="of each timed pass")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--processes", action="store_true", help="also through `lynxbench run --intervene`")
    chosen = parser.parse_args()
    import torch

    if chosen.device.startswith("cuda") and not torch.cuda.is_available():
        sys.stdout.write("no CUDA device: nothing was measured\n")
        return 1
    name = torch.cuda.get_device_name() if chosen.device.startswith("cuda") else chosen.device
    sys.stdout.write(f"{name}, torch {torch.__version__}\n")
    good = True
    for name in chosen.case or BRIEF:
        good &= run_case(name, CASES[name], chosen.device, chosen.seconds)
    if chosen.processes:
        good &= run_as_users_do(chosen.device)
    sys.stdout.write("\nall interventions that apply ran\n" if good else "\nsomething that applies did not work\n")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
