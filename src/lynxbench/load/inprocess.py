"""The closed loop for in-process engines: one iteration after the other, stamped, until the stop rule is content.

Nothing but the step lies between the two stamps. Judging happens between iterations, at a few checkpoints. Where the
session times its steps on a device, the host queues them without waiting, and the device's stamps are kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

from lynxbench.load.engine_session import DeviceClock, Session
from lynxbench.model.samples import Iterations, TimedStep

Clock = Callable[[], int]

CHECKPOINT_GROWTH = 1.3
"""Each look at the data is this much later than the last: few looks keep the error rate near that of a single one."""


class SampleKeeper(Protocol):
    """Where samples go the moment they exist."""

    count: int

    def append(self, start_ns: int, end_ns: int, units: int) -> None:
        """One finished iteration."""

    def append_marks(self, stamps_ns: Sequence[int]) -> None:
        """Moments inside the iteration that is appended next."""

    def iterations(self) -> Iterations:
        """What is held of them so far."""


@dataclass(frozen=True, slots=True)
class StopRule:
    """When to stop: not before `min_s`, at the first checkpoint where `content` says yes, at `limit_s` in any case."""

    min_s: float
    limit_s: float
    content: Callable[[Iterations], bool]


def drive(session: Session, journal: SampleKeeper, rule: StopRule, clock: Clock = perf_counter_ns) -> str:
    """Iterate until the rule stops it; returns why it stopped."""
    begun_ns = clock()
    checkpoint_s = rule.min_s
    device_clock: DeviceClock | None = getattr(session, "device_clock", None)
    while True:
        until_ns = begun_ns + int(checkpoint_s * 1e9)
        if device_clock is None:
            _iterate_until(session, journal, until_ns, clock)
        else:
            _queue_until(session, device_clock, journal, until_ns, clock)
        if rule.content(journal.iterations()):
            return f"steady after {(clock() - begun_ns) / 1e9:.1f} s"
        if (clock() - begun_ns) / 1e9 >= rule.limit_s:
            return f"limit of {rule.limit_s:g} s reached"
        checkpoint_s = min(checkpoint_s * CHECKPOINT_GROWTH, rule.limit_s)


def _iterate_until(session: Session, journal: SampleKeeper, until_ns: int, clock: Clock) -> None:
    step, marks, append, append_marks = session.step, session.marks, journal.append, journal.append_marks
    index = journal.count
    while True:
        start_ns = clock()
        units = step(index)
        end_ns = clock()
        if marks:
            append_marks(marks)
            marks.clear()
        append(start_ns, end_ns, units)
        index += 1
        if end_ns >= until_ns:
            return


def _queue_until(session: Session, device: DeviceClock, journal: SampleKeeper, until_ns: int, clock: Clock) -> None:
    """The host's clock only ends the stretch: a step that it sees queued in time is waited for and counted."""
    step, index = session.step, journal.count
    device.start()
    while True:
        units = step(index)
        _append(journal, device.end_step(units))
        index += 1
        if clock() >= until_ns:
            break
    _append(journal, device.finish())


def _append(journal: SampleKeeper, steps: Sequence[TimedStep]) -> None:
    for done in steps:
        if done.marks_ns:
            journal.append_marks(done.marks_ns)
        journal.append(done.start_ns, done.end_ns, done.units)
