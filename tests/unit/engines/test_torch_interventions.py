"""What interventions change inside the torch engine: only the one thing, and never the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lynxbench.engines.torch import TorchAdapter
from lynxbench.errors import CannotRun
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import Change
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("few_words")
MODELS = {
    "generate": "smollm2-135m",
    "embed": "minilm-l6",
    "classify": "minilm-l6",
    "train-step": "minilm-l6",
}


def open_changed(task: str, change: Change | None, model: str | None = None, device: str = "cpu") -> Any:
    workload: dict[str, Any] = {
        "task": task,
        "model": {"source": "preset", "name": model or MODELS[task], "layers": 1},
        "precisions": ["fp32"],
        "batch": 2,
    }
    if model is None:
        workload["input_tokens"] = {"distribution": "uniform", "low": 4, "high": 9}
    if task == "generate":
        workload["output_tokens"] = {"distribution": "fixed", "value": 3}
    document = {
        "lynxbench": 1,
        "name": "changed",
        "question": "?",
        "regime": "latency",
        "workload": workload,
        "engine": {"name": "torch", "device": device},
    }
    contract = Contract.model_validate_json(json.dumps(document))
    job = Job(index=0, restart=0, contract=contract, precision=Precision.FP32, threads=1, change=change)
    session = TorchAdapter().open(job)
    session.compile()
    return session


@pytest.mark.parametrize("task", MODELS)
def test_prestaged_inputs_are_the_same_inputs_made_before_the_clock(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lynxbench.engines.torch import task_work

    monkeypatch.setattr(task_work, "STAGED_BATCHES", 3)
    plain, staged = open_changed(task, None), open_changed(task, Change.PRESTAGE)
    made = plain._work.feed
    kept = staged._work.feed
    for index in range(3):
        for name, tensor in made.at(index).items():
            assert torch.equal(tensor, kept.at(index)[name])
            assert kept.at(index)[name] is kept.at(index + 3)[name], "made once, then handed out again"
            assert made.at(index)[name] is not made.at(index)[name]
    assert [plain.step(i) for i in range(3)] == [staged.step(i) for i in range(3)]
    assert staged.facts()["runtime.intervention"] == "prestage the inputs"
    assert "runtime.intervention" not in plain.facts()


def test_generated_tokens_do_not_depend_on_staging() -> None:
    plain, staged = open_changed("generate", None), open_changed("generate", Change.PRESTAGE)
    for index in range(2):
        plain.step(index)
        staged.step(index)
        assert plain._work.last_tokens == staged._work.last_tokens
    assert len(staged.marks) == 6


@pytest.mark.parametrize("change", [Change.REPLAY, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC])
def test_what_needs_a_device_says_that_it_does_not_apply(change: Change) -> None:
    with pytest.raises(CannotRun, match="does not apply: cpu is no CUDA device"):
        open_changed("embed", change)


def test_images_are_staged_already() -> None:
    with pytest.raises(CannotRun, match="does not apply: the images lie on the device"):
        open_changed("classify", Change.PRESTAGE, "vit-b-16")


def test_answers_read_at_the_end_are_the_same_answers() -> None:
    """The path without synchronisation, taken on a CPU, where only its order of reading differs."""
    plain, late = open_changed("generate", None), open_changed("generate", None)
    late._work.pace.waits = False
    plain.step(1)
    late.step(1)
    assert late._work.last_tokens == plain._work.last_tokens
    assert late.marks == []


def test_a_resident_batch_is_used_again_for_its_shape() -> None:
    from lynxbench.engines.torch.task_work import Feed

    made: list[int] = []

    def make(index: int) -> dict[str, Any]:
        made.append(index)
        return {"x": torch.full((index % 2 + 1,), index)}

    feed = Feed(make, torch.device("cpu"))
    feed.change(Change.NO_TRANSFER)
    assert [feed.at(index)["x"].tolist() for index in range(4)] == [[0], [1, 1], [0], [1, 1]]
    assert made == [0, 1, 2, 3], "the host goes on making them"


cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@cuda
@pytest.mark.parametrize("task", ["generate", "embed", "classify"])
@pytest.mark.parametrize("change", [Change.REPLAY, Change.PIN, Change.NO_SYNC])
def test_changed_steps_give_the_same_answers_on_a_device(task: str, change: Change) -> None:
    plain, changed = open_changed(task, None, device="cuda"), open_changed(task, change, device="cuda")
    for index in range(3):
        assert plain.step(index) == changed.step(index)
        if task == "generate":
            assert plain._work.last_tokens == changed._work.last_tokens
