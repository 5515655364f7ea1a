"""Drift intervals: exact on lines, honest under autocorrelation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from scipy.signal import lfilter

from lynxbench.stats.drift import head_excess, mser, noise_of, straight_line, tail_shift, total_drift


def test_line_is_least_squares() -> None:
    x = np.random.default_rng(0).standard_normal(50).cumsum()
    change, residuals = straight_line(x)
    fit = scipy.stats.linregress(np.arange(50), x)
    assert change == pytest.approx(fit.slope * 50)
    assert residuals == pytest.approx(x - fit.intercept - fit.slope * np.arange(50))


@pytest.mark.parametrize("phi", [0.0, 0.5])
@pytest.mark.parametrize("count", [30, 300])
def test_intervals_cover(phi: float, count: int) -> None:
    rng = np.random.default_rng(count)
    inside = {"drift": 0, "shift": 0, "head": 0}
    for _ in range(600):
        x = lfilter([1.0], [1.0, -phi], rng.standard_normal(count + 100))[100:]
        noise = noise_of(straight_line(x)[1])
        for name, found in (
            ("drift", total_drift(x, noise, 0.9)),
            ("shift", tail_shift(x, noise, 0.9)),
            ("head", head_excess(x, noise, 0.9, max(3, count // 10))),
        ):
            inside[name] += found.low <= 0 <= found.high
    assert all(count / 600 >= 0.86 for count in inside.values()), inside


def test_no_noise() -> None:
    noise = noise_of(np.zeros(20))
    assert (noise.long_run_sigma, noise.n_eff) == (0.0, 20.0)


def test_mser_cuts_a_transient_and_not_a_constant() -> None:
    rng = np.random.default_rng(0)
    x = 1 + 0.5 * np.exp(-np.arange(300) / 10) + 0.01 * rng.standard_normal(300)
    cut = mser(x)
    assert 20 <= cut.points <= 80
    assert not cut.late
    assert mser(np.ones(300)).points == 0
    assert mser(np.ones(3)).points == 0


def test_mser_says_when_it_is_late() -> None:
    x = np.r_[np.ones(240), 2 * np.ones(60)] + 0.01 * np.random.default_rng(0).standard_normal(300)
    cut = mser(x)
    assert cut.late
    assert 240 <= cut.wanted < 275
    assert cut.points <= 150
