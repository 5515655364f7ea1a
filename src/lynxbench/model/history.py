"""A contract's results over time: where the level changed with what, declared changes, signs of the whole stack."""

from collections import Counter
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lynxbench.model.attribution import Category
from lynxbench.model.comparison import EffectCause, LayerDifference, SittingNoise
from lynxbench.model.document import Bounds, Document
from lynxbench.model.entries import ChangeVerdict
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

LEVELS_NEED = 16
"""Results that are not doubtful before a level can be said not to have moved: two segments of the search for change
points (stats.changepoints.MIN_SEGMENT)."""


class HistoryPoint(Document):
    """One result in a series: what a ledger's entry knows without opening the document."""

    result_id: str
    started_at: str
    executor_id: str
    instance_id: str
    layer_ids: dict[Layer, str]
    weights: str | None
    run_means: tuple[float, ...]
    estimate: float
    low: float | None
    high: float | None
    unit: str
    doubtful: bool = False
    agreement: Annotated[str, Field(exclude_if=lambda agreement: not agreement)] = ""
    """Whether its contract was agreed before its run, where that names teams."""
    cause: Annotated[str, Field(exclude_if=lambda cause: not cause)] = ""
    """What bounded it, as its own verdict has it; empty where it names nothing."""

    @property
    def names_cause(self) -> bool:
        """Whether it says what bounds it, and nothing speaks against taking its word."""
        return self.cause not in ("", Category.UNATTRIBUTED) and not self.doubtful


class DriftKind(StrEnum):
    """What the record says changed with the level."""

    EXECUTOR = "executor drift"
    MODEL = "model drift"
    BOTH = "model and executor changed"
    INSTANCE = "another machine"
    NOTHING = "nothing changed in the record"


class Motion(StrEnum):
    """What moves a history between its steps."""

    LEVELS = "levels"
    DRIFT = "drift"
    WANDERING = "wandering"


class SeasonKind(StrEnum):
    """What a season goes by."""

    HOUR_OF_DAY = "hour of day"
    DAY_OF_WEEK = "day of week"


class Season(Document):
    """What comes back with the hour or the day, and is nobody's change."""

    kind: SeasonKind
    ratio: Bounds
    """Its highest over its lowest."""
    highest: str
    """When: `14:00 UTC`, `Sunday`."""
    lowest: str
    p: float


class LevelChange(Document):
    """A place where the level changed, or where the record did."""

    index: int
    """The first point of the new level."""
    result_id: str
    at: str
    found: bool
    """By the series itself; otherwise only the record changed here."""
    effect: Bounds
    """Level after over level before."""
    basis: str
    p: float | None
    drift: DriftKind
    layers_changed: tuple[Layer, ...]
    layers: tuple[LayerDifference, ...]
    """Ranked, with fields, where the documents were at hand."""
    cause: EffectCause
    moved: bool | None
    """Whether the interval excludes no change; None without one, or where it is of restarts of one sitting each."""
    since: Annotated[str, Field(exclude_if=lambda since: not since)] = ""
    """When the result before began, where that is so long ago that the change has no moment."""


class CauseMove(Document):
    """A place from which on another cause bounds the results."""

    index: int
    """The first point that the new cause leads."""
    result_id: str
    at: str
    before: str
    after: str
    led: tuple[int, int]
    """Results that named the old cause, of those up to here."""
    leads: tuple[int, int]
    """Results that name the new one, of those from here on."""
    p: float
    layers_changed: tuple[Layer, ...]
    model_changed: bool


class History(Document):
    """The series of one contract at one precision."""

    contract_id: str
    contract: str
    precision: Precision
    unit: str
    points: tuple[HistoryPoint, ...]
    left_out: tuple[str, ...]
    """Results that are not in the series, and why."""
    changes: tuple[LevelChange, ...]
    note: str
    motion: Motion = Motion.LEVELS
    """A drift or a wandering level is no step, and no layer's."""
    trend: Bounds | None = None
    """Its end over its start; None for a history of levels, and where it cannot be told."""
    noise: Annotated[SittingNoise | None, Field(exclude_if=lambda noise: noise is None)] = None
    """A/A noise: what its results differ by while the executor is the same."""
    cause_moves: Annotated[tuple[CauseMove, ...], Field(exclude_if=lambda moves: not moves)] = ()
    """Where another cause took over."""

    seasons: Annotated[tuple[Season, ...], Field(exclude_if=lambda seasons: not seasons)] = ()
    """What comes back with the hour of the day or the day of the week; steps and motion are beside it."""

    machine: Annotated[str, Field(exclude_if=lambda machine: not machine)] = ""
    """Which machine its results are of, in words, where the contract was measured on several."""
    machines: "Annotated[tuple[History, ...], Field(exclude_if=lambda machines: not machines)]" = ()
    """The series of the other machines, each judged by itself: what machines differ by is no change of a level."""

    @property
    def each_machine(self) -> "tuple[History, ...]":
        """This series and those of the other machines."""
        return (self, *self.machines)

    @property
    def words(self) -> tuple[str, ...]:
        """What is shown: step, drift or wandering, seasons by their kind; empty where nothing is."""
        step = ("step",) if any(change.found for change in self.changes) else ()
        motion = () if self.motion is Motion.LEVELS else (self.motion.value,)
        return (*step, *motion, *(season.kind.value for season in self.seasons))

    @property
    def sound(self) -> int:
        """How many of its results are not doubtful."""
        return sum(not point.doubtful for point in self.points)

    @property
    def too_few(self) -> str:
        """Why nothing can be said of a level that shows no change; empty where that can be said."""
        return "" if self.sound >= LEVELS_NEED else f"{self.sound} of {LEVELS_NEED} sound results: too few to tell"

    @property
    def agreement(self) -> str:
        """How many of its results were measured under an agreed contract, in words; empty where that names no teams."""
        counts = Counter(point.agreement for point in self.points if point.agreement)
        return "; ".join(f"{count} {words}" for words, count in counts.items())


class ChangeRow(Document):
    """One declared change and its last measurement."""

    change_id: str
    contract_id: str
    layer: Layer
    owner: str
    what: str
    expected: Bounds
    measured: Bounds | None
    verdict: ChangeVerdict | None
    """None: declared, not measured yet."""
    times_measured: int
    before: str | None
    after: str | None
    caution: str = ""


class ExpectationRecord(Document):
    """How expectations of one owner, or for one layer, came out; inconclusive measurements decide nothing."""

    name: str
    declared: int
    measured: int
    decided: int
    as_expected: int
    less: int
    more: int


class ChangeBook(Document):
    """All changes of a contract."""

    rows: tuple[ChangeRow, ...]
    by_owner: tuple[ExpectationRecord, ...]
    by_layer: tuple[ExpectationRecord, ...]
    chains: tuple[tuple[tuple[str, ...], Bounds], ...]
    """Changes that followed one another, and their gains together."""


class SignalState(StrEnum):
    """Whether a sign is there."""

    PRESENT = "present"
    ABSENT = "absent"
    NOT_ENOUGH_DATA = "not enough data"


class Signal(Document):
    """One sign, with the results that show it or the data that is missing."""

    number: int
    name: str
    state: SignalState
    said: str
    evidence: tuple[str, ...] = ()
    """Ids of results and changes."""
    needed: str = ""
    """Which data would tell."""


class Signals(Document):
    """All five together, of one machine."""

    contract_id: str
    contract: str
    signals: tuple[Signal, ...]
    stack_shaped: bool
    """Two or more are present."""
    sentence: str
    machine: Annotated[str, Field(exclude_if=lambda machine: not machine)] = ""
    """Which machine they are of, in words, where the contract was measured on several."""
    machines: "Annotated[tuple[Signals, ...], Field(exclude_if=lambda machines: not machines)]" = ()
    """Those of the other machines: a sign on one machine and a sign on another do not add up."""
    left_out: Annotated[tuple[str, ...], Field(exclude_if=lambda left_out: not left_out)] = ()
    """Results of machines that are not shown."""

    @property
    def each_machine(self) -> "tuple[Signals, ...]":
        """These and those of the other machines."""
        return (self, *self.machines)
