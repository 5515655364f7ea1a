"""What counts of a load run, on simulated servers whose truth is known."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from lynxbench.measure.load_phases import FILLING, GROWING, find_load_phases, in_flight, phase_of, work_stamps
from lynxbench.model.contract import Protocol
from lynxbench.model.requests import Requests
from lynxbench.model.samples import Phase

START = 5_000_000_000


def protocol(drift: str = "5 %", window: str = "500 ms", limit: str = "60 s") -> Protocol:
    return Protocol.model_validate(
        {"steady": {"drift": drift, "window": window}, "min_duration": "10 s", "limit": limit, "restarts": 1}
    )


def requests(scheduled_s, last_s, *, tokens=1, ok=None, events=None) -> Requests:
    """Whole answers, or streams whose events are given as seconds a row."""
    count = len(scheduled_s)
    rows = np.zeros(0, dtype=np.int64)
    at = np.zeros(0)
    first = np.asarray(last_s)
    if events is not None:
        rows = np.repeat(np.arange(count), [len(e) for e in events])
        at = np.concatenate(events)
        first = np.array([e[0] for e in events])

    def ns(seconds):
        return START + np.round(np.asarray(seconds) * 1e9).astype(np.int64)

    good = np.ones(count, dtype=bool) if ok is None else np.asarray(ok)
    return Requests(
        start_ns=START,
        load_end_ns=int(ns(scheduled_s).max()),
        scheduled_ns=ns(scheduled_s),
        sent_ns=ns(scheduled_s),
        first_token_ns=ns(first),
        last_ns=ns(last_s),
        ok=good,
        output_tokens=np.broadcast_to(np.asarray(tokens, dtype=np.int64), count).copy(),
        input_tokens=np.full(count, 10),
        cached_tokens=np.zeros(count, dtype=np.int64),
        event_row=rows[good[rows]] if len(rows) else rows,
        event_ns=ns(at)[good[rows]] if len(rows) else rows,
        gap_row=np.zeros(0, dtype=np.int64),
        gap_s=np.zeros(0),
    )


def queue(rate_per_s, service_s, servers, duration_s, seed=1):
    """A first-come first-served queue with exponential service."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1 / rate_per_s, int(rate_per_s * duration_s * 2)))
    arrivals = arrivals[arrivals < duration_s]
    free = [0.0] * servers
    ends = []
    for at, service in zip(arrivals, random.exponential(service_s, len(arrivals)), strict=True):
        end = max(at, free[0]) + service
        heapq.heapreplace(free, end)
        ends.append(end)
    return requests(arrivals, np.array(ends))


def test_poisson_noise_is_not_the_servers():
    """Without the arrivals' own noise a light load is soon steady; with it, the same seconds leave it open."""
    light = queue(100, 0.02, 8, 30)
    rule = protocol(limit="30 s")
    without, with_noise = (find_load_phases(light, rule, stationary_open_loop=taken) for taken in (True, False))
    assert without.steady
    assert not with_noise.steady
    narrow, wide = (found.judgement.drift for found in (without, with_noise))
    assert narrow.high - narrow.low < 0.5 * (wide.high - wide.low)


def test_an_overloaded_server_completes_steadily_and_is_not_steady():
    found = find_load_phases(queue(500, 0.02, 8, 30), protocol(), stationary_open_loop=True)
    assert not found.steady
    assert found.reason == GROWING
    assert found.rate_per_s[10:].mean() == pytest.approx(400, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_server_near_its_capacity_is_not_called_overloaded(seed):
    found = find_load_phases(queue(320, 0.02, 8, 30, seed), protocol("10 %"), stationary_open_loop=True)
    assert found.reason != GROWING


def test_a_closed_loop_warms_up_and_the_warm_up_is_left_out():
    speed = np.where(np.arange(4000) < 400, 0.004, 0.002) * np.random.default_rng(2).uniform(0.98, 1.02, 4000)
    ends = np.cumsum(speed) * 4
    closed = requests(ends - speed * 4, ends)
    found = find_load_phases(closed, protocol(), stationary_open_loop=False)
    assert found.steady
    assert 400 * 0.016 < (found.cut_ns - START) / 1e9 < 12
    assert found.rate_per_s[-1] == pytest.approx(125, rel=0.03)
    phases = phase_of(closed, found)
    assert set(phases[-1000:]) == {Phase.STEADY}
    assert phases[0] in (Phase.WARMUP, Phase.TRANSIENT)
    assert found.counted_s == pytest.approx((found.end_ns - found.cut_ns) / 1e9)


def test_tokens_count_when_they_come_out_and_not_when_the_answer_ends():
    streams = requests([0.0, 1.0], [4.0, 5.0], tokens=4, events=[np.array([1.0, 2, 3, 4]), np.array([2.0, 3, 4, 5])])
    stamps, work = work_stamps(streams)
    assert work.sum() == 8
    assert sorted((stamps - START) / 1e9) == [1, 2, 2, 3, 3, 4, 4, 5]


def test_few_completions_widen_the_windows():
    slow = requests(np.arange(0, 40, 1.0), np.arange(0, 40, 1.0) + 0.5)
    found = find_load_phases(slow, protocol(window="100 ms"), stationary_open_loop=True)
    assert found.window_s >= 4
    assert found.verdict.value == "inconclusive"


def test_requests_in_flight_are_counted():
    some = requests([0.0, 1.0, 2.0], [3.0, 1.5, 9.0])
    assert [in_flight(some, START + int(at * 1e9)) for at in (0.5, 1.2, 2.5, 5.0)] == [1, 2, 2, 1]


def answers(rate_per_s, duration_s, middle_s, sigma, factor=lambda along: 1.0, seed=1):
    """A server without a queue: lognormal latencies times a factor of how far the run is."""
    random = np.random.default_rng(seed)
    due = np.cumsum(random.exponential(1 / rate_per_s, int(rate_per_s * duration_s * 2)))
    due = due[due < duration_s]
    took = middle_s * np.exp(sigma * random.standard_normal(len(due))) * factor(due / duration_s)
    return requests(due, due + took)


def judged(loop, duration_s, **options):
    rule = protocol(window="1 s", limit=f"{duration_s} s")
    return find_load_phases(loop, rule, stationary_open_loop=True, **options)


@pytest.mark.parametrize(
    ("factor", "sigma"),
    [
        (lambda along: 1 + along, 0.5),
        (lambda along: 1 + along, 0.01),
        (lambda along: 1 + 0.5 * (along > 0.6), 0.4),
        (lambda along: 1 - 0.5 * along, 0.5),
    ],
)
def test_an_open_loop_whose_latency_moves_is_not_steady(factor, sigma):
    """It completes what arrives all the same."""
    found = [judged(answers(50, 60, 0.1, sigma, factor, seed), 60) for seed in range(10)]
    assert not any(phases.steady for phases in found)
    assert any(phases.reason.startswith("latency") for phases in found)
    before = [judged(answers(50, 60, 0.1, sigma, factor, seed), 60, rules=2) for seed in range(10)]
    assert sum(phases.steady for phases in before) >= 5


def test_an_open_loop_whose_latency_stays_is_steady():
    found = [judged(answers(50, 60, 0.1, 0.5, seed=seed), 60) for seed in range(20)]
    assert sum(phases.steady for phases in found) >= 17


def test_in_the_regime_of_latency_its_drift_is_stated():
    loop = answers(50, 60, 0.1, 0.5)
    completions, latency = (judged(loop, 60, latency_leads=leads).judgement for leads in (False, True))
    assert latency.level.estimate == pytest.approx(0.1, rel=0.2)
    assert completions.level.estimate == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize("duration_s", [60, 120])
@pytest.mark.parametrize("sigma", [0.02, 0.4])
def test_slow_answers_are_no_growing_queue(duration_s, sigma):
    """The fill-up is left out, and with it what made throughput too low."""
    rates = []
    for seed in range(20):
        loop = answers(20, duration_s, 10.0, sigma, seed=seed)
        found = judged(loop, duration_s)
        assert found.reason != GROWING
        assert found.cut_ns - START >= 10e9
        inside = (loop.last_ns > found.cut_ns) & (loop.last_ns <= found.end_ns)
        rates.append(np.count_nonzero(inside) / found.counted_s)
    assert np.mean(rates) == pytest.approx(20, rel=0.03)
    assert judged(answers(20, duration_s, 10.0, sigma), duration_s, rules=2).reason == GROWING


def test_answers_longer_than_half_of_the_run_leave_it_open():
    found = judged(answers(20, 60, 40.0, 0.02), 60)
    assert not found.steady
    assert found.reason != GROWING
    assert found.reason == FILLING or "too short" in found.reason


@pytest.mark.parametrize("load", [1.25, 2.0, 10.0])
def test_a_queue_that_grows_is_found_at_any_overload(load):
    assert judged(queue(load * 80, 0.05, 4, 60), 60).reason == GROWING
