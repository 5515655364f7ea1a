"""What a fleet run says: every unit accounted for, the spread over instances, and who stands apart and why."""

from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from lynxbench.model.comparison import EffectCause, LayerDifference
from lynxbench.model.document import Bounds, Document
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision


class UnitState(StrEnum):
    """What became of one node, GPU or job."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    """The run itself said no."""
    LOST = "lost"
    """Its node or worker was lost as often as it was tried."""


class AttemptNote(Document):
    """One attempt at a unit."""

    node: str
    ended: str
    why: str = ""
    seconds: float


class FleetUnit(Document):
    """One run of the contract that was asked for. None is ever missing: pending, failed and lost ones stay listed."""

    name: str
    node: str
    """The node it belongs to, or last ran on."""
    state: UnitState = UnitState.PENDING
    result_id: str | None = None
    folder: str | None = None
    """Relative to the fleet's folder."""
    why: str = ""
    exit_code: int | None = None
    attempts: tuple[AttemptNote, ...] = ()
    stands_in_for: str | None = None
    """The lost node that this one replaced."""
    recorded: bool = False


class InstanceStanding(StrEnum):
    """How an instance stands to the others."""

    TYPICAL = "typical"
    DIFFERS = "differs"
    """The difference is real and beyond the contract's budget, but not beyond what this fleet spreads by itself."""
    OUTLIER = "outlier"
    UNKNOWN = "unknown"
    """Too few restarts, or no other instance to hold it against."""


class InstanceRow(Document):
    """One instance's figure, and how it stands to the others'."""

    unit: str
    result_id: str
    executor_id: str
    instance_id: str
    validity: str
    estimate: float
    low: float | None
    high: float | None
    restarts: int
    against_rest: Bounds
    """This instance over the others: a ratio with its simultaneous interval."""
    distance: float | None
    """From the median instance, in robust standard deviations of the fleet."""
    standing: InstanceStanding
    why: str = ""
    layers: tuple[LayerDifference, ...] = ()
    """For one that stands apart: what only it has, the strongest suspect first."""
    cause: EffectCause | None = None


class FieldSplit(Document):
    """An executor field whose values divide the instances, and how much of the spread goes with it."""

    layer: Layer
    name: str
    owner: str
    weight: str
    groups: tuple[tuple[JsonValue, tuple[str, ...], float], ...]
    """Value, the units that have it, and their geometric mean."""
    explained: float
    """Share of the variance between instances that lies between the groups; other fields may share it."""


class FleetComparison(Document):
    """All instances at one precision."""

    precision: Precision
    figure: str
    unit: str
    instances: tuple[InstanceRow, ...]
    median: float | None
    spread: float | None
    """Slowest to fastest, as a share of the median."""
    sigma: float | None
    """Robust standard deviation between instances, relative."""
    budget: float
    confidence: float
    same_executor: bool
    """Whether all have one executor id: nominally identical."""
    splits: tuple[FieldSplit, ...] = ()
    sentence: str


class FleetReport(Document):
    """A fleet run, whole."""

    schema_version: Literal[1] = 1
    fleet_id: str
    contract: str
    question: str
    contract_id: str
    started_at: str
    finished_at: str | None
    asked: int
    measured: int
    units: tuple[FleetUnit, ...]
    left_out: tuple[str, ...] = ()
    """Results that take no part in the comparison, and why."""
    per_precision: tuple[FleetComparison, ...] = ()
    verdict: str

    @property
    def complete(self) -> bool:
        """Whether every unit has a result."""
        return self.measured == self.asked
