"""Bottlenecks planted in a real model, named by `lynxbench run`: the whole way from contract to owner, on this CPU.

    python benchmarks/planted_run.py [--case NAME] [--repeat N] [--limit 2.5]

Each case is a callable contract with owners of its own whose function runs MiniLM (from its package) with one cause
planted in it. A case counts when the run names the planted category (or, where the cause is a layer's, that layer) and
the owner that the contract gives to the layer. Prints one line a case and the score; exit 1 under 9 of 10.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEEDED = 0.9
OWNERS = {
    "application": "the model's authors",
    "serving": "the serving team",
    "runtime": "the kernel team",
    "framework": "the framework team",
    "system": "the machine room",
    "accelerator": "the hardware team",
    "procurement": "the buyers",
    "facility": "the caretakers",
    "demand": "the product team",
}

MODULE = '''\
import time
import torch
from torch.profiler import record_function

_kept = {}


def _model():
    from lynxbench.workload.model_packages import locate_packaged
    from transformers import AutoModel

    return AutoModel.from_pretrained(str(locate_packaged("all-minilm-l6-v2").folder)).eval()


def _prepare(rows, tokens):
    def setup(threads):
        torch.manual_seed(0)
        torch.set_num_threads(threads)
        _kept["model"] = _model()
        _kept["ids"] = torch.randint(1000, 30000, (rows, tokens))
        _kept["mask"] = torch.ones(rows, tokens, dtype=torch.long)

    return setup


def _forward():
    with torch.inference_mode():
        return _kept["model"](input_ids=_kept["ids"], attention_mask=_kept["mask"]).last_hidden_state


def compute():
    _forward()


def memory():
    """One token through all weights: each is read for two operations."""
    _forward()


def input_stall():
    """The batch is made on the step's path, and nobody says so."""
    time.sleep(0.15)
    _forward()


def annotated_input():
    with record_function("prepare_batch"):
        time.sleep(0.15)
    _forward()


def loader():
    ids = next(_kept["batches"])
    with torch.inference_mode():
        _kept["model"](input_ids=ids, attention_mask=_kept["mask"])


def pause():
    """Host code between two halves of the step that the framework knows nothing of."""
    _forward()
    time.sleep(0.2)
    _forward()


def oversubscribed():
    """A pool of workers that each bring the model's own threads: many times the CPUs at once."""
    list(_kept["pool"].map(lambda _: _forward(), range(_kept["workers"])))


def copies():
    """A large buffer turned round again and again beside the model."""
    hidden = _forward()
    with torch.inference_mode():
        out = _kept["buffer"]
        for _ in range(4):
            out = out.t().contiguous().clone()
    return None


def tiny():
    """Scores of a few numbers, worked over one operator at a time."""
    with torch.inference_mode():
        x = _kept["row"]
        for _ in range(150):
            x = torch.tanh(x * 1.01 + 0.1)
            x = x / (x.sum() + 1.0)


def allocations():
    with torch.inference_mode():
        for _ in range(1500):
            torch.empty(1 << 18)


compute.setup = _prepare(12, 96)
memory.setup = _prepare(1, 1)
input_stall.setup = _prepare(1, 16)
annotated_input.setup = _prepare(1, 16)
pause.setup = _prepare(1, 16)


def _loader_setup(threads):
    _prepare(4, 8)(threads)

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 24

        def __getitem__(self, index):
            time.sleep(0.04)
            return torch.randint(1000, 30000, (8,))

    _kept["batches"] = iter(torch.utils.data.DataLoader(Slow(), batch_size=4))


loader.setup = _loader_setup


def _many_threads(threads):
    from concurrent.futures import ThreadPoolExecutor

    _prepare(2, 64)(threads)
    _kept["workers"] = 6 * threads
    _kept["pool"] = ThreadPoolExecutor(_kept["workers"])


oversubscribed.setup = _many_threads


def _with_buffer(threads):
    _prepare(1, 8)(threads)
    _kept["buffer"] = torch.randn(3072, 3072)


copies.setup = _with_buffer


def _with_row(threads):
    torch.set_num_threads(threads)
    _kept["row"] = torch.rand(1, 16)


tiny.setup = _with_row
allocations.setup = _with_row
'''


@dataclass(frozen=True)
class Case:
    """What is planted, and the answers that are right: a category, or a layer where the cause is one's."""

    function: str
    categories: frozenset[str]
    layers: frozenset[str] = frozenset()


def _case(function: str, *categories: str, layers: tuple[str, ...] = ()) -> Case:
    return Case(function, frozenset(categories), frozenset(layers))


CASES: dict[str, Case] = {
    "compute-bound": _case("compute", "compute"),
    "memory-bound": _case("memory", "memory_bandwidth"),
    "input stall": _case("input_stall", "input"),
    "input, annotated": _case("annotated_input", "input"),
    "data loader": _case("loader", "input"),
    "pause": _case("pause", "idle"),
    "oversubscription": _case("oversubscribed", layers=("system",)),
    "copies": _case("copies", "memory_bandwidth"),
    "tiny operators": _case("tiny", "launch"),
    "allocations": _case("allocations", "allocator"),
}


def contract_of(case: Case, limit_s: float) -> str:
    """A contract that measures the case in a few seconds, with owners of its own."""
    owners = "\n".join(f"  {layer}: {json.dumps(owner)}" for layer, owner in OWNERS.items())
    return f"""\
lynxbench: 1
name: planted
question: Where does the time of this step go?
regime: latency
workload:
  task: callable
  model: {{source: callable, target: "planted:{case.function}"}}
  precisions: [fp32]
engine: {{name: callable}}
protocol:
  restarts: 1
  steady: {{drift: 20 %, window: 100 ms}}
  min_duration: {limit_s:g} s
  limit: {limit_s * 1.5:g} s
  foreign_load: 100 %
owners:
{owners}
"""


def run_case(case: Case, folder: Path, limit_s: float) -> dict[str, Any]:
    """The attribution that `lynxbench run` records for a case; an empty one where it fails."""
    (folder / "planted.py").write_text(MODULE)
    (folder / "planted.yaml").write_text(contract_of(case, limit_s))
    command = [sys.executable, "-m", "lynxbench", "run", "planted.yaml", "--json", "--out", "results"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ))
    try:
        found: dict[str, Any] = json.loads(done.stdout)["attribution"] or {}
    except (ValueError, KeyError):
        sys.stderr.write(done.stderr)
        return {}
    return found


def is_right(case: Case, said: dict[str, Any]) -> bool:
    """Whether the cause is named, and where a layer is, its owner with it."""
    if not said:
        return False
    named = said["bottleneck"] in case.categories if case.categories else said["layer"] in case.layers
    owned = said["layer"] is None or said["owner"] == OWNERS[said["layer"]]
    return bool(named and owned)


def main() -> int:
    """Run the cases and print the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2.5, help="seconds of measuring a case")
    chosen = parser.parse_args()
    right = owned = total = 0
    for _ in range(chosen.repeat):
        for name, case in CASES.items():
            if chosen.case not in (None, name):
                continue
            with tempfile.TemporaryDirectory() as folder:
                said = run_case(case, Path(folder), chosen.limit)
            good = is_right(case, said)
            right, owned, total = right + good, owned + (good and said["owner"] is not None), total + 1
            sentence = said.get("sentence", "no attribution")
            owner = f"{said.get('layer')} → {said.get('owner')}"
            sys.stdout.write(f"{'right' if good else 'WRONG':6}{name:18}{owner:40}{sentence}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{right} of {total} named, {owned} with an owner of the contract\n")
    return 0 if owned >= NEEDED * total else 1


if __name__ == "__main__":
    raise SystemExit(main())
