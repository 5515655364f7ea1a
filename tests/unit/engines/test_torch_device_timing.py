"""Every task under device timing, on a CPU whose events are stamps of the host: the code of a GPU run, small."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lynxbench.engines.torch import TorchAdapter, torch_session  # noqa: E402
from lynxbench.engines.torch.events import EventClock  # noqa: E402
from lynxbench.load.inprocess import StopRule, drive  # noqa: E402
from lynxbench.load.journal import Journal, read_journal  # noqa: E402
from lynxbench.model.contract import Contract  # noqa: E402
from lynxbench.model.job import Job  # noqa: E402
from lynxbench.model.precision import Precision  # noqa: E402


class Stamp:
    """An event of a device that has finished whatever it was given."""

    def record(self) -> None:
        self.at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        return

    def elapsed_time(self, end_event: Stamp) -> float:
        return (end_event.at_ns - self.at_ns) / 1e6


@pytest.fixture
def _stamped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_session, "open_clock", lambda device: EventClock(Stamp, lambda: None))


def session_of(task: str, model: str, **workload: Any) -> Any:
    document = {
        "lynxbench": 1,
        "name": "small",
        "question": "does it step?",
        "regime": "latency",
        "workload": {
            "task": task,
            "model": {"source": "preset", "name": model, "layers": 1},
            "precisions": ["fp32"],
            "batch": 2,
            **workload,
        },
        "engine": {"name": "torch", "device": "cpu", "timing": "device"},
    }
    contract = Contract.model_validate_json(json.dumps(document))
    session = TorchAdapter().open(Job(index=0, restart=0, contract=contract, precision=Precision.FP32, threads=1))
    session.compile()
    return session


TOKENS = {"input_tokens": {"distribution": "fixed", "value": 8}}
CASES: dict[str, tuple[str, str, dict[str, Any], int, int]] = {
    # task, model, workload, units a step, stamps a step
    "prefill": ("prefill", "smollm2-135m", TOKENS, 16, 0),
    "decode": ("decode", "smollm2-135m", TOKENS, 2, 0),
    "generate": (
        "generate", "smollm2-135m", {**TOKENS, "output_tokens": {"distribution": "fixed", "value": 3}}, 6, 3,
    ),
    "embed": ("embed", "minilm-l6", TOKENS, 2, 0),
    "classify": ("classify", "resnet-18", {}, 2, 0),
    "train-step": ("train-step", "minilm-l6", TOKENS, 2, 0),
}  # fmt: skip


@pytest.mark.usefixtures("_stamped", "few_words")
@pytest.mark.parametrize("name", CASES)
def test_steps_are_queued_staged_and_stamped(name: str, tmp_path: Path) -> None:
    task, model, workload, units, stamps = CASES[name]
    session = session_of(task, model, **workload)
    assert not session._work.pace.waits, "no step may wait for its device"
    if session._work.feed is not None:
        assert session._work.feed.at == session._work.feed._prestaged
        first, second = (session._work.feed.at(index)["input_ids"] for index in (0, 1))
        assert not torch.equal(first, second), "inputs rotate"
    with Journal(tmp_path) as journal:
        drive(session, journal, StopRule(0.2, 0.2, lambda _: False))
    rows, marks = read_journal(tmp_path)
    assert len(rows) > 0
    assert set(rows.units.tolist()) == {units}
    assert len(marks.at_ns) == stamps * len(rows)
    assert (rows.start_ns[1:] >= rows.end_ns[:-1]).all()
    assert "events on the device" in str(session.facts()["runtime.timing"])
    assert session.outputs() is not None
