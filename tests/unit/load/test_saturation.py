"""The search against simulated queues of known capacity, and its edges."""

from __future__ import annotations

import heapq
import math
import re
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest

from lynxbench.load.saturation import find_saturation
from lynxbench.load.saturation_judge import LatencyBound, ProbeOutcome, fewest_requests
from lynxbench.load.saturation_result import Saturation
from lynxbench.load.search_rule import SearchRule
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


class Varying:
    """One slot, 100 ms of work each; a fifth of the time it runs at 70 to 85 % of its speed. Its clock goes on."""

    def __init__(self, seed: int, slow_s: float = 3.0, fast_s: float = 12.0) -> None:
        self.rng, self.now = np.random.default_rng((seed, 1)), 0.0
        pace = np.random.default_rng((seed, 2))
        slow = np.arange(20_000) % 2 == 1
        seconds = pace.exponential(np.where(slow, slow_s, fast_s))
        speeds = np.where(slow, pace.uniform(0.7, 0.85, len(slow)), 1.0)
        self.moments = np.concatenate(([0.0], np.cumsum(seconds)))
        self.work = np.concatenate(([0.0], np.cumsum(seconds * speeds)))

    def start(self, rate_per_s: float) -> VaryingProbe:
        return VaryingProbe(self, rate_per_s)


class VaryingProbe:
    """Lindley's recursion in work time, mapped back to the clock."""

    def __init__(self, server: Varying, rate_per_s: float) -> None:
        self.server, self.rate_per_s = server, rate_per_s
        self.began = self.ended = self.last = server.now
        self.free = 0.0

    def take(self, requests: int) -> Float64:
        server = self.server
        arrivals = self.last + np.cumsum(server.rng.exponential(1 / self.rate_per_s, requests))
        services = server.rng.exponential(0.1, requests)
        work, done = np.interp(arrivals, server.moments, server.work), np.cumsum(services)
        ends = done + np.maximum.accumulate(np.maximum(work - (done - services), self.free))
        self.last, self.free = float(arrivals[-1]), float(ends[-1])
        moments = np.interp(ends, server.work, server.moments)
        self.ended = server.now = float(moments[-1])
        return np.asarray(moments - arrivals)

    def end(self) -> float:
        return self.ended - self.began


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
    assert sum((each.passed_per_s or 0) <= truth <= (each.failed_per_s or math.inf) for each in found) >= 9
    for each in found:
        assert each.passed_per_s is not None
        assert each.failed_per_s is not None
        apart = each.failed_per_s / each.passed_per_s - 1
        assert 0 < apart <= 0.2
        assert apart <= 0.0501 or each.note.startswith(f"the pair is {apart:.0%} apart")
        assert sum(p.rate_per_s == each.passed_per_s and p.outcome is ProbeOutcome.PASS for p in each.probes) >= 2


VARYING_BOUND = LatencyBound(1.0, 0.05)


def capacity_of_varying() -> float:
    """By halving, on five hours of two servers at every rate."""
    low, high = 4.0, 9.0
    for _ in range(10):
        rate = (low + high) / 2
        late = [(Varying(seed).start(rate).take(150_000) > VARYING_BOUND.limit_s).mean() for seed in (901, 902)]
        low, high = (rate, high) if np.mean(late) <= VARYING_BOUND.violations else (low, rate)
    return low


@pytest.mark.slow
def test_a_server_that_varies_is_not_overclaimed_and_the_pair_holds_its_capacity() -> None:
    truth = capacity_of_varying()  # more of them, and other servers: benchmarks/truth_saturation.py
    found = [find_saturation(Varying(seed).start, 10.0, VARYING_BOUND) for seed in range(10)]
    assert sum(each.confirmed and (each.passed_per_s or 0) > truth for each in found) <= 1
    assert sum((each.passed_per_s or 0) <= truth <= (each.failed_per_s or math.inf) for each in found) >= 9
    assert sum(each.confirmed for each in found) >= 9
    assert np.median([(each.passed_per_s or 0) / truth for each in found]) > 0.85


class Stepping:
    """Continuous batching, 327 tokens in and 138 out: a token a step for all that run, prompts read in between.

    Steps as vLLM takes them on an H200; a probe takes 4 s beside its load, for its clients.
    """

    TRUTH = 67.9  # by simulation: benchmarks/saturation_truth.json
    BOUNDS = (LatencyBound(1.0, 0.01, "first token"), LatencyBound(0.05, 0.05, "time per token"))

    def __init__(self, rate_per_s: float, rng: np.random.Generator) -> None:
        self.rate_per_s, self.rng = rate_per_s, rng
        self.now, self.last, self.steps, self.taken = 0.0, 0.0, 0, 0
        self.waiting: deque[float] = deque()
        self.running: deque[tuple[int, float, float]] = deque()
        self.done: list[tuple[float, float]] = []

    def take(self, requests: int) -> Float64:
        first, self.taken = self.taken, self.taken + requests
        while len(self.done) < self.taken:
            self.step()
        return np.array(self.done[first : self.taken])

    def step(self) -> None:
        while self.last <= self.now or not (self.waiting or self.running):
            self.last += float(self.rng.exponential(1 / self.rate_per_s))
            self.waiting.append(self.last)
            self.now = max(self.now, self.waiting[0]) if not self.running else self.now
        read: list[float] = []
        while self.waiting and self.waiting[0] <= self.now and len(self.running) + len(read) < 256 and len(read) < 25:
            read.append(self.waiting.popleft())
        self.steps += 1
        self.now += 4.9e-3 + 2.3e-5 * (len(self.running) + len(read)) + 8.5e-3 * len(read)
        self.running.extend((self.steps + 137, arrived, self.now) for arrived in read)
        while self.running and self.running[0][0] <= self.steps:  # all are of one length: they end in order
            _, arrived, first = self.running.popleft()
            self.done.append((first - arrived, (self.now - first) / 137))

    def end(self) -> float:
        return self.now + 4.0


def batching_searched(seed: tuple[int, int], budget_s: float, *, is_highest: bool = False) -> Saturation:
    """A search of continuous batching, by a ceiling that is wrong by 2 %."""
    rng = np.random.default_rng(seed)
    rule = SearchRule(tolerance=0.15, max_seconds=budget_s, min_seconds=min(1.0, budget_s / 100))
    ceiling = 69.8 * rng.normal(1, 0.02)
    return find_saturation(lambda rate: Stepping(rate, rng), ceiling, Stepping.BOUNDS, rule, is_highest=is_highest)


@pytest.mark.slow
def test_continuous_batching_is_claimed_high_within_a_budget_and_never_too_high() -> None:
    searches = [batching_searched((seed, 77), 300.0) for seed in range(6)]
    assert all(each.confirmed for each in searches)
    claims = np.array([each.passed_per_s or 0.0 for each in searches]) / Stepping.TRUTH
    assert claims.max() < 1
    assert np.median(claims) > 0.8, "none was late at that, and none came near its limit"
    assert all(each.seconds < 1.1 * 300 for each in searches)


@pytest.mark.slow
def test_continuous_batching_far_inside_its_limits_is_claimed_within_90_seconds() -> None:
    searches = [batching_searched((seed, 78), 90.0) for seed in range(8)]
    assert sum(each.confirmed for each in searches) >= 7
    claims = np.array([each.passed_per_s or 0.0 for each in searches]) / Stepping.TRUTH
    assert claims.max() < 1
    assert np.median(claims) > 0.75
    rates = [probe.rate_per_s for probe in searches[0].probes if probe.scout]
    assert len(set(rates)) == len(rates), "a scout that passes is not sent out again, but higher"


@pytest.mark.slow
def test_a_ceiling_that_is_the_highest_is_the_upper_end_of_a_pair_within_the_tolerance() -> None:
    searches = [batching_searched((seed, 79), 90.0, is_highest=True) for seed in range(8)]
    confirmed = [each for each in searches if each.confirmed]
    assert len(confirmed) >= 6
    assert all((each.passed_per_s or 0.0) < Stepping.TRUTH for each in confirmed)
    assert all(each.failed_per_s is None for each in confirmed), "no probe failed, and none is said to have"
    notes = [re.search(r"the upper end is what the server completes at most, (\d+)% above$", s.note) for s in confirmed]
    assert sum(note is not None and int(note[1]) <= 15 for note in notes) >= 6


def test_a_highest_ceiling_far_above_what_holds_places_no_claim() -> None:
    rng = np.random.default_rng(5)

    def late(rate: float) -> list[float]:  # holds to 50 /s, though 100 /s are completed
        return [min(1.0, 0.05 * (rate / 50) ** 20)]

    bound, rule = LatencyBound(1.0, 0.05), SearchRule(tolerance=0.15)
    found = find_saturation(lambda rate: Formula(rate, late, rng), 100.0, bound, rule, is_highest=True)
    assert found.confirmed
    assert found.passed_per_s == pytest.approx(50, rel=0.16)
    assert found.passed_per_s < 50
    assert found.failed_per_s is not None
    assert found.failed_per_s > 50


def test_a_budget_that_was_not_enough_is_not_said_to_be() -> None:
    rng = np.random.default_rng(4)
    rule = SearchRule(tolerance=0.15, max_seconds=20.0, min_seconds=0.2)
    found = find_saturation(lambda rate: Stepping(rate, rng), 69.8, Stepping.BOUNDS, rule)
    assert not found.confirmed
    told = re.search(r"a budget of about (\S+) s would decide it", found.note)
    assert told is not None
    assert 28 <= float(told[1]) < 600


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
    assert found.note == "no rate was shown to fail up to the completion-rate ceiling"
    assert found.goodput_per_s() == 100.0


def test_near_the_ceiling_an_ordinary_probe_is_not_believed() -> None:
    # At the ceiling 750 requests are taken to hang together; 300 such stretches show a p99: 280,000 with the start-up.
    rule = SearchRule(max_requests=270_000)
    found = by_formula(lambda rate: [0.0], [LatencyBound(1.0, 0.01)], 100.0, rule)
    assert found.passed_per_s is not None
    assert 93 < found.passed_per_s < 100
    assert found.undecided_per_s is not None
    assert (found.failed_per_s, found.failed_outcome) == (None, None), "what is not decided bounds nothing"


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


def test_a_budget_of_minutes_is_written_as_people_write_it() -> None:
    rule = SearchRule(max_seconds=150.0)
    found = by_formula(lambda rate: [min(1.0, 0.001 * (rate / 5) ** 20)], [LatencyBound(1.0, 0.001)], 10.0, rule)
    assert not found.confirmed
    told = re.search(r"a budget of about (\S+) s would decide it", found.note)
    assert told is not None
    assert told[1].isdigit(), "1.6e+03 s says nothing to most"


def test_the_budget_is_kept_and_said() -> None:
    rule = SearchRule(max_seconds=15.0)
    found = by_formula(lambda rate: [min(1.0, 0.01 * (rate / 50) ** 20)], [LatencyBound(1.0, 0.01)], 100.0, rule)
    assert not found.confirmed
    assert "a budget of about" in found.note
    # A probe that has begun ends with its first look; none is lengthened beyond the budget.
    first = fewest_requests([LatencyBound(1.0, 0.01)], rule.confidence)
    assert found.seconds <= 15.0 + first / min(p.rate_per_s for p in found.probes)


def test_every_probe_lasts_as_long_as_asked() -> None:
    rule = SearchRule(min_seconds=30.0)
    found = by_formula(lambda rate: [min(1.0, 0.05 * (rate / 50) ** 20)], [LatencyBound(1.0, 0.05)], 100.0, rule)
    assert min(p.seconds for p in found.probes) >= 30.0


def test_the_curve_and_the_goodput_belong_to_the_claim() -> None:
    found = by_formula(lambda rate: [min(1.0, 0.05 * (rate / 50) ** 20)], [LatencyBound(1.0, 0.05)], 100.0)
    rates = [point.rate_per_s for point in found.curve()]
    assert rates == sorted(set(rates))
    assert found.passed_per_s in rates
    goodput = found.goodput_per_s()
    assert goodput is not None
    assert goodput == pytest.approx(found.passed_per_s, rel=0.06)
    assert goodput < (found.passed_per_s or 0)


def test_the_rarest_disturbance_that_could_have_been_seen_is_said() -> None:
    found = by_formula(lambda rate: [min(1.0, 0.05 * (rate / 50) ** 20)], [LatencyBound(1.0, 0.05)], 100.0)
    asked = [p.seconds for p in found.probes if p.rate_per_s == found.passed_per_s and not p.scout]
    assert len(asked) >= 2, "a claim and its follow-up"
    assert found.watched_s == pytest.approx(sum(asked))
    assert found.watched_s >= 118
    assert found.rarest_s == pytest.approx(sum(asked) / 3)
    nothing = by_formula(lambda rate: [0.5], [LatencyBound(1.0, 0.01)], 100.0, SearchRule(max_probes=12))
    assert nothing.rarest_s is None


def test_a_wide_tolerance_takes_fewer_probes() -> None:
    late: Callable[[float], list[float]] = lambda rate: [min(1.0, 0.01 * (rate / 50) ** 20)]  # noqa: E731
    exact, rough = (by_formula(late, [LatencyBound(1.0, 0.01)], 100.0, SearchRule(tolerance=t)) for t in (0.05, 0.4))
    assert rough.confirmed
    assert rough.passed_per_s is not None
    assert rough.failed_per_s is not None
    assert 30 < rough.passed_per_s < 50
    assert rough.failed_per_s / rough.passed_per_s <= 1.4001
    assert len(rough.probes) < len(exact.probes), "a claim is watched for as long, but fewer rates are asked"


class Even:
    """A share of its requests is late, evenly and without any chance; it keeps the requests at each look."""

    def __init__(self, rate_per_s: float, late: float) -> None:
        self.rate_per_s, self.late, self.looks = rate_per_s, late, [0]

    def take(self, requests: int) -> Float64:
        numbers = np.arange(self.looks[-1], self.looks[-1] + requests)
        self.looks.append(self.looks[-1] + requests)
        return np.where(np.floor(self.late * (numbers + 1)) > np.floor(self.late * numbers), 5.0, 0.5)

    def end(self) -> float:
        return self.looks[-1] / self.rate_per_s


def evenly(late: Callable[[float], float]) -> tuple[Saturation, list[list[int]]]:
    """A search for a p95, and the requests at the looks of each of its probes."""
    started: list[Even] = []

    def start(rate_per_s: float) -> Even:
        started.append(Even(rate_per_s, late(rate_per_s)))
        return started[-1]

    return find_saturation(start, 100.0, LatencyBound(1.0, 0.05)), [stream.looks[1:] for stream in started]


def test_a_verdict_that_is_there_is_not_waited_for_until_twice_the_requests() -> None:
    found, looks = evenly(lambda rate: min(1.0, 0.05 * (rate / 50) ** 20))
    assert found.confirmed
    probes = [sizes for probe, sizes in zip(found.probes, looks, strict=True) if not probe.scout]
    assert all(len(sizes) > 2 for sizes in probes), "a verdict is held against what half of its requests said"
    for sizes in probes:
        assert np.all(np.array(sizes[1:]) / np.array(sizes[:-1]) < 1.42)
    passed = [sizes for probe, sizes in zip(found.probes, looks, strict=True) if probe.outcome is ProbeOutcome.PASS]
    assert passed
    assert all(len(sizes) % 2 == 1 for sizes in passed), "looks between doublings may fail a rate, never pass it"


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
