"""The saturation search against queues of known capacity, beside a binary search and a ten-point sweep.

    python benchmarks/saturation.py [--searches 20] [--others 10] [--only M/M/8] [--json]

The servers and their true capacities are those of simulated_queues.py. The completion-rate ceiling handed to all
searches is wrong by 2 % (standard deviation). A search that ends without a confirmed claim claims nothing: that counts
as an error of 100 %.

`binary` and `sweep` are what most tools do: probes of one duration, and a rate passes where the sample's share of
late requests is within the bound. Whoever fixes a duration beforehand needs one in which a rate just under the
capacity can be told from one just above: they are given the mean of what our claim's longer pass took on that server.
The binary search halves (0, ceiling] until its pair is within the same 5 % and a second probe has confirmed its
claim; the sweep takes ten equal steps up to the ceiling, is as exact as its steps at best, and confirms nothing.
`binary*` and `sweep*` are the same with our judge: looked at as often as ours, ended as soon as they are
decided, given up where a first try of ours is; a rate that is not decided by then does not pass. Seconds are those of
the simulated servers, mean service 1 s.

`--at-capacity N` adds the share of N single probes that pass at the capacity itself; `--own-memory` shows what it is
without the guard of the same name.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lynxbench.load import saturation_judge
from lynxbench.load.saturation import UNASKED, find_saturation
from lynxbench.load.saturation_judge import (
    LOOK_GROWTH,
    PROSPECT,
    Confidence,
    LatencyBound,
    Look,
    ProbeOutcome,
    fewest_requests,
    judge,
    prospect,
)
from lynxbench.load.search_rule import SearchRule
from simulated_queues import Queue, Server, deterministic, exponential, hyperexponential, lognormal, true_capacity

FIRST_TRY = UNASKED * SearchRule().max_requests
"""Requests of a probe of the two others before it must look as if it would pass: those of a first try of the search."""
ALLOWED_ERROR = 0.05
OTHERS = ("binary", "sweep", "binary*", "sweep*")

SERVERS = (
    Server("M/M/1 p99", exponential, 1, LatencyBound(10.0, 0.01)),
    Server("M/M/1 p90", exponential, 1, LatencyBound(10.0, 0.10)),
    Server("M/M/2 p95", exponential, 2, LatencyBound(5.0, 0.05)),
    Server("M/M/2 p99", exponential, 2, LatencyBound(10.0, 0.01)),
    Server("M/M/8 p99", exponential, 8, LatencyBound(7.0, 0.01)),
    Server("M/M/8 p95", exponential, 8, LatencyBound(6.0, 0.05)),
    Server("M/M/32 p99", exponential, 32, LatencyBound(7.0, 0.01)),
    Server("M/M/32 p95", exponential, 32, LatencyBound(4.0, 0.05)),
    Server("M/lognormal/2 p95", lognormal, 2, LatencyBound(8.0, 0.05)),
    Server("M/lognormal/8 p99", lognormal, 8, LatencyBound(12.0, 0.01)),
    Server("M/hyperexp/8 p99", hyperexponential, 8, LatencyBound(16.0, 0.01)),
    Server("M/hyperexp/32 p95", hyperexponential, 32, LatencyBound(6.0, 0.05)),
    Server("M/D/1 p99", deterministic, 1, LatencyBound(6.0, 0.01)),
    Server("M/D/8 p99", deterministic, 8, LatencyBound(3.0, 0.01)),
)


@dataclass
class Found:
    """What one search claims and what it cost."""

    claimed_per_s: float
    seconds: float
    pass_s: float = 0.0
    """How long the claim's longest passing probe took."""


def ours(server: Server, seed: int) -> Found:
    """The search of lynxbench."""
    rng = np.random.default_rng((seed, 1))
    ceiling = server.servers * rng.normal(1, 0.02)
    result = find_saturation(lambda rate: Queue(server, rate, rng), ceiling, server.bound)
    claimed = result.passed_per_s if result.confirmed else None
    passes = [p.seconds for p in result.probes if p.rate_per_s == claimed and p.outcome is ProbeOutcome.PASS]
    return Found(claimed or 0.0, result.seconds, max(passes, default=0.0))


def probe(
    server: Server, rate_per_s: float, utilisation: float, rng: np.random.Generator
) -> tuple[ProbeOutcome, float]:
    """One probe by the search's own rule, looked at as often; its outcome and its seconds."""
    queue, sure = Queue(server, rate_per_s, rng), Confidence()
    latencies, look = np.empty((0, 1)), None
    looks: list[Look] = []
    requests = fewest_requests((server.bound,), sure)
    longest = FIRST_TRY
    while requests <= longest and (look is None or look.outcome is ProbeOutcome.UNDECIDED):
        latencies = np.append(latencies, queue.take(requests - len(latencies)).reshape(-1, 1), axis=0)
        bounds, half = (server.bound,), looks[-2] if len(looks) > 1 else None
        look = judge(latencies, bounds, utilisation=utilisation, rate_per_s=rate_per_s, before=half, confidence=sure)
        looks.append(look)
        ahead = prospect(look.shares, sure.to_pass(look.number + 2), sure, PROSPECT)
        longest = SearchRule().max_requests if ahead is ProbeOutcome.PASS else FIRST_TRY
        requests = math.ceil(LOOK_GROWTH * requests)
    assert look is not None
    return look.outcome, queue.end()


def passes_at_capacity(server: Server, truth: float, seeds: range) -> float:
    """Share of single probes that pass at the capacity itself, where none should; a claim needs two in a row."""
    found = [probe(server, truth, truth / server.servers, np.random.default_rng((seed, 5)))[0] for seed in seeds]
    return sum(outcome is ProbeOutcome.PASS for outcome in found) / len(found)


Ask = Callable[[float, float, np.random.Generator], tuple[bool, float]]
"""A rate and its share of the ceiling to whether it passes and what that took in seconds."""


def until_decided(server: Server) -> Ask:
    """Probes that end when our judge has decided."""

    def ask(rate_per_s: float, utilisation: float, rng: np.random.Generator) -> tuple[bool, float]:
        outcome, took_s = probe(server, rate_per_s, utilisation, rng)
        return outcome is ProbeOutcome.PASS, took_s

    return ask


def of_one_duration(server: Server, seconds: float) -> Ask:
    """Probes of a duration fixed beforehand: a rate passes where the sample's share of late requests does."""

    def ask(rate_per_s: float, utilisation: float, rng: np.random.Generator) -> tuple[bool, float]:
        queue = Queue(server, rate_per_s, rng)
        latencies = queue.take(max(1, round(seconds * rate_per_s)))
        return bool((latencies > server.bound.limit_s).mean() <= server.bound.violations), seconds

    return ask


def binary_search(server: Server, seed: int, ask: Ask) -> Found:
    """Halve until the pair is within the tolerance and the claim has passed twice; lost claims are halved below."""
    rng = np.random.default_rng((seed, 3))
    ceiling = server.servers * rng.normal(1, 0.02)
    passed, high, seconds = [0.0], ceiling, 0.0
    while high > 0.01 * ceiling:
        close = high / max(passed[-1], 1e-9) - 1 <= SearchRule().tolerance
        rate = passed[-1] if close else (passed[-1] + high) / 2
        passes, took_s = ask(rate, rate / ceiling, rng)
        seconds += took_s
        if passes and close:
            return Found(rate, seconds)
        if passes:
            passed.append(rate)
        else:
            high, passed = rate, [low for low in passed if low < rate]
    return Found(0.0, seconds)


def sweep(server: Server, seed: int, ask: Ask) -> Found:
    """Ten equal steps up to the ceiling; the claim is the last before the first that does not pass."""
    rng = np.random.default_rng((seed, 4))
    ceiling = server.servers * rng.normal(1, 0.02)
    found = [ask(ceiling * step / 10, step / 10, rng) for step in range(1, 11)]
    passed = [passes for passes, _ in found]
    good = passed.index(False) if False in passed else 10
    return Found(ceiling * good / 10, sum(took_s for _, took_s in found))


def summarise(found: list[Found], truth: float) -> dict[str, Any]:
    """Over-claims, errors and cost."""
    errors = np.array([each.claimed_per_s / truth - 1 for each in found])
    return {
        "searches": len(found),
        "over_claims": float((errors > 0).mean()),
        "no_claim": float((errors == -1).mean()),
        "median_error": float(np.median(errors)),
        "median_absolute_error": float(np.median(np.abs(errors))),
        "errors": errors.tolist(),
        "mean_seconds": float(np.mean([each.seconds for each in found])),
    }


def compare(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    """All searches on one server."""
    if options.own_memory:
        saturation_judge.memory_at_bound = lambda share, allowed: 1.0
    truth = true_capacity(server)
    first = options.first_seed
    seeds, fewer = range(first, first + options.searches), range(first, first + options.others)
    rows = {"lynxbench": [ours(server, seed) for seed in seeds]}
    duration = float(np.mean([found.pass_s for found in rows["lynxbench"] if found.pass_s] or [math.nan]))
    for mark, ask in (("", of_one_duration(server, duration)), ("*", until_decided(server))):
        if fewer:
            rows[f"binary{mark}"] = [binary_search(server, seed, ask) for seed in fewer]
            rows[f"sweep{mark}"] = [sweep(server, seed, ask) for seed in fewer]
    table: dict[str, Any] = {"server": server.name, "capacity_per_s": truth}
    if options.at_capacity:
        table["passes_at_capacity"] = passes_at_capacity(server, truth, range(first, first + options.at_capacity))
    return table | {name: summarise(found, truth) for name, found in rows.items()}


def render(row: dict[str, Any]) -> str:
    """One server's lines."""
    lines = []
    own = row["lynxbench"]
    for name in ("lynxbench", *OTHERS):
        found = row.get(name)
        if not isinstance(found, dict):
            continue
        last = f"{found['mean_seconds'] / own['mean_seconds']:.2f}x"
        if name == "lynxbench":
            last = f"{row['passes_at_capacity']:.0%} pass at it" if "passes_at_capacity" in row else ""
        lines.append(
            f"{row['server']:<19}{row['capacity_per_s']:>8.3f}  {name:<10}{found['searches']:>4}"
            f"{found['over_claims']:>7.1%}{found['no_claim']:>7.1%}{found['median_absolute_error']:>9.1%}"
            f"{found['mean_seconds']:>10.0f}  {last}"
        )
    return "\n".join(lines)


def together(table: list[dict[str, Any]]) -> dict[str, float]:
    """All servers: over-claims, errors, and what the others take, as geometric means."""
    rows = [row["lynxbench"] for row in table]
    errors = np.concatenate([row["errors"] for row in rows])
    known: dict[str, float] = {
        "searches": len(errors),
        "over_claims": float((errors > 0).mean()),
        "median_absolute_error": float(np.median(np.abs(errors))),
        "servers_within": float(sum(row["median_absolute_error"] <= ALLOWED_ERROR for row in rows)),
    }
    for other in OTHERS:
        ratios = [row[other]["mean_seconds"] / row["lynxbench"]["mean_seconds"] for row in table if other in row]
        if ratios:
            known[f"{other}_takes"] = float(np.exp(np.mean(np.log(ratios))))
            known[f"{other}_quicker_on"] = float(sum(ratio < 1 for ratio in ratios))
            known[f"{other}_over_claims"] = float(np.mean([row[other]["over_claims"] for row in table]))
    return known


def main() -> None:
    """Run and print the table; servers run beside each other on the cores there are: their seconds are simulated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--others", type=int, default=10, help="binary searches and sweeps of each server")
    parser.add_argument("--at-capacity", type=int, default=0, help="single probes at the capacity itself")
    parser.add_argument("--only", default="", help="servers whose name holds this")
    parser.add_argument("--first-seed", type=int, default=9000, help="those below 1000 chose the constants")
    parser.add_argument("--own-memory", action="store_true", help="let a probe judge by its own correlation time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    began, table = time.perf_counter(), []
    if not options.json:
        print(
            f"{'server':<19}{'capacity':>8}  {'search':<10}{'n':>4}{'over':>7}{'none':>7}{'|error|':>9}{'seconds':>10}"
        )
    wanted = [server for server in SERVERS if options.only in server.name]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for row in pool.map(partial(compare, options=options), wanted):
            table.append(row)
            if not options.json:
                print(render(row), flush=True)
    known = together(table)
    seconds = time.perf_counter() - began
    if options.json:
        print(json.dumps({"servers": table, "together": known, "seconds": seconds}, indent=2))
    else:
        print("; ".join(f"{name} {value:.4g}" for name, value in known.items()) + f"; {seconds:.0f} s")


if __name__ == "__main__":
    main()
