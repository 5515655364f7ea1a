"""Outliers are pulled in, steps are not."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.stats.robust import robust_sigma, running_median, tame_outliers


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
