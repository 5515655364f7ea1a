"""Exact bounds on a share."""

from __future__ import annotations

import pytest
import scipy.stats

from lynxbench.stats.proportion import clopper_pearson


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (5, 40), (40, 40), (3, 1000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_bounds_are_where_the_binomial_tail_is_the_error(hits: int, trials: int, confidence: float) -> None:
    found = clopper_pearson(hits, trials, confidence)
    assert found.estimate == hits / trials
    if hits < trials:
        assert scipy.stats.binom.cdf(hits, trials, found.high) == pytest.approx(1 - confidence)
    else:
        assert found.high == 1.0
    if hits > 0:
        assert scipy.stats.binom.sf(hits - 1, trials, found.low) == pytest.approx(1 - confidence)
    else:
        assert found.low == 0.0


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
