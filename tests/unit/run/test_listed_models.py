"""Names of models that are asked for, against the lists of real servers and of ones that answer with another model."""

from __future__ import annotations

from typing import Any

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.executor.server import without_changing
from lynxbench.model.executor import Executor, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.model.result import RULES
from lynxbench.run.listed_models import LISTED, judge_names
from served import served_contract


def doubts(asked: str, listed: Any, rules: int = RULES) -> list[str]:
    text = served_contract("http://127.0.0.1:8000/v1").replace("ground-truth", asked)
    field = unreadable("GET /v1/models: status 404") if listed is None else measured(without_changing(listed), "test")
    executor = Executor(schema_version=1, layers={Layer.SERVING: {"server_models": field}})
    found = judge_names(parse_contract(text), executor, rules)
    assert not any(doubt.void for doubt in found)
    return [doubt.reason for doubt in found]


def openai(*ids: str, **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", **more} for name in ids]}


VLLM = {
    "data": [
        {"id": "base", "root": "/weights/Llama-3.1-8B", "parent": None, "permission": [{"id": "p"}]},
        {"id": "sql", "root": "/weights/sql-adapter", "parent": "meta/Llama-3.1-8B"},
    ]
}
LLAMACPP = {
    "models": [{"name": "/models/smol.gguf", "model": "/models/smol.gguf", "capabilities": ["completion"]}],
    "data": [{"id": "/models/smol.gguf", "aliases": ["small", "tiny"], "meta": {"size": 640}}],
}


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("m", openai("m")),
        ("m", openai("a", "b", "m")),
        ("base", VLLM),
        ("sql", VLLM),
        ("meta/Llama-3.1-8B", VLLM),
        ("/weights/Llama-3.1-8B", VLLM),
        ("Llama-3.1-8B", VLLM),
        *((name, LLAMACPP) for name in ("/models/smol.gguf", "smol.gguf", "smol", "small", "tiny")),
        ("smol", openai("folder/smol.gguf")),
        ("smol", openai(r"C:\models\smol.gguf")),
        ("llama3", openai("llama3:latest")),
        ("llama3:latest", openai("llama3")),
        ("gemini-pro", openai("models/gemini-pro")),
        ("openai/gpt", openai("openai/*")),
        ("m", ["m"]),
        ("m", {"data": ["m"]}),
    ],
)
def test_a_name_that_a_server_declares_in_some_spelling_is_none(asked: str, listed: Any) -> None:
    assert doubts(asked, listed) == []


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("large", openai("small")),
        ("tgi", openai("HuggingFaceTB/SmolLM2-135M")),
        ("m", openai("M")),
        ("llama3", openai("llama3:8b")),
        ("model", openai("org/model")),
        ("smol-large", LLAMACPP),
        ("other/gpt", openai("openai/*")),
        ("base-fp8", VLLM),
        ("p", VLLM),
        ("large", ["small"]),
        ("large", {"models": [{"name": "small"}]}),
    ],
)
def test_a_name_that_is_not_listed_is_a_doubt_that_says_what_to_do(asked: str, listed: Any) -> None:
    (reason,) = doubts(asked, listed)
    assert reason.startswith(f"the server answered for model {asked}, which its /v1/models does not list (it lists ")
    assert "name one that is listed in workload.model" in reason


def test_a_long_list_is_shown_by_its_first_names() -> None:
    (reason,) = doubts("m", openai("a", "b", "c", "d", "e"))
    assert "(it lists a, b, c and 2 more)" in reason
    (hostile,) = doubts("m", openai("\x1b[2Ja" + "b" * 10_000))
    assert "\x1b" not in hostile
    assert len(hostile) < 500


@pytest.mark.parametrize(
    "listed",
    [
        None,
        openai(),
        {"data": None},
        {"data": [{}]},
        {"data": [17, None]},
        {"error": "no"},
        "m",
        17,
        {**openai("a"), "has_more": True},
        {**openai("a"), "nextPageToken": "t"},
    ],
)
def test_a_list_that_is_none_or_not_whole_says_nothing(listed: Any) -> None:
    assert doubts("m", listed) == []


def test_earlier_editions_did_not_look() -> None:
    assert doubts("large", openai("small"), LISTED - 1) == []


def test_every_model_of_a_mix_is_looked_for() -> None:
    text = served_contract("http://127.0.0.1:8000/v1").replace(
        "  precisions:", "  models: [{name: a, share: 50 %}, {name: b, share: 50 %}]\n  precisions:"
    )
    text = text.replace("  model: {source: served, name: ground-truth}\n", "")
    contract = parse_contract(text.replace("  precisions:", "  model: {source: served, name: a}\n  precisions:"))
    field = measured(openai("a"), "test")
    executor = Executor(schema_version=1, layers={Layer.SERVING: {"server_models": field}})
    (doubt,) = judge_names(contract, executor, RULES)
    assert doubt.reason.startswith("the server answered for model b, ")
