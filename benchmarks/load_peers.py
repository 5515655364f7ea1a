"""The load driver and its peers against one server whose truth is known, in one sitting.

    python benchmarks/load_peers.py --truth-source PATH/truth_server.c [--seconds 5] [--within-s 1080]
        [--json FILE] [--environments .peers] [--only lynxbench,wrk,vllm] [--cases one_token,stamps_512] [--realtime]

The server is compiled into a temporary folder and pinned to one core; every client, with all its processes, is pinned
to another. What a client achieved is read from the server's log, over the middle 80 % of its completions; what it
reports is held against that log. Ratios of one sitting matter, absolute figures do not. `make bench-peers` installs the
peers, each into an environment of its own; one that is missing, fails or does not end is said to. Clients that are two
orders slower are asked some cases last; what has not begun after `--within-s` is left out, and said to be.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from peers.cases import ALL, ONE_TOKEN, Case, Report
from peers.clients import Client, Order, clients
from peers.meter import Meter
from peers.table import render
from peers.tokenizer import write_tokenizer
from peers.truth import DROPPED, HTTP_500, OK, STALLED, Truth, compile_server, truth_server


class Sitting:
    """Where things are, and for how long each is measured."""

    def __init__(self, source: Path, folder: Path, seconds: float, *, realtime: bool) -> None:
        self.folder, self.seconds = folder, seconds
        self.priority = ("chrt", "--fifo", "1") if realtime else ()
        self.binary = compile_server(source, folder)
        self.tokenizer = write_tokenizer(folder / "tokenizer")
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise SystemExit("client and server need a core each; this machine offers one")
        self.server_core, self.client_core = cores[0], cores[1]
        os.sched_setaffinity(0, {self.server_core})  # what little this program does itself is kept off the client

    def measure(self, client: Client, case: Case) -> dict[str, object]:
        """One client, one case: what the server saw, what the client says, what it cost."""
        if client.missing:
            return {"failure": client.missing}
        folder = Path(tempfile.mkdtemp(prefix=f"{client.name}-{case.name}-", dir=self.folder))
        with truth_server(self.binary, self.server_core, self.folder, *case.server, prefix=self.priority) as server:
            requests = case.requests or client.requests.get(case.name, 0)
            order = Order(case, server.base, self.seconds, folder, self.tokenizer, requests)
            command = [*client.program, *client.command(order)]
            began_ns = time.perf_counter_ns()
            with (folder / "output.txt").open("wb") as output:
                process = subprocess.Popen(
                    [*self.priority, "taskset", "-c", str(self.client_core), *command],
                    cwd=folder,
                    env=_environment(client),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                meter = Meter(process.pid, self.client_core, self.server_core)
                ended = _wait(process, case.limit_s)
            meter.stop()
            took_s = (time.perf_counter_ns() - began_ns) / 1e9
            truth = server.stop()
        found: dict[str, object] = {"took_s": took_s, "sent": len(truth.rows)}
        if len(truth.rows):
            found["first_request_s"] = float(truth.rows["arrival"].min() - began_ns) / 1e9
        found.update(_achieved(truth, case, meter, evenly=case.name not in client.cannot))
        if case.name in client.cannot:
            found["cannot"] = client.cannot[case.name]
        if not ended:
            found["failure"] = f"no end and no report in {case.limit_s:g} s"
            return found
        try:
            report = client.report(order)
        except (OSError, ValueError, LookupError, TypeError) as error:
            said = re.sub(r"\s+", " ", (folder / "output.txt").read_text(errors="replace"))[-300:]
            found["failure"] = f"exit {process.returncode}, no report ({type(error).__name__}): {said}"
            return found
        if not truth.count(OK):
            found["failure"] = "nothing was answered"
        found["report"] = asdict(report)
        found.update(_errors(truth, case, report))
        return found


def _environment(client: Client) -> dict[str, str]:
    """Compiled files may be kept, so that a second start is nobody's disadvantage."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | client.environment


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait for the client; past the limit its process group is ended. True when it ended by itself."""
    try:
        process.wait(limit_s)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the group is its own; some leave processes behind
        process.wait()


def _achieved(truth: Truth, case: Case, meter: Meter, *, evenly: bool) -> dict[str, object]:
    count, from_ns, until_ns = truth.middle()
    found: dict[str, object] = {}
    if count:
        span_s = (until_ns - from_ns) / 1e9
        found["requests_per_s"] = count / span_s
        found["events_per_s"] = count * case.tokens / span_s
        usage = meter.between(from_ns, until_ns)
        if usage is not None and usage.client_cpu_s > 0:
            found["client_cpu_share"] = usage.client_cpu_s / span_s
            found["requests_per_cpu_s"] = count / usage.client_cpu_s
            found["client_core_other_share"] = usage.client_core_other_share
            found["server_core_busy_share"] = usage.server_core_busy_share
            found["stolen_ms"] = usage.stolen_s * 1e3
    if case.rate_per_s and len(truth.rows) > 1:
        arrivals = np.sort(truth.rows["arrival"])
        found["arrival_rate_per_s"] = (len(arrivals) - 1) / ((arrivals[-1] - arrivals[0]) / 1e9)
        if evenly:
            late = truth.lateness_ms(case.rate_per_s)
            found["late_mean_ms"], found["late_p99_ms"] = float(late.mean()), float(np.quantile(late, 0.99))
    if case.name == "faults":
        found["truth"] = {
            "ok": truth.count(OK),
            "dropped": truth.count(DROPPED),
            "http_500": truth.count(HTTP_500),
            "stalled": truth.count(STALLED),
        }
    return found


def _errors(truth: Truth, case: Case, report: Report) -> dict[str, object]:
    """What the client says, less what happened."""
    if not case.name.startswith(("stamps", "role")) or report.ttft_mean_ms is None or not truth.count(OK):
        return {}
    first = truth.first_token_ms()
    found: dict[str, object] = {"ttft_mean_error_ms": report.ttft_mean_ms - float(first.mean())}
    if report.ttft_p99_ms is not None:
        found["ttft_p99_error_ms"] = report.ttft_p99_ms - float(np.quantile(first, 0.99))
    if report.itl_mean_ms is not None:
        found["itl_mean_error"] = report.itl_mean_ms / truth.token_gap_ms() - 1
    found["itl_median_ms"] = report.itl_median_ms
    return found


def in_order(cases: Sequence[Case], chosen: Sequence[Client]) -> list[tuple[Case, Client]]:
    """Case by case, so that what is put into one ratio is measured within minutes; then what clients are asked last."""
    asked = [(case, client) for case in cases for client in chosen if client.cases is None or case.name in client.cases]
    return sorted(asked, key=lambda pair: pair[0].name in pair[1].last)


def main() -> None:
    """Measure every client in every case, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth-source", type=Path, required=True, help="truth_server.c")
    parser.add_argument("--environments", type=Path, default=Path(__file__).parents[1] / ".peers")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--realtime", action="store_true", help="real-time priority for server and client, where others share the cores"
    )
    parser.add_argument("--only", help="clients, by name, with commas")
    parser.add_argument("--cases", help="cases, by name, with commas")
    parser.add_argument("--within-s", type=float, default=math.inf, help="begin no further measurement after so long")
    options = parser.parse_args()
    chosen = clients(options.environments.absolute())
    if options.only:
        chosen = [client for client in chosen if client.name in options.only.split(",")]
    cases = [case for case in ALL if not options.cases or case.name in options.cases.split(",")]
    found: dict[str, dict[str, dict[str, object]]] = {}
    with tempfile.TemporaryDirectory(prefix="lynxbench-peers-", ignore_cleanup_errors=True) as folder:
        sitting = Sitting(options.truth_source, Path(folder), options.seconds, realtime=options.realtime)
        began_s = time.monotonic()
        for case, client in in_order(cases, chosen):
            if time.monotonic() - began_s > options.within_s:
                result: dict[str, object] = {"failure": f"left out: the sitting's {options.within_s:g} s were spent"}
            else:
                result = sitting.measure(client, case)
                if case is ONE_TOKEN and client.name == "lynxbench" and "failure" not in result:
                    # Once more, and both kept: the ratios rest on this figure.
                    again = sitting.measure(client, case)
                    result["again_requests_per_s"] = again.get("requests_per_s")
            found.setdefault(case.name, {})[client.name] = result
            print(json.dumps({"case": case.name, "client": client.name, **result}), flush=True)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1) + "\n")
        print(f"the sitting took {time.monotonic() - began_s:.0f} s")
    print(render(found, {client.name: client.target for client in chosen if client.target is not None}))


if __name__ == "__main__":
    main()
