"""What a few answers said, as numbers: stubs in several spellings are told from answers that follow their prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from lynxbench.engines.openai import OpenAiLanguage, OpenAiReader, Service, build_body, build_request
from lynxbench.engines.response_events import ResponsesReader
from lynxbench.load.answer_likeness import alike_answers
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.load_record import merge, read_record, write_record
from lynxbench.load.plan import ClosedLoop, LoadPlan, parse_target
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.said_answers import (
    EVERY,
    FIRST_ARRIVALS,
    WIDTH,
    first_share,
    is_sampled,
    sketch,
)
from lynxbench.load.truth_process import running_server
from lynxbench.model.load_figures import AlikeAnswers
from lynxbench.model.samples import Int64

PROMPTS = 32


def said(answer: Callable[[int], str], tokens: int = 100, rows: int = 64) -> Int64:
    """The numbers of a run whose server answers an arrival so."""
    told = [sketch(number, 0, [answer(number)], 2, tokens) for number in range(rows)]
    return np.array([row for row in told if row], dtype=np.int64).reshape(-1, WIDTH)


def share(answer: Callable[[int], str], tokens: int = 100, rows: int = 64) -> float | None:
    found = alike_answers(said(answer, tokens, rows), lambda number: number % PROMPTS)
    return None if found is None else found.share


@pytest.mark.parametrize(
    "answer",
    [
        lambda number: "a canned answer, and always the same " * 10,  # whole
        lambda number: " the" * (100 + number % 7),  # cut to the asked length
        lambda number: "!" * 20 + "é" * 100,  # not of prose
        lambda number: "the same, but for one in thirty " * 9 if number % 30 else "once something else entirely" * 9,
    ],
)
def test_answers_that_ignore_their_prompts_are_alike(answer: Callable[[int], str]) -> None:
    found = share(answer)
    assert found is not None
    assert found >= 0.95


@pytest.mark.parametrize(
    "answer",
    [
        lambda number: f"to prompt {number % PROMPTS} this is answered, " * 10,
        lambda number: "Sure! Here is what the text is about: " + f"{number % PROMPTS} " * 200,  # one beginning
        lambda number: ("yes, and a long reason " if number % 2 else "no, and another reason ") * 10,  # two answers
        lambda number: "x" * 100 + f"{number % PROMPTS:x}",  # alike but for the end
        # Found with SmolLM2: a few that were alike were held against nothing, since others had lengths of their own.
        lambda number: "The text is about a lynx, and about nothing else at all." + "." * max(0, number % PROMPTS - 6),
    ],
)
def test_answers_that_follow_their_prompts_are_not(answer: Callable[[int], str]) -> None:
    found = share(answer)
    assert found is not None
    assert found <= 0.6


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [("Yes.", 2), ("The answer is no.", 5), ("four words without usage", -1), ("", 40)],
)
def test_a_handful_of_tokens_may_be_alike(answer: str, tokens: int) -> None:
    assert share(lambda number: answer, tokens) is None


def test_one_prompt_may_have_one_answer() -> None:
    rows = said(lambda number: "the same long answer to the same prompt " * 9)
    assert alike_answers(rows, lambda number: 0) == AlikeAnswers(compared=1, alike=0)
    turns = rows.copy()
    turns[:, 1] = 1  # later turns follow an answer, not a prompt
    assert alike_answers(turns, lambda number: number) is None
    assert alike_answers(rows[:0], lambda number: number) is None


def test_the_first_and_then_few_are_looked_at() -> None:
    assert all(map(is_sampled, range(FIRST_ARRIVALS)))
    later = range(FIRST_ARRIVALS, FIRST_ARRIVALS + 64 * EVERY)
    looked_at = [number for number in later if is_sampled(number)]
    assert len(looked_at) == 64
    assert len({number % PROMPTS for number in looked_at}) == PROMPTS, "each prompt has its turn"


def test_a_reader_keeps_no_text_of_the_others() -> None:
    event = json.dumps({"choices": [{"delta": {"content": "secret"}}]}).encode()
    for reader, piece in (
        (OpenAiReader(False), event),
        (ResponsesReader(False), b'{"type": "response.output_text.delta", "delta": "secret"}'),
    ):
        reader.begin(0)
        reader.event(piece)
        assert (list(reader.pieces()), reader.text()) == (["secret"], "")
        reader.begin(EVERY + 4)
        reader.event(piece)
        assert (list(reader.pieces()), reader._texts) == ([], [])
        reader.begin(EVERY * 2)
        assert list(reader.pieces()) == [], "what was said before is gone"


def run(behaviour: Behaviour, prompts: Sequence[str], tokens: int) -> Int64:
    with running_server(behaviour) as server:
        service = Service(url=server.url, model="ground-truth")
        plan = LoadPlan(
            target=parse_target(server.url),
            script=PlainRotation(tuple(build_request(service, build_body(service, text, tokens)) for text in prompts)),
            language=OpenAiLanguage(),
            load=ClosedLoop(2),
            duration_s=0.5,
            processes=1,
        )
        return run_probe(plan).said


@pytest.mark.parametrize(("an_event", "held"), [(1, None), (5, 0.25), (9, 0.45)])
def test_what_the_first_event_held_is_seen_over_the_wire(an_event: int, held: float | None) -> None:
    """Twenty tokens, so many of them an event."""
    rows = run(Behaviour(ttft_ms=1, tokens_per_event=an_event), [f"prompt {n}" for n in range(PROMPTS)], 20)
    assert len(rows) >= PROMPTS
    assert first_share(rows) == (None if held is None else pytest.approx(held))
    alike = alike_answers(rows, lambda number: number % PROMPTS)
    assert alike is not None
    assert (alike.alike, alike.compared) == (PROMPTS, PROMPTS)


def test_records_join_and_pass_from_process_to_process_with_it(tmp_path: Path) -> None:
    with running_server(Behaviour(ttft_ms=1)) as server:
        service = Service(url=server.url, model="ground-truth")
        plan = LoadPlan(
            target=parse_target(server.url),
            script=PlainRotation((build_request(service, build_body(service, "hello", 4)),)),
            language=OpenAiLanguage(),
            load=ClosedLoop(1),
            duration_s=0.2,
            processes=1,
        )
        record = run_probe(plan)
    write_record(record, tmp_path / "record.npz")
    assert np.array_equal(read_record(tmp_path / "record.npz").said, record.said)
    assert len(merge([record, record]).said) == 2 * len(record.said) > 0
