"""Waking up on time: a timer of nanosecond resolution, and a wheel that watches timeouts without a timer a request."""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

# uvloop's own timers have a resolution of one millisecond, as much as the lateness we allow ourselves; a timerfd has
# the kernel's. perf_counter_ns is CLOCK_MONOTONIC on Linux, so absolute moments need no translation.
_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1


class _Itimerspec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class PreciseTimer:
    """Calls back once at an absolute moment of perf_counter_ns; arming again replaces the moment."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._fd = -1
        self._handle: asyncio.TimerHandle | None = None
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            self._settime = libc.timerfd_settime
            self._fd = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd >= 0:
            self._spec = _Itimerspec()
            self._spec_reference = ctypes.byref(self._spec)
            loop.add_reader(self._fd, self._fired)

    def arm(self, at_ns: int) -> None:
        """Call back at that moment; a moment already past is due at once."""
        if self._fd >= 0:
            seconds, rest = divmod(max(at_ns, 1), 1_000_000_000)
            self._spec.value_s = seconds
            self._spec.value_ns = rest
            self._settime(self._fd, _TFD_TIMER_ABSTIME, self._spec_reference, None)
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0, at_ns - perf_counter_ns()) / 1e9, self._callback)

    def close(self) -> None:
        """Stop; the timer is not used again."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._handle is not None:
            self._handle.cancel()

    def _fired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # armed anew between the wake-up and this call
        self._callback()


class Watched(Protocol):
    """Something that may time out."""

    def deadline_ns(self) -> int:
        """When it times out as things stand; 0 when there is nothing to wait for."""

    def expire(self) -> None:
        """Its time is over."""


class TimerWheel:
    """Looks at each watched thing only when its time could be over; a read that moves a deadline costs nothing.

    A thing is looked at again after the shortest configured timeout at the latest, and no deadline set after a look can
    be earlier than that, so none is missed by more than one tick.
    """

    def __init__(self, tick_ns: int, shortest_ns: int) -> None:
        self._tick_ns = tick_ns
        self._shortest_ns = max(shortest_ns, tick_ns)
        self._slots: dict[int, list[Watched]] = {}
        self._at = 0

    def watch(self, thing: Watched, now_ns: int) -> None:
        """Start watching; it stays until a look finds nothing to wait for."""
        self._put(thing, now_ns + self._shortest_ns)

    def look(self, now_ns: int) -> list[Watched]:
        """Expire what is due and return the things that need no more watching."""
        now = now_ns // self._tick_ns
        if self._at == 0:
            self._at = min(self._slots, default=now)
        released: list[Watched] = []
        for slot in range(self._at, now + 1):
            for thing in self._slots.pop(slot, ()):
                deadline = thing.deadline_ns()
                if deadline == 0:
                    released.append(thing)
                elif deadline <= now_ns:
                    thing.expire()
                    released.append(thing)
                else:
                    self._put(thing, min(deadline, now_ns + self._shortest_ns))
        self._at = now + 1
        return released

    def _put(self, thing: Watched, at_ns: int) -> None:
        # One slot later than the moment lies in, so that a look never comes before it.
        self._slots.setdefault(max(at_ns // self._tick_ns + 1, self._at), []).append(thing)
