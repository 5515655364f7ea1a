"""Fleet sizes on simulated fleets of known queueing behaviour: measured by the real search, planned, run for truth.

    python benchmarks/capacity.py [--seeds 2] [--json]

Each node is a queue of simulated_queues.py. Its saturation and curve come from the saturation search of lynxbench; the
plan sees nothing else. The truth is the same kind of queue, simulated apart by another program (C), in periods at the
planned demand: how many periods keep the objective at the proposed size, and at the sizes below it.

Exit 1 where fewer than 95 % of periods at proposed sizes hold, where a fleet holds with two nodes fewer than proposed,
or where the naive plan (average demand over peak completions) holds as well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass

import numpy as np

from lynxbench.decide.capacity import CapacityDemand, plan_capacity
from lynxbench.decide.demand import declare_demand
from lynxbench.decide.demonstrating import demo_results
from lynxbench.load.saturation import find_saturation
from lynxbench.load.saturation_judge import LatencyBound
from lynxbench.model.contract import Contract
from lynxbench.model.result import Result
from lynxbench.run.saturation_client import saturation_record
from lynxbench.stats.fleets import Balancing
from simulated_queues import Queue, Server, deterministic, exponential, hyperexponential, lognormal
from simulated_queues import fcfs_kernel as queue_kernel

NEEDED = 0.95
PERIOD_S = 1200.0
WARM_S = 120.0
RUNS = 40
PEAK_OVER_MEAN = 1.6

SERVERS = (
    Server("M/M/1 p95", exponential, 1, LatencyBound(8.0, 0.05)),
    Server("M/M/2 p99", exponential, 2, LatencyBound(10.0, 0.01)),
    Server("M/M/8 p99", exponential, 8, LatencyBound(7.0, 0.01)),
    Server("M/M/8 p95", exponential, 8, LatencyBound(6.0, 0.05)),
    Server("M/M/32 p99", exponential, 32, LatencyBound(7.0, 0.01)),
    Server("M/lognormal/8 p99", lognormal, 8, LatencyBound(12.0, 0.01)),
    Server("M/hyperexp/8 p99", hyperexponential, 8, LatencyBound(16.0, 0.01)),
    Server("M/D/8 p99", deterministic, 8, LatencyBound(3.0, 0.01)),
)
FLEETS = ((3.4, Balancing.RANDOM), (7.7, Balancing.RANDOM), (12.2, Balancing.RANDOM), (5.6, Balancing.ROUND_ROBIN),
          (6.3, Balancing.SHARED_QUEUE))  # fmt: skip
"""Demand as a multiple of what one node holds, and how it is spread."""


@dataclass
class Row:
    """One fleet: what was proposed, and what is true."""

    server: str
    balancing: str
    demand_per_s: float
    proposed: int
    agrees: bool
    held: float
    held_one_less: float
    held_two_less: float
    naive: int
    naive_held: float

    @property
    def smallest(self) -> int:
        """The smallest size that holds, as far as it was looked for."""
        if self.held_two_less >= NEEDED:
            return self.proposed - 2
        return self.proposed - 1 if self.held_one_less >= NEEDED else self.proposed


def measure(server: Server, seed: int) -> Result:
    """One node through the real search, as a result that a plan can read."""
    rng = np.random.default_rng((seed, 11))
    ceiling = server.servers * rng.normal(1, 0.02)
    found = find_saturation(lambda rate: Queue(server, rate, rng), ceiling, server.bound)
    record = saturation_record(found, ceiling, "")
    example = demo_results()[0]
    body = example.contract.canonical()
    percentile = 100 * (1 - server.bound.violations)
    body["objective"] = {
        "slo": [{"metric": "latency", "percentile": percentile, "at_most": f"{server.bound.limit_s:g} s"}]
    }
    contract = Contract.model_validate(body, strict=False)
    (figures,) = example.per_precision
    assert figures.load is not None
    load = figures.load.model_copy(update={"saturation": record})
    searched = {"contract": contract, "per_precision": (figures.model_copy(update={"load": load}),)}
    return example.model_copy(update=searched)


def hold(server: Server, rate: float, nodes: int, balancing: Balancing, seed: int) -> float:
    """Share of true periods that keep the objective."""
    if nodes < 1 or rate >= nodes * server.servers:
        return 0.0
    met = 0
    for run in range(RUNS):
        rng = np.random.default_rng((seed, nodes, run))
        total = int(rng.poisson(rate * (PERIOD_S + WARM_S)))
        arrivals = np.sort(rng.random(total)) * (PERIOD_S + WARM_S)
        if balancing is Balancing.SHARED_QUEUE:
            place, groups, slots = np.zeros(total, dtype=np.int64), 1, nodes * server.servers
        elif balancing is Balancing.ROUND_ROBIN:
            place, groups, slots = np.arange(total) % nodes, nodes, server.servers
        else:
            place, groups, slots = rng.integers(0, nodes, total), nodes, server.servers
        late = counted = 0
        for node in range(groups):
            mine = arrivals[place == node]
            spent = np.empty(len(mine))
            services = server.draw(rng, len(mine))
            queue_kernel()(0.0, np.diff(mine, prepend=0.0), services, np.zeros(slots), spent)
            inside = mine >= WARM_S
            late += int((spent[inside] > server.bound.limit_s).sum())
            counted += int(inside.sum())
        met += late <= server.bound.violations * counted
    return met / RUNS


def judge(server: Server, result: Result, multiple: float, balancing: Balancing, seed: int) -> Row:
    """Plan one fleet and hold it against the truth."""
    load = result.per_precision[0].load
    assert load is not None
    assert load.saturation is not None
    assert load.saturation.passed_per_s is not None
    rate = multiple * load.saturation.passed_per_s
    demand = declare_demand(rate, 0.0, rate / PEAK_OVER_MEAN)
    plan = plan_capacity(result, CapacityDemand(demand=demand, balancing=balancing, period_s=PERIOD_S), seed=seed)
    nodes = plan.proposed.nodes
    one_less = hold(server, rate, nodes - 1, balancing, seed)
    return Row(
        server=server.name,
        balancing=balancing.value,
        demand_per_s=rate,
        proposed=nodes,
        agrees=plan.node is not None and plan.node.agrees,
        held=hold(server, rate, nodes, balancing, seed),
        held_one_less=one_less,
        held_two_less=hold(server, rate, nodes - 2, balancing, seed) if one_less >= NEEDED else 0.0,
        naive=plan.naive.nodes,
        naive_held=hold(server, rate, plan.naive.nodes, balancing, seed),
    )


def main() -> int:
    """Print the table and the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    started = time.perf_counter()
    rows = []
    for seed in range(asked.seeds):
        for server in SERVERS:
            result = measure(server, seed)
            for multiple, balancing in FLEETS:
                row = judge(server, result, multiple, balancing, seed)
                rows.append(row)
                if not asked.json:
                    sys.stdout.write(
                        f"{row.server:20}{row.balancing:14}{row.demand_per_s:9.2f}/s  proposed {row.proposed:3}  "
                        f"smallest {row.smallest:3}  held {row.held:5.0%}  one less {row.held_one_less:5.0%}  "
                        f"naive {row.naive:3} held {row.naive_held:5.0%}{'' if row.agrees else '  (no fit)'}\n"
                    )
                    sys.stdout.flush()
    held = float(np.mean([row.held for row in rows]))
    above = [row.proposed - row.smallest for row in rows]
    naive = float(np.mean([row.naive_held for row in rows]))
    worst = min(row.held for row in rows)
    summary = {
        "fleets": len(rows),
        "periods_held": held,
        "worst_fleet": worst,
        "largest_above_smallest": max(above),
        "exact": sum(one == 0 for one in above),
        "naive_held": naive,
        "seconds": time.perf_counter() - started,
    }
    if asked.json:
        sys.stdout.write(json.dumps({"summary": summary, "rows": [vars(row) for row in rows]}, indent=1) + "\n")
    else:
        sys.stdout.write(
            f"{len(rows)} fleets: {held:.1%} of periods hold at the proposed size (worst {worst:.0%}); proposed is "
            f"the smallest in {summary['exact']}, at most {max(above)} above it; naive plans hold in {naive:.1%}; "
            f"{summary['seconds']:.0f} s\n"
        )
    return 0 if held >= NEEDED and max(above) <= 1 and naive < NEEDED else 1


if __name__ == "__main__":
    raise SystemExit(main())
