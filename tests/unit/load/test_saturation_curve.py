"""The capacity from probes, and the knee."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.load.saturation_curve import estimate_capacity, find_knee
from lynxbench.load.saturation_judge import LatencyBound, Share
from lynxbench.model.interval import Interval


def share(late: float, effective: float, bound: LatencyBound) -> Share:
    return Share(bound, Interval(late, late, late), effective, 1.0, seen=True, settled=True, counted=int(effective))


def curve(capacity: float, steep: float, bound: LatencyBound, rate: float) -> float:
    odds = bound.violations / (1 - bound.violations) * (rate / capacity) ** steep
    return odds / (1 + odds)


@pytest.mark.parametrize("steep", [6.0, 30.0, 150.0])
def test_probes_of_a_known_curve_find_its_capacity(steep: float) -> None:
    bound = LatencyBound(1.0, 0.01)
    probes = [(rate, (share(curve(60.0, steep, bound, rate), 4000, bound),)) for rate in (50.0, 57.0, 62.0, 70.0)]
    found = estimate_capacity(probes, 100.0)
    assert found.rate_per_s == pytest.approx(60, rel=0.02)
    assert found.low_per_s < 60.3
    assert found.high_per_s > 59.7
    assert found.steepness == pytest.approx(steep, rel=0.5)
    assert found.late_share(found.rate_per_s, 0.01) == pytest.approx(0.01)
    assert found.late_share(70.0, 0.01) == pytest.approx(curve(60.0, steep, bound, 70.0), rel=0.8)


def test_nothing_seen_means_nothing_known() -> None:
    found = estimate_capacity([], 100.0)
    assert found.spread > 0.5
    assert 40 < found.rate_per_s < 70


def test_more_requests_make_it_surer() -> None:
    bound = LatencyBound(1.0, 0.05)
    few, many = (
        estimate_capacity([(r, (share(curve(60, 30, bound, r), n, bound),)) for r in (55.0, 65.0)], 100.0).spread
        for n in (40, 4000)
    )
    assert many < few / 3


def test_the_bound_that_breaks_first_decides() -> None:
    bounds = (LatencyBound(1.0, 0.01), LatencyBound(2.0, 0.05))
    holds = (80.0, 45.0)
    probes = [
        (rate, [share(curve(c, 30, bound, rate), 3000, bound) for c, bound in zip(holds, bounds, strict=True)])
        for rate in (40.0, 44.0, 47.0, 60.0)
    ]
    found = estimate_capacity(probes, 100.0)
    assert found.rate_per_s == pytest.approx(45, rel=0.02)
    assert found.place == 1


def test_the_knee_is_where_the_curve_bends() -> None:
    rates = np.arange(0.1, 1.0, 0.1)
    assert rates[find_knee(rates.tolist(), (1 / (1 - rates)).tolist()) or 0] == pytest.approx(0.7)


def test_the_knee_does_not_depend_on_the_order_of_probes() -> None:
    rates = np.arange(0.1, 1.0, 0.1)
    order = np.random.default_rng(0).permutation(len(rates))
    shuffled = rates[order]
    place = find_knee(shuffled.tolist(), (1 / (1 - shuffled)).tolist())
    assert place is not None
    assert shuffled[place] == pytest.approx(0.7)


@pytest.mark.parametrize("latencies", [[1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 5, [math.inf] * 5])
def test_a_curve_that_does_not_bend_has_no_knee(latencies: list[float]) -> None:
    assert find_knee([1.0, 2.0, 3.0, 4.0, 5.0], latencies) is None


def test_three_points_are_no_curve() -> None:
    assert find_knee([1.0, 2.0, 3.0], [1.0, 1.0, 9.0]) is None
