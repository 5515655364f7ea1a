"""Order-statistic bounds against the binomial law."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.errors import BadSeries
from lynxbench.stats import tails
from lynxbench.stats.autocorrelation import effective_count, exceedance_time, integrated_time
from lynxbench.stats.tails import (
    bound_ranks,
    clopper_pearson,
    percentile_interval,
    percentile_over_processes,
    percentiles_of_several,
    percentiles_over_processes,
)
from percentiles_apart import percentile_over


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


# --- several processes ------------------------------------------------------------------------------------------------


def processes(
    rng: np.random.Generator, count: int, requests: int, between: float, within: float = 0.03
) -> list[np.ndarray]:
    levels = np.exp(between * rng.standard_normal(count))
    return [level * np.exp(within * rng.standard_normal(requests)) for level in levels]


def covered(low: float, true: float, high: float) -> bool:
    """A bound that is missing holds."""
    return not (low > true or high < true)


@pytest.mark.parametrize("percentile", [50.0, 95.0, 99.0])
@pytest.mark.parametrize("between", [0.0, 0.01])
def test_an_interval_covers_what_differs_between_processes(between: float, percentile: float) -> None:
    true = math.exp(math.hypot(between, 0.03) * scipy.stats.norm.ppf(percentile / 100))
    rng = np.random.default_rng(5)
    inside = pooled = 0
    for _ in range(200):
        parts = processes(rng, 5, 600, between)
        bounds = percentile_over_processes(parts, percentile)
        inside += covered(bounds.low, true, bounds.high)
        together = percentile_interval(np.concatenate(parts), percentile)
        pooled += covered(together.low, true, together.high)
    assert inside >= 180
    assert between == 0 or pooled < 150  # as if all were requests of one process


def test_a_tail_is_wide_where_processes_differ_as_much_as_requests() -> None:
    rng = np.random.default_rng(6)
    true = math.exp(math.hypot(0.03, 0.03) * scipy.stats.norm.ppf(0.99))
    tails = [percentile_over_processes(processes(rng, 5, 1000, between=0.03), 99) for _ in range(100)]
    assert sum(covered(tail.low, true, tail.high) for tail in tails) >= 90
    assert sum(tail.high <= true for tail in tails) <= 5  # an objective at exactly the truth
    assert np.median([tail.high - tail.low for tail in tails]) > 0.05


def test_bursts_of_slow_requests_are_few_events() -> None:
    """5 % of the requests are slow, in bursts of 35: the exceedances hang together where their sizes do not."""
    rng = np.random.default_rng(7)
    inside = loose = 0
    for _ in range(100):
        slow = np.repeat(rng.random(200) < 0.05, 35)
        values = np.exp(0.05 * rng.standard_normal(slow.size)) * np.where(slow, 3.0, 1.0)
        bounds = percentile_over_processes([values], 96)
        inside += covered(bounds.low, 3 * math.exp(0.05 * scipy.stats.norm.ppf(0.2)), bounds.high)
        rough = percentile_interval(values, 96, n_eff=effective_count(rng.permutation(values)))
        loose += covered(rough.low, 3 * math.exp(0.05 * scipy.stats.norm.ppf(0.2)), rough.high)
    assert inside >= 90
    assert loose < 60


def test_few_alike_processes_still_bound_a_tail() -> None:
    """By Student's quantile of one degree of freedom, widely."""
    rng = np.random.default_rng(8)
    alone = percentile_interval(np.concatenate(parts := processes(rng, 2, 1000, between=0.0)), 95)
    bounds = percentile_over_processes(parts, 95)
    assert bounds.low <= alone.low
    assert alone.high <= bounds.high < 2 * alone.high


def test_one_process_speaks_for_itself() -> None:
    values = np.random.default_rng(9).random(2000)
    bounds, plain = percentile_over_processes([values], 90), percentile_interval(values, 90)
    assert bounds.estimate == plain.estimate
    assert bounds.high == pytest.approx(plain.high, rel=0.02)


@pytest.mark.parametrize("percentile", [50, 95])
def test_equal_values_have_one_percentile(percentile: float) -> None:
    bounds = percentile_over_processes([np.full(200, 7.0), np.full(300, 7.0)], percentile)
    assert (bounds.low, bounds.estimate, bounds.high) == (7.0, 7.0, 7.0)


def test_ties_do_not_hide_that_processes_differ() -> None:
    """The values of a coarse clock: one process is nearly always at 10, the others nearly always at 11."""
    rng = np.random.default_rng(10)
    parts = [np.where(rng.random(500) < share, 10.0, 11.0) for share in (0.9, 0.1, 0.1, 0.15, 0.1)]
    bounds = percentile_over_processes(parts, 50)
    assert (bounds.low, bounds.estimate, bounds.high) == (10.0, 11.0, 11.0)


def test_a_process_of_next_to_nothing_does_not_count_as_one() -> None:
    rng = np.random.default_rng(11)
    large = processes(rng, 5, 1000, between=0.0)
    plain, beside = (percentile_over_processes(parts, 95) for parts in (large, [*large, np.array([2.0])]))
    assert beside.high == pytest.approx(plain.high, rel=0.05)


def test_zeros_are_bounded_without_logarithms() -> None:
    rng = np.random.default_rng(12)
    parts = [np.maximum(0.0, rng.normal(-0.5, 1, 500)) for _ in range(4)]
    bounds = percentile_over_processes(parts, 50)
    assert bounds.low <= 0.0 == bounds.estimate


def test_failed_requests_may_stand_for_ever() -> None:
    parts = [np.where(np.arange(200) % 5 == k, 1e15, 5.0) for k in range(3)]
    assert percentile_over_processes(parts, 90).low == 1e15


@pytest.mark.parametrize("sizes", [(1, 5000), (3, 40), (1, 1), (2, 1, 1), (1, 1000, 1000), (5000, 1, 1, 1)])
@pytest.mark.parametrize("percentile", [1.0, 50.0, 99.9])
def test_processes_of_any_size_give_bounds_or_none(sizes: tuple[int, ...], percentile: float) -> None:
    rng = np.random.default_rng(13)
    for spread in (0.0, 0.03, 2.0):
        parts = [np.exp(spread * rng.standard_normal(size)) for size in sizes]
        bounds = percentile_over_processes(parts, percentile)
        assert not bounds.low > bounds.estimate
        assert not bounds.high < bounds.estimate


def test_two_processes_of_which_one_hardly_ran_bound_nothing() -> None:
    rng = np.random.default_rng(14)
    bounds = percentile_over_processes([rng.lognormal(0, 0.03, 5000), rng.lognormal(0, 0.03, 10)], 50)
    assert bounds.estimate == pytest.approx(1, abs=0.01)
    assert not bounds.known


@pytest.mark.parametrize("percentile", [50.0, 90.0, 99.0])
def test_a_transform_is_made_once_for_the_same_exceedances(monkeypatch: pytest.MonkeyPatch, percentile: float) -> None:
    seen: list[bytes] = []

    def counted(masks: Sequence[np.ndarray]) -> list[list[float]]:
        seen.extend(values.tobytes() for rows in masks for values in rows)
        return [[integrated_time(values.astype(float)) for values in rows] for rows in masks]

    rng = np.random.default_rng(11)
    parts = [np.round(part, 3) for part in processes(rng, 3, 120, between=0.01)]  # with ties
    expected = percentile_over_processes(parts, percentile)
    monkeypatch.setattr(tails, "exceedance_times", counted)
    assert percentile_over_processes(parts, percentile) == expected
    assert seen
    for part in parts:  # lengths are equal, so a process is known by where its values exceed
        mine = [series for series in seen if any(series == (part > at).tobytes() for at in part)]
        assert len(mine) == len(set(mine))


def test_exceedances_are_known_by_their_process_and_number() -> None:
    rng = np.random.default_rng(12)
    parts = [np.round(part, 2) for part in processes(rng, 3, 80, between=0.02)]
    shared = tails._Processes(parts)
    for at in np.unique(np.concatenate(parts)):
        assert tails._worth(shared, float(at)) == tails._worth(tails._Processes(parts), float(at))


@pytest.mark.parametrize("seed", range(6))
def test_percentiles_together_are_those_of_each_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.lognormal(0.05 * k, 0.2, int(rng.integers(3, 90))) for k in range(int(rng.integers(1, 5)))]
    parts = [np.round(part, 1) for part in parts] if seed % 2 else parts
    wanted = [5.0, 50.0, 90.0, 95.0, 99.0, 99.9]
    together = percentiles_over_processes(parts, wanted)
    assert repr(together) == repr([percentile_over_processes(parts, percentile) for percentile in wanted])


@pytest.mark.parametrize("seed", range(6))
def test_several_sets_together_are_each_alone(seed: int) -> None:
    rng = np.random.default_rng(20 + seed)
    sizes = [(int(rng.integers(3, 60)), int(rng.integers(1, 5))) for _ in range(4)]
    several = [([rng.lognormal(0.05 * k, 0.2, size) for k in range(many)], [50.0, 95.0, 99.0]) for size, many in sizes]
    several.append((several[0][0], [90.0]))
    together = percentiles_of_several(several)
    assert repr(together) == repr([percentiles_over_processes(*each) for each in several])


def drawn_sets(rng: np.random.Generator, most: int) -> list[tuple[list[np.ndarray], list[float]]]:
    """Sets of processes as runs have them: with ties, correlated, not positive, with zeros, of next to nothing."""
    several = []
    for _ in range(int(rng.integers(1, 6))):
        kind, parts = int(rng.integers(0, 6)), []
        for _ in range(int(rng.integers(1, 5))):
            part = rng.lognormal(0.05 * rng.standard_normal(), 0.2, int(rng.integers(1, most)))
            part = np.cumsum(part - 1) if kind == 1 else np.round(part, 1) if kind == 2 else part - (kind == 3)
            parts.append(np.maximum(part - 1, 0.0) if kind == 4 else part)
        wanted = rng.choice([1.0, 5.0, 50.0, 90.0, 95.0, 99.0, 99.9], int(rng.integers(1, 6)), replace=False)
        several.append((parts, wanted.tolist()))
    return several


def each_alone(masks: Sequence[np.ndarray]) -> list[list[float]]:
    return [[exceedance_time(row) for row in rows] for rows in masks]


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 40, 300]), st.sampled_from([0.8, 0.95]))
def test_several_sets_together_are_one_percentile_after_another(seed: int, most: int, confidence: float) -> None:
    several = drawn_sets(np.random.default_rng(seed), most)
    with pytest.MonkeyPatch.context() as patch:
        # On some machines a row among many is transformed to another last digit, and a rank may hang on it.
        patch.setattr(tails, "exceedance_times", each_alone)
        together = percentiles_of_several(several, confidence)
    assert repr(together) == repr([[percentile_over(parts, p, confidence) for p in of] for parts, of in several])


@pytest.mark.parametrize("seed", range(40))
def test_what_is_computed_together_is_what_the_words_say(seed: int) -> None:
    """To the last bit: published results are held against it."""
    rng = np.random.default_rng(100 + seed)
    parts = [rng.lognormal(0.05 * k, 0.3, int(rng.integers(4, 200))) for k in range(int(rng.integers(1, 12)))]
    parts = [np.round(part, 1) for part in parts] if seed % 3 == 1 else parts
    parts = [part - 1 for part in parts] if seed % 4 == 1 else parts  # below zero: no logarithms
    wanted = [5.0, 50.0, 90.0, 95.0, 99.0, 99.9]
    assert repr(percentiles_over_processes(parts, wanted)) == repr([percentile_over(parts, each) for each in wanted])
