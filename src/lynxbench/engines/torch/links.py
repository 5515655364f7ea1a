"""What lies between host and device: copies both ways from pageable and pinned memory, and the cost of a launch."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from lynxbench.engines.torch.device import synchronise
from lynxbench.model.attribution import Ceiling

COPIED_BYTES = 256 << 20
"""Large against a copy's fixed cost: 5 ms over PCIe 5 from pinned memory."""
REPEATS = 4
LAUNCHES = 2000
ROUNDS = 3


def measure_links(device: torch.device) -> tuple[Ceiling, ...]:
    """Host to device and back, pageable and pinned, and launches a second; nothing on a CPU."""
    if device.type != "cuda":
        return ()
    pageable = torch.randint(0, 256, (COPIED_BYTES,), dtype=torch.uint8)
    pinned = pageable.pin_memory()
    there = pageable.to(device)
    found = []
    for word, memory in (("pageable", pageable), ("pinned", pinned)):
        for name, copy in (("h2d", _copy(there, memory)), ("d2h", _copy(memory, there))):
            how = f"torch copy_ of {COPIED_BYTES >> 20} MiB random bytes, {word} host memory, best of {REPEATS}"
            per_s = COPIED_BYTES / _best_s(copy, device)
            found.append(Ceiling(name=f"{name}_{word}", precision=None, per_s=per_s, unit="B/s", how=how))
    return (*found, _launches(device))


def _copy(target: torch.Tensor, source: torch.Tensor) -> Callable[[], object]:
    return lambda: target.copy_(source, non_blocking=True)


def _best_s(copy: Callable[[], object], device: torch.device) -> float:
    copy()
    taken = []
    for _ in range(REPEATS):
        synchronise(device)
        start = time.perf_counter()
        copy()
        synchronise(device)
        taken.append(time.perf_counter() - start)
    return min(taken)


def _launches(device: torch.device) -> Ceiling:
    """The least kernel there is, queued again and again: what one operator costs the host, and so a step of many."""
    number = torch.rand(1, device=device)
    best_s = float("inf")
    for _ in range(ROUNDS):
        synchronise(device)
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            number.mul_(1.0)
        synchronise(device)
        best_s = min(best_s, (time.perf_counter() - start) / LAUNCHES)
    how = f"{LAUNCHES} in-place products of one number in a row, {best_s * 1e6:.2f} µs each, best of {ROUNDS}"
    return Ceiling(name="launch", precision=None, per_s=1 / best_s, unit="launch/s", how=how)
