"""What every order of a run shares: who is told how far it is, and what it ends in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.model.job import JobReport
from lynxbench.model.result import Result
from lynxbench.model.samples import SAMPLES_BLOB, CountedProcess, Telemetry

SAMPLES_FILE = SAMPLES_BLOB
TELEMETRY_FILE = "telemetry.csv"


class Progress(Protocol):
    """Who is told how far the run is."""

    def begin(self, run: RunFolder) -> None:
        """The run is registered and starts, or goes on."""

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work; called a few times a second."""

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""

    def note(self, text: str) -> None:
        """A step between processes."""


class LineProgress:
    """Tells whoever listens in plain lines, and nobody where nobody does."""

    def __init__(self, say: Callable[[str], object] | None = None) -> None:
        self._say = say or (lambda _: None)
        self._processes = 0

    def begin(self, run: RunFolder) -> None:
        """The run is registered and starts, or goes on."""
        self._processes = len(run.registration.plan)
        self._say(f"{run.registration.contract.name}: {self._processes} processes, into {run.path}")

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work: lines are for what has ended."""

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        why = f": {report.error}" if report.error else ""
        self._say(f"process {slot.index + 1} of {self._processes}: {report.status.value} in {spent_s:.1f} s{why}")

    def note(self, text: str) -> None:
        """A step between processes."""
        self._say(text)


@dataclass(frozen=True, slots=True)
class Finished:
    """A sealed result with what its report is drawn from."""

    result: Result
    folder: Path
    processes: tuple[CountedProcess, ...]
    telemetry: Telemetry | None


class Recorder(Protocol):
    """Who keeps the record of a run. None of these may fail on its own account: a run is never lost to its record."""

    def register(self, run: RunFolder) -> None:
        """A run is about to take its first sample, or to go on."""

    def abandon(self, run: RunFolder, reason: str) -> None:
        """A run ended without a result."""

    def record(self, folder: Path) -> None:
        """A run has its result."""


Recorders = Callable[[], Recorder | None]
"""A fresh recorder for each run, which keeps one run's record alone; None where nothing is recorded."""


@contextmanager
def recorded(run: RunFolder, recorder: Recorder | None) -> Iterator[None]:
    """Announce a run, and say what became of it, whatever that is."""
    if recorder is None:
        yield
        return
    recorder.register(run)
    try:
        yield
    except BaseException as error:
        recorder.abandon(run, f"{type(error).__name__}: {error}")
        raise
    recorder.record(run.path)
