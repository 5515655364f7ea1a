"""A load as its client saw it, on requests whose stalls and lengths were put there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.attribute.tile.client_view import view_load
from lynxbench.model.requests import Requests

MS = 1_000_000


def requests(inputs: list[int], first_ms: list[int], gaps_ms: list[list[int]], *, sent_ms: list[int]) -> Requests:
    count = len(inputs)
    sent = np.array(sent_ms, np.int64) * MS
    first = sent + np.array(first_ms, np.int64) * MS
    rows = [row for row in range(count) for _ in range(len(gaps_ms[row]) + 1)]
    events = [
        first[row] + MS * sum(gaps_ms[row][:place]) for row in range(count) for place in range(len(gaps_ms[row]) + 1)
    ]
    last = np.array([max(at for r, at in zip(rows, events, strict=True) if r == row) for row in range(count)], np.int64)
    return Requests(
        start_ns=0,
        load_end_ns=int(last.max()),
        scheduled_ns=sent,
        sent_ns=sent,
        first_token_ns=first,
        last_ns=last,
        ok=np.ones(count, bool),
        output_tokens=np.array([len(gaps) + 1 for gaps in gaps_ms], np.int64),
        input_tokens=np.array(inputs, np.int64),
        cached_tokens=np.zeros(count, np.int64),
        event_row=np.array(rows, np.int64),
        event_ns=np.array(events, np.int64),
        gap_row=np.empty(0, np.int64),
        gap_s=np.empty(0),
    )


def test_answers_that_stand_still_are_measured_beyond_the_usual_step() -> None:
    steps = [10] * 8 + [110] + [10]
    view = view_load([requests([100] * 4, [20] * 4, [steps] * 4, sent_ms=[0, 5, 9, 13])])
    assert view is not None
    assert view.between_s == pytest.approx(0.010)
    assert view.still == pytest.approx(100 / 200)
    assert view.output_tokens == 11
    assert view.long_share == 0.0


def test_a_few_long_prompts_are_found_with_those_that_waited_beside_them() -> None:
    inputs = [100] * 9 + [4000]
    sent = [0, 100, 200, 300, 400, 500, 600, 700, 810, 800]
    first = [20] * 8 + [150, 160]
    view = view_load([requests(inputs, first, [[10, 10]] * 10, sent_ms=sent)])
    assert view is not None
    assert view.long_share == pytest.approx(0.1)
    assert view.long_tokens == pytest.approx(4000 / 4900)
    assert view.short_first_s == pytest.approx(0.150)
    assert view.undisturbed_first_s == pytest.approx(0.020)


def test_unknown_tokens_and_single_events_are_no_figures() -> None:
    view = view_load([requests([-1, -1], [20, 30], [[], []], sent_ms=[0, 1])])
    assert view is not None
    assert math.isnan(view.prompt_tokens)
    assert math.isnan(view.between_s)
    assert math.isnan(view.still)
    assert (view.long_share, view.long_tokens) == (0.0, 0.0)


def test_without_an_answer_there_is_no_view() -> None:
    part = requests([10], [5], [[5]], sent_ms=[0])
    import dataclasses

    assert view_load([dataclasses.replace(part, ok=np.zeros(1, bool))]) is None
