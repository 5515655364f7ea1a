"""A server's answers against a planted model: agreement, moved probabilities, scores, and what it cannot give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.measure.served_answers import ServedAnswers, judge_answers
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy, Contract
from lynxbench.model.executor import Executor, declared, measured
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy
from lynxbench.run.served_accuracy import collect_answers, greedy_prompts, has_random_weights
from planted_model import PlantedModel, planted_server
from served import served_contract

NOTHING = Executor(schema_version=1, layers={})


def contract(url: str, asks: str, endpoint: str = "completions") -> Contract:
    text = served_contract(url, engine=f"dialect: vllm\nendpoint: {endpoint}") + f"accuracy: {asks}\n"
    return parse_contract(text, "served.yaml")


def collected(model: PlantedModel, asks: str, endpoint: str = "completions") -> ServedAnswers:
    with planted_server(model) as url:
        return collect_answers(contract(url, asks, endpoint), NOTHING)[0]


def judged(candidate: ServedAnswers, reference: ServedAnswers | None) -> Accuracy:
    return judge_answers(candidate, reference, None, Precision.FP8, Precision.BF16, "b" * 64)


GREEDY = "{greedy: {prompts: 12, tokens: 6}}"
KEEPS = AccuracyPolicy(metric=AccuracyMetric.TOP1, largest_loss="5 %")  # type: ignore[arg-type]


@pytest.mark.parametrize(("told_apart", "verdict"), [(0, "undetermined"), (1, "undetermined"), (12, "go")])
def test_servers_that_answer_every_prompt_alike_are_no_go(told_apart: int, verdict: str) -> None:
    prompts = greedy_prompts(contract("http://127.0.0.1:1/v1", GREEDY).accuracy.greedy, 0)  # type: ignore[union-attr,arg-type]
    one = "w01 w02 w03 w04 w05 w06"
    replies = dict.fromkeys(prompts[told_apart:], one)
    a, b = (collected(PlantedModel(replies=replies), GREEDY) for _ in range(2))
    accuracy = judge_answers(b, a, KEEPS, Precision.FP8, Precision.BF16, "b" * 64)
    assert (accuracy.metrics["top1"], accuracy.verdict) == (1.0, verdict)


def test_a_server_without_a_preference_is_no_go_and_a_noisy_twin_of_one_that_has_them_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference = collected(PlantedModel(noise=0.01, seed=1), GREEDY)
    twin = collected(PlantedModel(noise=0.01, seed=2), GREEDY)
    assert judge_answers(twin, reference, KEEPS, Precision.FP8, Precision.BF16, "b" * 64).verdict == "go"
    monkeypatch.setattr("planted_model.SPREAD", 1e-4)
    level = [collected(PlantedModel(), GREEDY) for _ in range(2)]
    accuracy = judge_answers(level[1], level[0], KEEPS, Precision.FP8, Precision.BF16, "b" * 64)
    assert len(np.unique(level[0].prefixes[0, :, -1])) > 6, "its answers vary with the prompt"
    assert (accuracy.metrics["top1"], accuracy.verdict) == (1.0, "undetermined")


def test_a_server_without_noise_agrees_with_itself_and_its_twin() -> None:
    a, b = (collected(PlantedModel(), GREEDY) for _ in range(2))
    accuracy = judged(b, a)
    assert accuracy.metrics["token-agreement"] == accuracy.metrics["self-agreement"] == 1.0
    assert accuracy.metrics["logprob-error"] == accuracy.metrics["text-logprob-error"] == 0.0
    assert accuracy.metrics["perplexity-change"] == 0.0


def test_a_precision_that_moves_the_logits_is_found_and_a_noisy_twin_is_not() -> None:
    reference = collected(PlantedModel(noise=0.05, seed=1), GREEDY)
    twin = judged(collected(PlantedModel(noise=0.05, seed=2), GREEDY), reference)
    moved = judged(collected(PlantedModel(noise=0.05, error=1.5, seed=3), GREEDY), reference)
    text = "not told from a server's own noise"
    assert any(text in note for note in twin.notes)
    assert not any(text in note for note in moved.notes)
    error, noise = moved.metrics["text-logprob-error"], moved.metrics["text-logprob-error-noise"]
    assert error is not None
    assert noise is not None
    assert error > 5 * noise
    close = twin.metrics["text-logprob-error"]
    assert close is not None
    assert close < 2 * noise
    agreement = moved.metrics["token-agreement"]
    assert agreement is not None
    assert agreement < 0.7


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_without_log_probabilities_words_are_compared_and_it_is_said(endpoint: str) -> None:
    model = PlantedModel(gives_logprobs=False)
    a, b = (collected(model, GREEDY, endpoint) for _ in range(2))
    accuracy = judged(b, a)
    assert accuracy.metrics["token-agreement"] == 1.0
    assert "logprob-change" not in accuracy.metrics
    assert any("gives no log-probabilities of its answers" in note for note in accuracy.notes)
    assert any("gives no log-probabilities of prompts: no perplexity" in note for note in accuracy.notes)


def test_a_server_that_refuses_some_is_judged_on_the_others() -> None:
    prompts = greedy_prompts(contract("http://127.0.0.1:1/v1", GREEDY).accuracy.greedy, 0)  # type: ignore[union-attr,arg-type]
    model = PlantedModel(refuses=lambda prompt: prompt == prompts[3])
    answers = collected(model, GREEDY)
    assert answers.notes.failed == 1
    assert judged(answers, collected(PlantedModel(), GREEDY)).metrics["greedy-prompts"] == 11


def task_file(folder: Path, rows: list[dict[str, Any]]) -> str:
    file = folder / "task.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(file)


def test_labelled_prompts_are_scored_and_failures_counted_apart(tmp_path: Path) -> None:
    rows = [{"prompt": f"question {number} =", "answer": str(number)} for number in range(8)]
    replies = {f"question {number} ": str(number if number != 2 else 99) for number in range(7)}
    model = PlantedModel(replies=replies, refuses=lambda prompt: "question 7" in prompt)
    asks = f"{{task: {{file: {task_file(tmp_path, rows)}, scorer: numeric}}}}"
    answers = collected(model, asks, "chat")
    assert answers.marks.tolist() == [1, 1, 0, 1, 1, 1, 1, -1]
    accuracy = judged(answers, None)
    assert accuracy.metrics["task"] == pytest.approx(6 / 7)
    assert accuracy.metrics["task-failed"] == 1


def test_choices_by_their_likelihood_where_the_server_echoes(tmp_path: Path) -> None:
    model = PlantedModel()
    context = ["once", "upon", "a"]
    known = model.logprobs(context, np.random.default_rng(0))
    order = [f"w{number:02d}" for number in np.argsort(known)]
    rows = [
        {"prompt": "once upon a", "choices": [order[0], order[-1], order[5]], "answer": 1},
        {"prompt": "once upon a", "choices": [order[-1], order[0]], "answer": 1},
    ]
    answers = collected(model, f"{{task: {{file: {task_file(tmp_path, rows)}, scorer: choice}}}}")
    assert answers.marks.tolist() == [1, 0]
    assert "log-probability of each choice after the prompt" in answers.notes.task


def test_choices_by_letter_in_a_chat(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"Which {word}?", "choices": ["trout", "lynx"], "answer": "lynx"} for word in ("one", "two", "x")
    ]
    replies = {"Which one": "The answer is B", "Which two": "B", "Which x": "A"}
    likely = {"Which one": {"A": -2.0, "B": -0.5, "The": -0.1}, "Which two": {"A": -0.1, "B": -3.0}}
    model = PlantedModel(replies=replies, letters=likely)
    asks = f"{{task: {{file: {task_file(tmp_path, rows)}, scorer: choice}}}}"
    answers = collected(model, asks, "chat")
    assert answers.marks.tolist() == [1, 0, 0]
    assert "the likeliest letter as the first token" in answers.notes.task
    silent = PlantedModel(replies=replies, gives_logprobs=False)
    told = collected(silent, asks, "chat")
    assert told.marks.tolist() == [1, 1, 0]
    assert told.notes.task.endswith("the letter that begins the answer")
    accuracy = judged(told, answers)
    assert "task-change" not in accuracy.metrics
    assert any("scored another way" in note for note in accuracy.notes)


@pytest.mark.parametrize(
    ("words", "random"),
    [
        (["vllm", "serve", "--load-format", "dummy"], True),
        (["vllm", "--load-format=dummy"], True),
        (["vllm", "--load-format", "auto", "dummy"], False),
        ([], False),
    ],
)
def test_random_weights_are_known_by_the_launch_arguments(words: list[str], random: bool) -> None:
    for field in (measured([*words], "test"), declared([*words], "test")):
        executor = Executor(schema_version=1, layers={Layer.SERVING: {"server_launch": field}})
        assert has_random_weights(executor) is random
