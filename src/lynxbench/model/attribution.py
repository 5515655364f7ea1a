"""Where the time went, as a value: exclusive categories, a verdict, and the evidence for it."""

from dataclasses import dataclass

from lynxbench.model.categories import Bound as Bound
from lynxbench.model.categories import Category as Category
from lynxbench.model.document import Bounds, Document
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

NEAR_CEILING = 0.6
"""Kernels at this share of the measured ceiling leave software little to gain; well-tuned libraries reach 0.6 to 0.9
of a bare kernel on shapes of real models."""
FAR_BELOW_CEILING = 0.35
"""Under this a better kernel, layout or thread count gains more than a purchase would. Between the two: doubt."""


class Ceiling(Document):
    """The best this executor did on a bare kernel, in the same run: the envelope, not the workload."""

    name: str
    """`matmul` (operations per second) or `copy` (bytes read and written per second)."""
    precision: Precision | None
    per_s: float
    unit: str
    how: str


class OperatorTime(Document):
    """One operator's exclusive time in a step, its class, and how near its ceiling it ran."""

    name: str
    category: Category
    calls_per_step: float
    ms_per_step: float
    share: float
    efficiency: float | None = None
    """Attainable time by roofline over the time taken; None where shapes are unknown."""


class CandidateLayer(Document):
    """A layer that could be the cause, and why."""

    layer: Layer
    owner: str
    reason: str


class Intervention(Document):
    """A cause removed for real: what was predicted, what was measured, and what that says."""

    name: str
    predicted: Bounds
    measured: Bounds
    note: str = ""


class Attribution(Document):
    """Shares are of time, never credit to a layer."""

    bottleneck: Category
    bound: Bound
    layer: Layer | None
    owner: str | None
    symptom_layer: Layer | None = None
    shares: dict[Category, float]
    gain_if_removed: Bounds
    evidence: tuple[str, ...]
    weak: bool = False
    sentence: str
    next_step: str
    candidates: tuple[CandidateLayer, ...] = ()
    wall_ms_per_step: float
    unprofiled_ms_per_step: float | None = None
    steps: int
    operators: tuple[OperatorTime, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    interventions: tuple[Intervention, ...] = ()


@dataclass(frozen=True, slots=True)
class StepWork:
    """Bytes that a step cannot but read and operations that its products cannot but do, and what was counted."""

    read_bytes: float
    operations: float
    how: str
