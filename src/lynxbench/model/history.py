"""A contract's results over time: light points, and where the level changed with what."""

from __future__ import annotations

from enum import StrEnum

from lynxbench.model.comparison import EffectCause, LayerDifference
from lynxbench.model.document import Bounds, Document
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision


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


class DriftKind(StrEnum):
    """What the record says changed with the level."""

    EXECUTOR = "executor drift"
    MODEL = "model drift"
    BOTH = "model and executor changed"
    INSTANCE = "another machine"
    NOTHING = "nothing changed in the record"


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
    """Whether the interval excludes no change; None where there is no interval."""


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
