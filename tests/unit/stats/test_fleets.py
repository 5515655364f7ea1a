from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.stats.fleets import (
    Balancing,
    Point,
    QueueNode,
    ServiceForm,
    fit_node,
    late_shares,
    node_capacity,
    simulate_latencies,
)
from lynxbench.stats.queues import capacity, sojourn_tail


@pytest.mark.parametrize(("slots", "rate"), [(1, 0.5), (2, 1.4), (8, 6.5)])
def test_exponential_service_gives_the_closed_form(slots: int, rate: float) -> None:
    spent = simulate_latencies(
        QueueNode(slots, ServiceForm.GAMMA, 1.0, 1.0), rate, 200, 1600, np.random.default_rng(1)
    )[400:]
    for limit in (1.0, 3.0):
        assert (spent > limit).mean() == pytest.approx(sojourn_tail(rate, 1.0, slots, limit), rel=0.08, abs=0.003)


@pytest.mark.parametrize("family", list(ServiceForm))
@pytest.mark.parametrize("variation", [1.25, 2.0])
def test_service_times_have_their_mean_and_variation(family: ServiceForm, variation: float) -> None:
    uniform = (np.arange(400_000) + 0.5) / 400_000
    times = QueueNode(4, family, variation, 2.0).services(uniform)
    assert times.mean() == pytest.approx(2.0, rel=0.01)
    assert times.std() / times.mean() == pytest.approx(variation, rel=0.04)


@pytest.mark.parametrize(("slots", "rate"), [(1, 0.9), (8, 7.4), (32, 30.8), (128, 125.0)])
def test_a_busy_queue_is_in_its_steady_state_from_the_first_request_on(slots: int, rate: float) -> None:
    node, rng = QueueNode(slots, ServiceForm.GAMMA, 1.0, 1.0), np.random.default_rng(11)
    spent = simulate_latencies(node, rate, 4000, 40, rng)
    for limit in (2.0, 4.0):
        truth = sojourn_tail(rate, 1.0, slots, limit)
        for part in (spent[:10], spent[30:]):
            assert (part > limit).mean() == pytest.approx(truth, rel=0.12, abs=0.004)


def test_without_a_steady_state_a_queue_fills_from_empty() -> None:
    node = QueueNode(4, ServiceForm.GAMMA, 1.0, 1.0)
    spent = simulate_latencies(node, 5.0, 200, 400, np.random.default_rng(1))
    assert spent[:4].mean() < 1.5
    assert spent[-10:].mean() > 10


@pytest.mark.parametrize(("slots", "limit"), [(32, 5.5), (32, 12.0)])
def test_many_slots_have_no_more_capacity_than_erlang_says(slots: int, limit: float) -> None:
    node, truth = QueueNode(slots, ServiceForm.GAMMA, 1.0, 1.0), capacity(1.0, slots, limit, 0.01)
    found = [node_capacity(node, limit, 0.01, np.random.default_rng(seed)) / truth - 1 for seed in range(6)]
    assert abs(float(np.mean(found))) < 0.006


def test_a_node_s_capacity_is_that_of_theory() -> None:
    found = node_capacity(QueueNode(8, ServiceForm.GAMMA, 1.0, 1.0), 7.0, 0.01, np.random.default_rng(3))
    assert found == pytest.approx(capacity(1.0, 8, 7.0, 0.01), rel=0.04)


@pytest.mark.parametrize(
    "truth",
    [
        QueueNode(4, ServiceForm.GAMMA, 1.0, 1.0),
        QueueNode(8, ServiceForm.GAMMA, 0.0, 0.5),
        QueueNode(8, ServiceForm.LOGNORMAL, 1.5, 1.0),
    ],
)
def test_the_shape_of_a_queue_is_found_from_its_curve(truth: QueueNode) -> None:
    rng = np.random.default_rng(5)
    points = []
    for load in (0.4, 0.7, 0.85):
        rate = load * truth.ceiling_per_s
        spent = simulate_latencies(truth, rate, 64, 1800, rng)[300:]
        p50, p99 = np.quantile(spent, (0.5, 0.99))
        points.append(Point(rate, float(p50), float(p99), 100_000))
    fit = fit_node(points, truth.ceiling_per_s, is_whole_latency=True, rng=rng)
    assert fit is not None
    assert fit.node.slots == truth.slots
    assert fit.node.variation == pytest.approx(truth.variation, abs=0.25)
    assert fit.error < 0.25


def test_one_point_is_no_curve() -> None:
    assert fit_node([Point(1.0, 1.0, 2.0)], 4.0, is_whole_latency=True, rng=np.random.default_rng(0)) is None


def test_pooling_helps_and_overload_is_late() -> None:
    node = QueueNode(2, ServiceForm.GAMMA, 1.0, 1.0)

    def late(balancing: Balancing, rate: float = 8.0) -> float:
        rng = np.random.default_rng(2)
        return float(late_shares(node, rate, 5, balancing, 4.0, runs=30, period_s=300, most_steps=2000, rng=rng).mean())

    assert late(Balancing.SHARED_QUEUE) < late(Balancing.ROUND_ROBIN) < late(Balancing.RANDOM)
    assert late(Balancing.RANDOM, 10.0) == 1.0


def test_more_requests_leave_less_doubt() -> None:
    few, many = Point(1.0, 1.0, 2.0, 100), Point(1.0, 1.0, 2.0, 10_000)
    assert few.deviations(2.0)[1] == pytest.approx(10 * many.deviations(2.0)[1])
    assert math.isfinite(Point(3.0, 1.0, 2.0, 1).deviations(2.0)[0])
