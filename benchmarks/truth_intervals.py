"""Percentiles with known truth: processes that differ, slow requests in bursts, heavy tails, ties, few of everything.

A bound that is missing (`unresolved`) holds the truth; so that silence is no way out, lines on resolved shares stand
beside. The truth is the percentile of all requests of all processes that there could be, from two million of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from lynxbench.measure.precision_figures import bounded_percentile, judge_slo
from lynxbench.model.contract import Slo, SloMetric
from lynxbench.model.result import Percentile
from truth_promise import Promise, rare_enough, usual_enough

Floats = np.ndarray
PERCENTILES = (50.0, 95.0, 99.0)
LEAST = 0.90
"""Coverage that a 95 % interval of a percentile never falls under."""
TRUTH_SEED, TRUTH_REQUESTS = 20_261_116, 2_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """Processes as a law: how many of them, how many requests each, and how one of them comes about."""

    name: str
    processes: int
    requests: int
    draw: Callable[[np.random.Generator, int, int], Floats]
    """processes × requests of latencies in milliseconds."""


def levels(rng: np.random.Generator, processes: int, between: float) -> Floats:
    """Each process's own level."""
    return np.exp(between * rng.standard_normal((processes, 1)))


def usual(between: float, within: float) -> Callable[[np.random.Generator, int, int], Floats]:
    """Lognormal requests about lognormal processes."""

    def draw(rng: np.random.Generator, processes: int, requests: int) -> Floats:
        noise = np.exp(within * rng.standard_normal((processes, requests)))
        return 100 * levels(rng, processes, between) * noise

    return draw


def correlated(between: float) -> Callable[[np.random.Generator, int, int], Floats]:
    """Neighbours alike: AR(1) with φ = 0.8."""

    def draw(rng: np.random.Generator, processes: int, requests: int) -> Floats:
        shocks = rng.standard_normal((processes, requests + 100)) * 0.03 * 0.6
        return 100 * levels(rng, processes, between) * np.exp(lfilter([1.0], [1.0, -0.8], shocks, axis=1)[:, 100:])

    return draw


def bursts(share: float, length: tuple[int, int], between: float = 0.0) -> Callable[..., Floats]:
    """A share of the requests is three times slower, in bursts of 20 to 50 of them."""

    def draw(rng: np.random.Generator, processes: int, requests: int) -> Floats:
        mean = sum(length) / 2
        begins = rng.random((processes, requests + length[1])) < share / mean
        lasts = rng.integers(length[0], length[1] + 1, begins.shape)
        rows, places = np.nonzero(begins)
        slow = np.zeros((processes, requests + 2 * length[1] + 1))
        np.add.at(slow, (rows, places), 1.0)
        np.add.at(slow, (rows, places + lasts[rows, places]), -1.0)
        inside = np.cumsum(slow, axis=1)[:, length[1] : length[1] + requests] > 0
        return np.asarray(usual(between, 0.05)(rng, processes, requests) * np.where(inside, 3.0, 1.0))

    return draw


def heavy(rng: np.random.Generator, processes: int, requests: int) -> Floats:
    """Pareto with infinite variance, 2 % between processes."""
    return np.asarray(100 * levels(rng, processes, 0.02) * (1 + rng.pareto(1.5, (processes, requests))))


def two_kinds(rng: np.random.Generator, processes: int, requests: int) -> Floats:
    """A tenth of the requests misses the cache and takes four times as long."""
    missed = rng.random((processes, requests)) < 0.10
    return np.asarray(usual(0.01, 0.03)(rng, processes, requests) * np.where(missed, 4.0, 1.0))


def misses_differ(rng: np.random.Generator, processes: int, requests: int) -> Floats:
    """A cache that is luckier in some processes than in others: 2 to 10 % of the requests take four times as long."""
    missed = rng.random((processes, requests)) < 0.045 * np.exp(0.5 * rng.standard_normal((processes, 1)))
    return np.asarray(usual(0.01, 0.03)(rng, processes, requests) * np.where(missed, 4.0, 1.0))


def two_kinds_of_processes(rng: np.random.Generator, processes: int, requests: int) -> Floats:
    """Every second process is 4 % slower, by chance."""
    unlucky = rng.random((processes, 1)) < 0.5
    return np.asarray(usual(0.005, 0.03)(rng, processes, requests) * np.where(unlucky, 1.04, 1.0))


def quantised(rng: np.random.Generator, processes: int, requests: int) -> Floats:
    """A clock that counts whole milliseconds: nearly every value is shared by hundreds."""
    return np.asarray(np.round(usual(0.01, 0.03)(rng, processes, requests)))


def one_slow(rng: np.random.Generator, processes: int, requests: int) -> Floats:
    """Every fifth process is 10 % slower."""
    values = usual(0.005, 0.03)(rng, processes, requests)
    values[::5] *= 1.10
    return values


def unequal_noise(rng: np.random.Generator, processes: int, requests: int) -> Floats:
    """Processes of one level whose spread differs by a factor of two and more."""
    own = 0.03 * np.exp(0.4 * rng.standard_normal((processes, 1)))
    return np.asarray(100 * np.exp(own * rng.standard_normal((processes, requests))))


SHAPES = (
    Shape("1 % between, 3 % within", 5, 1000, usual(0.01, 0.03)),
    Shape("1 % between, 3 % within, ten processes", 10, 1000, usual(0.01, 0.03)),
    Shape("1 % between, 3 % within, three processes", 3, 1000, usual(0.01, 0.03)),
    Shape("1 % between, 3 % within, two processes", 2, 1000, usual(0.01, 0.03)),
    Shape("nothing between, 3 % within", 5, 1000, usual(0.0, 0.03)),
    Shape("0.3 % between, 3 % within", 5, 4000, usual(0.003, 0.03)),
    Shape("as much between as within", 5, 1000, usual(0.03, 0.03)),
    Shape("neighbours alike", 5, 2000, correlated(0.01)),
    Shape("bursts of 20 to 50, 2 % of all", 5, 2000, bursts(0.02, (20, 50))),
    Shape("bursts of 20 to 50, 10 % of all", 5, 2000, bursts(0.10, (20, 50), 0.01)),
    Shape("bursts of 20 to 50, 5 % of all", 5, 4000, bursts(0.05, (20, 50))),
    Shape("heavy tail", 5, 1000, heavy),
    Shape("two kinds of requests", 5, 1000, two_kinds),
    Shape("the share of slow requests differs", 5, 1000, misses_differ),
    Shape("two kinds of processes", 10, 1000, two_kinds_of_processes),
    Shape("whole milliseconds", 5, 1000, quantised),
    Shape("one slow process of five", 5, 1000, one_slow),
    Shape("unequal noise", 5, 1000, unequal_noise),
    Shape("forty requests each", 5, 40, usual(0.01, 0.03)),
    Shape("one process, bursts", 1, 10000, bursts(0.05, (20, 50))),
    Shape("one process, neighbours alike", 1, 10000, correlated(0.0)),
)
SURE = ("1 % between, 3 % within", "nothing between, 3 % within", "0.3 % between, 3 % within", "heavy tail")
"""Shapes whose percentiles five processes must resolve, not merely not miss."""
AT_ITS_LIMIT = ("1 % between, 3 % within", "as much between as within", "bursts of 20 to 50, 5 % of all", "heavy tail")


def truths(shape: Shape) -> Floats:
    """The percentiles of all requests of all processes."""
    rng = np.random.default_rng(TRUTH_SEED)
    return np.percentile(shape.draw(rng, TRUTH_REQUESTS // shape.requests, shape.requests), PERCENTILES)


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """Coverage of every shape at three percentiles, what is resolved, and objectives at exactly the truth."""
    for number, shape in enumerate(SHAPES):
        rng, true = np.random.default_rng([seed, number]), truths(shape)
        measured: list[list[Percentile]] = []
        met = 0
        for _ in range(runs):
            values = shape.draw(rng, shape.processes, shape.requests)
            parts = list(values)
            measured.append([bounded_percentile(parts, percentile, 0.95) for percentile in PERCENTILES])
            if shape.name in AT_ITS_LIMIT:
                met += sum(_met(parts, p, limit) for p, limit in zip(PERCENTILES, true, strict=True))
        for place, percentile in enumerate(PERCENTILES):
            column = [row[place] for row in measured]
            inside = sum(_holds(one, true[place]) for one in column) / runs
            holds = usual_enough(inside, runs, LEAST)
            yield Promise(f"{shape.name}, p{percentile:g}", f"covered in ≥ {LEAST:.0%}", inside, LEAST, holds)
            if shape.name in SURE:
                known = sum(one.resolved for one in column) / runs
                yield Promise(
                    f"{shape.name}, p{percentile:g}", "resolved in ≥ 90 %", known, 0.9, usual_enough(known, runs, 0.9)
                )
        if shape.name in AT_ITS_LIMIT:
            share = met / runs / len(PERCENTILES)
            yield Promise(
                f"{shape.name}, objective at the truth", "met in ≤ 5 %", share, 0.05, rare_enough(share, runs, 0.05)
            )


def _holds(measured: Percentile, true: float) -> bool:
    above = measured.high is None or true <= measured.high
    return (measured.low is None or measured.low <= true) and above


def _met(parts: Sequence[Floats], percentile: float, limit_ms: float) -> bool:
    limit = f"{float(limit_ms)!r} ms"
    slo = Slo.model_validate({"metric": SloMetric.LATENCY, "percentile": percentile, "at_most": limit})
    return judge_slo(slo, parts, 0.95).verdict == "met"
