"""Order-statistic bounds against the binomial law."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from lynxbench.errors import BadSeries
from lynxbench.stats.tails import Resolution, bound_ranks, percentile_interval


@pytest.mark.parametrize("count", [1, 5, 20, 100, 1000, 12345])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_ranks_are_the_binomial_quantiles(count: int, level: float, confidence: float) -> None:
    low, high = bound_ranks(count, level, confidence)
    law = scipy.stats.binom(count, level)
    tail = (1 - confidence) / 2
    assert low == 0 or law.cdf(low - 1) <= tail + 1e-12
    assert law.cdf(low) > tail - 1e-12 or low == count
    assert high == count + 1 or law.sf(high - 1) <= tail + 1e-12
    assert law.sf(high - 2) > tail - 1e-12


def test_median_of_a_hundred() -> None:
    found = percentile_interval(np.arange(1.0, 101.0), 50, 0.95)
    assert (found.interval.low, found.interval.estimate, found.interval.high) == (40.0, 50.0, 61.0)
    assert found.resolution is Resolution.RESOLVED


def test_a_tail_out_of_reach_is_unresolved() -> None:
    found = percentile_interval(np.arange(100.0), 99.9, 0.95)
    assert math.isnan(found.interval.high)
    assert not math.isnan(found.interval.low)
    assert found.unresolved
    assert found.resolution == "unresolved"


def test_correlation_widens() -> None:
    x = np.random.default_rng(1).random(5000)
    plain, wide = percentile_interval(x, 95), percentile_interval(x, 95, n_eff=500)
    assert wide.interval.low < plain.interval.low
    assert wide.interval.high > plain.interval.high
    assert wide.n_eff == 500


def test_n_eff_is_never_more_than_n() -> None:
    assert percentile_interval([1.0, 2.0, 3.0], 50, n_eff=1e9).n_eff == 3


def test_coverage() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(1000):
        found = percentile_interval(rng.random(400), 90, 0.95).interval
        inside += found.low <= 0.9 <= found.high
    assert 0.94 <= inside / 1000 <= 0.985  # discrete, hence a little over


@pytest.mark.parametrize(("percentile", "confidence"), [(0, 0.9), (100, 0.9), (50, 0), (50, 1)])
def test_arguments_are_checked(percentile: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="lies between"):
        percentile_interval([1.0], percentile, confidence)


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(BadSeries, match="at least one"):
        percentile_interval([], 50)
