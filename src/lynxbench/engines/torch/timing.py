"""The shortest of repeated executions: how bare kernels are timed for probes and ceilings."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from lynxbench.engines.torch.device import synchronise

LEAST_REPEATS = 2


def measure_best_s(work: Callable[[], object], device: torch.device, budget_s: float) -> float:
    """The shortest execution within the budget. The first warms up and counts only if it already used the budget."""
    began = time.perf_counter()
    shortest = _once(work, device)
    if time.perf_counter() - began > budget_s:
        return shortest
    repeats = 0
    while repeats < LEAST_REPEATS or time.perf_counter() - began < budget_s:
        shortest = min(shortest, _once(work, device))
        repeats += 1
        if time.perf_counter() - began > 2 * budget_s:
            break
    return shortest


def _once(work: Callable[[], object], device: torch.device) -> float:
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start
