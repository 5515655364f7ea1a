"""When alike answers are a doubt: of many different prompts, unless the server says that its weights are made up."""

from __future__ import annotations

import pytest

from lynxbench.model.executor import Executor, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.model.load_figures import AlikeAnswers, LoadFigures
from lynxbench.run.alike_answers import FEWEST_PROMPTS, is_made_up, judge_alike
from served_figures import load_figures

NOWHERE = Executor(schema_version=1, layers={Layer.SERVING: {"server_command": unreadable("another host")}})


def figures(alike: int, compared: int) -> LoadFigures:
    load = load_figures()
    told = load.tokens.model_copy(update={"alike": AlikeAnswers(compared=compared, alike=alike)})
    return load.model_copy(update={"tokens": told})


def launched(*words: str, name: str = "server_command") -> Executor:
    return Executor(schema_version=1, layers={Layer.SERVING: {name: measured([*words], "test")}})


@pytest.mark.parametrize(("alike", "compared"), [(64, 64), (61, 64), (FEWEST_PROMPTS, FEWEST_PROMPTS)])
def test_nearly_all_alike_is_a_doubt(alike: int, compared: int) -> None:
    (doubt,) = judge_alike(figures(alike, compared), NOWHERE)
    assert not doubt.void
    assert f"{alike} of {compared} different prompts were answered alike to the letter" in doubt.reason
    assert "by a stub, a cache of answers or weights that prefer nothing; ask the server by hand" in doubt.reason


@pytest.mark.parametrize(("alike", "compared"), [(60, 64), (32, 64), (1, 64), (FEWEST_PROMPTS - 1, FEWEST_PROMPTS - 1)])
def test_some_alike_or_few_prompts_are_none(alike: int, compared: int) -> None:
    assert judge_alike(figures(alike, compared), NOWHERE) == []


def test_a_result_that_did_not_look_says_nothing() -> None:
    assert judge_alike(load_figures(), NOWHERE) == []


@pytest.mark.parametrize(
    "words",
    [
        ("vllm", "serve", "m", "--load-format", "dummy"),
        ("vllm", "serve", "m", "--load-format=dummy"),
        ("python", "-m", "sglang.launch_server", "--load_format", "dummy"),
        ("/usr/bin/python3", "/env/bin/lynxbench", "demo-server", "--port", "8000"),
        ("python", "-m", "lynxbench", "demo-server"),
    ],
)
@pytest.mark.parametrize("name", ["server_command", "server_launch"])
def test_answers_made_up_on_purpose_are_told_by_the_report_alone(name: str, words: tuple[str, ...]) -> None:
    executor = launched(*words, name=name)
    assert is_made_up(executor)
    assert judge_alike(figures(64, 64), executor) == []


@pytest.mark.parametrize(
    "words",
    [
        ("vllm", "serve", "dummy"),
        ("vllm", "serve", "m", "--load-format", "auto", "--served-model-name", "dummy"),
        ("vllm", "serve", "m", "--load-format"),
        ("vllm", "serve", "demo-server"),
        ("lynxbench", "serve"),
        (),
    ],
)
def test_other_arguments_excuse_nothing(words: tuple[str, ...]) -> None:
    assert judge_alike(figures(64, 64), launched(*words)) != []
