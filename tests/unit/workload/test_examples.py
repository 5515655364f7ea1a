"""The bundled examples do real work and say when it went wrong."""

from __future__ import annotations

import time

import numpy as np
import pytest

from lynxbench.workload import examples
from lynxbench.workload.examples import (
    LARGEST_RESIDUAL,
    PERIOD_NS,
    QUERIES,
    SIDE,
    SYSTEMS,
    DenseSolve,
    NearestTen,
    PacedLookup,
    one_millisecond,
)


def test_solutions_solve_their_systems_and_differ() -> None:
    solve = DenseSolve()
    solve.setup(seed=3)
    answers = [solve(index) for index in range(SYSTEMS)]
    assert all(answer.shape == (SIDE,) and answer.dtype == np.float32 for answer in answers)
    assert not np.allclose(answers[0], answers[1])
    np.testing.assert_array_equal(solve(SYSTEMS), answers[0])


def test_the_seed_decides_the_systems() -> None:
    one, same, other = DenseSolve(), DenseSolve(), DenseSolve()
    one.setup(seed=1)
    same.setup(seed=1)
    other.setup(seed=2)
    np.testing.assert_array_equal(one(0), same(0))
    assert not np.array_equal(one(0), other(0))


def test_a_wrong_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = DenseSolve()
    monkeypatch.setattr(np.linalg, "solve", lambda matrix, right: right)
    with pytest.raises(ArithmeticError, match=f"above {LARGEST_RESIDUAL:.0e}"):
        solve(0)


def test_other_precisions_are_refused() -> None:
    with pytest.raises(ValueError, match="runs in fp32"):
        DenseSolve().setup(precision="int8")


def test_one_millisecond_lasts_one() -> None:
    taken = []
    for _ in range(20):
        start = time.perf_counter_ns()
        one_millisecond()
        taken.append(time.perf_counter_ns() - start)
    assert 1_000_000 <= min(taken) < 1_050_000


def test_the_nearest_ten_are_those_that_a_full_sort_finds() -> None:
    nearest = NearestTen()
    nearest.setup(seed=3)
    for query in (0, 5, QUERIES + 5):
        found = nearest(query)
        rows, near = found[:10].astype(int), found[10:]
        products = nearest._index @ nearest._queries[query % QUERIES]
        assert rows.tolist() == np.argsort(-products, kind="stable")[:10].tolist()
        assert np.allclose(near, products[rows])
        assert (near <= 1.0001).all()


class Clock:
    """Time that passes only by sleeping, or where a test says so."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000
        self.slept: list[float] = []

    def perf_counter_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(examples, "time", made)
    return made


def test_a_paced_lookup_waits_until_it_is_due_and_answers_as_the_other_does(clock: Clock) -> None:
    paced, plain = PacedLookup(), NearestTen()
    for lookup in (paced, plain):
        lookup.setup(seed=3)
    answers = [paced(index) for index in range(3)]
    assert clock.slept == [PERIOD_NS / 1e9] * 2, "the first is due at once"
    for index, answer in enumerate(answers):
        np.testing.assert_array_equal(answer, plain(index))


def test_a_late_lookup_is_followed_at_once_so_that_the_pace_is_kept(clock: Clock) -> None:
    paced = PacedLookup()
    paced(0)
    began = clock.now_ns
    clock.now_ns += 10 * PERIOD_NS  # somebody else had the core
    for index in range(12):
        paced(index)
    assert clock.now_ns - began == 12 * PERIOD_NS, "as many as were due by then"
    assert len(clock.slept) == 2


def test_what_was_missed_by_more_than_a_second_is_given_up(clock: Clock) -> None:
    paced = PacedLookup()
    paced(0)
    clock.now_ns += 3_600_000_000_000
    calls = 0
    while not clock.slept:
        paced(calls)
        calls += 1
    assert calls == 1_000_000_000 // PERIOD_NS + 2, "a second's worth, not an hour's"
