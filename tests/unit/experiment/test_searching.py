from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.experiment.searching import Method, Point, Space, TrialOutcome, hopeless, search_of, shrunken_best

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


FORMATS = Space(
    ("workload.precision", "engine.attention", "engine.graph"),
    (("bf16", "fp8", "int4"), ("sdpa", "grouped", "cudnn"), ("eager", "graph", "compile", "tuned")),
)


def tuned_formats(method: Method, trials: int, seed: int, *, passing: Point | None = None) -> list[TrialOutcome]:
    """fp8 and int4 are fastest, and refused by far in every setting (but one, where that is planted)."""
    search, history = search_of(method, FORMATS, seed), list[TrialOutcome]()
    for left in range(trials, 0, -1):
        point = search.ask(history, left)
        refused = point[0] > 0 and point != passing
        history.append(TrialOutcome(point, None if refused else 0.5 * point[0] + 0.1 * sum(point[1:]), far=refused))
    return history


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", [Method.MODEL, Method.HALVING])
def test_a_format_that_is_refused_by_far_comes_after_everything_else(method: Method, seed: int) -> None:
    history = tuned_formats(method, 24, seed)
    for number, trial in enumerate(history):
        before = history[:number]
        left = {(0, i, j) for i in range(3) for j in range(4)} - {one.point for one in before}
        if hopeless(FORMATS, before)(trial.point):
            assert not left
    tried = {trial.point for trial in history if trial.value is not None}
    assert len(tried) == 12 if method is Method.MODEL else len(tried) > 6


def test_tpe_names_a_hopeless_format_seldom() -> None:
    history = tuned_formats(Method.TPE, 24, 1)
    late = [one for number, one in enumerate(history) if hopeless(FORMATS, history[:number])(one.point)]
    assert len(late) <= 2
    assert sum(trial.value is not None for trial in history) > 12


@pytest.mark.parametrize("method", [Method.MODEL, Method.HALVING])
def test_last_is_not_never(method: Method) -> None:
    """The gate's word on one setting does not bind another: with trials for all, the one that passes is found."""
    passing = (2, 2, 3)
    history = tuned_formats(method, 60, 3, passing=passing)
    assert {trial.point for trial in history} >= {(i, j, k) for i in range(3) for j in range(3) for k in range(4)}
    assert search_of(method, FORMATS, 3).choose(history) == passing


def far(*points: Point) -> list[TrialOutcome]:
    return [TrialOutcome(point, None, far=True) for point in points]


@pytest.mark.parametrize(
    ("history", "blamed"),
    [
        (far((1, 0, 0), (1, 1, 1)), True),
        (far((1, 0, 0)), False),  # once is an accident
        (far((1, 0, 0), (1, 0, 0)), False),  # as is the same setting twice
        (far((1, 0, 0), (1, 0, 1)), False),  # attention may be what is broken
        (far((1, 0, 0), (1, 1, 0)), False),  # or the graph
        ([*far((1, 0, 0), (1, 1, 1)), TrialOutcome((1, 2, 2), 1.0)], False),  # it passed somewhere
        (far((2, 0, 0), (2, 1, 1)), False),  # another format
        ([TrialOutcome((1, 0, 0), None), TrialOutcome((1, 1, 1), None)], False),  # failed, or refused narrowly
        (far((1, 0, 0), (2, 1, 1), (0, 2, 2)), False),
    ],
)
def test_what_makes_a_format_hopeless(history: list[TrialOutcome], blamed: bool) -> None:
    assert hopeless(FORMATS, history)((1, 2, 3)) is blamed


def test_other_knobs_are_never_blamed_for_a_loss() -> None:
    """Two formats are refused under one attention: nothing says that a third would be."""
    history = far((1, 0, 0), (2, 0, 1), (1, 1, 2), (2, 1, 3))
    assert not any(hopeless(FORMATS, history)((0, i, j)) for i in range(3) for j in range(4))
    alone = Space(("workload.precision", "engine.threads"), (("bf16", "fp8"), (4,)))
    assert not hopeless(alone, far((1, 0), (1, 0)))((1, 0))


@pytest.mark.parametrize("method", list(Method))
def test_without_a_refusal_nothing_is_asked_otherwise(method: Method) -> None:
    """Failures alone leave the order as it was before formats were looked at."""
    named = Space(("workload.precision", *SPACE.names[1:]), SPACE.values)
    history, _ = searched(method, 12, 4)
    assert search_of(method, named, 4).ask(history, 9) == search_of(method, SPACE, 4).ask(history, 9)
