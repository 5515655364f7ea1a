"""Scales and ticks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.report.svg.canvas import Scale, curve, tick_step, tick_text, ticks


@pytest.mark.parametrize(
    ("low", "high", "about", "step"), [(0, 10, 5, 2), (18.5, 20, 4, 0.5), (0, 100, 3, 50), (5, 5, 4, 1)]
)
def test_steps_are_round(low: float, high: float, about: int, step: float) -> None:
    assert tick_step(low, high, about) == pytest.approx(step)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9), st.integers(2, 10))
def test_ticks_lie_inside_and_are_few(low: float, span: float, about: int) -> None:
    found = ticks(low, low + span, about)
    step = tick_step(low, low + span, about)
    assert len(found) <= about + 1
    assert all(low - step * 1e-6 <= tick <= low + span + step * 1e-6 for tick in found)


def test_labels_have_the_decimals_of_their_step() -> None:
    assert tick_text(0.30000000000000004, 0.1) == "0.3"
    assert tick_text(1500, 500) == "1\u202f500"
    assert tick_text(0.0, 0.5) == "0.0"


def test_a_scale_without_a_span_stays_at_its_start() -> None:
    assert Scale(3, 3, 10, 90)(3) == 10
    assert Scale(0, 10, 0, 100).clamped(99) == 100


def test_a_curve_breaks_where_a_value_is_missing() -> None:
    assert 'd="M0.0 1.0L1.0 1.0M3.0 2.0"' in curve([0, 1, 2, 3], [1, 1, math.nan, 2], "curve")
