"""The bundled examples do real work and say when it went wrong."""

from __future__ import annotations

import time

import numpy as np
import pytest

from lynxbench.workload.examples import (
    LARGEST_RESIDUAL,
    QUERIES,
    SIDE,
    SYSTEMS,
    DenseSolve,
    NearestTen,
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
