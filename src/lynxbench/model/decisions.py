"""What purchase, precision and what-if decisions say. A decision without evidence says so; it never guesses."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from lynxbench.model.attribution import Category
from lynxbench.model.document import Bounds, Document
from lynxbench.model.figures import Figure
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import Percentile

WITHOUT_DIAGNOSTIC = "this decision is being made without a diagnostic"
UNANSWERED_LIMIT = 3
"""Unanswered questions at which a purchase is one without a diagnostic (REQUIREMENTS R4)."""


class PurchaseAnswer(Document):
    """One of the five questions: its answer with evidence, or the command that would answer it."""

    number: int
    title: str
    question: str
    answered: bool
    says: str
    evidence: tuple[str, ...] = ()
    """Ids of the results it rests on."""
    command: str = ""
    """What would answer it; empty where it is answered."""


class FollowUp(Document):
    """Who re-measures, against which baseline; `change measure` closes it."""

    remeasured_by: str
    baseline: str
    contract_id: str
    layer: Layer
    what: str
    expected: Bounds
    due: str | None = None


class DecisionDocument(Document):
    """What every decision says: its answer in a sentence, under which contract, and the results that it rests on."""

    sentence: str
    contract_id: str
    contract_name: str
    cautions: tuple[str, ...]
    cites: tuple[str, ...]


class PurchaseDecision(DecisionDocument):
    """The five questions before hardware is bought."""

    kind: Literal["purchase"] = "purchase"
    proposed: str
    question: str
    answers: Annotated[tuple[PurchaseAnswer, ...], Field(min_length=5, max_length=5)]
    diagnosed: bool
    """False with three or more unanswered."""
    supported: Literal["purchase", "software first", "neither", "undecided"]
    """What the evidence supports, where there is enough of it."""
    because: str
    follow_up: FollowUp | None
    cautions: tuple[str, ...] = ()

    @property
    def unanswered(self) -> int:
        """How many of the five have no evidence."""
        return sum(not answer.answered for answer in self.answers)


class CeilingSource(Document):
    """Where a figure of a device comes from."""

    what: Annotated[str, Field(description="which figures, such as rates, memory")]
    where: Annotated[str, Field(description="the sheet and its year")]


class Device(Document):
    """An accelerator's public ceilings. Nameplate: what the maker states, never what a workload reaches."""

    name: str
    title: str
    reported_as: tuple[str, ...]
    """How drivers name it, lower case; the longest that occurs in a name wins."""
    dense_tera_per_s: dict[Precision, float]
    """Dense tensor or matrix rate by input format, in 10¹² operations a second, without sparsity; empty: unknown."""
    memory_gb: float | None = None
    memory_tb_per_s: float
    link_gb_per_s: float | None = None
    """Host link, one direction."""
    interconnect_gb_per_s: float | None = None
    """Accelerator to accelerator, both directions together, as makers state it."""
    board_w: float | None = None
    native: tuple[Precision, ...]
    released: str
    sources: Annotated[tuple[CeilingSource, ...], Field(min_length=1)]


class AssumptionState(StrEnum):
    """What the evidence says about an assumption of a spec sheet."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class SpecAssumption(Document):
    """One of five things a spec sheet takes for granted, held against this workload."""

    name: str
    state: AssumptionState
    because: str


class SwapEstimate(Document):
    """What other hardware would gain; an estimate, never a measurement."""

    device: str
    factors: dict[str, Bounds]
    """New over old by part: compute, bandwidth, link, host."""
    how: dict[str, str]
    gain: Bounds
    estimate: Literal[True] = True


class FixEstimate(Document):
    """What a software fix would gain from measured shares; an estimate, with measured interventions beside it."""

    category: Category
    layer: Layer | None
    owner: str | None
    fix: str
    gain: Bounds
    measured: dict[str, Bounds] = {}
    """Interventions that were run for real on this executor, by name."""
    estimate: Literal[True] = True


class WhatIf(DecisionDocument):
    """A swap or a fix applied to measured shares."""

    kind: Literal["whatif"] = "whatif"
    result_id: str
    precision: Precision
    shares: dict[Category, float]
    swap: SwapEstimate | None
    fix: FixEstimate | None
    both: Bounds | None
    """Fix first, then the swap on what remains."""
    assumptions: tuple[SpecAssumption, ...]


class PrecisionLine(Document):
    """One precision: every figure that a choice rests on, side by side."""

    precision: Precision
    verdict: Literal["go", "no-go", "undetermined", "not measured"]
    why: str
    is_reference: bool
    throughput: Figure | None
    speedup: Bounds | None
    """Over the reference precision of the same result."""
    latency: Percentile | None
    latency_metric: str
    memory_bytes: int | None
    energy: Figure | None
    energy_per_request: Figure | None = None
    accuracy: dict[str, float | None]
    loss: Bounds | None
    loss_how: str
    native: Native
    executed: str
    toolchain: str
    label: Annotated[str, Field(exclude_if=lambda label: not label)] = ""
    """What tells it from another of the same precision, such as the format of a server's cache."""

    @property
    def name(self) -> str:
        """How it is called."""
        return self.label or self.precision.value


class KvCacheLine(Document):
    """The KV cache has a precision of its own, decided apart from the weights'."""

    state: Literal["stated", "not measured", "not used"]
    says: str
    command: str = ""


class PrecisionDecision(DecisionDocument):
    """Go, no-go, undetermined or not measured, per precision."""

    kind: Literal["precision"] = "precision"
    policy: str
    lines: tuple[PrecisionLine, ...]
    kv_cache: KvCacheLine
