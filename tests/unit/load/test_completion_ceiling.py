"""How many requests a second a server completes: from loops shorter than their answers, and with what in flight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.load.completion_ceiling import (
    MOST_LOOPS,
    RISE,
    CompletionCeiling,
    completion_rate,
    find_ceiling,
    ladder_s,
    window_needed_s,
)

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


FIRST, MOST = 128, 1024


def slots(number: int) -> Callable[[int], float]:
    """A server that works on so many at once, one a second each; the others wait."""
    return lambda in_flight: float(min(in_flight, number))


def thrashing(number: int) -> Callable[[int], float]:
    """As much, and less the fuller it is beyond."""
    return lambda in_flight: float(min(in_flight, number * number / in_flight))


def asked(
    rate: Callable[[int], float], fewest: int = 1, most: int = MOST, known: int | None = None
) -> tuple[list[int], CompletionCeiling]:
    """The numbers in flight that were asked for, and what came of it, where there is time for some alone."""
    numbers: list[int] = []

    def complete(in_flight: int) -> float | None:
        numbers.append(in_flight)
        return rate(in_flight) if fewest <= in_flight <= most else None

    return numbers, find_ceiling(complete, FIRST, MOST, known)


@pytest.mark.parametrize(
    ("rate", "fewest", "most", "numbers", "per_s", "is_highest"),
    [
        pytest.param(slots(50), 1, MOST, [128, 256], 50, True, id="as much with twice as many"),
        pytest.param(slots(200), 1, MOST, [128, 256, 512], 200, True, id="more with twice, no more with four times"),
        pytest.param(slots(9999), 1, MOST, [128, 256, 512, 1024], 1024, False, id="always more: not the highest"),
        pytest.param(thrashing(40), 1, MOST, [128, 256, 64, 32, 16], 32, True, id="less where it is overfull"),
        pytest.param(thrashing(128), 1, MOST, [128, 256, 64], 128, True, id="the best is the first"),
        pytest.param(slots(50), 1, 128, [128, 256, 64], 50, True, id="no time for more: half do as much"),
        pytest.param(slots(500), 1, 128, [128, 256, 64], 128, False, id="no time for more, and half do less"),
        pytest.param(thrashing(40), 1, 128, [128, 256, 64, 32, 16], 32, True, id="no time for more, and overfull"),
        pytest.param(slots(50), 128, 128, [128, 256, 64], 50, False, id="no time at all"),
        pytest.param(thrashing(40), 64, MOST, [128, 256, 64, 32], 25, False, id="overfull, and no time for fewer"),
    ],
)
def test_the_number_in_flight_that_completes_most_is_looked_for(
    rate: Callable[[int], float], fewest: int, most: int, numbers: list[int], per_s: float, is_highest: bool
) -> None:
    went, found = asked(rate, fewest, most)
    assert went == numbers
    assert found.rate_per_s == per_s
    assert found.is_highest is is_highest


@given(st.integers(1, 2000), st.booleans(), st.integers(1, 128), st.integers(128, MOST))
def test_what_is_called_the_highest_is_near_the_most_that_the_server_does(
    best: int, overfull: bool, fewest: int, most: int
) -> None:
    rate = thrashing(best) if overfull else slots(best)
    went, found = asked(rate, fewest, most)
    assert found.loops[0].in_flight == FIRST
    assert len(found.loops) <= MOST_LOOPS
    assert len(set(went)) == len(went), "none is asked for twice"
    reachable = max(rate(2**power) for power in range(12))
    if found.is_highest:
        assert found.rate_per_s >= reachable / (1 + RISE)
    again = find_ceiling({loop.in_flight: loop.rate_per_s for loop in found.loops}.get, FIRST, MOST)
    assert again == found, "who has the loops finds the same"


@pytest.mark.parametrize(
    ("rate", "known", "most", "numbers", "per_s", "is_highest"),
    [
        pytest.param(slots(256), 256, 256, [128, 256], 256, True, id="no time for 512, and no need"),
        pytest.param(slots(200), 200, MOST, [128, 200], 200, True, id="no more than it works on are asked for"),
        pytest.param(slots(64), 64, 128, [128, 64], 64, True, id="the first are more than it works on"),
        pytest.param(slots(64), 128, 128, [128, 64], 64, True, id="as many as it works on"),
        pytest.param(thrashing(40), 128, MOST, [128, 64, 32, 16], 32, True, id="overfull within what it works on"),
        pytest.param(thrashing(40), 256, MOST, [128, 256, 64, 32, 16], 32, True, id="… and asked for fewer"),
        pytest.param(slots(9999), 2000, MOST, [128, 256, 512, 1024], 1024, False, id="more than may be asked for"),
        pytest.param(slots(9999), 256, 128, [128, 256, 64], 128, False, id="no time for all it works on"),
    ],
)
def test_more_than_a_server_works_on_are_not_asked_for(
    rate: Callable[[int], float], known: int, most: int, numbers: list[int], per_s: float, is_highest: bool
) -> None:
    went, found = asked(rate, most=most, known=known)
    assert went == numbers
    assert found.rate_per_s == per_s
    assert found.is_highest is is_highest
    again = find_ceiling({loop.in_flight: loop.rate_per_s for loop in found.loops}.get, FIRST, MOST, known)
    assert again == found, "who has the loops and the number finds the same"


def test_a_single_request_in_flight_has_no_half() -> None:
    found = find_ceiling(lambda in_flight: 5.0 / in_flight, 1, 2)
    assert found.rate_per_s == 5.0
    assert found.is_highest


def test_loops_take_a_part_of_a_short_budget_and_a_minute_at_most() -> None:
    assert ladder_s(90.0) == pytest.approx(27.0)
    assert ladder_s(3600.0) == 60.0
