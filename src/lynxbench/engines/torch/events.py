"""Steps timed by events on the device itself: no wait for the host lies between two steps.

The host only queues work and stays a few steps ahead. A step lasts from the end of the one before to its own end, as
the device saw both: what the device idled in between is part of it, what the host did meanwhile is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

import torch

from lynxbench.engines.torch.device import synchronise
from lynxbench.errors import CannotRun
from lynxbench.model.samples import TimedStep

IN_FLIGHT = 4
"""Steps queued at most beyond the one that runs: deep enough to hide the host's pauses, shallow enough to stop soon."""


class DeviceEvent(Protocol):
    """A moment in a device's queue; torch.cuda.Event is one."""

    def record(self) -> None:
        """Put it behind everything queued so far."""

    def synchronize(self) -> None:
        """Return when the device has passed it."""

    def elapsed_time(self, end_event: DeviceEvent) -> float:
        """Milliseconds from this moment to that one."""


@dataclass(frozen=True, slots=True)
class _Queued:
    end: DeviceEvent
    marks: list[DeviceEvent]
    units: int


def open_clock(device: torch.device) -> EventClock:
    """The clock of a CUDA device; CannotRun for others, which keep no time of their own."""
    if device.type != "cuda":
        raise CannotRun(f"engine.timing: device needs a CUDA device, not {device}; use timing host")
    return EventClock(lambda: torch.cuda.Event(enable_timing=True), lambda: synchronise(device))


class EventClock:
    """Places steps on the host's clock by the device's own stamps (the shape of load.engine_session.DeviceClock)."""

    def __init__(
        self,
        new_event: Callable[[], DeviceEvent],
        drain: Callable[[], None],
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._new_event, self._drain, self._clock = new_event, drain, clock
        self._queued: deque[_Queued] = deque()
        self._marks: list[DeviceEvent] = []
        self._free: list[DeviceEvent] = []
        self._last: DeviceEvent | None = None
        self._last_ns = 0

    def start(self) -> None:
        """Drain the device and set both clocks to one moment: the steps that follow are placed from here."""
        self._drain()
        self._last = self._recorded()
        self._last.synchronize()
        self._last_ns = self._clock()

    def mark(self) -> None:
        """A moment inside the step (a token is done); nothing while no steps are timed."""
        if self._last is not None:
            self._marks.append(self._recorded())

    def end_step(self, units: int) -> list[TimedStep]:
        """The step is queued; returns those that are over. Waits only where too many are under way."""
        self._queued.append(_Queued(self._recorded(), self._marks, units))
        self._marks = []
        done = []
        while len(self._queued) > IN_FLIGHT:
            done.append(self._settle(self._queued.popleft()))
        return done

    def finish(self) -> list[TimedStep]:
        """Wait for all that is queued and stop timing."""
        done = [self._settle(step) for step in self._queued]
        self._queued.clear()
        self._last = None
        return done

    def _recorded(self) -> DeviceEvent:
        event = self._free.pop() if self._free else self._new_event()
        event.record()
        return event

    def _settle(self, step: _Queued) -> TimedStep:
        assert self._last is not None, "steps are timed between start and finish"
        step.end.synchronize()
        before, start_ns = self._last, self._last_ns
        # Between neighbours: a span since the start would lose its nanoseconds in the driver's 32-bit milliseconds.
        end_ns = start_ns + round(before.elapsed_time(step.end) * 1e6)
        marks = tuple(start_ns + round(before.elapsed_time(mark) * 1e6) for mark in step.marks)
        self._free += [before, *step.marks]
        self._last, self._last_ns = step.end, end_ns
        return TimedStep(start_ns, end_ns, step.units, marks)
