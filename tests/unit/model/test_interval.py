"""Intervals: NaN bounds are doubt, and doubt answers no."""

from __future__ import annotations

import math

from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval


def test_half_width_and_known() -> None:
    assert Interval(1, 2, 4).half_width == 1.5
    assert Interval(1, 2, 4).known
    assert not UNKNOWN_INTERVAL.known
    assert not Interval(1, 2, math.inf).known


def test_inside_takes_the_whole_interval() -> None:
    assert Interval(-0.5, 0, 0.5).inside(-0.5, 0.5)
    assert not Interval(-0.5, 0, 0.6).inside(-0.5, 0.5)
    assert not UNKNOWN_INTERVAL.inside(-math.inf, math.inf)


def test_scaling_keeps_the_order() -> None:
    assert Interval(1, 2, 4).scaled(10) == Interval(10, 20, 40)
    assert Interval(1, 2, 4).scaled(-1) == Interval(-4, -2, -1)
