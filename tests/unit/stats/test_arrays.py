"""Means, medians and deviations without what numpy looks at first: to the same bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lynxbench.stats.arrays import deviation_of, mean_of, median_of

SERIES = st.lists(st.floats(-1e9, 1e9, allow_subnormal=True), min_size=1, max_size=70).map(np.array)


@given(SERIES)
@example(np.array([-0.0]))
@example(np.array([-0.0, -0.0]))
@example(np.array([-1.0, -0.0, 2.0]))
def test_they_are_those_of_numpy(values: np.ndarray) -> None:
    for part in (values, values[::-1], values[: values.size // 2 + 1]):
        assert repr(mean_of(part)) == repr(float(np.mean(part)))
        assert repr(median_of(part)) == repr(float(np.median(part)))
        assert repr(deviation_of(part)) == repr(float(np.std(part)))
        assert part.size < 2 or repr(deviation_of(part, 1)) == repr(float(np.std(part, ddof=1)))


@pytest.mark.parametrize("count", [8, 9, 127, 128, 129, 5000])
def test_long_series_are_summed_in_the_same_order(count: int) -> None:
    values = np.random.default_rng(count).lognormal(0, 2, count)
    assert mean_of(values) == float(np.mean(values))
    assert median_of(values) == float(np.median(values))
    assert deviation_of(values, 1) == float(np.std(values, ddof=1))


def test_of_nothing_there_is_no_median() -> None:
    assert math.isnan(median_of(np.array([])))
