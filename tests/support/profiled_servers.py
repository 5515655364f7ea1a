"""A stand-in for servers with a profiler of their own, as vLLM and SGLang have one: the ground truth and a trace.

While it is on nothing is recorded; when it is switched off, a recorded trace is written, its stamps moved to the time
of the requests in between. `how` may be `good`; `elsewhere`: the stamps stay; `silent`: nothing is written; `failing`:
switching it on fails; `absent`: there is no such request.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lynxbench.load.ground_truth import Behaviour, GroundTruthServer
from lynxbench.load.truth_chat import http_answer
from lynxbench.load.truth_peer import _Peer

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "servers" / "profiled.py"
TRACE = ROOT / "tests" / "data" / "traces" / "naive_attention.json.gz"
"""Of an H200; software-bound: intermediate results that a fused operator avoids."""

ANSWERED_BEFORE = 3
"""Requests of the pass before the one at which the trace begins."""


class Profiler:
    """On or off, and what it writes."""

    def __init__(self, server: GroundTruthServer, trace: Path, how: str, folder: Path) -> None:
        self._server, self._trace, self.how, self._folder = server, trace, how, folder
        self._first = 0

    def start(self) -> None:
        self._first = len(self._server.arrival)

    def stop(self) -> None:
        if self.how == "silent":
            return
        document = json.loads(gzip.decompress(self._trace.read_bytes()))
        if self.how == "good":
            self._move(document)
        self._folder.mkdir(parents=True, exist_ok=True)
        name = self._folder / f"rank-0.{time.time_ns()}.pt.trace.json.gz"
        name.write_bytes(gzip.compress(json.dumps(document).encode(), 1))

    def _move(self, document: dict) -> None:
        timed = [event for event in document["traceEvents"] if event.get("ph") == "X"]
        arrival_ns = self._server.arrival[self._first + ANSWERED_BEFORE] + time.time_ns() - time.perf_counter_ns()
        moved_us = (arrival_ns - document["baseTimeNanoseconds"]) / 1e3 - min(event["ts"] for event in timed)
        for event in document["traceEvents"]:
            if "ts" in event:
                event["ts"] += moved_us


class ProfiledPeer(_Peer):
    """One connection; the profiler's requests are answered here."""

    def __init__(self, server: GroundTruthServer, profiler: Profiler) -> None:
        super().__init__(server)
        self._profiler = profiler

    def _serve(self, what: list[bytes], body: bytes) -> None:
        profiler, path = self._profiler, what[1]
        if path not in (b"/start_profile", b"/stop_profile") or profiler.how == "absent":
            super()._serve(what, body)
        elif profiler.how == "failing":
            self.write(http_answer("500 Internal Server Error", '{"error":"no profiler in this build"}'))
        else:
            (profiler.start if path == b"/start_profile" else profiler.stop)()
            self.write(http_answer("200 OK", ""))


async def listen_profiled(trace: Path, how: str, folder: Path) -> tuple[str, asyncio.Server]:
    """Start to answer on the loop that runs; the address, and who listens there."""
    server = GroundTruthServer(Behaviour(ttft_ms=1, itl_ms=1))
    profiler = Profiler(server, trace, how, folder)
    loop = asyncio.get_running_loop()
    server.start(loop)
    listening = await loop.create_server(lambda: ProfiledPeer(server, profiler), "127.0.0.1", 0)
    return f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", listening


@contextmanager
def profiled_thread(folder: Path, how: str = "good", trace: Path = TRACE) -> Iterator[str]:
    """The same in a thread of the test: starts in milliseconds, and has no process to read arguments of."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    url, listening = asyncio.run_coroutine_threadsafe(listen_profiled(trace, how, folder), loop).result(20)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(listening.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@contextmanager
def profiled_server(folder: Path | None, how: str = "good", *, by_environment: bool = False) -> Iterator[str]:
    """Its address; the folder for its traces is told by its arguments, or as older versions are told."""
    config = json.dumps({"profiler": "torch", "torch_profiler_dir": str(folder)})
    told = [] if folder is None or by_environment else ["--profiler-config", config]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("VLLM_TORCH_PROFILER_DIR", None)
    if by_environment:
        environment["VLLM_TORCH_PROFILER_DIR"] = str(folder)
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(TRACE), how, *told],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()
