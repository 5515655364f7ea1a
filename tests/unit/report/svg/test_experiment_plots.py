"""Logarithmic axes: labels that can be read, whatever they span."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.report.svg.experiment_plots import log_ticks


@pytest.mark.parametrize(
    ("first", "last", "about", "expected"),
    [
        (90.0, 131.0, 5, [90.0, 100.0, 110.0, 120.0, 130.0]),
        (0.16, 60.0, 8, [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]),
        (55.0, 12000.0, 5, [100.0, 300.0, 1000.0, 3000.0, 10000.0]),
        (1.5, 2e9, 4, [10.0, 1e4, 1e7]),
    ],
)
def test_narrow_axes_step_evenly_and_wide_ones_by_ratio(
    first: float, last: float, about: int, expected: list[float]
) -> None:
    assert log_ticks(math.log(first), math.log(last), about) == pytest.approx(expected)


@given(st.floats(-20, 20), st.floats(1.4, 30), st.integers(4, 9))
def test_on_a_wide_axis_no_two_labels_crowd(low: float, span: float, about: int) -> None:
    marks = [math.log(value) for value in log_ticks(low, low + span, about)]
    assert 1 <= len(marks) <= about
    assert all(low - 1e-9 <= mark <= low + span + 1e-9 for mark in marks)
    assert all(later - earlier > 0.6 for earlier, later in itertools.pairwise(marks))
