"""The search against simulated queues of known capacity, and its edges."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from lynxbench.load.saturation import Saturation, SearchRule, find_saturation
from lynxbench.load.saturation_judge import LatencyBound, ProbeOutcome, fewest_requests
from lynxbench.model.samples import Float64
from lynxbench.stats.queues import capacity


class Queue:
    """M/M/k, first come first served, starting empty."""

    def __init__(self, rate_per_s: float, servers: int, rng: np.random.Generator) -> None:
        self.rate_per_s, self.rng = rate_per_s, rng
        self.free, self.now = [0.0] * servers, 0.0

    def take(self, requests: int) -> Float64:
        gaps = self.rng.exponential(1 / self.rate_per_s, requests).tolist()
        services = self.rng.exponential(1.0, requests).tolist()
        out = []
        for gap, service in zip(gaps, services, strict=True):
            self.now += gap
            end = max(self.free[0], self.now) + service
            heapq.heapreplace(self.free, end)
            out.append(end - self.now)
        return np.array(out)

    def end(self) -> float:
        return self.now


class Formula:
    """A server whose latencies are independent and late with a probability that the rate decides."""

    def __init__(self, rate_per_s: float, late: Callable[[float], list[float]], rng: np.random.Generator) -> None:
        self.rate_per_s, self.late, self.rng, self.taken = rate_per_s, late, rng, 0

    def take(self, requests: int) -> Float64:
        self.taken += requests
        columns = [np.where(self.rng.random(requests) < share, 5.0, 0.5) for share in self.late(self.rate_per_s)]
        return np.stack(columns, axis=1)

    def end(self) -> float:
        return self.taken / self.rate_per_s


def search(servers: int, bound: LatencyBound, seed: int, rule: SearchRule | None = None) -> Saturation:
    rng = np.random.default_rng(seed)
    return find_saturation(lambda rate: Queue(rate, servers, rng), servers * rng.normal(1, 0.02), bound, rule)


def by_formula(
    late: Callable[[float], list[float]], bounds: list[LatencyBound], ceiling: float, rule: SearchRule | None = None
) -> Saturation:
    rng = np.random.default_rng(3)
    return find_saturation(lambda rate: Formula(rate, late, rng), ceiling, bounds, rule)


@pytest.mark.slow
def test_claims_stay_under_the_capacity_of_a_queue() -> None:
    bound = LatencyBound(6.0, 0.05)
    truth = capacity(1.0, 8, bound.limit_s, bound.violations)
    found = [search(8, bound, seed) for seed in range(10)]  # more of them, and other servers: benchmarks/saturation.py
    errors = np.array([(each.passed_per_s or 0.0) / truth - 1 for each in found])
    assert (errors > 0).sum() <= 1
    assert np.median(np.abs(errors)) <= 0.05
    assert all(each.confirmed for each in found)
    for each in found:
        assert each.passed_per_s is not None
        assert each.failed_per_s is not None
        assert 1 < each.failed_per_s / each.passed_per_s <= 1.0501
        assert sum(p.rate_per_s == each.passed_per_s and p.outcome is ProbeOutcome.PASS for p in each.probes) >= 2


def test_several_bounds_the_first_to_break_decides() -> None:
    bounds = [LatencyBound(1.0, 0.01, "latency"), LatencyBound(1.0, 0.05, "time-to-first-token")]

    def late(rate: float) -> list[float]:  # the first would hold to 90 /s, the second to 50 /s
        return [min(1.0, 0.01 * (rate / 90) ** 20), min(1.0, 0.05 * (rate / 50) ** 20)]

    found = by_formula(late, bounds, 100.0)
    assert found.passed_per_s == pytest.approx(50, rel=0.06)
    assert found.passed_per_s < 50
    assert found.confirmed
    failing = [p for p in found.probes if p.outcome is ProbeOutcome.FAIL]
    assert all(p.why.startswith("time-to-first-token") for p in failing if p.rate_per_s < 85)


def test_a_server_without_limit_passes_up_to_the_ceiling() -> None:
    # So near to the ceiling a queue could hide behind any probe of ordinary length: this may be as long as it takes.
    rule = SearchRule(max_requests=400 * 2**13)
    found = by_formula(lambda rate: [0.0], [LatencyBound(1.0, 0.01)], 100.0, rule)
    assert found.passed_per_s == 100.0
    assert found.failed_per_s is None
    assert found.confirmed
    assert found.note == "no rate failed up to the completion-rate ceiling"
    assert found.goodput_per_s() == 100.0


def test_near_the_ceiling_an_ordinary_probe_is_not_believed() -> None:
    found = by_formula(lambda rate: [0.0], [LatencyBound(1.0, 0.01)], 100.0)
    assert found.passed_per_s is not None
    assert 93 < found.passed_per_s < 100
    assert found.failed_outcome is ProbeOutcome.UNDECIDED


def test_a_server_that_never_holds_claims_nothing() -> None:
    found = by_formula(lambda rate: [0.5], [LatencyBound(1.0, 0.01)], 100.0, SearchRule(max_probes=12))
    assert found.passed_per_s is None
    assert not found.confirmed
    assert found.failed_outcome is ProbeOutcome.FAIL
    assert found.note.startswith("no rate passed")
    assert found.goodput_per_s() is None


def test_failed_requests_are_late_ones() -> None:
    class Failing(Formula):
        def take(self, requests: int) -> Float64:
            latencies = super().take(requests)
            latencies[latencies > 1] = math.inf
            return latencies

    rng = np.random.default_rng(5)
    late: Callable[[float], list[float]] = lambda rate: [min(1.0, 0.05 * (rate / 50) ** 20)]  # noqa: E731
    found = find_saturation(lambda rate: Failing(rate, late, rng), 100.0, LatencyBound(1.0, 0.05))
    assert found.passed_per_s == pytest.approx(48, rel=0.06)
    json.dumps(found.document(), allow_nan=False)


def test_the_budget_is_kept_and_said() -> None:
    rule = SearchRule(max_seconds=60.0)
    found = by_formula(lambda rate: [min(1.0, 0.01 * (rate / 50) ** 20)], [LatencyBound(1.0, 0.01)], 100.0, rule)
    assert not found.confirmed
    assert "budget" in found.note
    # A probe that has begun ends with its first look; none is lengthened beyond the budget.
    first = fewest_requests([LatencyBound(1.0, 0.01)], rule.confidence)
    assert found.seconds <= 60.0 + first / min(p.rate_per_s for p in found.probes)


def test_every_probe_lasts_as_long_as_asked() -> None:
    rule = SearchRule(min_seconds=30.0)
    found = by_formula(lambda rate: [min(1.0, 0.05 * (rate / 50) ** 20)], [LatencyBound(1.0, 0.05)], 100.0, rule)
    assert min(p.seconds for p in found.probes) >= 30.0


def test_what_a_report_needs_is_plain_json() -> None:
    found = by_formula(lambda rate: [min(1.0, 0.05 * (rate / 50) ** 20)], [LatencyBound(1.0, 0.05)], 100.0)
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    rates = [point["rate_per_s"] for point in document["curve"]]
    assert rates == sorted(set(rates))
    assert document["passed_per_s"] in rates
    assert document["goodput_per_s"] == pytest.approx(document["passed_per_s"], rel=0.06)
    assert document["goodput_per_s"] < document["passed_per_s"]
    assert document["probes"][-1]["violations"][0]["allowed"] == 0.05


def test_a_wide_tolerance_costs_less() -> None:
    late: Callable[[float], list[float]] = lambda rate: [min(1.0, 0.05 * (rate / 50) ** 20)]  # noqa: E731
    exact, rough = (by_formula(late, [LatencyBound(1.0, 0.05)], 100.0, SearchRule(tolerance=t)) for t in (0.05, 0.4))
    assert rough.confirmed
    assert rough.passed_per_s is not None
    assert rough.failed_per_s is not None
    assert 30 < rough.passed_per_s < 50
    assert rough.failed_per_s / rough.passed_per_s <= 1.4001
    assert rough.seconds < exact.seconds


@pytest.mark.parametrize("tolerance", [0.0, 1.5])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        SearchRule(tolerance=tolerance)


@pytest.mark.parametrize("ceiling", [0.0, -1.0, math.nan, math.inf])
def test_a_ceiling_that_is_none_is_refused(ceiling: float) -> None:
    with pytest.raises(ValueError, match="ceiling"):
        by_formula(lambda rate: [0.0], [LatencyBound(1.0, 0.01)], ceiling)


def test_a_search_without_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one bound"):
        by_formula(lambda rate: [], [], 10.0)


@pytest.mark.parametrize(("limit", "share"), [(0.0, 0.1), (math.inf, 0.1), (1.0, 0.0), (1.0, 1.0)])
def test_bounds_that_are_none_are_refused(limit: float, share: float) -> None:
    with pytest.raises(ValueError, match="must"):
        LatencyBound(limit, share)
