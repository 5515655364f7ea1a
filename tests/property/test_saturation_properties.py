"""What holds for every probe and every knee."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lynxbench.load.saturation_curve import estimate_capacity, find_knee
from lynxbench.load.saturation_judge import LatencyBound, ProbeOutcome, judge

seconds = st.floats(0.0, 10.0) | st.just(float("inf"))
TIPPED = [(1.0, 0.4296875), (1.0, 0.4296875), (0.689955856156102, 0.6484375), (0.689955856156102, 0.3203125)]
"""Probes by which rounding moved the grid of an estimate by a step, and the estimate by 0.1 %."""


@settings(max_examples=60, deadline=None)
@given(st.lists(seconds, min_size=2, max_size=400), st.floats(0.01, 5.0), st.floats(0.001, 0.5))
def test_a_look_is_always_consistent(latencies: list[float], limit: float, allowed: float) -> None:
    bound = LatencyBound(limit, allowed)
    table = np.array(latencies).reshape(-1, 1)
    half = judge(table[: max(1, len(table) // 2)], (bound,))
    look = judge(table, (bound,), before=half)
    share = look.shares[0]
    assert 0 <= share.interval.low <= share.interval.estimate <= share.interval.high <= 1
    assert 1 <= share.effective <= max(len(table), 1)
    if look.outcome is ProbeOutcome.PASS:
        assert share.interval.high <= allowed
    assert look.number in (half.number, half.number + 1)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.1, 1e5), st.lists(st.tuples(st.floats(0.05, 1.0), st.floats(0.0, 1.0)), max_size=6))
@example(4.0, TIPPED)
def test_the_estimate_lies_below_the_ceiling_and_scales_with_it(
    ceiling: float, probes: list[tuple[float, float]]
) -> None:
    bound = LatencyBound(1.0, 0.05)

    def seen(scale: float) -> float:
        tables = [
            (scale * rate, judge(np.where(np.arange(200) < late * 200, 2.0, 0.5).reshape(-1, 1), (bound,)).shares)
            for rate, late in probes
        ]
        return estimate_capacity(tables, scale).rate_per_s / scale

    assert 0.02 <= seen(ceiling) <= 1.1001
    assert abs(seen(ceiling) / seen(1.0) - 1) < 1e-9


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 100.0), st.floats(0.001, 100.0)), max_size=12))
def test_a_knee_is_one_of_the_points(points: list[tuple[float, float]]) -> None:
    place = find_knee([rate for rate, _ in points], [latency for _, latency in points])
    assert place is None or 0 <= place < len(points)
