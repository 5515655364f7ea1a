"""Demand with known truth: logs that are like a contract or are not, and nodes whose capacity Erlang C knows.

A log of one process is fitted to a contract; a second log of the same process must be called alike, one of another
process unlike, and a scale that the log is too short for must be called neither. The capacity of a simulated node is
held against the closed form where there is one, and against a long simulation where there is none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import numpy as np

from lynxbench.model.workload import Workload
from lynxbench.stats.fleets import QueueNode, ServiceForm, node_capacity, simulate_latencies
from lynxbench.stats.queues import capacity
from lynxbench.workload.production import fit_log
from lynxbench.workload.representative import Likeness, Representativeness, distance
from lynxbench.workload.request_log import RequestLog
from truth_promise import Promise, rare_enough, usual_enough

Floats = np.ndarray
Rng = np.random.Generator
FALSE_ALARMS = 0.10
TOLD = 0.95
BIAS = 0.003
MODEL_BIAS = 0.01
"""Of queues without a closed form, whose reference is a simulation of its own with an error of its own."""
HOUR = 3600.0


# --- arrivals --------------------------------------------------------------------------------------------------------


def poisson(rng: Rng, rate: float, span_s: float) -> Floats:
    """A stationary Poisson stream."""
    return np.sort(rng.uniform(0, span_s, rng.poisson(rate * span_s)))


def renewal(rng: Rng, rate: float, span_s: float, variation: float) -> Floats:
    """Gamma gaps."""
    gaps = rng.gamma(1 / variation**2, variation**2 / rate, int(rate * span_s * 1.5 + 200))
    times = np.cumsum(gaps)
    return times[times < span_s]


def varying(rng: Rng, rate_at: Callable[[Floats], Floats], peak: float, span_s: float) -> Floats:
    """A Poisson stream whose rate moves, by thinning."""
    times = poisson(rng, peak, span_s)
    return times[rng.random(len(times)) * peak < rate_at(times)]


def clock(rng: Rng, rate: float, span_s: float) -> Floats:
    """A program's timer with a little jitter."""
    times = (np.arange(int(rate * span_s)) + rng.normal(0, 0.03, int(rate * span_s))) / rate
    return np.sort(np.maximum(times, 0))


def switching(rng: Rng, rates: tuple[float, float], lasts_s: tuple[float, float], span_s: float) -> Floats:
    """Two levels that take turns for exponential times."""
    edges, level, parts = 0.0, 0, []
    while edges < span_s:
        length = float(rng.exponential(lasts_s[level]))
        parts.append(edges + poisson(rng, rates[level], min(length, span_s - edges)))
        edges, level = edges + length, 1 - level
    return np.concatenate(parts)


def in_bursts(rng: Rng, span_s: float, every_s: float = 100.0) -> Floats:
    """40 a second for ten seconds, 4 a second otherwise."""
    offset = rng.uniform(0, every_s)
    return varying(rng, lambda t: np.where((t + offset) % every_s < 10, 40.0, 4.0), 40.0, span_s)


def batches(rng: Rng, rate: float, span_s: float, size: int) -> Floats:
    """Jobs that send several requests within a tenth of a second."""
    return np.sort((poisson(rng, rate / size, span_s)[:, None] + rng.uniform(0, 0.1, size)).ravel())


def waves(rng: Rng, rate: float, span_s: float, period_s: float, swing: float) -> Floats:
    """A rate that goes up and down."""
    start = rng.uniform(0, 2 * np.pi)
    return varying(rng, lambda t: rate * (1 + swing * np.sin(2 * np.pi * t / period_s + start)), 2 * rate, span_s)


def log_of(rng: Rng, arrival: Floats, session: Floats | None = None, duration: Floats | None = None) -> RequestLog:
    """A log with lognormal lengths that never drift: only the arrivals are on trial."""
    count = len(arrival)
    inputs, outputs = (
        np.clip(np.round(median * np.exp(sigma * rng.standard_normal(count))), 1, 8192).astype(np.int64)
        for median, sigma in ((300.0, 0.8), (150.0, 0.6))
    )
    lasts = rng.exponential(2.0, count) if duration is None else duration
    return RequestLog("log", arrival - arrival[0], inputs, outputs, lasts, session, 0)


def workload(log: RequestLog, arrival: dict[str, object] | None = None) -> Workload:
    """The contract's workload fitted to a log, or with arrivals of one's own."""
    keys = fit_log(log).workload_keys() | ({} if arrival is None else {"arrival": arrival})
    body = {"task": "generate", "model": {"source": "served", "name": "m"}, "precisions": ["bf16"], **keys}
    return Workload.model_validate_json(json.dumps(body))


SAME: dict[str, Callable[[Rng], Floats]] = {
    "Poisson, 5 /s for 20 min": lambda rng: poisson(rng, 5, 1200),
    "Poisson, 40 /s for 10 min": lambda rng: poisson(rng, 40, 600),
    "Poisson, 1 /s for 3 h": lambda rng: poisson(rng, 1, 3 * HOUR),
    "Poisson, 0.1 /s for 30 h": lambda rng: poisson(rng, 0.1, 30 * HOUR),
    "Poisson, 3 /s for 5 min": lambda rng: poisson(rng, 3, 300),
    "gamma gaps, cv 1.8": lambda rng: renewal(rng, 5, 1200, 1.8),
    "gamma gaps, cv 0.5": lambda rng: renewal(rng, 5, 1200, 0.5),
    "gamma gaps, cv 3, slow": lambda rng: renewal(rng, 0.5, 4 * HOUR, 3.0),
    "a timer": lambda rng: clock(rng, 5, 1200),
    "Poisson, stamps in whole seconds": lambda rng: np.floor(poisson(rng, 5, 1200)),
    "Poisson, stamps in whole minutes": lambda rng: np.floor(poisson(rng, 2, 6 * HOUR) / 60) * 60,
}
"""Processes that a contract can carry: its second log is like the first."""

OTHER: dict[str, Callable[[Rng], Floats]] = {
    "40 /s for 10 s over 4 /s": lambda rng: in_bursts(rng, 1200),
    "40 /s for 10 s over 4 /s, 10 min": lambda rng: in_bursts(rng, 600),
    "40 /s for 10 s over 4 /s, twice in 20 min": lambda rng: in_bursts(rng, 1200, 600.0),
    "one second on, one second off": lambda rng: varying(rng, lambda t: 16.0 * (t % 2 < 1), 16.0, 1200),
    "minutes of 2 and of 12 /s": lambda rng: switching(rng, (2, 12), (90, 90), HOUR),
    "a flash crowd for a minute": lambda rng: varying(
        rng, lambda t: np.where(abs(t - 1500) < 30, 60.0, 5.0), 60.0, HOUR
    ),
    "the rate doubles halfway": lambda rng: varying(rng, lambda t: np.where(t < 900, 4.0, 8.0), 8.0, 1800),
    "waves of 20 min": lambda rng: waves(rng, 5, 2 * HOUR, 1200, 0.7),
    "days, by half": lambda rng: waves(rng, 0.3, 48 * HOUR, 24 * HOUR, 0.5),
    "batches of 12 requests": lambda rng: batches(rng, 6, 1800, 12),
}
"""Processes that no stationary contract carries; each is held against Poisson arrivals of the same mean."""


def likeness(rng: Rng, arrival: Floats, contract: Workload | None = None) -> Representativeness:
    """A log against a contract; without one, against Poisson arrivals of its mean rate."""
    log = log_of(rng, arrival)
    rate = (len(log) - 1) / log.span_s
    return distance(contract or workload(log, {"process": "poisson", "rate": f"{rate:.6g} /s"}), log)


def _verdict(found: Representativeness, name: str) -> Likeness:
    return next(dimension.verdict for dimension in found.dimensions if dimension.name == name)


def representativeness(rng: Rng, runs: int) -> Iterator[Promise]:
    """Alike and unlike, and what a short log does not show."""
    few = max(20, runs // 10)
    for name, draw in SAME.items():
        called = sum(
            distance(workload(log_of(rng, draw(rng))), log_of(rng, draw(rng))).verdict is Likeness.DIFFERS
            for _ in range(few)
        )
        words = f"a second log of the same process differs in at most {FALSE_ALARMS:.0%}"
        yield Promise(f"alike: {name}", words, called / few, FALSE_ALARMS, rare_enough(called / few, few, FALSE_ALARMS))
    for name, draw in OTHER.items():
        told = sum(likeness(rng, draw(rng)).verdict is Likeness.DIFFERS for _ in range(few))
        words = f"told from Poisson arrivals of the same mean in at least {TOLD:.0%}"
        yield Promise(f"unlike: {name}", words, told / few, TOLD, usual_enough(told / few, few, TOLD))
    fitted = sum(
        distance(workload(log_of(rng, in_bursts(rng, 1200))), log_of(rng, in_bursts(rng, 1200))).verdict
        is Likeness.DIFFERS
        for _ in range(few)
    )
    words = f"a contract fitted to bursts has none, and that is told in at least {TOLD:.0%}"
    yield Promise("unlike: fitted to bursts", words, fitted / few, TOLD, usual_enough(fitted / few, few, TOLD))
    short = [likeness(rng, poisson(rng, 5, 300)) for _ in range(few)]
    agreed = sum(_verdict(found, f"dispersion {s} s") is Likeness.LIKE for found in short for s in (64, 1024, 4096))
    agreed += sum(_verdict(found, "daily shape") is Likeness.LIKE for found in short)
    words = "5 min agree at no scale of a minute or more, and in no day"
    yield Promise("not shown", words, float(agreed), 0.0, agreed == 0)
    yield from _sessions(rng, few)


def _conversations(rng: Rng, turns: int, think_s: float, starts_per_s: float, span_s: float) -> RequestLog:
    """Conversations that open by themselves; an answer, a pause, the next request."""
    opens = poisson(rng, starts_per_s, span_s)
    lasts = rng.exponential(2.0, (len(opens), turns))
    pauses = rng.exponential(think_s, (len(opens), turns))
    begins = opens[:, None] + np.concatenate(
        (np.zeros((len(opens), 1)), np.cumsum(lasts + pauses, axis=1)[:, :-1]), axis=1
    )
    order = np.argsort(begins.ravel(), kind="stable")
    session = np.repeat(np.arange(len(opens)), turns)[order]
    return log_of(rng, begins.ravel()[order], session, lasts.ravel()[order])


def _sessions(rng: Rng, few: int) -> Iterator[Promise]:
    def found(turns: int, think_s: float, asked: tuple[int, float]) -> Representativeness:
        log = _conversations(rng, turns, think_s, 1.0, 1800)
        rate = (len(log) - 1) / log.span_s / asked[0]
        contract = workload(log, {"process": "poisson", "rate": f"{rate:.6g} /s"})
        return distance(contract, log, turns=asked[0], think_s=asked[1])

    same = sum(found(4, 10.0, (4, 10.0 * np.log(2))).verdict is Likeness.DIFFERS for _ in range(few))
    words = f"4 turns with the median pause differ in at most {FALSE_ALARMS:.0%}"
    yield Promise("alike: conversations", words, same / few, FALSE_ALARMS, rare_enough(same / few, few, FALSE_ALARMS))
    for name, dimension, asked in (
        ("conversations asked as single requests", "sessions", (1, 0.0)),
        ("a pause of 10 s asked as 1 s", "think time", (4, 0.7)),
        ("4 turns asked as 8", "sessions", (8, 6.9)),
    ):
        told = sum(_verdict(found(4, 10.0, asked), dimension) is Likeness.DIFFERS for _ in range(few))
        words = f"told in the dimension {dimension} in at least {TOLD:.0%}"
        yield Promise(f"unlike: {name}", words, told / few, TOLD, usual_enough(told / few, few, TOLD))


# --- capacity --------------------------------------------------------------------------------------------------------

CLOSED = ((4, 8.0), (32, 5.5), (32, 12.0), (64, 6.0), (128, 5.0))
"""Slots, and the limit in service times; p99."""
OPEN = (
    ("half as variable", QueueNode(32, ServiceForm.GAMMA, 0.5, 1.0), 3.0, 30.155),
    ("long tails", QueueNode(16, ServiceForm.LOGNORMAL, 1.5, 1.0), 10.0, 15.003),
    ("two kinds of work", QueueNode(32, ServiceForm.HYPEREXPONENTIAL, 2.0, 1.0), 16.0, 31.151),
)
"""Node, limit and its capacity by brute force (`long_capacity`, minutes each)."""


def from_empty(node: QueueNode, limit_s: float, violations: float, rng: Rng) -> float:
    """The capacity as it was found before: 64 queues from empty, the first fifth of 3,000 requests left out."""
    low, high, seed = 0.0, node.ceiling_per_s, int(rng.integers(1 << 31))
    for _ in range(9):
        middle, drawn = (low + high) / 2, np.random.default_rng(seed)
        free, now, late, rows = np.zeros((64, node.slots)), np.zeros(64), 0, np.arange(64)
        for start in range(0, 3000, 1024):
            size = min(1024, 3000 - start)
            gaps = drawn.gamma(1, 1 / middle, (size, 64))
            services = node.services(drawn.random((size, 64)))
            for i in range(size):
                now += gaps[i]
                slot = free.argmin(axis=1)
                begin = np.maximum(now, free[rows, slot])
                free[rows, slot] = begin + services[i]
                late += int((begin - now + services[i] > limit_s).sum()) if start + i >= 500 else 0
        low, high = (middle, high) if late <= violations * 64 * 2500 else (low, middle)
    return low


def long_capacity(node: QueueNode, limit_s: float, guess: float) -> float:
    """The capacity near a guess: 768 queues of 16,000 requests, the first half left out."""
    low, high = 0.985 * guess, 1.015 * guess
    for _ in range(6):
        middle = (low + high) / 2
        spent = simulate_latencies(node, middle, 768, 16_000, np.random.default_rng(77))
        low, high = (middle, high) if (spent[8000:] > limit_s).mean() <= 0.01 else (low, middle)
    return (low + high) / 2


def _mean_error(errors: list[float]) -> tuple[float, float]:
    """The mean of relative errors, and how far chance moves it."""
    return float(np.mean(errors)), float(np.std(errors, ddof=1)) / len(errors) ** 0.5


def capacities(rng: Rng, runs: int) -> Iterator[Promise]:
    """A simulated node's capacity has no bias, and costs no more than before."""
    few = max(6, runs // 20)
    for slots, limit in CLOSED:
        node, truth = QueueNode(slots, ServiceForm.GAMMA, 1.0, 1.0), capacity(1.0, slots, limit, 0.01)
        many = few if slots > 8 else 6 * few  # one search is off by 0.7 % there, and by 0.3 % with more slots
        bias, error = _mean_error([node_capacity(node, limit, 0.01, rng) / truth - 1 for _ in range(many)])
        words = f"mean error against Erlang C at most {BIAS:.1%}"
        name = f"capacity: {slots} slots, limit {limit:g} service times"
        yield Promise(name, words, bias, BIAS, abs(bias) - 3 * error <= BIAS)
    for name, node, limit, truth in OPEN:
        bias, error = _mean_error([node_capacity(node, limit, 0.01, rng) / truth - 1 for _ in range(few)])
        words = f"mean error against a long simulation at most {MODEL_BIAS:.0%}"
        yield Promise(f"capacity: {name}", words, bias, MODEL_BIAS, abs(bias) - 3 * error <= MODEL_BIAS)
    node, spent = QueueNode(32, ServiceForm.GAMMA, 1.0, 1.0), []
    for find in (from_empty, node_capacity):
        took = []
        for _ in range(5):
            began = time.process_time()
            find(node, 5.5, 0.01, rng)
            took.append(time.process_time() - began)
        spent.append(min(took))
    words = "CPU time over that of the simulation from empty at most 1.2"
    yield Promise("capacity: 32 slots", words, spent[1] / spent[0], 1.2, spent[1] <= 1.2 * spent[0])


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """Representativeness, then capacity."""
    rng = np.random.default_rng((seed, 10))
    yield from representativeness(rng, runs)
    yield from capacities(rng, runs)
