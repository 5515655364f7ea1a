"""What hours to weeks of one process show beside its figures."""

from pydantic import Field

from lynxbench.model.document import Bounds, Document
from lynxbench.model.figures import Figure


class MeasuredStretch(Document):
    """One process from its first slice to its last; a resumed run has several."""

    started_at: str
    ended_at: str
    slices: int
    measured_s: float
    ended: str
    """How it ended: `to its end`, or what is known of its death."""


class UnmeasuredGap(Document):
    """Between two stretches nothing was measured; the slice in flight when a process died is part of it."""

    from_s: float
    """Since the first slice began."""
    seconds: float
    why: str


class SustainedPeriod(Document):
    """An hour, or a twelfth of a shorter run: what was sustained in it."""

    from_s: float
    until_s: float
    iterations: int
    counted_s: float
    throughput: Figure | None
    """Its interval is within this one process: slices vary by this much. None where nothing of it was counted."""
    p50_ms: float | None
    p99_ms: float | None


class ThrottlingEpisode(Document):
    """A stretch in which a clock was held down."""

    cause: str
    from_s: float
    seconds: float
    rate: float | None
    """The rate of the slices it touched, relative to that of the others; None where it touched all or none."""


class MemoryCourse(Document):
    """Resident memory of one process over its longest stretch."""

    first_bytes: int
    last_bytes: int
    highest_bytes: int
    growth_bytes: Bounds
    """Over that stretch, along a line; its first tenth is left out, in which processes still settle."""
    hours: float
    """How long the stretch was."""


class InletCourse(Document):
    """What a sensor at the inlet read."""

    lowest_c: float
    mean_c: float
    highest_c: float


class Endurance(Document):
    """How the figure held; figures of the rolled-up part are recomputed from rollups, not from every sample."""

    asked_s: float
    measured_s: float
    slice_s: float
    slices: int
    iterations: int
    excerpted: int
    """Iterations that are kept raw beside the rollups."""
    relative_error: float
    """Of every percentile, by the sketch that it is read from."""
    stretches: tuple[MeasuredStretch, ...]
    gaps: tuple[UnmeasuredGap, ...] = ()
    period_s: float
    periods: tuple[SustainedPeriod, ...]
    steady_until_s: float | None
    """End of the longest part from the start that is steady; None where none is."""
    episodes: tuple[ThrottlingEpisode, ...] = ()
    unwatched: str = ""
    """Why throttling could not be seen; empty where it could."""
    memory: MemoryCourse | None = None
    harness_memory: MemoryCourse | None = None
    inlet: InletCourse | None = None
    worst_period: int | None = Field(default=None, ge=0)
    """Which period was slowest."""
