"""What a fleet adds: clients that send at the same time, and rank traces that are read at the same time.

    python benchmarks/fleet.py [--only clients|traces] [--traces 200] [--seconds 4] [--json FILE]

Clients: three clients on three Ray nodes against one, at the same rate a client, to the bundled server. Where this
machine has a core for every client and the server, the rates themselves are compared (closed loop). Where it has not,
the arithmetic is: what a client can send is what a core allows, so three reach three times one divided by how much more
CPU a request costs a client of three. Both figures come from the clients' own record of their CPU time.

`times_by_cpu` is the same arithmetic for traces: two workers halve the time if a trace costs no more CPU among two.

Traces: synthetic ranks, analysed by one process and by the fleet with one and two workers: equal results, wall time and
the peak memory of the largest worker.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from fleet_tasks import write_rank_trace
from lynxbench.attribute.attributing import TraceSettings
from lynxbench.attribute.rank_traces import compare_ranks, find_traces, gather_ranks, try_rank
from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.fleet.cluster import Fleet, connected
from lynxbench.fleet.fleet_load import FleetProbe
from lynxbench.fleet.fleet_traces import analyse_fleet, list_traces
from lynxbench.load import send_schedule as schedule
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.load_record import LoadRecord
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, parse_target
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server

CLIENTS = 3
RATE_PER_S = 500.0
"""A client: busy enough to be measured, far enough from a core that three of them and the server fit two."""
ASKED_TIMES = 2.5
LARGEST_CLOCK_ERROR_MS = 1.0
LARGEST_WORKER_MB = 600.0
TRACE_STEPS = 300


def make_plan(url: str, load: ClosedLoop | OpenLoop, seconds: float, clients: int) -> LoadPlan:
    service = Service(url=url, model="m")
    script = PlainRotation((build_request(service, build_body(service, "hello", 2)),))
    return LoadPlan(parse_target(url), script, OpenAiLanguage(), load, seconds, processes=clients, drain_s=5)


def ask(fleet: Fleet, clients: int, seconds: float, closed: bool, planted: tuple[int, ...]) -> tuple[LoadRecord, Any]:
    """One load from so many clients, each on a node of its own."""
    load: ClosedLoop | OpenLoop = (
        ClosedLoop(32 * clients, ramp_up_s=0.1)
        if closed
        else OpenLoop(schedule.poisson(RATE_PER_S * clients, seconds, seed=clients))
    )
    with running_server(Behaviour(ttft_ms=2, itl_ms=1)) as server:
        with FleetProbe(make_plan(server.url, load, seconds, clients), fleet, fleet.nodes(), planted) as probe:
            while probe.running:
                time.sleep(0.25)
            record = probe.finish()
            found = probe.clients()
        server.stop()
    return record, (found, [part.latency_s() for part in probe.parts])


def cpu_us_a_request(record: LoadRecord) -> float:
    """CPU time of the client processes over the requests they sent."""
    spent_s = 0.0
    for one in record.health:
        spans_s = np.diff(one.window_at_ns, prepend=record.start_ns) / 1e9
        spent_s += float(np.nansum(one.cpu_share * spans_s))
    return spent_s / max(1, record.sent) * 1e6


def measure_clients(fleet: Fleet, seconds: float) -> dict[str, Any]:
    """One client, then three; clocks planted off by 50 ms either way."""
    cores = len(os.sched_getaffinity(0))
    closed = cores > CLIENTS + 1
    planted = (50_000_000, -50_000_000, 0)
    one, _ = ask(fleet, 1, seconds, closed, ())
    three, (clients, parts) = ask(fleet, CLIENTS, seconds, closed, planted)
    rates = [r.counts()["ok"] / ((r.last_ns.max() - r.start_ns) / 1e9) for r in (one, three)]
    costs = [cpu_us_a_request(one), cpu_us_a_request(three)]
    every = np.concatenate(parts)
    exact = all(np.percentile(three.latency_s(), p) == np.percentile(every, p) for p in (50, 90, 99, 99.9))
    errors = [abs(c.clock_offset_ns - by) / 1e6 for c, by in zip(clients, planted, strict=True)]
    times = rates[1] / rates[0] if closed else CLIENTS * costs[0] / costs[1]
    return {
        "cores": cores,
        "by": "rates" if closed else "arithmetic: clients x CPU of a request alone / CPU of a request among three",
        "requests_per_s": rates,
        "cpu_us_a_request": costs,
        "times_one_client": times,
        "asked_times": ASKED_TIMES,
        "failed": int(len(three) - three.counts()["ok"]),
        "merged_percentiles_exact": bool(exact),
        "clock_error_ms": errors,
        "clock_bound_ms": [c.clock_bound_ns / 1e6 for c in clients],
        "good": bool(times >= ASKED_TIMES and exact and max(errors) <= LARGEST_CLOCK_ERROR_MS),
    }


def measure_traces(fleet: Fleet, count: int) -> dict[str, Any]:
    """One process, then the fleet with one and two workers."""
    with tempfile.TemporaryDirectory(prefix="lynxbench-bench-") as folder:
        for rank in range(count):
            own = 900 if rank == count // 3 else 600 + rank % 7
            write_rank_trace(
                Path(folder) / f"rank{rank:04}.json", rank, own_us=own, wait_us=1000 - own, steps=TRACE_STEPS
            )
        paths = find_traces([Path(folder)])
        size_mb = sum(path.stat().st_size for path in paths) / 1e6
        began = time.perf_counter()
        alone = gather_ranks(paths, [try_rank(path, TraceSettings()) for path in paths])
        alone_s = time.perf_counter() - began
        traces = list_traces([folder])
        analyse_fleet(fleet, traces[:8], TraceSettings())  # workers start and import once
        walls, peaks, spent, equal = {}, {}, {}, []
        for workers in (1, 2):
            began = time.perf_counter()
            found = analyse_fleet(fleet, traces, TraceSettings(), workers=workers)
            walls[workers] = time.perf_counter() - began
            spent[workers] = found.cpu_s
            peaks[workers] = found.peak_rss_bytes / 1e6
            equal.append(found.report == alone)
    assert compare_ranks(alone.ranks).straggler == count // 3
    return {
        "traces": count,
        "megabytes": size_mb,
        "one_process_s": alone_s,
        "fleet_s": walls,
        "fleet_cpu_s": spent,
        "times_with_two": walls[1] / walls[2],
        "times_by_cpu": 2 * spent[1] / spent[2],
        "loadavg": os.getloadavg()[0],
        "peak_worker_mb": peaks,
        "equal": all(equal),
        "straggler": alone.straggler,
        "good": bool(all(equal) and max(peaks.values()) <= LARGEST_WORKER_MB),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", choices=("clients", "traces"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with connected(None, local_nodes=CLIENTS) as fleet:
        document = {}
        if options.only != "traces":
            document["clients"] = measure_clients(fleet, options.seconds)
        if options.only != "clients":
            document["traces"] = measure_traces(fleet, options.traces)
    text = json.dumps(document, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    if not all(part["good"] for part in document.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
