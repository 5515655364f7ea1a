"""Steadiness with known truth: spikes that grow, short series, open loops whose latency moves, and how they fill up.

Series are judged as a run's window means are; open loops as the records of a served run, from simulated servers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import numpy as np
from scipy.signal import lfilter

from lynxbench.measure.load_phases import GROWING, LoadPhases, find_load_phases
from lynxbench.model.contract import Protocol
from lynxbench.model.requests import Requests
from lynxbench.stats.steady import SteadyVerdict, judge_steady
from truth_promise import Promise

Floats = np.ndarray
Series = Callable[[np.random.Generator], Floats]
Loop = Callable[[np.random.Generator], Requests]
POINTS = 600
ALONG = np.arange(POINTS) / POINTS
START_NS = 5_000_000_000
QUEUES = 10
"""Simulated runs are divided by this for queues whose requests are followed one by one."""


# --- series ----------------------------------------------------------------------------------------------------------


def noise(rng: np.random.Generator, points: int = POINTS, phi: float = 0.5, sigma: float = 0.01) -> Floats:
    """AR(1) noise with marginal deviation sigma."""
    shocks = rng.standard_normal(points + 100) * sigma * np.sqrt(1 - phi**2)
    return np.asarray(lfilter([1.0], [1.0, -phi], shocks)[100:])


def of_level(level: Floats, phi: float = 0.5, sigma: float = 0.01) -> Series:
    """A level under the usual noise."""
    return lambda rng: level * (1 + noise(rng, level.size, phi, sigma))


def spikes(chance: Floats, size: Floats, *, spread: float = 0.0) -> Series:
    """Points that stand out by `size` of the level, each with its own chance; their sizes may scatter."""

    def draw(rng: np.random.Generator) -> Floats:
        height = size * np.exp(spread * rng.standard_normal(POINTS) - spread**2 / 2)
        return np.asarray(1 + noise(rng) + height * (rng.random(POINTS) < chance))

    return draw


def pauses(spacing: Floats, size: Floats) -> Series:
    """Spikes as a collector of garbage makes them: regular but for a quarter of the spacing, which may change."""

    def draw(rng: np.random.Generator) -> Floats:
        series, place = 1 + noise(rng), rng.uniform(0, spacing[0])
        while place < POINTS:
            series[int(place)] += size[int(place)]
            place += spacing[int(place)] * rng.uniform(0.75, 1.25)
        return np.asarray(series)

    return draw


def heavy(rng: np.random.Generator) -> Floats:
    """A flat level under Student's noise with three degrees of freedom."""
    return np.asarray(1 + 0.01 * rng.standard_t(3, POINTS) / np.sqrt(3))


def two_levels(rng: np.random.Generator) -> Floats:
    """A level that jumps by 5 % three times, twice of them in the last half, and stays."""
    jumps = rng.uniform([0.25, 0.55, 0.8], [0.45, 0.75, 0.93])
    return np.asarray(1 + 0.05 * (np.searchsorted(jumps, ALONG) % 2) + noise(rng))


def late_spike(rng: np.random.Generator) -> Floats:
    """One point of 3× in the last tenth."""
    series = 1 + noise(rng)
    series[rng.integers(540, 599)] *= 3
    return np.asarray(series)


def short_step(first: int, size: float = 0.08, points: int = 12, sigma: float = 0.01) -> Series:
    """Few points whose last ones lie higher, white noise of 1 %."""
    return lambda rng: 1 + size * (np.arange(points) >= first) + sigma * rng.standard_normal(points)


CHANGING: dict[str, tuple[Series, float, float]] = {
    "regular spikes grow 0 to 60 % (+2.4 % of the mean)": (pauses(np.full(POINTS, 25), 0.6 * ALONG), 0.01, 0.05),
    "regular spikes grow 0 to 100 % (+4 %)": (pauses(np.full(POINTS, 25), ALONG), 0.01, 0.05),
    "random spikes grow 0 to 80 % (+2.4 %)": (spikes(np.full(POINTS, 0.03), 0.8 * ALONG), 0.01, 0.05),
    "random spikes grow 0 to 100 % (+4 %)": (spikes(np.full(POINTS, 0.04), ALONG), 0.01, 0.05),
    "pauses come denser, 100 to 20 points (+4 %)": (pauses(100 - 80 * ALONG, np.ones(POINTS)), 0.01, 0.05),
    "pauses come denser, 60 to 25 points (+2.4 %)": (pauses(60 - 35 * ALONG, np.ones(POINTS)), 0.01, 0.05),
    "spikes only in the last half, 6 %": (spikes(0.06 * (ALONG >= 0.5), np.ones(POINTS)), 0.01, 0.05),
    "regular spikes fade from 100 %": (pauses(np.full(POINTS, 25), 1 - ALONG), 0.01, 0.05),
    "sawtooth of 5 %, three teeth": (of_level(1 + 0.05 * ((3 * ALONG) % 1)), 0.01, 0.05),
    "up and down by 4 %": (of_level(1 + 0.04 * (1 - np.abs(2 * ALONG - 1))), 0.01, 0.05),
    "two levels 5 % apart": (two_levels, 0.01, 0.05),
    "slow warm-up of 20 %, τ two thirds of the run": (of_level(1 - 0.2 * np.exp(-ALONG * 1.5)), 0.01, 0.01),
    "drift of 2 % under heavy noise": (lambda rng: heavy(rng) * (1 + 0.02 * ALONG), 0.01, 0.05),
    **{f"12 points, ±5 %, 8 % step at point {n + 1}": (short_step(n), 0.05, 0.01) for n in (7, 8, 9, 10, 11)},
    **{
        f"12 points, ±5 %, 8 % step at point {n + 1}, noise 2 %": (short_step(n, sigma=0.02), 0.05, 0.01)
        for n in (7, 8, 9, 10)
    },
    "20 points, ±5 %, 8 % step at point 19": (short_step(18, points=20), 0.05, 0.01),
    "16 points, ±5 %, 8 % step at point 15": (short_step(14, points=16), 0.05, 0.01),
}
"""Name: the series, the bound it is judged by, and the largest share of `steady`."""
FLAT: dict[str, tuple[Series, float, float]] = {
    "flat": (of_level(np.ones(POINTS)), 0.01, 0.95),
    "stationary random spikes of 80 %, 3 % of the points": (
        spikes(np.full(POINTS, 0.03), np.full(POINTS, 0.8)), 0.01, 0.90,
    ),
    "stationary random spikes of scattered sizes": (
        spikes(np.full(POINTS, 0.03), np.full(POINTS, 0.8), spread=0.7), 0.01, 0.90,
    ),
    "stationary pauses every 25 points": (pauses(np.full(POINTS, 25), np.ones(POINTS)), 0.01, 0.90),
    "few stationary spikes of 400 %": (spikes(np.full(POINTS, 0.008), np.full(POINTS, 4.0)), 0.01, 0.90),
    "one late point of 3×": (late_spike, 0.01, 0.90),
    "heavy noise": (heavy, 0.01, 0.95),
    "12 flat points, ±5 %": (lambda rng: 1 + 0.01 * rng.standard_normal(12), 0.05, 0.80),
    "20 flat points, ±5 %": (lambda rng: 1 + 0.01 * rng.standard_normal(20), 0.05, 0.95),
}  # fmt: skip
"""Name: the series, its bound, and the least share of `steady`."""


def judge_series(seed: int, runs: int) -> Iterator[Promise]:
    """What is called steady, over series that change and series that do not."""
    for number, (name, (draw, bound, share)) in enumerate([*CHANGING.items(), *FLAT.items()]):
        rng = np.random.default_rng([seed, number])
        verdicts = [judge_steady(draw(rng), drift_bound=bound).verdict for _ in range(runs)]
        steady = sum(verdict is SteadyVerdict.STEADY for verdict in verdicts) / runs
        yield _at_most(name, "steady", steady, share) if name in CHANGING else _at_least(name, "steady", steady, share)


# --- open loops ------------------------------------------------------------------------------------------------------


def record(due_s: Floats, took_s: Floats, drain_s: float = 60.0) -> Requests:
    """Whole answers at these latencies; what the drain bound ended was never answered."""
    count = len(due_s)
    none = np.zeros(0, dtype=np.int64)
    due = START_NS + np.round(due_s * 1e9).astype(np.int64)
    last = due + np.round(took_s * 1e9).astype(np.int64)
    ok = last <= due[-1] + round(drain_s * 1e9)
    last = np.minimum(last, due[-1] + round(drain_s * 1e9))
    unknown = np.full(count, -1)
    return Requests(
        START_NS, int(due[-1]), due, due, last, last, ok, unknown, unknown, unknown, none, none, none, np.zeros(0)
    )


def arrivals(rng: np.random.Generator, rate: float, duration_s: float, cv: float = 1.0) -> Floats:
    """Moments of a renewal process: Poisson, or gamma with another coefficient of variation."""
    gaps = rng.gamma(1 / cv**2, cv**2 / rate, int(rate * duration_s * 2 + 50))
    due = np.cumsum(gaps)
    return np.asarray(due[due < duration_s])


def answers(
    rate: float,
    duration_s: float,
    law: Callable[[np.random.Generator, int], Floats],
    factor: Callable[[Floats], Floats],
    cv: float = 1.0,
    drain_s: float = 60.0,
) -> Loop:
    """A server without a queue: latencies of a law times a factor that depends on how far the run is."""

    def draw(rng: np.random.Generator) -> Requests:
        due = arrivals(rng, rate, duration_s, cv)
        return record(due, law(rng, due.size) * factor(due / duration_s), drain_s)

    return draw


def lognormal(middle_s: float, sigma: float) -> Callable[[np.random.Generator, int], Floats]:
    """Latencies about a median."""
    return lambda rng, count: middle_s * np.exp(sigma * rng.standard_normal(count))


def exponential(mean_s: float) -> Callable[[np.random.Generator, int], Floats]:
    """Latencies without a typical value."""
    return lambda rng, count: rng.exponential(mean_s, count)


def hits_and_misses(rng: np.random.Generator, count: int) -> Floats:
    """Two modes of latency, 50 ms and 400 ms."""
    return np.asarray(np.where(rng.random(count) < 0.3, 0.4, 0.05) * np.exp(0.1 * rng.standard_normal(count)))


def queue(load: float, servers: int, service_s: float, duration_s: float, *, newest_first: bool = False) -> Loop:
    """Exponential service on some servers at a load of their capacity; the oldest request first, or the newest."""

    def draw(rng: np.random.Generator) -> Requests:
        due = arrivals(rng, load * servers / service_s, duration_s)
        service = rng.exponential(service_s, due.size)
        ends = np.full(due.size, np.inf)
        free, waiting = [0.0] * servers, list[int]()
        for row, at in enumerate(due):
            while newest_first and waiting and free[0] <= at:
                last = waiting.pop()
                ends[last] = max(due[last], free[0]) + service[last]
                heapq.heapreplace(free, ends[last])
            if newest_first and free[0] > at:
                waiting.append(row)
                continue
            ends[row] = max(at, free[0]) + service[row]
            heapq.heapreplace(free, ends[row])
        return record(due, np.minimum(ends - due, 1e4), drain_s=5.0)

    return draw


def same(along: Floats) -> Floats:
    """Nothing changes."""
    return np.ones_like(along)


def tail_grows(rng: np.random.Generator, count: int) -> Floats:
    """A fifth of the requests takes 1.5 times as long at first and 5 times as long at the end; the median stays."""
    slow = np.where(rng.random(count) < 0.2, 1.5 + 3.5 * np.arange(count) / count, 1.0)
    return np.asarray(0.1 * slow * np.exp(0.2 * rng.standard_normal(count)))


MOVING: dict[str, Loop] = {
    "p50 doubles, lognormal": answers(50, 60, lognormal(0.1, 0.5), lambda x: 1 + x),
    "p50 doubles, exponential": answers(50, 60, exponential(0.1), lambda x: 1 + x),
    "p50 doubles, 10 requests/s": answers(10, 120, lognormal(0.3, 0.5), lambda x: 1 + x),
    "p50 doubles, two modes": answers(50, 60, hits_and_misses, lambda x: 1 + x),
    "p50 doubles, constant latency": answers(50, 60, lognormal(0.1, 0.01), lambda x: 1 + x),
    "p50 grows by a half": answers(50, 120, lognormal(0.1, 0.5), lambda x: 1 + 0.5 * x),
    "latency steps up by a half at 60 %": answers(50, 60, lognormal(0.1, 0.5), lambda x: 1 + 0.5 * (x > 0.6)),
    "only the slowest fifth grows": answers(100, 60, tail_grows, same),
    "latency halves": answers(50, 60, lognormal(0.1, 0.5), lambda x: 1 - 0.5 * x),
    "latency is 1.6 times as long in the middle third": answers(
        50, 120, lognormal(0.1, 0.5), lambda x: 1 + 0.6 * ((x > 0.33) & (x < 0.67))
    ),
}
STILL: dict[str, tuple[Loop, float]] = {
    "lognormal latency, 50 requests/s": (answers(50, 60, lognormal(0.1, 0.5), same), 0.90),
    "exponential latency, 100 requests/s": (answers(100, 60, exponential(0.1), same), 0.85),
    "two modes of latency": (answers(100, 60, hits_and_misses, same), 0.85),
    "constant latency": (answers(50, 60, lognormal(0.1, 0.01), same), 0.90),
    "gamma arrivals, lognormal latency": (answers(50, 60, lognormal(0.1, 0.5), same, cv=2.0), 0.90),
    "slow first seconds": (answers(50, 120, lognormal(0.1, 0.4), lambda x: 1 + 2 * np.exp(-x * 40)), 0.70),
}
"""Name: the loop, and the least share of `steady`."""
SLOW: dict[str, tuple[Loop, float]] = {
    "10 s answers, 60 s": (answers(20, 60, lognormal(10, 0.02), same), 20),
    "10 s answers, 120 s": (answers(20, 120, lognormal(10, 0.02), same), 20),
    "10 s answers that scatter, 60 s": (answers(20, 60, lognormal(10, 0.4), same), 20),
    "10 s answers that scatter, 120 s": (answers(20, 120, lognormal(10, 0.4), same), 20),
    "near-constant 20 s answers, 60 s": (answers(20, 60, lognormal(20, 0.01), same), 20),
    "10 s answers, drained for 3 s": (answers(20, 120, lognormal(10, 0.2), same, drain_s=3.0), 20),
    "10 s answers, gamma arrivals": (answers(20, 120, lognormal(10, 0.2), same, cv=2.0), 20),
    "exponential answers of 5 s, 60 s": (answers(20, 60, exponential(5), same), 20),
}
"""Name: the loop, and the rate at which it completes."""
OVERLOADED: dict[str, Loop] = {
    "queue at 1.25 of its capacity": queue(1.25, 8, 0.05, 60),
    "queue at twice its capacity": queue(2.0, 8, 0.05, 60),
    "queue at ten times its capacity": queue(10.0, 4, 0.1, 60),
    "queue at 1.25, newest first": queue(1.25, 8, 0.05, 60, newest_first=True),
    "queue of 2 s answers at 1.4": queue(1.4, 40, 2.0, 120),
}
BUSY: dict[str, Loop] = {"queue at 0.7 of its capacity": queue(0.7, 8, 0.05, 60)}


def phases(requests: Requests, duration_s: float) -> LoadPhases:
    """As a contract with a drift of ±5 % and windows of a second judges it."""
    text = {"steady": {"drift": "5 %", "window": "1 s"}, "min_duration": "10 s", "limit": f"{duration_s} s"}
    return find_load_phases(requests, Protocol.model_validate({**text, "restarts": 1}), stationary_open_loop=True)


def judge_loops(seed: int, runs: int) -> Iterator[Promise]:
    """Open loops whose latency moves or not, that fill up slowly, and whose queue grows."""
    rng = np.random.default_rng([seed, 1000])

    def judged(draw: Loop, repetitions: int) -> list[tuple[Requests, LoadPhases]]:
        records = [draw(rng) for _ in range(repetitions)]
        return [(one, phases(one, (one.load_end_ns - one.start_ns) / 1e9)) for one in records]

    def share(loops: list[tuple[Requests, LoadPhases]], holds: Callable[[LoadPhases], bool]) -> float:
        return sum(holds(judgement) for _, judgement in loops) / len(loops)

    for name, draw in MOVING.items():
        yield _at_most(name, "steady", share(judged(draw, runs), lambda phases: phases.steady), 0.05)
    for name, (draw, least) in STILL.items():
        yield _at_least(name, "steady", share(judged(draw, runs), lambda phases: phases.steady), least)
    for name, (draw, rate) in SLOW.items():
        loops = judged(draw, runs)
        yield _at_most(name, f"“{GROWING}”", share(loops, lambda phases: phases.reason == GROWING), 0.02)
        bias = abs(float(np.mean([_completed_per_s(*loop) for loop in loops])) / rate - 1)
        yield _at_most(name, "throughput off", bias, 0.015)
    queues = max(10, runs // QUEUES)
    for name, draw in OVERLOADED.items():
        found = share(judged(draw, queues), lambda phases: phases.reason == GROWING)
        yield _at_least(name, f"“{GROWING}”", found, 0.95)
    for name, draw in BUSY.items():
        loops = judged(draw, queues)
        yield _at_most(name, f"“{GROWING}”", share(loops, lambda phases: phases.reason == GROWING), 0.05)
        yield _at_least(name, "steady", share(loops, lambda phases: phases.steady), 0.6)


def _completed_per_s(requests: Requests, found: LoadPhases) -> float:
    inside = requests.ok & (requests.last_ns > found.cut_ns) & (requests.last_ns <= found.end_ns)
    return float(np.count_nonzero(inside)) / found.counted_s


def _at_most(name: str, what: str, share: float, bound: float) -> Promise:
    return Promise(name, f"{what} in ≤ {bound:.2%}".replace(".00", ""), share, bound, share <= bound)


def _at_least(name: str, what: str, share: float, bound: float) -> Promise:
    return Promise(name, f"{what} in ≥ {bound:.0%}", share, bound, share >= bound)


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """Series first, then open loops."""
    yield from judge_series(seed, runs)
    yield from judge_loops(seed, runs)
