from __future__ import annotations

import numpy as np
import pytest

from lynxbench.model.workload import EmpiricalLength, FixedLength, LognormalLength, UniformLength
from lynxbench.workload.lengths import INPUT_STREAM, OUTPUT_STREAM, longest, sample_length, typical

FIXED = FixedLength(distribution="fixed", value=7)
UNIFORM = UniformLength(distribution="uniform", low=3, high=9)
LOGNORMAL = LognormalLength(distribution="lognormal", median=100.0, sigma=0.5, low=20, high=600)
EMPIRICAL = EmpiricalLength(distribution="empirical", values=(5, 5, 80))

UNIFORM_DRAWS = [3, 5, 8, 8, 7, 9, 5, 4]
LOGNORMAL_DRAWS = [59, 43, 161, 60, 182, 133, 203, 77]


def draw(length: object, count: int = 4000, seed: int = 1) -> np.ndarray:
    return np.array([sample_length(length, seed=seed, index=index) for index in range(count)])


def test_a_length_depends_on_seed_and_index_alone() -> None:
    assert [sample_length(UNIFORM, seed=4, index=i) for i in (9, 2, 5)] == [
        sample_length(UNIFORM, seed=4, index=i) for i in (9, 2, 5)
    ]
    assert draw(UNIFORM, 50, seed=1).tolist() != draw(UNIFORM, 50, seed=2).tolist()


def test_known_draws_stay_the_same_on_every_machine() -> None:
    assert draw(UNIFORM, 8, seed=0).tolist() == UNIFORM_DRAWS
    assert draw(LOGNORMAL, 8, seed=0).tolist() == LOGNORMAL_DRAWS


def test_input_and_output_lengths_are_independent() -> None:
    one = [sample_length(UNIFORM, seed=3, index=i, stream=INPUT_STREAM) for i in range(2000)]
    two = [sample_length(UNIFORM, seed=3, index=i, stream=OUTPUT_STREAM) for i in range(2000)]
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.08


def test_distributions_have_their_shape() -> None:
    assert set(draw(FIXED, 10)) == {7}
    uniform = draw(UNIFORM)
    assert uniform.min() == 3
    assert uniform.max() == 9
    assert np.mean(uniform) == pytest.approx(6, abs=0.15)
    lognormal = draw(LOGNORMAL)
    assert np.median(lognormal) == pytest.approx(100, rel=0.05)
    assert np.std(np.log(lognormal)) == pytest.approx(0.5, rel=0.06)
    assert lognormal.max() <= 600
    assert np.mean(draw(EMPIRICAL) == 80) == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize(
    ("length", "most", "middle"), [(FIXED, 7, 7), (UNIFORM, 9, 6), (LOGNORMAL, 600, 100), (EMPIRICAL, 80, 5)]
)
def test_bounds_and_middles(length: object, most: int, middle: int) -> None:
    assert longest(length) == most
    assert typical(length) == middle
