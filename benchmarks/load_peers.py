"""The load driver and its peers against one server whose truth is known, in one sitting.

    python benchmarks/load_peers.py --truth-source PATH/truth_server.c [--seconds 5] [--json FILE]
        [--wrk wrk] [--vllm COMMAND] [--aiperf COMMAND] [--guidellm COMMAND]

The server is compiled into a temporary folder and pinned to one core; every client is pinned to another. Ratios of one
sitting matter, absolute figures do not. Peers are commands by path, each in an environment of its own; one that is not
given is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.load import schedule
from lynxbench.load.driver import run_probe
from lynxbench.load.instrument import judge
from lynxbench.load.plan import ClosedLoop, OpenLoop, Plan, parse_target
from lynxbench.load.reading import Rotation
from lynxbench.load.record import LoadRecord
from lynxbench.load.wire import Timeouts

SERVER_ROW = np.dtype(
    [(name, "<i8") for name in ("arrival", "first", "last", "conn_t")]
    + [("n", "<i4"), ("sent", "<i4"), ("status", "<i2"), ("kind", "<i2"), ("conn", "<i4"), ("tokoff", "<i8")]
)
TARGETS = {"vllm": 10.0, "aiperf": 50.0, "guidellm": 100.0, "wrk": 0.25}
"""Our streaming requests/s over theirs, at one token and 64 open streams."""


class PeerFailed(Exception):
    """A peer that could not be measured; one line says why."""


class TruthServer:
    """The compiled server, running on its core."""

    def __init__(self, binary: Path, core: int, folder: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._prefix = folder / f"truth-{self.port}"
        command = [str(binary), "--port", str(self.port), *options, "--dump", str(self._prefix)]
        self._process = subprocess.Popen(["taskset", "-c", str(core), *command])
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise SystemExit("the truth server did not start")

    def stop(self) -> np.ndarray:
        """End it; one row a request."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        return np.fromfile(f"{self._prefix}.req", SERVER_ROW)

    def kill(self) -> None:
        """End it whatever happened."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def truth_server(bench: Bench, *options: str) -> Iterator[TruthServer]:
    """A server for one measurement."""
    server = TruthServer(bench.binary, bench.server_core, bench.folder, *options)
    try:
        yield server
    finally:
        server.kill()


class Bench:
    """Where things are, and for how long."""

    def __init__(self, source: Path, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self.binary = folder / "truth_server"
        subprocess.run(["gcc", "-O2", "-w", "-o", str(self.binary), str(source)], check=True)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise SystemExit("client and server need a core each; this machine offers one")
        self.server_core, self.client_core = cores[0], cores[1]

    def drive(
        self, url: str, tokens: int, load: ClosedLoop | OpenLoop, seconds: float, **options: object
    ) -> LoadRecord:
        """One probe of ours."""
        service = Service(url=url, model="mock")
        script = Rotation((build_request(service, build_body(service, "hello there", tokens)),))
        return run_probe(Plan(parse_target(url), script, OpenAiLanguage(), load, seconds, **options))  # type: ignore[arg-type]


def ceiling(bench: Bench, tokens: int) -> dict[str, float]:
    """Requests and events a second with 64 open, every event's JSON parsed."""
    with truth_server(bench, "--no-token-log") as server:
        record = bench.drive(server.url, tokens, ClosedLoop(64), bench.seconds)
    span_s = (record.last_ns.max() - record.start_ns) / 1e9
    cpu_s = float(record.health[0].cpu_share.mean()) * span_s
    return {
        "requests_per_s": len(record) / span_s,
        "events_per_s": float(record.events.sum()) / span_s,
        "cpu_us_per_request": cpu_s / len(record) * 1e6,
        "requests_per_s_of_a_whole_core": len(record) / cpu_s,
        "cpu_share": cpu_s / span_s,
    }


def stamp_error(bench: Bench, streams: int, *options: str) -> dict[str, float]:
    """Reported against true time to first token and inter-token time; truth 50 ms and 10 ms."""
    with truth_server(bench, "--ttft", "50", "--itl", "10", *options) as server:
        record = bench.drive(server.url, 32, ClosedLoop(streams, ramp_up_s=0.36), max(bench.seconds, 2.0))
        rows = server.stop()
    rows = rows[rows["status"] == 1]
    truth = (rows["first"] - rows["arrival"]) / 1e6
    true_gap = ((rows["last"] - rows["first"]) / 1e6 / (rows["n"] - 1)).mean()
    seen, gaps, verdict = record.server_first_token_s() * 1e3, record.gaps(), judge(record)
    clean = gaps.seconds[gaps.clean]
    return {
        "streams": streams,
        "ttft_mean_error_ms": float(seen.mean() - truth.mean()),
        "ttft_p99_error_ms": float(np.quantile(seen, 0.99) - np.quantile(truth, 0.99)),
        "itl_mean_error": float(gaps.seconds.mean() * 1e3 / true_gap - 1),
        "itl_median_ms": float(np.median(clean) * 1e3) if len(clean) else float("nan"),
        "coalesced_share": record.coalesced_share,
        "client_wait_share": verdict.wait_share,
        "void": float(verdict.void),
    }


def punctuality(bench: Bench) -> dict[str, float]:
    """Open loop at 1000 a second."""
    seconds = max(bench.seconds, 3.0)
    with truth_server(bench, "--ttft", "20", "--no-token-log") as server:
        record = bench.drive(server.url, 1, OpenLoop(schedule.constant(1000, seconds)), seconds, preconnect=64)
        rows = server.stop()
    late = record.lateness_ns() / 1e6
    arrivals = np.sort(rows["arrival"])
    return {
        "late_mean_ms": float(late.mean()),
        "late_p99_ms": float(np.quantile(late, 0.99)),
        "rate_at_the_server_per_s": (len(arrivals) - 1) / ((arrivals[-1] - arrivals[0]) / 1e9),
        "ok": record.counts()["ok"],
        "client_wait_share": judge(record).wait_share,
    }


def faults(bench: Bench) -> dict[str, object]:
    """5 % dropped, 5 % answered with 500, 1 % stalled: exact counts, bounded time."""
    options = ("--ttft", "5", "--itl", "1", "--drop", ".05", "--http500", ".05", "--stall", ".01")
    with truth_server(bench, *options) as server:
        began = time.monotonic()
        record = bench.drive(server.url, 8, ClosedLoop(32, requests=2000), 60, timeouts=Timeouts(idle_s=1.0))
        took = time.monotonic() - began
        rows = server.stop()
    return {
        "counts": {name: count for name, count in record.counts().items() if count},
        "truth": {
            name: int((rows["status"] == code).sum())
            for name, code in (("ok", 1), ("drop", 2), ("500", 3), ("stall", 4))
        },
        "took_s": took,
    }


def first_request(bench: Bench) -> float:
    """Seconds from starting a program to its first request at the server."""
    program = (
        "import sys\nfrom lynxbench.engines.openai import *\nfrom lynxbench.load.driver import run_probe\n"
        "from lynxbench.load.plan import *\nfrom lynxbench.load.reading import Rotation\n"
        "s = Service(url=sys.argv[1], model='m')\nr = Rotation((build_request(s, build_body(s, 'x', 1)),))\n"
        "run_probe(Plan(parse_target(s.url), r, OpenAiLanguage(), ClosedLoop(1, requests=1), 5))\n"
    )
    with truth_server(bench) as server:
        began_ns = time.perf_counter_ns()
        subprocess.run([sys.executable, "-c", program, server.url], check=True)
        rows = server.stop()
    return float(rows["arrival"][0] - began_ns) / 1e9


def peer(bench: Bench, name: str, command: str, requests: int) -> dict[str, float]:
    """A peer's streaming requests/s at one token and 64 open, by the server's own log."""
    with truth_server(bench, "--no-token-log", "--tokens", "1") as server:
        base = server.url.removesuffix("/v1")
        script = bench.folder / "post.lua"
        body = build_body(Service(url=server.url, model="mock"), "hello there", 1).decode()  # the very bytes we send
        script.write_text(f"wrk.method='POST'\nwrk.body='{body}'\nwrk.headers['Content-Type']='application/json'\n")
        arguments = {
            "wrk": f"-t1 -c64 -d{bench.seconds:.0f}s -s {script} {server.url}/chat/completions",
            "vllm": f"bench serve --backend openai-chat --base-url {base} --endpoint /v1/chat/completions --model mock "
            f"--dataset-name random --random-input-len 8 --random-output-len 1 --num-prompts {requests} "
            "--max-concurrency 64 --skip-tokenizer-init",
            "aiperf": f"profile --model mock --url {base} --endpoint-type chat --streaming --concurrency 64 "
            f"--request-count {requests} --tokenizer builtin --ui none",
            "guidellm": f"benchmark --target {base} --rate-type concurrent --rate 64 --max-requests {requests} "
            "--data prompt_tokens=8,output_tokens=1 --model mock",
        }[name]
        full = ["taskset", "-c", str(bench.client_core), *shlex.split(command), *shlex.split(arguments)]
        began = time.perf_counter_ns()
        done = subprocess.run(full, capture_output=True, text=True, timeout=900, check=False)
        rows = server.stop()
    good = np.sort(rows["last"][rows["status"] == 1])
    if len(good) < 20:
        tail = re.sub(r"\s+", " ", (done.stderr or done.stdout)[-300:])
        raise PeerFailed(f"sent almost nothing (exit {done.returncode}): {tail}")
    low, high = int(len(good) * 0.1), int(len(good) * 0.9)
    return {
        "requests_per_s": float((high - low) / ((good[high] - good[low]) / 1e9)),
        "first_request_s": float(rows["arrival"].min() - began) / 1e9,
    }


def main() -> None:
    """Measure ourselves, then the peers that were given, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth-source", type=Path, required=True, help="truth_server.c")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer-requests", type=int, default=2000)
    for name in TARGETS:
        parser.add_argument(f"--{name}", metavar="COMMAND")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lynxbench-peers-") as folder:
        bench = Bench(options.truth_source, Path(folder), options.seconds)
        os.sched_setaffinity(0, {bench.client_core})
        result: dict[str, object] = {"first_request_s": first_request(bench)}
        one = ceiling(bench, 1)
        result["one_token"], result["64_tokens"] = one, ceiling(bench, 64)
        result["stamps"] = [stamp_error(bench, streams) for streams in (1, 32, 128, 512)]
        result["role_at_start"] = stamp_error(bench, 32, "--role-at-start")
        result["open_loop_1000"] = punctuality(bench)
        result["faults"] = faults(bench)
        ratios: dict[str, object] = {}
        for name, target in TARGETS.items():
            command = getattr(options, name)
            if command is None:
                ratios[name] = "not given"
                continue
            try:
                theirs = peer(bench, name, command, options.peer_requests)
            except (PeerFailed, OSError, subprocess.TimeoutExpired) as error:
                ratios[name] = f"failed: {error}"  # the others, and our own figures, still stand
                continue
            ratio = float(one["requests_per_s"] / theirs["requests_per_s"])
            ratios[name] = {**theirs, "ours_over_theirs": ratio, "target": target, "met": bool(ratio >= target)}
        result["peers"] = ratios
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
