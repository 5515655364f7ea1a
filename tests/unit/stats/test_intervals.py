"""Intervals against scipy.stats and against simulations with known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from lynxbench.stats.intervals import log_mean_interval, mean_interval, paired_ratio_interval, ratio_interval

VALUES = [10.1, 9.8, 10.4, 10.0, 9.9]


def test_mean_interval_is_students() -> None:
    found = mean_interval(VALUES, 0.95)
    low, high = scipy.stats.t.interval(0.95, 4, np.mean(VALUES), scipy.stats.sem(VALUES))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_log_mean_interval_is_the_geometric_mean() -> None:
    found = log_mean_interval(VALUES, 0.9)
    logs = np.log(VALUES)
    low, high = scipy.stats.t.interval(0.9, 4, np.mean(logs), scipy.stats.sem(logs))
    assert found.estimate == pytest.approx(scipy.stats.gmean(VALUES))
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))


def test_ratio_interval_is_welch_on_logs() -> None:
    other = [11.0, 11.9, 10.8, 11.4, 11.3, 11.1]
    found = ratio_interval(VALUES, other, 0.95)
    expected = scipy.stats.ttest_ind(np.log(other), np.log(VALUES), equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))


@pytest.mark.parametrize(("a", "b", "estimate"), [([2.0], [4.0, 4.0], 2.0), ([1.0, -1.0, 3.0], [2.0, 2.0], 2.0)])
def test_ratio_without_bounds(a: list[float], b: list[float], estimate: float) -> None:
    found = ratio_interval(a, b)
    assert found.estimate == pytest.approx(estimate)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_ratio_of_constants_is_exact() -> None:
    found = ratio_interval([2.0, 2.0], [3.0, 3.0])
    assert (found.low, found.estimate, found.high) == pytest.approx((1.5, 1.5, 1.5))


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_unknown_in_unknown_out(values: list[float]) -> None:
    assert not mean_interval(values).known
    assert not log_mean_interval(values).known
    assert not ratio_interval(values, VALUES).known


def test_ratio_by_a_zero_mean_is_unknown() -> None:
    assert math.isnan(ratio_interval([-1.0, 1.0], [1.0, 2.0]).estimate)


def test_confidence_is_checked() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval(VALUES, 95)


@pytest.mark.parametrize("restarts", [5, 10])
def test_coverage_of_the_ratio(restarts: int) -> None:
    rng = np.random.default_rng(restarts)
    inside = 0
    for _ in range(2000):
        a = np.exp(0.02 * rng.standard_normal(restarts))
        b = 1.05 * np.exp(0.02 * rng.standard_normal(restarts))
        found = ratio_interval(a, b, 0.95)
        inside += found.low <= 1.05 <= found.high
    assert 0.93 <= inside / 2000 <= 0.97


def test_pairs_share_what_disturbs_them() -> None:
    rng = np.random.default_rng(20)
    held = 0
    for _ in range(300):
        shared = rng.normal(0.0, 0.1, 12)
        a = np.exp(shared + rng.normal(0.0, 0.003, 12))
        b = np.exp(shared + rng.normal(0.0, 0.003, 12)) * 1.02
        interval = paired_ratio_interval(a, b)
        held += interval.low <= 1.02 <= interval.high
        assert interval.half_width < 0.02
    assert 0.9 <= held / 300 <= 0.99


def test_a_pair_that_was_disturbed_in_its_middle_is_trimmed() -> None:
    a = np.exp(0.001 * np.arange(12))
    b = a * np.exp(0.0005 * (-1.0) ** np.arange(12))
    b[3] *= 0.7
    interval = paired_ratio_interval(a, b)
    assert interval.inside(0.998, 1.002)
    few = paired_ratio_interval(a[:6], b[:6])
    assert few.half_width > 0.05, "with few pairs nothing is trimmed, and the interval says so"
