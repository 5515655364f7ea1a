from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.experiment.searching import Method, Point, Space, TrialOutcome, search_of, shrunken_best

SPACE = Space(("batch", "graph", "threads"), ((1, 2, 4, 8, 16), ("eager", "compile"), (1, 2, 3, 4)))


def respond(point: Point) -> float | None:
    if point[0] == 4 and point[1] == 1:
        return None  # the largest batch does not fit when compiled
    return 0.1 * point[0] + 0.15 * point[1] - 0.05 * (point[2] - 2) ** 2


def searched(method: Method, trials: int, seed: int, noise: float = 0.01) -> tuple[list[TrialOutcome], Point | None]:
    rng = np.random.default_rng(seed)
    search = search_of(method, SPACE, seed)
    history: list[TrialOutcome] = []
    for left in range(trials, 0, -1):
        point = search.ask(history, left)
        value = respond(point)
        history.append(TrialOutcome(point, None if value is None else value + rng.normal(0, noise)))
    return history, search.choose(history)


@pytest.mark.parametrize("method", list(Method))
def test_every_search_finds_a_good_setting_and_none_that_cannot_run(method: Method) -> None:
    best = max(value for i in range(5) for j in range(2) for k in range(4) if (value := respond((i, j, k))) is not None)
    _, chosen = searched(method, 16, 5)
    assert chosen is not None
    found = respond(chosen)
    assert found is not None
    assert found > best - 0.2


def test_the_model_comes_within_three_percent_with_forty_percent_of_the_grid() -> None:
    reached = 0
    for seed in range(5):
        _, chosen = searched(Method.MODEL, 16, seed)
        assert chosen is not None
        reached += (respond(chosen) or -1.0) > 0.45 - 0.03
    assert reached >= 4


@pytest.mark.parametrize("method", list(Method))
def test_one_history_gives_one_answer(method: Method) -> None:
    """A resumed tuning asks what the interrupted one would have asked."""
    history, _ = searched(method, 9, 1)
    assert search_of(method, SPACE, 1).ask(history, 7) == search_of(method, SPACE, 1).ask(history, 7)


def test_halving_measures_leaders_most() -> None:
    history, chosen = searched(Method.HALVING, 26, 2)
    times = {point: sum(told.point == point for told in history) for point in {told.point for told in history}}
    assert chosen is not None
    assert times[chosen] == max(times.values()) >= 3


def test_a_lucky_single_trial_does_not_win_over_a_proven_leader() -> None:
    history = [
        TrialOutcome((0, 0, 0), 1.0),
        TrialOutcome((0, 0, 0), 1.02),
        TrialOutcome((0, 0, 0), 0.98),
        TrialOutcome((0, 0, 0), 1.0),
    ]
    history += [
        TrialOutcome((1, 0, 0), 0.2),
        TrialOutcome((1, 0, 0), 1.8),
        TrialOutcome((2, 0, 0), 1.01),
        TrialOutcome((3, 0, 0), 0.5),
    ]
    assert shrunken_best(history) == (0, 0, 0)


def test_nothing_that_passed_is_no_choice() -> None:
    refused = [TrialOutcome((0, 0, 0), None), TrialOutcome((1, 0, 0), None)]
    for method in Method:
        assert search_of(method, SPACE, 0).choose(refused) is None


def test_a_large_grid_is_searched_in_part() -> None:
    space = Space(tuple("abcdef"), (tuple(range(10)),) * 6)
    search = search_of(Method.MODEL, space, 0)
    history: list[TrialOutcome] = []
    for left in range(12, 0, -1):
        point = search.ask(history, left)
        assert all(0 <= i < 10 for i in point)
        history.append(TrialOutcome(point, math.log1p(sum(point))))
    assert search.choose(history) is not None
