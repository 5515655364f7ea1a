"""What all probes say together: contradictions are pooled, luck is not believed, and costs are foreseen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from lynxbench.load.saturation_judge import Confidence, LatencyBound, ProbeOutcome, Share
from lynxbench.load.saturation_pool import SeenRates, effective_to_fail, effective_to_pass
from lynxbench.load.saturation_result import Judged
from lynxbench.model.interval import Interval

BOUND = LatencyBound(1.0, 0.01)


def share(late: float, counted: int, memory: float = 1.0) -> Share:
    interval = Interval(late, late, late)
    return Share(BOUND, interval, counted / memory, memory, seen=True, settled=True, counted=counted)


def probe(rate_per_s: float, each: Share, outcome: ProbeOutcome = ProbeOutcome.UNDECIDED) -> Judged:
    return Judged(
        rate_per_s, outcome, "", False, each.counted, each.counted / rate_per_s, (each,), 0.1, 0.5, rate_per_s
    )


def seen(*probes: tuple[float, Share]) -> SeenRates:
    return SeenRates(100.0, (BOUND,), Confidence(), [probe(rate, each) for rate, each in probes])


def test_probes_of_one_rate_are_one_sample() -> None:
    (together,) = seen((50.0, share(0.004, 4000)), (50.0, share(0.006, 4000))).pooled(50.0)
    assert together.interval.estimate == pytest.approx(0.005)
    assert together.counted == 8000
    assert together.interval.high < 0.01


def test_a_lower_rate_that_met_more_late_requests_contradicts() -> None:
    rates = seen((40.0, share(0.08, 2000)), (50.0, share(0.001, 8000)), (60.0, share(0.2, 2000)))
    (together,) = rates.pooled(50.0)
    assert together.counted == 8000, "another rate's requests are no evidence that this one holds"
    assert together.interval.estimate == pytest.approx((0.08 * 2000 + 0.001 * 8000) / 10_000)
    assert together.interval.high > 0.01


def test_a_lower_rate_lends_nothing_to_a_short_probe() -> None:
    (together,) = seen((30.0, share(0.002, 20_000)), (60.0, share(0.0, 400, memory=300.0))).pooled(60.0)
    assert together.effective < 2
    assert together.interval.high > 0.5


def test_probes_that_differ_by_more_than_chance_are_worth_little() -> None:
    alike = seen((50.0, share(0.005, 8000)), (50.0, share(0.005, 8000))).pooled(50.0)[0]
    apart = seen((50.0, share(0.0, 8000)), (50.0, share(0.01, 8000))).pooled(50.0)[0]
    assert alike.interval.estimate == pytest.approx(apart.interval.estimate)
    assert apart.effective < alike.effective / 10
    assert alike.interval.high < 0.01 < apart.interval.high


def test_a_probe_under_way_counts() -> None:
    rates = seen((50.0, share(0.0, 4000)))
    (together,) = rates.pooled(50.0, (share(0.02, 4000),))
    assert together.interval.estimate == pytest.approx(0.01)
    assert len(rates.probes) == 1


def test_a_verdict_takes_more_requests_near_the_capacity() -> None:
    rates = seen((48.0, share(0.004, 20_000)), (52.0, share(0.025, 20_000)))
    capacity = rates.estimate().rate_per_s
    passing = [rates.cost_to_pass(capacity * factor) for factor in (0.99, 0.97, 0.9)]
    failing = [rates.cost_to_fail(capacity * factor) for factor in (1.01, 1.03, 1.1)]
    assert passing == sorted(passing, reverse=True)
    assert failing == sorted(failing, reverse=True)
    assert math.isinf(rates.cost_to_pass(capacity * 1.01))
    assert math.isinf(rates.cost_to_fail(capacity * 0.99))


def test_a_rate_that_failed_once_and_not_again_does_not_fail() -> None:
    rates = seen((40.0, share(0.002, 8000)))
    rates.probes.append(probe(50.0, share(0.03, 2000), ProbeOutcome.FAIL))
    assert rates.fails(40.0) == [50.0]
    rates.probes.append(probe(50.0, share(0.004, 20_000)))
    assert rates.fails(40.0) == []
    assert rates.undecided(40.0) == [50.0]
    assert not rates.has_passed(50.0)


def far(counted: int, memory: float, *, tail: float = 0.002, settled: bool = False) -> Share:
    """None late, the limit far away, and a memory that the window was too short for."""
    return replace(share(0.0, counted, memory), tail=tail, settled=settled, seen=settled)


def test_the_nearer_a_far_limit_is_the_more_correlation_times_it_costs() -> None:
    costs = [seen((40.0, far(200, memory=30.0, tail=tail))).cost_to_pass(40.0) * 0.8 / 30.0 for tail in (0.002, 0.02)]
    assert costs[0] == pytest.approx(5.0), "as few as are heard"
    assert costs[1] == pytest.approx(math.sqrt(20 * math.log(20) / -math.log1p(-0.01 / 0.05)), rel=1e-6)
    near = seen((40.0, far(200, memory=30.0, tail=1.0))).cost_to_pass(40.0) * 0.8 / 30.0
    assert near > 20, "and one that is not far, as many as show the time whole"


def test_requests_that_run_at_once_hang_together_for_about_as_long_at_a_lower_rate() -> None:
    rates = seen((85.0, far(400, memory=30.0)))
    high, low = (rates.cost_to_pass(rate) / rate for rate in (85.0, 42.5))
    assert high / low == pytest.approx(0.575 / 0.15, rel=0.02), "a queue's memory would fall by the square of it"


def test_two_windows_see_a_memory_whole_that_each_alone_is_too_short_for() -> None:
    def windows(*each: tuple[int, float]) -> Share:
        return seen(*((40.0, far(counted, memory, tail=1.0)) for counted, memory in each)).pooled(40.0)[0]

    assert windows((450, 40.0), (450, 45.0)).settled
    assert not windows((450, 20.0), (450, 45.0)).settled, "the second found it more than half as long again"
    assert not windows((800, 45.0), (100, 45.0)).settled, "a short window agrees with everything"


def test_windows_of_a_far_limit_are_worth_what_the_longest_time_among_them_makes_of_all() -> None:
    (together,) = seen((40.0, far(200, memory=20.0)), (40.0, far(250, memory=45.0))).pooled(40.0)
    assert together.settled
    assert together.correlation_requests == 45.0
    assert together.effective >= (450 / 45) ** 2 / 20
    (few,) = seen((40.0, far(90, memory=20.0)), (40.0, far(90, memory=45.0))).pooled(40.0)
    assert not few.settled, "four times is too little to be heard"
    floored = replace(far(300, memory=2.0, settled=True), effective=10.0)
    (busy,) = seen((90.0, floored), (90.0, floored)).pooled(90.0)
    assert busy.effective == pytest.approx(600 / 30), "as many as the memory of a server so busy allows"


def test_lateness_anywhere_ends_what_distance_says_of_the_capacity() -> None:
    quiet = seen((40.0, far(300, memory=30.0)), (60.0, far(300, memory=30.0))).estimate().rate_per_s
    late = seen((40.0, far(300, memory=30.0)), (60.0, share(0.05, 300, memory=30.0))).estimate().rate_per_s
    assert quiet > 70
    assert late < 62


def test_a_scout_that_passes_is_evidence_until_a_probe_does() -> None:
    rates = seen()
    rates.probes.append(replace(probe(40.0, far(300, memory=10.0), ProbeOutcome.PASS), scout=True))
    assert rates.estimate().rate_per_s > 60, "the next is asked higher, not the same rate again"


def test_what_a_probe_takes_beside_its_arrivals_is_told_from_all_of_them() -> None:
    rates = seen((40.0, share(0.0, 400)), (50.0, share(0.0, 500)), (60.0, share(0.0, 600)))
    rates.probes[:] = [
        replace(each, seconds=each.seconds + extra) for each, extra in zip(rates.probes, (3, 4, 9), strict=True)
    ]
    assert rates.beside_s() == pytest.approx(4.0)
    assert seen().beside_s() == 0.0


def test_a_lost_claim_makes_the_next_one_harder() -> None:
    rates = seen((50.0, share(0.006, 4000)))
    (before,) = rates.pooled(50.0)
    rates.lost.append(55.0)
    assert rates.pooled(50.0)[0].interval.high > before.interval.high


def test_windows_that_missed_a_bound_under_a_rate_speak_against_it() -> None:
    rates = seen(
        (40.0, share(0.002, 4000)),  # the claim
        (44.0, share(0.03, 4400)),  # missed: 100 s
        (46.0, share(0.004, 4600)),  # met: says nothing
        (50.0, share(0.05, 5000)),  # missed: 100 s
        (60.0, share(0.9, 60_000)),  # a higher rate says nothing about a lower one
    )
    rates.probes.append(replace(probe(45.0, share(0.5, 4500)), scout=True))
    assert rates.missed_s(40.0, 50.0) == pytest.approx(200.0)
    assert rates.missed_s(40.0, 44.0) == pytest.approx(100.0)
    assert rates.missed_s(44.0, 50.0) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("share_late", "decides"), [(0.0, effective_to_pass), (0.005, effective_to_pass), (0.02, effective_to_fail)]
)
def test_effective_requests_that_decide(share_late: float, decides: Callable[..., float]) -> None:
    needed = decides(share_late, BOUND, 0.05)
    assert 50 < needed < 5000
    assert math.isinf(decides(0.01, BOUND, 0.05))
