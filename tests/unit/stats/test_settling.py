"""Starts that are left out are outside the bound when they are looked at, and most that are outside are left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from lynxbench.stats.autocorrelation import AT_ONCE
from lynxbench.stats.settling import FEWEST_TOGETHER, surely_unsettled
from steady_one_by_one import head_from

BOUND, CONFIDENCE = 0.05, 0.90


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("points", [20, 50, 400])
def test_what_is_left_out_is_outside_and_little_that_is_outside_is_not(points: int, sigma: float) -> None:
    outside = left_out = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = 1 + sigma * rng.standard_normal(points) + 0.1 * np.exp(-np.arange(points) / points)
        series = values / np.abs(values).max()
        starts = np.arange(0, points // 2 + 1, max(1, points // 40))
        sure = surely_unsettled(series, starts, CONFIDENCE, BOUND)
        found = [not head_from(series, start, CONFIDENCE).excess.inside(-BOUND, BOUND) for start in starts.tolist()]
        assert not (sure & ~np.array(found)).any()
        outside, left_out = outside + sum(found), left_out + int(sure.sum())
    assert outside == 0 or left_out >= 0.95 * outside


@given(st.integers(0, 2**32 - 1), st.integers(30, 200), st.sampled_from([0.0, 0.5, 0.9]), st.sampled_from([0.0, 0.2]))
def test_a_start_that_has_just_settled_is_never_left_out(seed: int, points: int, phi: float, wave: float) -> None:
    rng, time = np.random.default_rng(seed), np.arange(points)
    values = 1 + wave * np.sin(2 * np.pi * time / 6) + 0.1 * np.exp(-time / points)
    values += 0.02 * lfilter([1.0], [1.0, -phi], rng.standard_normal(points))
    series, starts = values / np.abs(values).max(), np.arange(0, points // 2 + 1, max(1, points // 10))
    for number, start in enumerate(starts.tolist()):
        excess = head_from(series, start, CONFIDENCE).excess
        just = max(-excess.low, excess.high) * (1 + 1e-6)
        assert not surely_unsettled(series, starts, CONFIDENCE, just)[number]


def test_a_cycle_is_looked_at_closely() -> None:
    """Its head is compared by whole cycles: by points it would lie outside."""
    series = 1 + 0.2 * np.sin(2 * np.pi * np.arange(400) / 20)
    series += 1e-4 * np.random.default_rng(1).standard_normal(400)
    starts = np.arange(0, 201, 10)
    assert not surely_unsettled(series / series.max(), starts, CONFIDENCE, 0.001).any()


@pytest.mark.parametrize("scatter", [0.0, 1e-12])
def test_nothing_is_said_of_what_rounding_decides(scatter: float) -> None:
    series = np.linspace(1, 0.5, 60) + scatter * np.random.default_rng(2).standard_normal(60)
    assert not surely_unsettled(series, np.arange(30), CONFIDENCE, 1e-9).any()


def test_a_tail_that_does_not_vary_is_looked_at_closely() -> None:
    series = np.r_[np.linspace(0.5, 1, 10), np.ones(30)]
    sure = surely_unsettled(series, np.arange(20), CONFIDENCE, 1e-5)
    assert not sure[10:].any()


def test_few_starts_and_long_series_are_looked_at_one_by_one() -> None:
    rng = np.random.default_rng(3)
    for points, many in ((50, FEWEST_TOGETHER - 1), (AT_ONCE, 20)):
        series = np.linspace(1, 0.1, points) * (1 - 0.01 * rng.random(points))
        assert not surely_unsettled(series, np.arange(many), CONFIDENCE, BOUND).any()
