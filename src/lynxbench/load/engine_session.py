"""What an in-process engine must offer to the driver. Engines satisfy this by shape; they do not import it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from lynxbench.model.attribution import Ceiling
from lynxbench.model.job import ExecutedAs, Job, Skip
from lynxbench.model.samples import Outputs, TimedStep


class DeviceClock(Protocol):
    """Times steps where they run. A session that has one queues its work in `step` and does not wait for it."""

    def start(self) -> None:
        """Begin to time: the device has nothing to do, and its next step starts now."""

    def end_step(self, units: int) -> Sequence[TimedStep]:
        """A step was queued; returns the steps that are over, in order."""

    def finish(self) -> Sequence[TimedStep]:
        """Wait for what is queued and stop timing; returns the steps that were not returned yet."""


class Session(Protocol):
    """A loaded model, ready to be asked the same question again and again."""

    unit: str
    """What is counted: token, sentence, image, sample, call."""
    device_clock: DeviceClock | None
    """Where steps are timed by their device; None, or no such attribute, where the host times them."""
    marks: list[int]
    """Monotonic-clock stamps taken inside the last step (a token came out); the driver empties it after each step."""

    def compile(self) -> None:
        """Do whatever must happen once before steps are alike (graph capture, compilation). Marked as its own phase."""

    def step(self, index: int) -> int:
        """Do one iteration on the inputs of that index (inputs rotate) and return the units of work done.

        The work must be finished when it returns: a device is synchronised, a lazy result is forced. With a device
        clock it is only queued.
        """

    def facts(self) -> dict[str, JsonValue]:
        """What was loaded and how: hashes, shapes, options; keys are `layer.name`: `application.model_sha256`."""

    def executed(self) -> ExecutedAs:
        """Native or emulated, by the kernels or casts that ran."""

    def outputs(self) -> Outputs | None:
        """Answers on fixed inputs, for accuracy; outside the timed window."""

    def profile(self, steps: int, into: Path) -> Path | None:
        """Write a trace of that many steps into the folder, each annotated `step#i`; None without a profiler."""

    def ceilings(self, known: tuple[Ceiling, ...] = ()) -> tuple[Ceiling, ...]:
        """Matrix-product, copy and read ceilings at this session's precision and threads, measured now.

        `known` ones, from earlier runs on this executor, are re-checked; they are given only to engines on a device.
        """

    def device_memory_peak_bytes(self) -> int | None:
        """The accelerator's memory high-water mark, or None on a CPU."""

    def close(self) -> None:
        """Release what was loaded."""


class Engine(Protocol):
    """An adapter that can open a session for a job."""

    name: str

    def available(self) -> str | None:
        """None when the engine can be used here; otherwise one line on what is missing and how to install it."""

    def estimate(self, job: Job) -> Skip | None:
        """A reason not to run this precision here (unsupported, or emulated beyond the contract's limit); else None.

        Called in the fresh process before the model is loaded; must return within a few seconds.
        """

    def open(self, job: Job) -> Session:
        """Load the model at the job's precision. Raises CannotRun with one line where that is impossible."""
