"""Coverage of the 95 % interval on the ratio of two sets of restarts, with the truth known.

    python benchmarks/interval_coverage.py [--repetitions 4000] [--json]

Each restart has its own level (2 % between processes) under lognormal, autocorrelated iterations; the true ratio
is 1.05. Pooling iterations, which ignores the restarts, stands beside it. So do percentiles of correlated latencies.
"""

from __future__ import annotations

import argparse
import json
import math

import numpy as np
from scipy.signal import lfilter

from lynxbench.stats.autocorrelation import effective_count
from lynxbench.stats.intervals import log_mean_interval, ratio_interval
from lynxbench.stats.tails import percentile_interval

RATIO = 1.05
ITERATIONS = 100


def iterations(rng: np.random.Generator, restarts: int, level: float, between: float) -> np.ndarray:
    """restarts × iterations of lognormal times with AR(1) φ=.5 noise and a level of each restart's own."""
    shocks = rng.standard_normal((restarts, ITERATIONS + 50)) * 0.03
    within = lfilter([1.0], [1.0, -0.5], shocks, axis=1)[:, 50:]
    return np.asarray(level * np.exp(between * rng.standard_normal((restarts, 1)) + within))


def ratio_coverage(repetitions: int, seed: int, restarts: int, spread: tuple[float, float]) -> dict[str, float]:
    """How often the true ratio lies inside, by run means and by pooled iterations."""
    rng = np.random.default_rng(seed)
    inside = pooled = 0
    for _ in range(repetitions):
        a, b = iterations(rng, restarts, 1.0, spread[0]), iterations(rng, restarts, RATIO, spread[1])
        found = ratio_interval(a.mean(axis=1), b.mean(axis=1), 0.95)
        inside += found.low <= RATIO <= found.high
        found = ratio_interval(a.ravel(), b.ravel(), 0.95)
        pooled += found.low <= RATIO <= found.high
    return {"run means": inside / repetitions, "pooled iterations": pooled / repetitions}


def mean_coverage(repetitions: int, seed: int, restarts: int) -> float:
    """How often the geometric mean's interval holds the true level."""
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(repetitions):
        found = log_mean_interval(np.exp(0.02 * rng.standard_normal(restarts)), 0.95)
        inside += found.low <= 1.0 <= found.high
    return inside / repetitions


def tail_coverage(repetitions: int, seed: int, count: int, phi: float, percentile: float) -> dict[str, float]:
    """p-th percentile of lognormal AR(1) latencies: on n, on n_eff, and how often it is unresolved."""
    from scipy.special import ndtri

    rng = np.random.default_rng(seed)
    true = math.exp(0.3 * float(ndtri(percentile / 100)))
    on_n = on_eff = unresolved = 0
    for _ in range(repetitions):
        shocks = rng.standard_normal(count + 200) * math.sqrt(1 - phi**2)
        x = np.exp(0.3 * lfilter([1.0], [1.0, -phi], shocks)[200:])
        plain = percentile_interval(x, percentile, 0.95)
        on_n += plain.low <= true <= plain.high
        found = percentile_interval(x, percentile, 0.95, n_eff=effective_count(x))
        unresolved += not found.known
        low, high = found.low, found.high
        on_eff += (math.isnan(low) or low <= true) and (math.isnan(high) or true <= high)
    return {"on n": on_n / repetitions, "on n_eff": on_eff / repetitions, "unresolved": unresolved / repetitions}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    n, seed = options.repetitions, options.seed
    report: dict[str, object] = {}
    for restarts in (3, 5, 10):
        report[f"ratio, {restarts} restarts"] = ratio_coverage(n, seed + restarts, restarts, (0.02, 0.02))
        report[f"ratio, {restarts} restarts, unequal spread"] = ratio_coverage(n, seed, restarts, (0.01, 0.03))
        report[f"mean, {restarts} restarts"] = {"geometric mean": mean_coverage(n, seed + restarts, restarts)}
    for percentile in (50.0, 99.0):
        for phi in (0.0, 0.8):
            cell = tail_coverage(max(n // 4, 100), seed, 2000, phi, percentile)
            report[f"p{percentile:g} of 2000 latencies, phi {phi}"] = cell
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for name, cells in report.items():
        assert isinstance(cells, dict)
        print(f"{name:<40} {', '.join(f'{k} {v:.1%}' for k, v in cells.items())}")


if __name__ == "__main__":
    main()
