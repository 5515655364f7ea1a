"""Properties that hold for every input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import best_rate_alone
from lynxbench.stats.autocorrelation import effective_count
from lynxbench.stats.batches import best_rate, best_rates, means_by_time, window_means
from lynxbench.stats.changepoints import read_course
from lynxbench.stats.intervals import log_mean_interval, mean_interval, ratio_interval
from lynxbench.stats.steady import judge_steady
from lynxbench.stats.tails import percentile_interval

STEP_NS = 25_000_000  # of a window of 0.5 s: samples then begin and end on its edges
positive = st.floats(min_value=1e-3, max_value=1e6)
finite = st.floats(min_value=-1e9, max_value=1e9)
samples = st.lists(
    st.tuples(st.integers(0, 10**11), st.integers(0, 10**10), st.floats(0, 1e6)), min_size=1, max_size=40
)


@given(st.lists(positive, min_size=2, max_size=30), st.randoms())
def test_intervals_are_ordered_and_ignore_order(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for function in (mean_interval, log_mean_interval):
        found, again = function(values), function(shuffled)
        assert found.low <= found.estimate <= found.high
        assert again.estimate == pytest.approx(found.estimate)


@given(st.lists(positive, min_size=2, max_size=10), st.lists(positive, min_size=2, max_size=10), st.floats(0.1, 10))
def test_a_ratio_has_no_unit_and_turns_around(a: list[float], b: list[float], scale: float) -> None:
    found = ratio_interval(a, b)
    scaled = ratio_interval([x * scale for x in a], [x * scale for x in b])
    back = ratio_interval(b, a)
    assert found.low <= found.estimate * (1 + 1e-12)
    assert found.estimate <= found.high * (1 + 1e-12)
    assert math.log(scaled.estimate) == pytest.approx(math.log(found.estimate), abs=1e-6)
    assert math.log(back.estimate) == pytest.approx(-math.log(found.estimate), abs=1e-6)


@given(st.lists(finite, min_size=1, max_size=200))
def test_effective_count_is_between_one_and_n(values: list[float]) -> None:
    assert 1 <= effective_count(values) <= len(values)


@given(st.lists(finite, min_size=1, max_size=200), st.floats(0.1, 99.9), st.floats(0.5, 0.99), st.floats(1, 300))
def test_percentile_bounds_hold_the_estimate(
    values: list[float], percentile: float, confidence: float, n_eff: float
) -> None:
    found = percentile_interval(values, percentile, confidence, n_eff=n_eff)
    assert math.isnan(found.low) or found.low <= found.estimate
    assert math.isnan(found.high) or found.high >= found.estimate
    assert found.known == (not math.isnan(found.low) and not math.isnan(found.high))
    assert found.estimate in values


@given(samples, st.sampled_from([0.5, 1.0, 7.3]))
def test_windows_conserve_units_and_time(rows: list[tuple[int, int, float]], window_s: float) -> None:
    starts = [start for start, _, _ in rows]
    ends = [start + length for start, length, _ in rows]
    units = [amount for _, _, amount in rows]
    assume(max(ends) > min(starts))
    windows = window_means(starts, ends, units, window_s)
    assert float(windows.units.sum()) == pytest.approx(sum(units), rel=1e-9, abs=1e-6)
    assert float(windows.width_s.sum()) == pytest.approx((max(ends) - min(starts)) / 1e9)
    assert np.all(windows.units >= 0)
    assert np.all(windows.width_s > 0)


@given(samples)
@settings(max_examples=50)
def test_the_best_rate_is_of_no_more_than_all_units(rows: list[tuple[int, int, float]]) -> None:
    starts = [start for start, _, _ in rows]
    ends = [start + length for start, length, _ in rows]
    units = [amount for _, _, amount in rows]
    span = (max(ends) - min(starts)) / 1e9
    assume(span > 0)
    best = best_rate(starts, ends, units, 1.0)
    assert best * min(span, 1.0) <= sum(units) * (1 + 1e-9) + 1e-9


@given(
    st.lists(samples, max_size=4),
    st.sampled_from([0.01, 0.5, 7.3, 100.0]),
    st.booleans(),
    st.sampled_from([1, STEP_NS]),
)
def test_best_rates_together_are_what_they_were_one_after_another(
    runs: list[list[tuple[int, int, float]]], window_s: float, ends_in_nothing: bool, grid_ns: int
) -> None:
    several = []
    for rows in runs:
        starts, lengths, units = (np.array(column) for column in zip(*rows, strict=True))
        starts = starts // grid_ns * grid_ns
        ends = starts + lengths // grid_ns * grid_ns
        if ends.max() > starts.min():
            if ends_in_nothing:  # a sample at the last instant, which lasted for none
                starts, ends, units = np.r_[starts, ends.max()], np.r_[ends, ends.max()], np.r_[units, 3.0]
            several.append((starts, ends, units))
    together = best_rates(several, window_s)
    assert repr(together) == repr([best_rate_alone.best_rate(*each, window_s) for each in several])
    assert repr(together) == repr([best_rate(*each, window_s) for each in several])


@given(st.lists(st.tuples(st.floats(0, 100), finite), min_size=1, max_size=80), st.floats(0.1, 20))
def test_means_by_time_lie_within_the_values(rows: list[tuple[float, float]], window_s: float) -> None:
    times = sorted(time for time, _ in rows)
    values = [value for _, value in rows]
    found = means_by_time(times, values, window_s)
    slack = 1e-9 * max(1.0, *(abs(v) for v in values))
    assert found.mean.min() >= min(values) - slack
    assert found.mean.max() <= max(values) + slack
    assert found.first[0] == 0


@given(st.lists(positive, min_size=0, max_size=60), st.sampled_from([0.01, 0.05]))
@settings(max_examples=150, deadline=None)
def test_a_judgement_is_total(values: list[float], bound: float) -> None:
    found = judge_steady(values, drift_bound=bound)
    assert 0 <= found.truncate <= len(values)
    assert found.truncate + found.counted == len(values)
    if found.verdict == "steady":
        assert found.drift.inside(-bound, bound)
        assert found.tail_shift.inside(-bound, bound)


@given(st.integers(0, 1000), st.integers(-20, 20))
@settings(max_examples=60, deadline=None)
def test_verdicts_have_no_unit(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    x = 1 + 0.02 * rng.random() * np.arange(120) / 120 + 0.003 * rng.standard_normal(120)
    scale = 2.0**power  # exact in binary, so that rounding cannot differ
    a, b = judge_steady(x), judge_steady(x * scale)
    assert (a.verdict, a.reason, a.truncate) == (b.verdict, b.reason, b.truncate)
    assert [c.index for c in read_course(x).changes] == [c.index for c in read_course(x * scale).changes]


@given(st.lists(finite, min_size=0, max_size=120))
@settings(max_examples=150, deadline=None)
def test_changes_are_in_order_and_apart(values: list[float]) -> None:
    found = [0, *(c.index for c in read_course(values).changes), len(values)]
    assert len(found) == 2 or all(b - a >= 8 for a, b in itertools.pairwise(found))
    assert all(0 <= c.p <= 1 for c in read_course(values).changes)
