"""What a factorial experiment found, as a document: other programs may rely on these keys."""

from enum import StrEnum
from typing import Literal

from lynxbench.model.document import Bounds, Document
from lynxbench.model.layers import Layer
from lynxbench.model.surroundings import PackageSet


class Decomposability(StrEnum):
    """Whether what single changes do may be told apart at all."""

    DECOMPOSABLE = "decomposable"
    NOT_DECOMPOSABLE = "not decomposable"
    UNDETERMINED = "undetermined"


class FactorShown(Document):
    """A factor with its levels; the first is how things are, `target` is where they might go."""

    name: str
    layer: Layer
    owner: str
    sets: str
    levels: tuple[str, ...]
    target: str


class CellStatus(StrEnum):
    """What became of a combination of levels."""

    MEASURED = "measured"
    PARTLY = "partly measured"
    INFEASIBLE = "infeasible"
    VOID = "void"
    """It ran, and no run of it may be used; whether it is feasible is not known from that."""
    PENDING = "pending"


class CellShown(Document):
    """One combination of levels: its response, the evidence for it, or why there is none."""

    number: int
    levels: dict[str, str]
    status: CellStatus
    reason: str = ""
    response: Bounds | None = None
    """In the response's own unit; the geometric mean over restarts."""
    values: tuple[float | None, ...] = ()
    """By block of time."""
    contract_id: str | None = None
    executor_id: str | None = None
    result_ids: tuple[str, ...] = ()
    validity: str = ""
    packages: PackageSet | None = None
    accuracy: str = ""


class EffectShown(Document):
    """A main effect or interaction as a ratio: 1.2 is a gain of 20 %; an interaction is over the product of gains."""

    name: str
    factors: tuple[str, ...]
    levels: tuple[str, ...]
    """The level looked at, against the first one."""
    ratio: Bounds
    p: float
    p_holm: float
    sure: bool
    """Whether it differs from 1 after Holm's correction over all effects."""
    contexts: str
    """Over how many settings of the other factors it is a mean; empty: over all."""
    aliases: tuple[str, ...] = ()


class ShareShown(Document):
    """A part of the variation between all processes."""

    term: str
    share: float


class SimpleShown(Document):
    """What a factor's change does in one setting of the others."""

    factor: str
    level: str
    context: str
    ratio: Bounds


class ShapleyShown(Document):
    """A factor's mean addition over all orders of the changes, and the least and most that an order gives it."""

    factor: str
    layer: Layer
    owner: str
    ratio: Bounds
    least: float
    least_after: tuple[str, ...]
    most: float
    most_after: tuple[str, ...]


class OwnerJudgement(StrEnum):
    """Whether what an owner measures alone holds in company."""

    HOLDS = "holds"
    WRONG_SIGN = "wrong sign"
    OVERSTATED = "overstated"
    UNDERSTATED = "understated"
    UNRESOLVED = "unresolved"


class OwnerShown(Document):
    """What a layer's owner would have concluded alone, and why it would have been wrong."""

    factor: str
    layer: Layer
    owner: str
    change: str
    alone: Bounds
    in_company: Bounds
    judgement: OwnerJudgement
    sentence: str


class ExperimentAnalysis(Document):
    """Everything the cells say together."""

    word: Decomposability
    sentence: str
    reasons: tuple[str, ...]
    restarts_needed: int | None
    delta: float
    """The largest interaction, as a ratio minus one, that would change nobody's conclusion."""
    confidence: float
    noise: float | None
    """Spread between restarts of one cell, relative."""
    effects: tuple[EffectShown, ...]
    variation: tuple[ShareShown, ...]
    variation_missing: str = ""
    simple: tuple[SimpleShown, ...]
    joint: Bounds | None = None
    sum_of_single: Bounds | None = None
    gap: Bounds | None = None
    """The joint change over the product of the single ones."""
    shapley: tuple[ShapleyShown, ...] = ()
    owners: tuple[OwnerShown, ...] = ()
    step_missing: str = ""
    """Why joint, Shapley values and owners' views could not be computed."""


class StudyDocument(Document):
    """What experiments and tunings have in common: a contract varied, and one response over many runs of it."""

    schema_version: Literal[1] = 1
    lynxbench_version: str
    question: str
    contract_name: str
    contract_id: str
    response: str
    unit: str
    higher_is_better: bool
    seed: int
    started_at: str
    finished_at: str | None
    measuring_s: float
    accuracy_missing: str = ""
    """Why no accuracy is known; empty: each cell or setting says its own."""
    notes: tuple[str, ...] = ()


class ExperimentDocument(StudyDocument):
    """An experiment: what was asked, what was run, what it says."""

    experiment_id: str
    definition_id: str
    name: str
    design: str
    resolution: int | None
    aliases: tuple[str, ...]
    """What the fraction cannot tell apart, in words; empty for a full design."""
    restarts: int
    order: tuple[tuple[int, ...], ...]
    """Cells in the order they were visited, one list a block."""
    lanes: str
    nodes: tuple[str, ...] = ()
    """On a fleet: the node that visited each block; empty on one machine."""
    factors: tuple[FactorShown, ...]
    cells: tuple[CellShown, ...]
    analysis: ExperimentAnalysis | None
    analysis_missing: str = ""
