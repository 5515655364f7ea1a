"""What the kernel's counters say of a step, where others take the processor between the readings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lynxbench.engines import python_resources

MS = 1_000_000


def test_a_wait_between_the_readings_is_not_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 ms before the step, whose reading is taken again, and 4 ms after its end; the step itself waited for 1 ms."""
    stamps = iter([0, 3 * MS, 4 * MS, 4 * MS + 9_000, 24 * MS + 9_000, 28 * MS + 9_000])
    queued = iter([0, 3 * MS, 8 * MS])
    clocks = SimpleNamespace(perf_counter_ns=lambda: next(stamps), thread_time_ns=lambda: 0, process_time_ns=lambda: 0)
    monkeypatch.setattr(python_resources, "time", clocks)
    monkeypatch.setattr(python_resources, "_run_queue_ns", lambda: next(queued))
    step = python_resources.account(lambda index: index, 0)
    assert step.wall_ns == 20 * MS
    assert step.run_queue_ns == 1 * MS


def test_readings_that_nobody_disturbs_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reading itself takes is work, and no wait."""
    stamps = iter([0, 9_000, 20 * MS, 20 * MS + 9_000])
    worked, queued = iter([0, 0, 9_000]), iter([0, 5 * MS])
    clocks = SimpleNamespace(
        perf_counter_ns=lambda: next(stamps), thread_time_ns=lambda: next(worked), process_time_ns=lambda: 0
    )
    monkeypatch.setattr(python_resources, "time", clocks)
    monkeypatch.setattr(python_resources, "_run_queue_ns", lambda: next(queued))
    assert python_resources.account(lambda index: index, 0).run_queue_ns == 5 * MS
