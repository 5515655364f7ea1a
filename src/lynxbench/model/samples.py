"""What was timed, sample by sample, as plain numpy columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

SAMPLES_BLOB = "samples.npz"
"""What the samples of a run are called, in its folder and in a ledger."""


class Phase(IntEnum):
    """A stretch of a run. STEADY is counted; where none was found, what follows warm-up stands in, with that said."""

    SETUP = 0
    COMPILE = 1
    WARMUP = 2
    TRANSIENT = 3
    STEADY = 4

    @property
    def word(self) -> str:
        """How reports call it."""
        return "warm-up" if self is Phase.WARMUP else self.name.lower()


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One iteration as a device timed it, on the host's clock, with the moments inside it."""

    start_ns: int
    end_ns: int
    units: int
    marks_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Iterations:
    """One row an iteration of one process. Times are of the monotonic clock of the host."""

    start_ns: Int64
    end_ns: Int64
    units: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def seconds(self) -> Float64:
        """How long each iteration took."""
        return (self.end_ns - self.start_ns) / 1e9

    def part(self, first: int, last: int | None = None) -> Iterations:
        """Rows first..last."""
        cut = slice(first, last)
        return Iterations(self.start_ns[cut], self.end_ns[cut], self.units[cut])


@dataclass(frozen=True, slots=True)
class Marks:
    """Moments inside iterations (a token came out): the iteration's row and the stamp, in order."""

    iteration: Int64
    at_ns: Int64


@dataclass(frozen=True, slots=True)
class ProcessSamples:
    """All that one fresh process measured."""

    process: int
    precision: str
    setup_ns: tuple[int, int]
    compile_ns: tuple[int, int] | None
    iterations: Iterations
    marks: Marks


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Columns sampled beside the run, on the same clock as the samples; NaN where a reading failed."""

    at_ns: Int64
    columns: dict[str, Float64]


@dataclass(frozen=True, slots=True)
class CountedProcess:
    """A process's samples with the phase each iteration was found to belong to."""

    samples: ProcessSamples
    phase: npt.NDArray[np.int8]

    @property
    def counted(self) -> npt.NDArray[np.bool_]:
        """The iterations behind the figures: see `counted_rows`."""
        return counted_rows(self.phase)


def counted_rows(phase: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """What counts: the steady iterations; without a steady state, all after warm-up (the verdict says it)."""
    steady = phase == Phase.STEADY
    return np.asarray(steady if steady.any() else phase >= Phase.TRANSIENT)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a model answered on fixed inputs, for accuracy.

    kind      arrays it carries
    logits    `logits` [positions, vocabulary], `targets` [positions]: next-token scores and the text's own tokens
    sketched logits  the same of a large vocabulary, as measure/token_scores.py keeps it
    embedding `vectors` [inputs, width], and `labels` [inputs] where the inputs are labelled
    classes   `scores` [inputs, classes], and `labels` [inputs] where the inputs are labelled
    training  `losses` [steps], `gradient` [some parameters' gradient, flattened]
    values    `values` [any shape]: whatever a callable returned
    """

    kind: str
    arrays: dict[str, npt.NDArray[np.generic]]
    inputs: str
