"""Sketches of known values: quantiles to the stated error, counts that add up, bounds that hold, tails that are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.stats.sketch import RELATIVE_ERROR, SketchTable, buckets_of, middle_of


def sketch(values: np.ndarray) -> list[tuple[int, int]]:
    buckets, counts = np.unique(buckets_of(values), return_counts=True)
    return list(zip(buckets.tolist(), counts.tolist(), strict=True))


@given(st.integers(min_value=1, max_value=10**15))
def test_a_bucket_stands_for_all_that_it_holds(value: int) -> None:
    bucket = int(buckets_of(np.array([value]))[0])
    assert middle_of(bucket) == pytest.approx(value, rel=RELATIVE_ERROR * (1 + 1e-6))


@settings(max_examples=50)
@given(
    st.lists(st.integers(min_value=1, max_value=10**12), min_size=1, max_size=300),
    st.floats(min_value=0.001, max_value=0.999),
)
def test_a_quantile_is_within_the_stated_error_of_the_exact_one(values: list[int], level: float) -> None:
    array = np.array(values)
    exact = np.sort(array)[max(math.ceil(level * len(array) - 1e-9), 1) - 1]
    assert SketchTable([sketch(array)]).quantile(level) == pytest.approx(exact, rel=RELATIVE_ERROR * (1 + 1e-6))


def test_slices_add_up_to_the_whole_in_any_order() -> None:
    values = np.random.default_rng(1).lognormal(14, 1, 5000).astype(np.int64)
    parts = [sketch(part) for part in np.array_split(values, 9)]
    whole = SketchTable([sketch(values)])
    for order in (parts, parts[::-1]):
        merged = SketchTable(order)
        assert merged.count == 5000
        assert [merged.quantile(level) for level in (0.01, 0.5, 0.999)] == [
            whole.quantile(level) for level in (0.01, 0.5, 0.999)
        ]


@pytest.mark.parametrize("clustered", [False, True])
def test_bounds_hold_the_truth_as_often_as_they_say_also_where_slow_values_come_together(clustered: bool) -> None:
    """Every slice has its own share of slow values where they cluster: 40 slices are then worth far less than 4000."""
    covered, tries = 0, 120
    for seed in range(tries):
        rng = np.random.default_rng([seed, clustered])
        shares = rng.beta(2, 38, 40) if clustered else np.full(40, 0.05)  # 5 % slow on average
        parts = []
        for share in shares:
            slow = rng.random(100) < share
            parts.append((1e6 * np.where(slow, rng.uniform(5, 9, 100), rng.uniform(1, 2, 100))).astype(np.int64))
        # Truth: 95 % lie below 5 ms and 99 % of all below 8.2 ms (5 + 4·0.8).
        bounds = SketchTable(sketch(part) for part in parts).percentile(99, 0.95)
        covered += bounds.low <= 8.2e6 <= bounds.high
    assert covered / tries >= 0.9  # 108 of 120; 95 % promised, and chance takes it below 90 % once in 100


def test_a_tail_that_the_slices_cannot_reach_is_unresolved() -> None:
    values = np.random.default_rng(2).lognormal(14, 0.1, 400).astype(np.int64)
    table = SketchTable(sketch(part) for part in np.array_split(values, 20))
    assert table.percentile(50, 0.95).known
    assert not table.percentile(99.9, 0.95).known


def test_few_slices_bound_nothing() -> None:
    values = np.random.default_rng(3).lognormal(14, 0.1, 4000).astype(np.int64)
    assert not SketchTable(sketch(part) for part in np.array_split(values, 4)).percentile(50, 0.95).known
