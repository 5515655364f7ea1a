"""What a client's run cost: its own processor time, and what else ran on the two cores meanwhile."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
import psutil

EVERY_S = 0.2
TICKS_PER_S = 100  # of /proc/stat, on every Linux
BUSY = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq, steal of a /proc/stat line."""
STEAL = (7,)


def core_s(core: int, kinds: tuple[int, ...] = BUSY) -> float:
    """Processor seconds of these kinds that a core has spent since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            if line.startswith(f"cpu{core} "):
                columns = line.split()[1:]
                return sum(int(columns[place]) for place in kinds) / TICKS_PER_S
    raise SystemExit(f"core {core} is not in /proc/stat")


@dataclass(frozen=True, slots=True)
class Usage:
    """Over a stretch of time."""

    client_cpu_s: float
    client_core_other_share: float
    """Of the client's core, busy with something that was not the client (the kernel's network work counts too)."""
    server_core_busy_share: float
    stolen_s: float
    """Taken from either core by the machine below a virtual one: whoever is measured stands still meanwhile."""


class Meter:
    """Samples a process and its descendants from a thread, until it is stopped."""

    def __init__(self, pid: int, client_core: int, server_core: int) -> None:
        self._process = psutil.Process(pid)
        self._cores = (client_core, server_core)
        self._rows: list[tuple[float, float, float, float, float]] = []
        self._seen: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._sample()

    def _sample(self) -> None:
        try:
            processes = [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            self._seen[process.pid] = times.user + times.system
        client, server = map(core_s, self._cores)
        stolen = sum(core_s(core, STEAL) for core in self._cores)
        self._rows.append((time.perf_counter_ns(), sum(self._seen.values()), client, server, stolen))

    def stop(self) -> None:
        """No more samples."""
        self._stop.set()
        self._thread.join()

    def between(self, from_ns: int, until_ns: int) -> Usage | None:
        """The usage in a stretch, interpolated between samples; None when too few fall near it."""
        if len(self._rows) < 2 or until_ns <= from_ns:
            return None
        at, *columns = np.array(self._rows).T
        used, client, server, stolen = (np.diff(np.interp((from_ns, until_ns), at, column))[0] for column in columns)
        span_s = (until_ns - from_ns) / 1e9
        return Usage(float(used), float((client - used) / span_s), float(server / span_s), float(stolen))
