"""Outliers are pulled in, steps are not."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.stats.robust import outliers_trend, robust_sigma, running_median, tame_outliers


def test_running_median_keeps_steps_and_drops_spikes() -> None:
    x = np.r_[np.ones(20), 2 * np.ones(20)]
    spiked = x.copy()
    spiked[10] = 99
    assert running_median(spiked, 7) == pytest.approx(x)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_running_median_of_next_to_nothing(count: int) -> None:
    assert running_median(np.arange(count, dtype=float), 7).size == count


def test_robust_sigma() -> None:
    rng = np.random.default_rng(0)
    assert robust_sigma(rng.standard_normal(20_000)) == pytest.approx(1, rel=0.03)
    assert robust_sigma(np.array([0.0, 0.0, 0.0, 1.0])) > 0
    assert robust_sigma(np.empty(0)) == 0


def test_spikes_are_clipped_and_named() -> None:
    x = 100 + np.random.default_rng(0).standard_normal(200)
    x[[50, 120]] = 500
    tamed = tame_outliers(x, width=11, limit_sigmas=6)
    assert tamed.outliers.tolist() == [50, 120]
    assert tamed.values.max() < 112
    assert tamed.values[:50] == pytest.approx(x[:50])


def test_outliers_that_grow_come_denser_or_crowd_are_a_trend() -> None:
    rng = np.random.default_rng(4)
    regular = np.arange(10, 600, 30)
    same = np.full(regular.size, 0.5)
    denser = 600 - np.cumsum(np.arange(2, 34))[::-1]
    assert outliers_trend(regular, np.linspace(0.1, 1, regular.size) + 0.05 * rng.random(regular.size), 600)
    assert outliers_trend(regular, np.linspace(1, 0.1, regular.size), 600)  # and those that fade
    assert outliers_trend(denser, np.full(denser.size, 0.5) + 0.01 * rng.random(denser.size), 600)
    assert outliers_trend(np.arange(400, 600, 15), np.ones(14), 600)
    assert not outliers_trend(regular, same + 0.01 * rng.random(regular.size), 600)


def test_a_few_outliers_show_no_trend() -> None:
    assert not outliers_trend(np.empty(0, dtype=np.int64), np.empty(0), 600)
    assert not outliers_trend(np.array([50, 300, 420, 421, 560]), np.array([0.1, 0.2, 0.3, 0.3, 0.9]), 600)


def test_stationary_outliers_rarely_look_like_a_trend() -> None:
    rng = np.random.default_rng(5)
    drawn = (np.sort(rng.choice(600, 18, replace=False)) for _ in range(500))
    assert sum(outliers_trend(places, rng.exponential(1, 18), 600) for places in drawn) <= 50
