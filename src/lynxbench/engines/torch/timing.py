"""The shortest of repeated executions: how bare kernels are timed for probes and ceilings."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import torch

from lynxbench.engines.torch.device import synchronise

LEAST_REPEATS = 2
REST_S = 0.03
BURST_S = 0.03
MOST_IN_BURST = 64
"""A device rests before each burst: power caps average over tens of milliseconds, and a ceiling is what lies above them
(one H200: 8192³ bf16 products take 1.38 ms in a burst and 1.64 ms in a second of them)."""


def measure_best_s(work: Callable[[], object], device: torch.device, budget_s: float) -> float:
    """The shortest execution within the budget. The first warms up and counts only if it already used the budget."""
    began = time.perf_counter()
    shortest = time_once_s(work, device)
    if time.perf_counter() - began > budget_s:
        return shortest
    if device.type == "cuda":
        return _best_of_bursts(work, device, began + budget_s)
    repeats = 0
    while repeats < LEAST_REPEATS or time.perf_counter() - began < budget_s:
        shortest = min(shortest, time_once_s(work, device))
        repeats += 1
        if time.perf_counter() - began > 2 * budget_s:
            break
    return shortest


def time_once_s(work: Callable[[], object], device: torch.device) -> float:
    """One execution by the host's clock, from an idle device to an idle device."""
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


def _best_of_bursts(work: Callable[[], object], device: torch.device, until: float) -> float:
    """By the device's own events, one between any two executions of a burst: the host's part is not in it."""
    in_burst = int(min(max(BURST_S / max(time_once_s(work, device), 1e-9), LEAST_REPEATS), MOST_IN_BURST))
    stamps = [torch.cuda.Event(enable_timing=True) for _ in range(in_burst + 1)]
    shortest: float = float("inf")
    while True:
        time.sleep(REST_S)
        work()  # the clocks rise again, and the queue is never empty
        stamps[0].record()
        for stamp in stamps[1:]:
            work()
            stamp.record()
        synchronise(device)
        taken: list[float] = [before.elapsed_time(after) / 1e3 for before, after in pairwise(stamps)]
        shortest = min(shortest, *taken)
        if time.perf_counter() > until:
            return shortest
