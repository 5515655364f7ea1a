"""Stationary queues that played no part in making the search's rule: other service laws, server counts and percentiles.

Mean service time is 1 s everywhere, as in simulated_queues.py.
"""

from __future__ import annotations

import math

import numpy as np

from lynxbench.load.saturation_judge import LatencyBound
from saturation_shapes import pareto, two_classes, uniform
from simulated_queues import Draw, Server, deterministic, exponential, lognormal


def erlang(stages: int) -> Draw:
    """A sum of so many exponential stages: the more, the more even."""
    return lambda rng, size: rng.gamma(stages, 1 / stages, size)


def weibull(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mean 1, shape 0.7: a heavier tail than the exponential law's."""
    return rng.weibull(0.7, size) / math.gamma(1 + 1 / 0.7)


def two_lengths(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mean 1: four in five take half a second, the others three."""
    return np.where(rng.random(size) < 0.2, 3.0, 0.5)


FURTHER = (
    Server("M/E4/4 p99", erlang(4), 4, LatencyBound(4.0, 0.01)),
    Server("M/E2/16 p90", erlang(2), 16, LatencyBound(3.0, 0.10)),
    Server("M/uniform/6 p95", uniform(0.5, 1.5), 6, LatencyBound(3.0, 0.05)),
    Server("M/Weibull/12 p99", weibull, 12, LatencyBound(10.0, 0.01)),
    Server("M/two lengths/3 p90", two_lengths, 3, LatencyBound(6.0, 0.10)),
    Server("M/Pareto/24 p95", pareto, 24, LatencyBound(5.0, 0.05)),
    Server("M/two classes/16 p95", two_classes, 16, LatencyBound(4.0, 0.05)),
    Server("M/M/4 p50", exponential, 4, LatencyBound(2.0, 0.50)),
    Server("M/M/64 p99.5", exponential, 64, LatencyBound(7.0, 0.005)),
    Server("M/lognormal/48 p90", lognormal, 48, LatencyBound(3.5, 0.10)),
    Server("M/D/2 p95", deterministic, 2, LatencyBound(3.0, 0.05)),
    Server("M/M/16 p98", exponential, 16, LatencyBound(5.5, 0.02)),
)
