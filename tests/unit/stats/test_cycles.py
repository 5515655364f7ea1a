"""A cycle is found as by the transform of all lags, where a few products rule it out too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import steady_one_by_one
from lynxbench.stats import cycles
from lynxbench.stats.cycles import FEW_LAGS, MIN_CYCLES, find_cycle


@given(
    st.integers(0, 2**32 - 1),
    st.integers(8, 500),
    st.floats(2, 60),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 3.0]),
    st.sampled_from([1e-120, 1e-9, 1.0, 1e6]),
)
@example(0, 30, 4.0, 0.1, 1.0)  # half of the longest period is the one lag that is looked at
def test_products_rule_out_what_the_transform_does_not_find(
    seed: int, points: int, period: float, noise: float, scale: float
) -> None:
    wave = np.sin(2 * np.pi * np.arange(points) / period)
    residuals = scale * (wave + noise * np.random.default_rng(seed).standard_normal(points))
    assert find_cycle(residuals) == steady_one_by_one.find_cycle(residuals)


@pytest.mark.parametrize("period", [4, 5, 8, 13])
def test_a_weak_cycle_is_not_ruled_out(period: int) -> None:
    """Peaks and troughs near what a cycle must have: some have them and some do not."""
    rng, found = np.random.default_rng(period), 0
    for points in rng.integers(6 * period, 9 * period, 400).tolist():
        residuals = np.sin(2 * np.pi * np.arange(points) / period) + rng.uniform(0.6, 1) * rng.standard_normal(points)
        expected = steady_one_by_one.find_cycle(residuals)
        assert find_cycle(residuals) == expected
        found += expected > 0
    assert 40 < found < 360


def test_noise_is_ruled_out_without_a_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    transformed: list[int] = []
    real = cycles.autocorrelation_of
    monkeypatch.setattr(cycles, "autocorrelation_of", lambda values: (transformed.append(values.size), real(values))[1])
    rng = np.random.default_rng(0)
    assert not any(find_cycle(rng.standard_normal(200)) for _ in range(50))
    assert len(transformed) < 5
    assert find_cycle(rng.standard_normal((FEW_LAGS + 2) * MIN_CYCLES)) == 0
    assert transformed[-1] == (FEW_LAGS + 2) * MIN_CYCLES


@pytest.mark.parametrize("values", [np.zeros(40), np.ones(40), np.full(40, 1e-300)])
def test_what_does_not_vary_has_no_cycle(values: np.ndarray) -> None:
    assert find_cycle(values) == steady_one_by_one.find_cycle(values) == 0
