"""Waiting for a machine that others have left alone, before a process is measured and not while it is."""

import time
from collections.abc import Callable

LOOK_S = 2.0
"""How long the machine is looked at; a program that pauses between two bursts is not gone."""


def read_busy_share() -> float:
    """Share of all CPUs that is in use, over the next two seconds."""
    import psutil

    return float(psutil.cpu_percent(interval=LOOK_S)) / 100


def wait_until_calm(
    bound: float,
    limit_s: float,
    *,
    read: Callable[[], float] = read_busy_share,
    clock: Callable[[], float] = time.monotonic,
) -> float | None:
    """Seconds waited until no more than the bound was in use; None where it never was within the limit."""
    began = clock()
    while True:
        if read() <= bound:
            return clock() - began
        if clock() - began >= limit_s:
            return None
