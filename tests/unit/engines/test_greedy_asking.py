"""Answers as servers write them: three ways of log-probabilities, refusals, and what is no answer at all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lynxbench.engines.greedy_asking import Questioner, ask_all, prefix_hashes, read_answer, read_echo
from lynxbench.engines.openai import Endpoint, Service
from lynxbench.model.dialect import Dialect
from lynxbench.model.serving import OpenAiEngine
from planted_model import WORDS, PlantedModel, planted_server

CHAT = {
    "choices": [
        {
            "message": {"content": "Yes."},
            "logprobs": {
                "content": [
                    {"token": "Yes", "logprob": -0.1, "top_logprobs": [
                        {"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.4}]},
                    {"token": ".", "id": 13, "logprob": -0.5, "top_logprobs": []},
                ]
            },
        }
    ]
}  # fmt: skip
COLUMNS = {
    "choices": [
        {
            "text": " yes",
            "logprobs": {
                "tokens": ["token_id:9891"],
                "token_logprobs": [-0.25],
                "top_logprobs": [{"token_id:9891": -0.25, "token_id:912": -1.5}],
            },
        }
    ]
}
NATIVE = {
    "choices": [{"text": "ja"}],
    "completion_probabilities": [{"id": 7, "token": "ja", "logprob": -1.0, "top_logprobs": []}],
}


def test_three_ways_of_writing_log_probabilities() -> None:
    chat, columns, native = (read_answer(body) for body in (CHAT, COLUMNS, NATIVE))
    assert [token.identity for token in chat.tokens] == ["Yes", "13"]
    assert chat.tokens[0].margin == pytest.approx(2.3)
    assert math.isnan(chat.tokens[1].margin)
    assert (columns.tokens[0].identity, columns.tokens[0].margin) == ("token_id:9891", 1.25)
    assert (native.text, native.tokens[0].identity, native.tokens[0].logprob) == ("ja", "7", -1.0)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"choices": []},
        {"choices": [3]},
        {"error": {"message": "no"}},
    ],
)
def test_no_answer_is_said(body: Any) -> None:
    assert read_answer(body).failed


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": [{"token": "a"}]},
        {"content": [{"token": "a", "logprob": None}]},
        {"tokens": ["a"], "token_logprobs": []},
        {"tokens": ["a"], "token_logprobs": [None]},
        {"tokens": "a", "token_logprobs": "b"},
    ],
)
def test_log_probabilities_that_are_not_all_there_are_none(logprobs: Any) -> None:
    answer = read_answer({"choices": [{"text": "a", "logprobs": logprobs}]})
    assert (answer.text, answer.tokens, answer.failed) == ("a", (), "")


def echoed(**changes: Any) -> dict[str, Any]:
    given = {"tokens": ["a", " b", " c"], "token_logprobs": [None, -1.0, -2.0]} | changes
    return {"choices": [{"text": "a b c", "logprobs": given}], "usage": {"prompt_tokens": 2}}


def test_an_echo_gives_the_prompts_own_tokens_alone() -> None:
    assert read_echo(echoed()) == [(" b", -1.0)]


@pytest.mark.parametrize(
    "body",
    [
        echoed(tokens=["a"]),
        echoed(token_logprobs=[None, None, -1.0]),
        {**echoed(), "usage": {"prompt_tokens": 7}},
        {**echoed(), "usage": None},
        {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 2}},
        {},
    ],
)
def test_a_server_that_echoes_nothing_is_told(body: Any) -> None:
    assert read_echo(body) is None


def test_prefix_hashes_agree_up_to_the_first_difference() -> None:
    a, b = prefix_hashes(["x", "y", "z"], 4), prefix_hashes(["x", "q", "z"], 4)
    assert (a == b).tolist() == [True, False, False, True]
    assert a[3] == 0
    assert not np.array_equal(prefix_hashes(["ab", "c"], 2), prefix_hashes(["a", "bc"], 2))


def questioner(url: str, endpoint: Endpoint = Endpoint.COMPLETIONS, **engine: Any) -> Questioner:
    served = OpenAiEngine(name="openai", url=url, dialect=Dialect.VLLM, **engine)
    extra = dict(served.request)
    return Questioner(served, Service(url=url, model="planted", endpoint=endpoint, dialect=Dialect.VLLM, extra=extra))


def test_asked_greedily_whatever_the_contract_sends_under_load() -> None:
    model = PlantedModel()
    with planted_server(model) as url:
        asked = questioner(url, request={"temperature": 0.9, "top_p": 0.5, "user": "me"})
        answer = asked.answer("once upon a time", 4, forced=True)
    (body,) = model.asked
    assert (body["temperature"], body["seed"], body["max_tokens"], body["user"]) == (0.0, 1, 4, "me")
    assert "top_p" not in body
    assert body["stream"] is False
    assert len(answer.tokens) == 4
    best = WORDS[int(np.argmax(model.logits(["once", "upon", "a", "time"], np.random.default_rng(0))))]
    assert answer.text.split()[0] == best


def test_a_refused_question_is_a_failed_answer_and_others_go_on() -> None:
    with planted_server(PlantedModel(refuses=lambda prompt: "bad" in prompt)) as url:
        asked = questioner(url, Endpoint.CHAT)
        answers = ask_all(lambda prompt: asked.answer(prompt, 2), ["good", "bad", "good too"], backwards=True)
    assert [bool(answer.failed) for answer in answers] == [False, True, False]
    assert "planted refusal" in answers[1].failed


def test_prompt_log_probabilities_are_the_models() -> None:
    model = PlantedModel()
    with planted_server(model) as url:
        known = questioner(url).text_logprobs("w01 w02 w03")
    assert known is not None
    expected = model.logprobs(["w01"], np.random.default_rng(0))[WORDS.index("w02")]
    assert known[0] == (" w02", pytest.approx(expected))
    with planted_server(PlantedModel(gives_prompt_logprobs=False)) as url:
        assert questioner(url).text_logprobs("w01 w02 w03") is None
