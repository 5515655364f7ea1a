from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lynxbench.stats.surrogate import Landscape

GRID = np.array(list(product(range(6), range(4))), dtype=np.float64)


def truth(points: np.ndarray) -> np.ndarray:
    return -0.02 * (points[:, 0] - 4) ** 2 + 0.1 * (points[:, 1] == 2)


def test_it_finds_the_best_of_settings_it_has_mostly_not_seen() -> None:
    rng = np.random.default_rng(0)
    seen = GRID[rng.permutation(len(GRID))[:14]]
    landscape = Landscape((True, False), (6, 4), seen, truth(seen) + rng.normal(0, 0.005, len(seen)))
    mean, deviation = landscape.believed(GRID)
    assert truth(GRID)[int(np.argmax(mean))] > truth(GRID).max() - 0.03
    assert np.all(deviation > 0)


def test_what_was_measured_often_is_worth_less_than_the_unknown() -> None:
    seen = np.array([[0.0, 0.0]] * 6 + [[5.0, 3.0]])
    landscape = Landscape((True, False), (6, 4), seen, np.array([0.0, 0.01, -0.01, 0.0, 0.01, 0.0, -0.3]))
    worth = landscape.worth(np.array([[0.0, 0.0], [3.0, 1.0]]))
    assert worth[1] > worth[0]
    assert worth[0] >= 0


def test_constant_values_are_no_trouble() -> None:
    landscape = Landscape((True,), (4,), np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 1.0, 1.0]))
    mean, _ = landscape.believed(np.array([[3.0]]))
    assert mean[0] == pytest.approx(1.0, abs=1e-6)
