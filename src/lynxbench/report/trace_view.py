"""What the views of a trace are drawn from: plain values, already computed."""

from __future__ import annotations

from dataclasses import dataclass

from lynxbench.model.attribution import Attribution, Category
from lynxbench.model.interval import Interval


@dataclass(frozen=True, slots=True)
class StepBar:
    """One step: its length, and what it was spent on."""

    index: int
    ms: float
    spent_ms: dict[Category, float]


@dataclass(frozen=True, slots=True)
class LaneStretch:
    """A stretch on a lane of the picture around the worst gap."""

    lane: str
    name: str
    category: Category | None
    start_us: float
    dur_us: float


@dataclass(frozen=True, slots=True)
class GapPicture:
    """The longest stretch without a working kernel, with what lies around it."""

    step: int
    category: Category
    start_us: float
    dur_us: float
    stretches: tuple[LaneStretch, ...]


@dataclass(frozen=True, slots=True)
class RooflineDot:
    """One operator: operations a byte against operations a second."""

    name: str
    category: Category
    intensity: float
    per_s: float
    attainable_per_s: float
    share: float


@dataclass(frozen=True, slots=True)
class MovementRow:
    """Copies of one kind, or the collectives."""

    name: str
    ms_per_step: float
    exposed_ms_per_step: float
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank beside the others."""

    number: int
    step_ms: float | None
    own_ms: float | None
    exposed_ms: float | None
    bottleneck: str
    note: str


@dataclass(frozen=True, slots=True)
class TraceView:
    """Everything that is shown of a trace."""

    source: str
    device: str
    version: str
    attribution: Attribution
    steps: tuple[StepBar, ...] = ()
    gap: GapPicture | None = None
    dots: tuple[RooflineDot, ...] = ()
    arithmetic_per_s: float | None = None
    bytes_per_s: float | None = None
    movements: tuple[MovementRow, ...] = ()
    swaps: tuple[tuple[str, Interval], ...] = ()
    swap_sentence: str = ""
    ranks: tuple[RankRow, ...] = ()
    rank_lines: tuple[str, ...] = ()
