"""The client's pulse while it drives: how late its event loop comes round, and how much of a core it needs."""

import asyncio
import os
from array import array
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns

import numpy as np

from lynxbench.load.load_record import Health
from lynxbench.load.timers import PreciseTimer

TICK_NS = 10_000_000
"""Loop lag is sampled and timeouts are looked at this often: a hundred wake-ups a second cost under 0.1 % of a core."""
WINDOW_TICKS = 25
"""A window of CPU share: 250 ms, long against the kernel's accounting, short against a burst worth seeing."""


class ClientPulse:
    """Samples lag at every tick and CPU at every window, and lets the owner do its housekeeping at the tick."""

    def __init__(self, loop: asyncio.AbstractEventLoop, process: int, on_tick: Callable[[int], None]) -> None:
        self._process = process
        self._on_tick = on_tick
        self._timer = PreciseTimer(loop, self._tick)
        self._lag_at, self._lag = array("q"), array("q")
        self._window_at, self._cpu, self._wait = array("q"), array("d"), array("d")
        self._ticks = 0
        try:
            self._schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._schedstat = -1

    def start(self, at_ns: int) -> None:
        """The first tick comes one tick after this moment."""
        self._next = at_ns + TICK_NS
        self._window_ns, self._cpu_ns, self._wait_ns = at_ns, thread_time_ns(), self._waited_ns()
        self._timer.arm(self._next)

    def stop(self) -> None:
        """No more ticks; the last, unfinished window is kept when it is long enough to mean something."""
        self._timer.close()
        if perf_counter_ns() - self._window_ns >= 5 * TICK_NS:
            self._close_window(perf_counter_ns())
        if self._schedstat >= 0:
            os.close(self._schedstat)
            self._schedstat = -1

    def health(self) -> Health:
        """All samples so far."""
        return Health(
            process=self._process,
            lag_at_ns=np.array(self._lag_at, dtype=np.int64),
            lag_ns=np.array(self._lag, dtype=np.int64),
            window_at_ns=np.array(self._window_at, dtype=np.int64),
            cpu_share=np.array(self._cpu, dtype=np.float64),
            wait_share=np.array(self._wait, dtype=np.float64),
        )

    def _tick(self) -> None:
        now = perf_counter_ns()
        # Ticks that were slept through all count: a pause of a second is a hundred late ticks, not one.
        while self._next <= now:
            self._lag_at.append(self._next)
            self._lag.append(now - self._next)
            self._next += TICK_NS
            self._ticks += 1
        if self._ticks >= WINDOW_TICKS:
            self._ticks = 0
            self._close_window(now)
        self._timer.arm(self._next)
        self._on_tick(now)

    def _close_window(self, now: int) -> None:
        span = max(1, now - self._window_ns)
        cpu_ns, wait_ns = thread_time_ns(), self._waited_ns()
        self._window_at.append(self._window_ns)
        self._cpu.append((cpu_ns - self._cpu_ns) / span)
        self._wait.append((wait_ns - self._wait_ns) / span if wait_ns >= 0 else float("nan"))
        self._window_ns, self._cpu_ns, self._wait_ns = now, cpu_ns, wait_ns

    def _waited_ns(self) -> int:
        if self._schedstat < 0:
            return -1
        try:
            return int(os.pread(self._schedstat, 128, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return -1
