"""One slice of an endurance run: everything that is kept of the iterations that fell into it."""

from typing import Annotated, Literal

from pydantic import Field

from lynxbench.model.document import Document

MOST_SLICES = 720
SHORTEST_SLICE_S = 5.0
LONGEST_SLICE_S = 300.0
"""What a killed process loses at most; a run of weeks has more slices instead of longer ones."""

Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


def slice_length_s(duration_s: float) -> float:
    """How long a slice of a run of that duration is."""
    return min(max(duration_s / MOST_SLICES, SHORTEST_SLICE_S), LONGEST_SLICE_S)


class Rollup(Document):
    """Durations in nanoseconds: exact count, sum, least and most, and a sketch of how they are distributed."""

    count: Positive
    sum_ns: Natural
    least_ns: Natural
    most_ns: Natural
    buckets: tuple[tuple[int, Positive], ...]
    """Bucket and how many fell into it, in order; see stats/sketch.py for what a bucket is."""


class Excerpt(Document):
    """Iterations one after another as they were stamped; starts are since the slice's own."""

    start_ns: tuple[Natural, ...]
    lasted_ns: tuple[Natural, ...]
    units: tuple[Natural, ...]


class Slice(Document):
    """Written whole when its time is over; what was not yet written is lost with a killed process."""

    schema_version: Literal[1] = 1
    number: Natural
    before: Natural
    """Iterations that this process finished earlier."""
    start_ns: Natural
    """On the monotonic clock of the process, from its first iteration's start …"""
    end_ns: Natural
    """… to its last one's end."""
    unix_offset_ns: int
    """What makes the time of day of the clock, read once when the process began: clocks start anew with the machine."""
    units: Natural
    paused_ns: Natural
    """Before its iterations, in pauses long enough to be no harness's."""
    durations: dict[str, Rollup]
    """By metric: `latency` an iteration; of tokens `time-to-first-token` and `time-per-token`."""
    excerpts: tuple[Excerpt, ...]
    resident_bytes: int | None
    """Of the measured process at the end of the slice …"""
    harness_resident_bytes: int | None
    """… and of the harness that watches it."""
    inlet_c: float | None
    """By a sensor that calls itself that; None where there is none."""

    @property
    def latency(self) -> Rollup:
        """Of its iterations."""
        return self.durations["latency"]
