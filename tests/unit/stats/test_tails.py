"""Order-statistic bounds against the binomial law."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from lynxbench.errors import BadSeries
from lynxbench.stats.tails import bound_ranks, clopper_pearson, percentile_interval


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
    bounds = percentile_interval(np.arange(1.0, 101.0), 50, 0.95)
    assert (bounds.low, bounds.estimate, bounds.high) == (40.0, 50.0, 61.0)


def test_a_tail_out_of_reach_is_unresolved() -> None:
    bounds = percentile_interval(np.arange(100.0), 99.9, 0.95)
    assert math.isnan(bounds.high)
    assert not math.isnan(bounds.low)
    assert not bounds.known


def test_correlation_widens() -> None:
    x = np.random.default_rng(1).random(5000)
    plain, wide = percentile_interval(x, 95), percentile_interval(x, 95, n_eff=500)
    assert wide.low < plain.low
    assert wide.high > plain.high


def test_n_eff_is_never_more_than_n() -> None:
    x = np.arange(1.0, 101.0)
    assert percentile_interval(x, 50, n_eff=1e9) == percentile_interval(x, 50)


def test_coverage() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(1000):
        bounds = percentile_interval(rng.random(400), 90, 0.95)
        inside += bounds.low <= 0.9 <= bounds.high
    assert 0.94 <= inside / 1000 <= 0.985  # discrete, hence a little over


@pytest.mark.parametrize(("percentile", "confidence"), [(0, 0.9), (100, 0.9), (50, 0), (50, 1)])
def test_arguments_are_checked(percentile: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="lies between"):
        percentile_interval([1.0], percentile, confidence)


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(BadSeries, match="at least one"):
        percentile_interval([], 50)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (5, 40), (40, 40), (3, 1000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_bounds_are_where_the_binomial_tail_is_the_error(hits: int, trials: int, confidence: float) -> None:
    bounds = clopper_pearson(hits, trials, confidence)
    assert bounds.estimate == hits / trials
    if hits < trials:
        assert scipy.stats.binom.cdf(hits, trials, bounds.high) == pytest.approx(1 - confidence)
    else:
        assert bounds.high == 1.0
    if hits > 0:
        assert scipy.stats.binom.sf(hits - 1, trials, bounds.low) == pytest.approx(1 - confidence)
    else:
        assert bounds.low == 0.0


def test_no_hit_in_n_is_the_rule_of_three() -> None:
    assert clopper_pearson(0, 300, 0.95).high == pytest.approx(0.00994, abs=1e-4)


def test_fewer_effective_trials_widen_the_bounds() -> None:
    all_of_them, half = clopper_pearson(10, 1000, 0.95), clopper_pearson(5, 500, 0.95)
    assert half.high > all_of_them.high
    assert half.low < all_of_them.low


@pytest.mark.parametrize(("hits", "trials"), [(-1, 10), (11, 10), (0, 0)])
def test_shares_that_are_none_are_refused(hits: float, trials: float) -> None:
    with pytest.raises(ValueError, match="a share needs"):
        clopper_pearson(hits, trials, 0.95)
