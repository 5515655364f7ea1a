"""What a person looks at beside a trace's verdict: computed by `attribute`, drawn by `report`."""

from dataclasses import dataclass

from lynxbench.model.attribution import Category
from lynxbench.model.layers import Layer


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step and what it was spent on, in milliseconds."""

    index: int
    ms: float
    spent_ms: dict[Category, float]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A named stretch on a lane, relative to the beginning of the picture."""

    lane: str
    name: str
    category: Category | None
    start_us: float
    dur_us: float


@dataclass(frozen=True, slots=True)
class WorstGap:
    """The longest stretch of a step in which no kernel worked, and what lies around it."""

    step: int
    category: Category
    start_us: float
    dur_us: float
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """An operator against the roofline: operations a byte, operations a second, and what its ceilings allow."""

    name: str
    category: Category
    intensity: float
    per_s: float
    attainable_per_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Movement:
    """Copies of one kind: `HtoD (Pageable -> Device)`, or the collectives, in a step."""

    name: str
    ms_per_step: float
    exposed_ms_per_step: float
    bytes_per_step: float | None

    @property
    def bytes_per_s(self) -> float | None:
        """What each copy reached."""
        return self.bytes_per_step / self.ms_per_step * 1e3 if self.bytes_per_step and self.ms_per_step else None


@dataclass(frozen=True, slots=True)
class Detail:
    """Small enough to travel between processes, whatever the trace weighed."""

    device: str = "cpu"
    rank: int | None = None
    steps: tuple[StepTime, ...] = ()
    gap: WorstGap | None = None
    points: tuple[RooflinePoint, ...] = ()
    movements: tuple[Movement, ...] = ()
    arithmetic_per_s: float | None = None
    bytes_per_s: float | None = None
    """The ceilings that the roofline is drawn with."""


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """An operator or kernel in two traces, in milliseconds a step; None where one of them does not run it."""

    name: str
    category: Category
    before_ms: float | None
    after_ms: float | None
    before_calls: float
    after_calls: float

    @property
    def ms(self) -> float:
        """How much longer it takes in a step."""
        return (self.after_ms or 0.0) - (self.before_ms or 0.0)

    @property
    def note(self) -> str:
        """Whether it is new, or gone."""
        return "new" if self.before_ms is None else "gone" if self.after_ms is None else ""


@dataclass(frozen=True, slots=True)
class TraceChange:
    """What changed from an earlier trace to a later one, as it is shown."""

    before: str
    before_ms: float
    after_ms: float
    sentence: str
    layer: Layer | None
    owner: str | None
    suspects: tuple[tuple[Layer, str, str], ...]
    """Layers that it may lie in: each with its owner and the reason, the likeliest first."""
    parts: tuple[tuple[str, float], ...]
    """Words and milliseconds; they add up to the difference."""
    operators: tuple[OperatorChange, ...]
