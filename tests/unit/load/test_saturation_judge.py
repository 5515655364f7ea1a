"""What one probe says: pass, fail, undecided, and on how many effective requests."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.load.saturation_judge import (
    FAR_TIMES,
    FEWEST_TIMES,
    Confidence,
    LatencyBound,
    Look,
    ProbeOutcome,
    correlation_requests,
    far_times,
    far_worth,
    fewest_requests,
    judge,
    memory_at_bound,
    prospect,
    unseen_tail,
)
from lynxbench.model.samples import Float64

BOUND = LatencyBound(1.0, 0.05)


def independent(count: int, late: float, seed: int = 0) -> Float64:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(count) < late, 2.0, rng.uniform(0.1, 0.9, count)).reshape(-1, 1)


def looked(latencies: Float64, bound: LatencyBound = BOUND, utilisation: float = 0.0) -> Look:
    half = judge(latencies[: len(latencies) // 2], (bound,), utilisation=utilisation)
    return judge(latencies, (bound,), utilisation=utilisation, before=half)


def test_few_late_pass_many_fail_and_as_many_as_allowed_are_undecided() -> None:
    assert looked(independent(4000, 0.02)).outcome is ProbeOutcome.PASS
    assert looked(independent(4000, 0.09)).outcome is ProbeOutcome.FAIL
    assert looked(independent(4000, 0.05)).outcome is ProbeOutcome.UNDECIDED


def test_too_few_requests_decide_nothing() -> None:
    assert looked(independent(40, 0.0)).outcome is ProbeOutcome.UNDECIDED


def test_the_first_look_never_passes() -> None:
    # The correlation time has to be seen twice: one that still grows has not been seen whole.
    assert judge(independent(4000, 0.0), (BOUND,)).outcome is ProbeOutcome.UNDECIDED


def test_misses_that_come_together_count_for_less() -> None:
    together = np.full(8000, 0.5)
    for start in (2500, 4700, 7000):
        together[start : start + 80] = 2.0
    apart = np.full(8000, 0.5)
    apart[::33] = 2.0
    alike = LatencyBound(1.0, 0.05)
    assert correlation_requests(together, alike) > 20 * correlation_requests(apart, alike)
    assert looked(together.reshape(-1, 1)).shares[0].effective < 400


def test_a_probe_with_few_misses_is_judged_as_if_it_had_as_many_as_allowed() -> None:
    assert memory_at_bound(0.02, 0.01) == 1.0
    assert memory_at_bound(0.01, 0.01) == 1.0
    assert memory_at_bound(0.0025, 0.0625) == pytest.approx(memory_at_bound(0.0, 0.0625))
    assert memory_at_bound(0.01**1.2, 0.01) == pytest.approx(1.44)
    assert memory_at_bound(0.0, 0.01) == memory_at_bound(0.002, 0.01) < 2


def test_blocks_see_a_memory_that_scatter_hides() -> None:
    """Waits that hang together over thousands of requests, under service times ten times as scattered."""
    rng = np.random.default_rng(2)
    steps, memory = rng.normal(size=400_000), 2000.0
    keep = math.exp(-2 / memory)  # an autoregression with an integrated time of 2000 requests
    slow = np.empty_like(steps)
    value = 0.0
    for place, step in enumerate(steps.tolist()):
        value = keep * value + step
        slow[place] = value
    slow *= math.sqrt(1 - keep**2)
    latencies = 10 + 0.3 * slow + rng.normal(size=len(slow))
    bound = LatencyBound(float(np.quantile(latencies, 0.99)), 0.01)
    share_of_slow = 0.3**2 / (1 + 0.3**2)
    assert correlation_requests(latencies, bound) > 0.2 * memory * share_of_slow


def test_the_first_look_comes_when_it_could_pass() -> None:
    sure = Confidence(pass_error=0.06)
    few, many = (fewest_requests([LatencyBound(1.0, share)], sure) for share in (0.2, 0.01))
    assert few == 30
    assert many * 0.8 >= math.log(0.06) / math.log(0.99)
    assert many < 2 * math.log(0.06) / math.log(0.99)
    assert fewest_requests([LatencyBound(1.0, 0.2), LatencyBound(1.0, 0.01)], sure) == many


def test_a_high_utilisation_needs_a_longer_probe() -> None:
    latencies = independent(1600, 0.0)
    assert looked(latencies).outcome is ProbeOutcome.PASS
    assert looked(latencies, utilisation=0.95).outcome is ProbeOutcome.UNDECIDED


def test_a_queue_that_only_grows_fails_early() -> None:
    rising = np.linspace(0.05, 6.0, 400) + np.random.default_rng(1).uniform(0, 0.05, 400)
    look = judge(rising.reshape(-1, 1), (BOUND,))
    assert look.outcome is ProbeOutcome.FAIL
    assert "only grows" in look.why


def test_the_fill_up_of_long_answers_does_not_count() -> None:
    """Ten requests a second and answers of 15 s: 150 requests are sent before the first is answered."""
    latencies = np.full((400, 1), 15.0)
    (whole,) = judge(latencies, (LatencyBound(20.0, 0.05),)).shares
    (filled,) = judge(latencies, (LatencyBound(20.0, 0.05),), rate_per_s=10.0).shares
    (longer,) = judge(latencies, (LatencyBound(20.0, 0.05),), rate_per_s=100.0).shares
    assert (whole.counted, filled.counted, longer.counted) == (320, 250, 200)


def test_a_limit_that_is_far_away_needs_fewer_requests() -> None:
    latencies = np.random.default_rng(3).uniform(0.18, 0.22, (400, 1))
    near, far = LatencyBound(0.25, 0.01), LatencyBound(2.0, 0.01)
    assert looked(latencies, near, utilisation=0.8).outcome is ProbeOutcome.UNDECIDED
    assert looked(latencies, far, utilisation=0.8).outcome is ProbeOutcome.PASS
    assert looked(latencies, far, utilisation=0.95).outcome is ProbeOutcome.UNDECIDED
    assert looked(latencies[:120], far).outcome is ProbeOutcome.UNDECIDED, "errors would not show in so few"
    late = latencies.copy()
    late[200] = 3.0
    assert looked(late, far).outcome is ProbeOutcome.UNDECIDED
    assert unseen_tail(latencies[:, 0], 0.23) == 1.0
    tails = [unseen_tail(latencies[:, 0], limit) for limit in (0.23, 0.25, 0.3, 0.5, 2.0)]
    assert tails == sorted(tails, reverse=True), "the farther the limit, the less lies beyond it"
    assert tails[1] > 0.25, "a limit hardly beyond the slowest is hardly any evidence"
    assert 0 < tails[-1] < 0.01
    for next_to_nothing in (0.0, 5e-324, 1e-300):
        assert 0 < unseen_tail(np.full(50, next_to_nothing), 2.0) <= 1, "however far the limit is"


def test_the_tail_assumed_is_heavier_than_that_of_what_servers_do() -> None:
    rng = np.random.default_rng(11)
    laws = (rng.standard_exponential, rng.standard_normal, lambda size: rng.lognormal(0, 0.8, size))
    for law in laws:
        seen, unseen = 0.2 + 0.02 * np.abs(law(1000)), 0.2 + 0.02 * np.abs(law(1_000_000))
        slower = unseen[unseen > seen.max()]
        for limit in seen.max() + np.array([0.1, 0.2, 0.4]):
            assert (slower > limit).mean() <= unseen_tail(seen, float(limit))


def waves(count: int, period: int, low: float = 0.010, high: float = 0.014) -> Float64:
    """Latencies that rise and fall together, as those of requests do that share a batch."""
    rng = np.random.default_rng(5)
    level = np.repeat(rng.uniform(low, high, math.ceil(count / period)), period)[:count]
    return np.asarray(level[:, None] + rng.normal(0, 1e-4, (count, 1)))


def test_a_far_limit_makes_up_for_a_correlation_time_that_was_not_seen_twenty_times() -> None:
    bound = LatencyBound(0.05, 0.05, "time-per-token")
    (share,) = looked(waves(1000, 60), bound, utilisation=0.7).shares
    times = share.counted / share.correlation_requests
    assert FAR_TIMES <= times < FEWEST_TIMES
    assert share.effective == pytest.approx(far_worth(times)), "worth less than so many times"
    assert looked(waves(1000, 60), bound, utilisation=0.7).outcome is ProbeOutcome.PASS
    nearer = LatencyBound(0.017, 0.05, "time-per-token")
    assert looked(waves(1000, 60), nearer, utilisation=0.7).outcome is ProbeOutcome.UNDECIDED, "distance is short"
    assert looked(waves(1000, 60), bound, utilisation=0.95).outcome is ProbeOutcome.UNDECIDED, "near the ceiling"
    assert looked(waves(250, 60), bound, utilisation=0.7).outcome is ProbeOutcome.UNDECIDED, "four waves are too few"


def test_a_queue_that_builds_up_is_not_far_inside_its_limit() -> None:
    rng = np.random.default_rng(6)
    rising = 0.02 + np.linspace(0.0, 0.06, 1000)[:, None] + rng.exponential(0.005, (1000, 1))
    assert looked(rising, LatencyBound(1.0, 0.01), utilisation=0.85).outcome is ProbeOutcome.UNDECIDED


def test_effective_requests_and_correlation_times_of_a_far_limit_are_inverse() -> None:
    for times in (6.0, 10.0, 19.0, 20.0, 50.0):
        assert far_times(far_worth(times)) == pytest.approx(times)
    assert far_times(0.5) == FAR_TIMES


def test_what_more_requests_would_come_to() -> None:
    sure = Confidence()
    few, many, even = (looked(independent(400, late)).shares for late in (0.02, 0.08, 0.05))
    assert prospect(few, 0.95, sure, growth=4) is ProbeOutcome.PASS
    assert prospect(many, 0.95, sure, growth=20) is ProbeOutcome.FAIL
    assert prospect(even, 0.95, sure, growth=1) is ProbeOutcome.UNDECIDED


def test_one_of_two_bounds_that_fails_fails_the_probe() -> None:
    both = np.concatenate((independent(4000, 0.0), independent(4000, 0.2, seed=1)), axis=1)
    bounds = (LatencyBound(1.0, 0.05, "latency"), LatencyBound(1.0, 0.05, "time-to-first-token"))
    half = judge(both[:2000], bounds)
    look = judge(both, bounds, before=half)
    assert look.outcome is ProbeOutcome.FAIL
    assert look.why.startswith("time-to-first-token")


def test_later_looks_must_be_surer() -> None:
    levels = [Confidence().to_pass(look) for look in range(1, 9)]
    assert levels == sorted(levels)
    assert len(set(levels)) == len(levels)


def test_infinite_latencies_are_late_and_do_no_harm() -> None:
    latencies = independent(4000, 0.2)
    latencies[latencies > 1] = math.inf
    look = looked(latencies)
    assert look.outcome is ProbeOutcome.FAIL
    assert look.shares[0].interval.estimate == pytest.approx(0.2, abs=0.02)


@pytest.mark.slow
def test_the_capacity_itself_seldom_passes_twice() -> None:
    """M/M/1 at its capacity: a probe that may grow to 51 200 requests passes in few of the seeds."""
    bound = LatencyBound(10.0, 0.01)
    rate = 1 - math.log(100) / 10
    passed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        gaps, services = rng.exponential(1 / rate, 51_200), rng.exponential(1.0, 51_200)
        steps = np.concatenate(([0.0], np.cumsum(services[:-1] - gaps[1:])))
        latencies = (steps - np.minimum.accumulate(steps) + services).reshape(-1, 1)  # Lindley's recursion
        look, count = None, 400
        while count <= 51_200:
            look = judge(latencies[:count], (bound,), utilisation=rate, before=look)
            if look.outcome is not ProbeOutcome.UNDECIDED:
                break
            count *= 2
        passed += look is not None and look.outcome is ProbeOutcome.PASS
    assert passed <= 8
