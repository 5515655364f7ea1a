"""What the GPU benchmarks share: the device or a clean refusal, a session around any step, and one JSON at the end."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lynxbench.engines.torch.events import open_clock
from lynxbench.load.inprocess import StopRule, drive
from lynxbench.load.journal import Journal
from lynxbench.model.contract import Contract
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision
from lynxbench.model.samples import Iterations

CANNOT = 4
"""Exit code where this machine has no CUDA device, as the program's own."""


def find_device() -> Any:
    """The first CUDA device; one line and exit code 4 where there is none."""
    import torch

    if not torch.cuda.is_available():
        sys.stderr.write("no CUDA device: nothing was measured\n")
        raise SystemExit(CANNOT)
    return torch.device("cuda:0")


def describe(device: Any) -> dict[str, str]:
    """What the figures were taken on."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"device": name, "torch": str(torch.__version__), "cuda": str(torch.version.cuda)}


def finish(document: dict[str, Any]) -> int:
    """Print the document, and nothing else; the exit code follows from its `pass`."""
    print(json.dumps(document, indent=1))
    return 0 if document["pass"] else 1


class Stepping:
    """Any step as the driver wants it, timed on the device."""

    unit = "step"

    def __init__(self, step: Callable[[int], object], clock: Any) -> None:
        self._step, self.device_clock = step, clock
        self.marks: list[int] = []

    def step(self, index: int) -> int:
        """Queue one step."""
        self._step(index)
        return 1


def drive_for(step: Callable[[int], object], device: Any, seconds: float, clock: Any = None) -> Iterations:
    """The step through lynxbench's driver, clock and journal for so long."""
    session = Stepping(step, clock or open_clock(device))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        drive(session, journal, StopRule(seconds, seconds, lambda _: False))  # type: ignore[arg-type]
        return journal.iterations()


def median_ms(rows: Iterations, skip_s: float) -> float:
    """Median step after the first so many seconds of busy time."""
    busy_s = np.cumsum(rows.seconds)
    kept = rows.seconds[busy_s > skip_s]
    return float(np.median(kept if len(kept) else rows.seconds)) * 1e3


def rest(seconds: float) -> None:
    """Let the device cool and its power budget recover."""
    time.sleep(seconds)


def contract_of(
    task: str, model: str, precision: str, *, tokens: int | None, batch: int = 1, graph: str = "eager",
    layers: int | None = None, device: str = "cuda", timing: str = "device", attention: str = "sdpa",
) -> Contract:  # fmt: skip
    """A preset at work, as a contract; its protocol is never used."""
    named: dict[str, Any] = {"source": "preset", "name": model} | ({"layers": layers} if layers else {})
    document = {
        "lynxbench": 1,
        "name": "benchmark",
        "question": "How long does a step take?",
        "regime": "latency",
        "workload": {
            "task": task,
            "model": named,
            "precisions": [precision],
            "batch": batch,
            **({"input_tokens": {"distribution": "fixed", "value": tokens}} if tokens else {}),
            "seed": 20260101,
        },
        "engine": {"name": "torch", "device": device, "graph": graph, "timing": timing, "attention": attention},
    }
    return Contract.model_validate_json(json.dumps(document))


def open_session(contract: Contract) -> Any:
    """The engine's session for a contract, compiled or recorded as it asks."""
    from lynxbench.engines.torch import TorchAdapter

    precision = Precision(contract.workload.precisions[0])
    session = TorchAdapter().open(Job(index=0, restart=0, contract=contract, precision=precision, threads=8))
    session.compile()
    return session
