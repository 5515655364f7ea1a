"""The closed loop: stamps around the step and nothing else, checkpoints between iterations, an end in any case."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from lynxbench.load.inprocess import StopRule, drive
from lynxbench.load.journal import Journal, read_journal
from lynxbench.model.samples import Iterations


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


class Sleeper:
    """A session whose step takes exactly one millisecond of the fake clock and yields two tokens."""

    unit = "token"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.marks: list[int] = []
        self.indices: list[int] = []

    def step(self, index: int) -> int:
        self.indices.append(index)
        self.clock.now_ns += 500_000
        self.marks.append(self.clock.now_ns)
        self.clock.now_ns += 500_000
        self.marks.append(self.clock.now_ns)
        return 2


def _never(_: Iterations) -> bool:
    return False


def test_it_stops_at_the_limit_when_never_content(tmp_path: Path) -> None:
    clock = FakeClock()
    session = Sleeper(clock)
    with Journal(tmp_path) as journal:
        reason = drive(session, journal, StopRule(0.010, 0.050, _never), clock)  # type: ignore[arg-type]
    assert reason == "limit of 0.05 s reached"
    iterations, marks = read_journal(tmp_path)
    assert len(iterations) == 50
    assert set((iterations.end_ns - iterations.start_ns).tolist()) == {1_000_000}
    assert iterations.units.tolist() == [2] * 50
    assert len(marks.at_ns) == 100
    assert session.indices == list(range(50))


def test_it_stops_at_the_first_contented_checkpoint(tmp_path: Path) -> None:
    clock = FakeClock()
    looks: list[int] = []

    def content(iterations: Iterations) -> bool:
        looks.append(len(iterations))
        return len(looks) == 3

    with Journal(tmp_path) as journal:
        drive(Sleeper(clock), journal, StopRule(0.010, 1.0, content), clock)  # type: ignore[arg-type]
    assert looks == [10, 13, 17]


def test_a_step_longer_than_the_limit_still_counts_once(tmp_path: Path) -> None:
    clock = FakeClock()
    with Journal(tmp_path) as journal:
        drive(Sleeper(clock), journal, StopRule(1e-6, 2e-6, _never), clock)  # type: ignore[arg-type]
        assert journal.count == 1


class Spinner:
    """A millisecond of real work."""

    unit = "call"
    marks: list[int] = []

    def step(self, index: int) -> int:
        until = time.perf_counter_ns() + 1_000_000
        while time.perf_counter_ns() < until:
            pass
        return 1


class Nothing(Spinner):
    """No work at all: what is left is the harness."""

    def step(self, index: int) -> int:
        return 1


def test_a_millisecond_is_measured_as_one_millisecond(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        drive(Spinner(), journal, StopRule(0.3, 0.3, _never))  # type: ignore[arg-type]
        measured_ns = np.quantile(journal.iterations().seconds * 1e9, 0.1)  # other programs can only add to a step
    assert abs(measured_ns / 1_000_000 - 1) < 0.005


def test_the_harness_costs_little_more_than_reading_the_clock(tmp_path: Path) -> None:
    """In reads of the clock, so that a slow machine is not asked to be quick."""
    with Journal(tmp_path) as journal:
        drive(Nothing(), journal, StopRule(0.2, 0.2, _never))  # type: ignore[arg-type]
        iterations = journal.iterations()
    gaps_ns = iterations.start_ns[1:] - iterations.start_ns[:-1]
    reads_ns = np.diff([time.perf_counter_ns() for _ in range(20_000)])
    assert np.quantile(gaps_ns, 0.1) < 50 * max(np.median(reads_ns), 40)
