"""The saturation search against queues of known capacity, beside a binary search and a ten-point sweep.

    python benchmarks/saturation.py [--searches 25] [--others 3] [--only M/M/8] [--json]

The servers and their true capacities are those of simulated_queues.py. The completion-rate ceiling handed to all
searches is wrong by 2 % (standard deviation). A search that ends without a confirmed claim claims nothing: that counts
as an error of 100 %.

The two others use the same rule for a pass, at 95 % in one look, on probes of one fixed duration: the shortest (by
doublings) at which a rate 3.5 % under the capacity passes at least every other time and the binary search's median
error is at most 5 %, or the longest tried. That choice uses the truth, in their favour. The binary search halves
(0, ceiling] until its pair is within 5 %; the sweep takes ten equal steps up to the ceiling, and is as exact as its
steps at best. Seconds are those of the simulated servers, mean service time 1 s. `at cap.` is the share of single
probes that pass at the capacity itself; `--own-memory` shows what it is without the guard of the same name.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass

import numpy as np

from lynxbench.load import saturation_judge
from lynxbench.load.saturation import Bound, Outcome, find_saturation
from lynxbench.load.saturation_judge import Confidence, Look, fewest_requests, judge
from simulated_queues import Queue, Server, deterministic, exponential, hyperexponential, lognormal, true_capacity

LONGEST = 400 * 2**11
ALLOWED_ERROR = 0.05
ONE_LOOK = Confidence(pass_error=0.05)

SERVERS = (
    Server("M/M/1 p99", exponential, 1, Bound(10.0, 0.01)),
    Server("M/M/1 p90", exponential, 1, Bound(10.0, 0.10)),
    Server("M/M/2 p95", exponential, 2, Bound(5.0, 0.05)),
    Server("M/M/2 p99", exponential, 2, Bound(10.0, 0.01)),
    Server("M/M/8 p99", exponential, 8, Bound(7.0, 0.01)),
    Server("M/M/8 p95", exponential, 8, Bound(6.0, 0.05)),
    Server("M/M/32 p99", exponential, 32, Bound(7.0, 0.01)),
    Server("M/M/32 p95", exponential, 32, Bound(4.0, 0.05)),
    Server("M/lognormal/2 p95", lognormal, 2, Bound(8.0, 0.05)),
    Server("M/lognormal/8 p99", lognormal, 8, Bound(12.0, 0.01)),
    Server("M/hyperexp/8 p99", hyperexponential, 8, Bound(16.0, 0.01)),
    Server("M/hyperexp/32 p95", hyperexponential, 32, Bound(6.0, 0.05)),
    Server("M/D/1 p99", deterministic, 1, Bound(6.0, 0.01)),
    Server("M/D/8 p99", deterministic, 8, Bound(3.0, 0.01)),
)


@dataclass
class Found:
    """What one search claims and what it cost."""

    claimed_per_s: float
    seconds: float


def ours(server: Server, seed: int) -> Found:
    """The search of lynxbench."""
    rng = np.random.default_rng((seed, 1))
    ceiling = server.servers * rng.normal(1, 0.02)
    result = find_saturation(lambda rate: Queue(server, rate, rng), ceiling, server.bound)
    claimed = result.passed_per_s if result.confirmed else None
    return Found(claimed or 0.0, result.seconds)


def passes_at_capacity(server: Server, truth: float, probes: int, first: int = 0) -> float:
    """Share of single probes that pass at the capacity itself, where none should; a claim needs two in a row."""
    passed = 0
    for seed in range(first, first + probes):
        queue = Queue(server, truth, np.random.default_rng((seed, 5)))
        latencies, look = np.empty((0, 1)), None
        requests = fewest_requests((server.bound,), Confidence())
        while requests <= LONGEST // 4 and (look is None or look.outcome is Outcome.UNDECIDED):
            latencies = np.append(latencies, queue.take(requests - len(latencies)).reshape(-1, 1), axis=0)
            look = judge(latencies, (server.bound,), utilisation=truth / server.servers, before=look)
            requests *= 2
        passed += look is not None and look.outcome is Outcome.PASS
    return passed / probes


def passes(server: Server, rate_per_s: float, ceiling: float, duration_s: float, rng: np.random.Generator) -> bool:
    """One probe of a fixed duration, looked at once at its end."""
    requests = max(16, math.ceil(duration_s * rate_per_s))
    latencies = Queue(server, rate_per_s, rng).take(requests).reshape(-1, 1)
    return _look(server, latencies, rate_per_s / ceiling).outcome is Outcome.PASS


def _look(server: Server, latencies: np.ndarray, utilisation: float) -> Look:
    half = judge(latencies[: len(latencies) // 2], (server.bound,), utilisation=utilisation, confidence=ONE_LOOK)
    return judge(latencies, (server.bound,), utilisation=utilisation, before=half, confidence=ONE_LOOK)


def duration_needed(server: Server, truth: float, trials: int = 8) -> float:
    """The shortest duration (by doublings) at which 96.5 % of the capacity passes at least every other time."""
    rate, requests = 0.965 * truth, 3200
    while requests < LONGEST:
        probes = (Queue(server, rate, np.random.default_rng((trial, 2))) for trial in range(trials))
        looks = [_look(server, probe.take(requests).reshape(-1, 1), rate / server.servers) for probe in probes]
        if 2 * sum(look.outcome is Outcome.PASS for look in looks) >= trials:
            break
        requests *= 2
    return requests / rate


def binary_search(server: Server, seed: int, duration_s: float) -> Found:
    """Halve until the pair is within 5 %."""
    rng = np.random.default_rng((seed, 3))
    ceiling = server.servers * rng.normal(1, 0.02)
    low, high, probes = 0.0, ceiling, 0
    while high / max(low, 1e-9) - 1 > 0.05 and probes < 12:
        middle = (low + high) / 2
        low, high = (middle, high) if passes(server, middle, ceiling, duration_s, rng) else (low, middle)
        probes += 1
    return Found(low, probes * duration_s)


def sweep(server: Server, seed: int, duration_s: float) -> Found:
    """Ten equal steps up to the ceiling; the claim is the last before the first that does not pass."""
    rng = np.random.default_rng((seed, 4))
    ceiling = server.servers * rng.normal(1, 0.02)
    results = [passes(server, ceiling * step / 10, ceiling, duration_s, rng) for step in range(1, 11)]
    good = results.index(False) if False in results else 10
    return Found(ceiling * good / 10, 10 * duration_s)


def summarise(found: list[Found], truth: float) -> dict[str, float]:
    """Over-claims, errors and cost."""
    errors = np.array([each.claimed_per_s / truth - 1 for each in found])
    return {
        "searches": len(found),
        "over_claims": float((errors > 0).mean()),
        "no_claim": float((errors == -1).mean()),
        "median_error": float(np.median(errors)),
        "median_absolute_error": float(np.median(np.abs(errors))),
        "mean_seconds": float(np.mean([each.seconds for each in found])),
    }


def compare(server: Server, searches: int, others: int, first: int = 0) -> dict[str, object]:
    """All three searches on one server."""
    truth = true_capacity(server)
    rows = {"lynxbench": [ours(server, seed) for seed in range(first, first + searches)]}
    table: dict[str, object] = {"server": server.name, "capacity_per_s": truth}
    table["passes_at_capacity"] = passes_at_capacity(server, truth, searches, first)
    if others:
        duration_s = duration_needed(server, truth)
        halving = [binary_search(server, seed, duration_s) for seed in range(first, first + others)]
        while summarise(halving, truth)["median_absolute_error"] > ALLOWED_ERROR and 2 * duration_s * truth <= LONGEST:
            duration_s *= 2
            halving = [binary_search(server, seed, duration_s) for seed in range(first, first + others)]
        rows |= {"binary": halving, "sweep": [sweep(server, seed, duration_s) for seed in range(first, first + others)]}
        table["fixed_probe_s"] = duration_s
    return table | {name: summarise(found, truth) for name, found in rows.items()}


def render(row: dict[str, object]) -> str:
    """One server's lines."""
    lines = []
    own = row["lynxbench"]
    assert isinstance(own, dict)
    for name in ("lynxbench", "binary", "sweep"):
        found = row.get(name)
        if not isinstance(found, dict):
            continue
        ratio = "" if name == "lynxbench" else f"{found['mean_seconds'] / own['mean_seconds']:.1f}x"
        lines.append(
            f"{row['server']:<19}{row['capacity_per_s']:>8.3f}  {name:<10}{found['searches']:>4}"
            f"{found['over_claims']:>7.1%}{found['no_claim']:>7.1%}{found['median_absolute_error']:>9.1%}"
            f"{found['mean_seconds']:>10.0f}"
            + (f"{row['passes_at_capacity']:>9.1%}" if name == "lynxbench" else f"{ratio:>9}")
        )
    return "\n".join(lines)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=25)
    parser.add_argument("--others", type=int, default=3, help="binary searches and sweeps of each server")
    parser.add_argument("--only", default="", help="servers whose name holds this")
    parser.add_argument("--first-seed", type=int, default=5000, help="those below 100 chose the constants")
    parser.add_argument("--own-memory", action="store_true", help="let a probe judge by its own correlation time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.own_memory:
        saturation_judge.memory_at_bound = lambda share, allowed: 1.0
    began, table = time.perf_counter(), []
    if not options.json:
        print(
            f"{'server':<19}{'capacity':>8}  {'search':<10}{'n':>4}{'over':>7}{'none':>7}{'|error|':>9}{'seconds':>10}"
            f"{'at cap.':>9}"
        )
    for server in SERVERS:
        if options.only in server.name:
            table.append(compare(server, options.searches, options.others, options.first_seed))
            if not options.json:
                print(render(table[-1]), flush=True)
    every = [row["lynxbench"] for row in table]
    over = float(np.mean([row["over_claims"] for row in every]))
    error = float(np.median([row["median_absolute_error"] for row in every]))
    seconds = time.perf_counter() - began
    if options.json:
        print(json.dumps({"servers": table, "over_claims": over, "median_error": error, "seconds": seconds}, indent=2))
    else:
        print(f"all searches: {over:.1%} claim too much, median of the median errors {error:.1%}; {seconds:.0f} s")


if __name__ == "__main__":
    main()
