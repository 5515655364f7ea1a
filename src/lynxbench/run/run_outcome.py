"""What every order of a run shares: who is told how far it is, and what it ends in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.model.job import JobReport
from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess, Telemetry

SAMPLES_FILE = "samples.npz"
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
