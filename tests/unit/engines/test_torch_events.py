"""Steps timed by a device's events, on a device made of a list: when each moment was passed is known exactly."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lynxbench.engines.torch.events import IN_FLIGHT, EventClock, open_clock
from lynxbench.errors import CannotRun
from lynxbench.load.inprocess import StopRule, drive
from lynxbench.load.journal import Journal, read_journal

torch = pytest.importorskip("torch")


class Device:
    """A queue with a clock of its own: work takes as long as it is told, whenever the host comes round."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.waits: list[float] = []
        self.made = 0

    def work(self, milliseconds: float) -> None:
        self.now_ms += milliseconds

    def event(self) -> Moment:
        self.made += 1
        return Moment(self)


class Moment:
    def __init__(self, device: Device) -> None:
        self._device, self.at_ms = device, float("nan")

    def record(self) -> None:
        self.at_ms = self._device.now_ms

    def synchronize(self) -> None:
        self._device.waits.append(self.at_ms)

    def elapsed_time(self, end_event: Moment) -> float:
        return end_event.at_ms - self.at_ms


def a_clock(device: Device, host_ns: int = 1_000) -> EventClock:
    return EventClock(device.event, lambda: None, lambda: host_ns)  # type: ignore[arg-type]


def test_a_step_lasts_from_the_end_of_the_one_before() -> None:
    device = Device()
    clock = a_clock(device)
    clock.start()
    done = []
    for milliseconds in (1.0, 2.0, 0.5):
        device.work(milliseconds)
        done += clock.end_step(units=7)
    assert not done, "a short queue is not waited for"
    done = clock.finish()
    assert [(step.start_ns, step.end_ns) for step in done] == [
        (1_000, 1_001_000),
        (1_001_000, 3_001_000),
        (3_001_000, 3_501_000),
    ]
    assert all(step.units == 7 for step in done)


def test_the_host_waits_only_for_a_step_of_long_ago() -> None:
    device = Device()
    clock = a_clock(device)
    clock.start()
    settled = []
    for number in range(IN_FLIGHT + 3):
        device.work(1.0)
        settled += clock.end_step(1)
        assert len(settled) == max(0, number + 1 - IN_FLIGHT)
    assert device.waits[1:] == [1.0, 2.0, 3.0]
    assert len(settled) + len(clock.finish()) == IN_FLIGHT + 3


def test_marks_lie_inside_their_step_and_nowhere_else() -> None:
    device = Device()
    clock = a_clock(device)
    clock.mark()  # nothing is timed yet
    clock.start()
    device.work(3.0)
    clock.mark()
    device.work(1.0)
    clock.mark()
    clock.end_step(2)
    device.work(1.0)
    clock.end_step(2)
    first, second = clock.finish()
    assert first.marks_ns == (3_001_000, 4_001_000)
    assert second.marks_ns == ()
    clock.mark()
    assert clock.finish() == []


def test_events_are_used_again() -> None:
    device = Device()
    clock = a_clock(device)
    clock.start()
    for _ in range(200):
        device.work(0.1)
        clock.mark()
        clock.end_step(1)
    clock.finish()
    assert device.made <= 3 * (IN_FLIGHT + 2)


def test_the_driver_keeps_what_the_device_says(tmp_path: Path) -> None:
    device = Device()

    class Session:
        unit = "token"
        marks: list[int] = []
        device_clock = a_clock(device, host_ns=5_000)

        def step(self, index: int) -> int:
            device.work(2.0)
            self.device_clock.mark()
            device.work(1.0 + index)
            return 4

    host = itertools.count(0, 10_000_000)
    with Journal(tmp_path) as journal:
        said = drive(
            Session(),  # type: ignore[arg-type]
            journal,
            StopRule(min_s=0.05, limit_s=1.0, content=lambda rows: len(rows) > 8),
            clock=lambda: next(host),
        )
    assert said.startswith("steady")
    rows, marks = read_journal(tmp_path)
    assert rows.units.tolist() == [4] * len(rows)
    lasted = (rows.end_ns - rows.start_ns).tolist()
    assert lasted == [3_000_000 + index * 1_000_000 for index in range(len(rows))]
    assert (marks.at_ns - rows.start_ns[marks.iteration]).tolist() == [2_000_000] * len(rows)


def test_a_cpu_keeps_no_time_of_its_own() -> None:
    with pytest.raises(CannotRun, match=r"engine\.timing"):
        open_clock(torch.device("cpu"))
