"""How many requests a second a server completes, also from loops shorter than their answers."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.load.completion_ceiling import completion_rate, window_needed_s

SECOND = 1_000_000_000


def closed_loop(in_flight: int, answer_s: float, span_s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each of so many callers asks again when it is answered; those that began in time are waited for."""
    turns = int(np.ceil(span_s / answer_s))
    sent = np.repeat(np.arange(turns) * answer_s, in_flight)
    sent = (sent[sent < span_s] * SECOND).astype(np.int64)
    return sent, sent + int(answer_s * SECOND), np.ones(len(sent), dtype=np.bool_)


@pytest.mark.parametrize("answer_s", [0.05, 0.3, 1.0, 1.9, 7.0])
def test_a_loop_shorter_than_its_answers_still_tells_the_rate(answer_s: float) -> None:
    sent, last, good = closed_loop(64, answer_s, 2.0)
    measured = completion_rate(sent, last, good, int(2 / 3 * SECOND), 2 * SECOND)
    assert measured == pytest.approx(64 / answer_s, rel=0.01)


def test_failed_requests_complete_nothing() -> None:
    sent, last, good = closed_loop(10, 0.5, 3.0)
    good[::2] = False
    assert completion_rate(sent, last, good, SECOND, 3 * SECOND) == pytest.approx(10.0, rel=0.01)
    assert completion_rate(sent, last, ~good & good, SECOND, 3 * SECOND) == 0.0


def test_the_window_holds_whole_answers() -> None:
    sent, last, good = closed_loop(4, 1.9, 2.0)
    assert window_needed_s(sent, last, good) == pytest.approx(2 * 1.9 * 1.5)
    assert window_needed_s(sent, last, ~good & good) == 0.0
