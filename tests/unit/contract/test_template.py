"""What `contract new` writes loads as it is and explains every key."""

from __future__ import annotations

from typing import Any

import pytest

from lynxbench.contract.explain import explained_keys
from lynxbench.contract.loader import parse_contract
from lynxbench.contract.template import USUAL_MODELS, parse_model, render_template
from lynxbench.errors import BadInput
from lynxbench.model.contract import PluginEngine, Protocol
from lynxbench.model.workload import PresetModel, Task


@pytest.mark.parametrize("task", list(Task))
def test_a_template_of_every_task_loads(task: Task) -> None:
    contract = parse_contract(render_template(task))
    assert contract.workload.task is task
    assert contract.name == f"my-{task}"
    assert contract.protocol == Protocol(), "the template asks for the default protocol, not for a looser one"
    assert set(USUAL_MODELS) == set(Task)


@pytest.mark.parametrize("task", list(Task))
def test_every_key_has_its_line_of_explanation(task: Task) -> None:
    lines = render_template(task).splitlines()
    body = lines[3:]
    for before, line in zip(["", *body], body, strict=False):
        if line.strip() and not line.lstrip().startswith("#"):
            assert " # " in line or before.lstrip().startswith("# "), line


def test_optional_keys_can_be_uncommented() -> None:
    text = render_template(Task.GENERATE)
    for example in ("# threads: 2", "# by: A. Example", "# date: 2026-01-31"):
        assert example in text
        text = text.replace(example, example.removeprefix("# "), 1)
    contract = parse_contract(text)
    assert contract.engine.threads == 2
    assert contract.agreed[0].date == "2026-01-31"


def test_every_example_is_offered_somewhere() -> None:
    texts = "\n".join(render_template(task, model="preset:resnet-50") for task in (Task.CLASSIFY,))
    texts += "\n".join(render_template(task) for task in Task)
    texts += render_template(model="hub:a/b") + render_template(engine="onnx") + render_template(engine="plugin:x")
    texts += render_template(engine="openai") + render_template(Task.CLASSIFY, engine="kserve")
    for name, key in explained_keys().items():
        if key.example and name != "Agreement.team":
            assert f"# {name.partition('.')[2]}: {key.example}" in texts, name


def test_options_are_taken_up() -> None:
    contract = parse_contract(
        render_template(Task.TRAIN_STEP, model="preset:qwen2.5-0.5b", engine="plugin:mine", name="our-training")
    )
    assert isinstance(contract.workload.model, PresetModel)
    assert contract.workload.model.name == "qwen2.5-0.5b"
    assert isinstance(contract.engine, PluginEngine)
    assert contract.name == "our-training"


def test_vision_models_get_no_token_lengths() -> None:
    contract = parse_contract(render_template(Task.CLASSIFY, model="preset:resnet-50"))
    assert contract.workload.input_tokens is None


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("package:smollm2-135m-instruct", {"source": "package", "name": "smollm2-135m-instruct"}),
        ("preset:bert-base", {"source": "preset", "name": "bert-base"}),
        ("path:models/mine", {"source": "path", "path": "models/mine"}),
        ("./mine.onnx", {"source": "path", "path": "./mine.onnx"}),
        ("hub:owner/name", {"source": "hub", "id": "owner/name"}),
        ("callable:my.module:work", {"source": "callable", "target": "my.module:work"}),
        ("my.module:work", {"source": "callable", "target": "my.module:work"}),
    ],
)
def test_models_are_named_by_their_source(text: str, document: dict[str, str]) -> None:
    assert parse_model(text) == document


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "smollm2"}, "--model 'smollm2': say where it comes from"),
        ({"model": "package:"}, "say where it comes from"),
        ({"engine": "tensorrt"}, r"engine\.name: 'tensorrt' is not known here; use torch"),
        ({"engine": "plugin"}, r"engine\.plugin: ''"),
        ({"name": "Our Contract"}, "name: 'Our Contract': use lower-case letters"),
        ({"task": Task.CALLABLE, "model": "hub:a/b"}, r"workload\.task: task callable with model source hub"),
    ],
)
def test_wrong_options_give_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        render_template(**options)
    assert str(caught.value).isprintable()
