"""What fleet tests run on nodes: small tasks that end in every way, a workload that waits on threads, rank traces."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from lynxbench.errors import CannotRun

WAITING_CONTRACT = """\
lynxbench: 1
name: waiting
question: How many batches of waits a second do this node's threads get through?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "waiting:batch"}
  precisions: [fp32]
engine: {name: callable}
protocol:
  restarts: 5
  steady: {drift: 20 %, window: 200 ms}
  min_duration: 1000 ms
  limit: 1500 ms
  foreign_load: 100 %
policy: {regression: 5 %}
"""
"""As many threads as the node may use: a node confined to fewer CPUs is slower, and its executor says so. A wait is
long beside the few milliseconds that somebody on a shared machine waits for a CPU after it."""

WAITING = """\
from concurrent.futures import ThreadPoolExecutor
from time import sleep

def batch():
    list(batch.pool.map(sleep, [0.02] * 4))
    return 1

def setup(threads):
    batch.pool = ThreadPoolExecutor(threads)

batch.setup = setup
"""

GATHERING_CONTRACT = """\
lynxbench: 1
name: gathering
question: How many all-reduces a second do these ranks get through?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "gathering:step"}
  precisions: [fp32]
engine: {name: callable, threads: 1}
protocol:
  restarts: 1
  steady: {drift: 20 %, window: 50 ms}
  min_duration: 300 ms
  limit: 400 ms
  foreign_load: 100 %
"""

GATHERING = """\
import torch
import torch.distributed as ranks

def step():
    held = torch.full((1000,), float(ranks.get_rank() + 1))
    ranks.all_reduce(held)
    assert held[0] == sum(range(1, ranks.get_world_size() + 1))
    return 1

def setup():
    torch.set_num_threads(1)
    ranks.init_process_group("gloo")

step.setup = setup
"""


def answer(payload: object, line: object) -> object:
    """A task that ends as its payload says."""
    kind, rest = payload  # type: ignore[misc]
    if kind == "value":
        return rest
    if kind == "refuse":
        raise CannotRun(str(rest))
    if kind == "raise":
        raise ZeroDivisionError(str(rest))
    if kind == "die":
        os._exit(1)
    if kind == "die-once":
        marker = Path(rest)
        if not marker.exists():
            marker.touch()
            os._exit(1)
        return "second time"
    if kind == "alone":  # says when it ran, so that overlaps are seen
        began = time.monotonic()
        time.sleep(float(rest))
        return began, time.monotonic()
    if kind == "wait":
        Path(rest).touch()
        time.sleep(600)
    raise AssertionError(kind)


def write_rank_trace(path: Path, rank: int, *, own_us: int, wait_us: int, steps: int = 4) -> None:
    """A synthetic Kineto trace of one rank: own kernels, then an all-reduce in which it waits for the others."""
    events: list[dict[str, object]] = []
    correlation = 0

    def kernel(name: str, start: int, length: int, launched: int) -> None:
        nonlocal correlation
        correlation += 1
        events.append(
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launched, "dur": 5, "pid": 1, "tid": 1,
             "args": {"correlation": correlation}},
        )  # fmt: skip
        events.append(
            {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": length, "pid": 0, "tid": 7,
             "args": {"correlation": correlation, "stream": 7, "device": 0}},
        )  # fmt: skip

    step_us = own_us + wait_us + 100
    for step in range(steps):
        begin = 1_000_000 + step * step_us
        events.append(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin, "dur": step_us - 10,
             "pid": 1, "tid": 1},
        )  # fmt: skip
        for part in range(10):
            kernel("ampere_sgemm_128x64_nn", begin + 20 + part * own_us // 10, own_us // 10 - 1, begin + 10 + 6 * part)
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", begin + 30 + own_us, wait_us, begin + 80)
    document = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "backend": "nccl"}, "traceEvents": events}
    path.write_text(json.dumps(document))
