"""What a comparison says: soundness first, then effects with intervals, then the differing layers and their owners."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from lynxbench.errors import ExitCode
from lynxbench.model.document import Bounds, Document
from lynxbench.model.executor import Tier
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy


class Comparability(StrEnum):
    """Whether two results may stand beside each other."""

    COMPARABLE = "comparable"
    WITH_DIFFERENCES = "comparable with differences"
    INCOMPARABLE = "incomparable"
    """No ratio is given anywhere."""


class RuleVerdict(StrEnum):
    """What one rule says of one pair."""

    HOLDS = "holds"
    DIFFERS = "differs"
    """Still comparable; the difference is listed."""
    DOUBTS = "doubts"
    """Still comparable; the figures are shown, and no verdict rests on them."""
    BREAKS = "breaks"
    """Not comparable."""


class RuleOutcome(Document):
    """One rule that does not simply hold, with what was found and what would make it sound."""

    rule: str
    name: str
    outcome: RuleVerdict
    said: str
    remedy: str
    precision: Precision | None = None
    """None where it concerns the whole of both results."""


class EffectVerdict(StrEnum):
    """The change against the contract's budget."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    WITHIN_BUDGET = "within budget"
    INCONCLUSIVE = "inconclusive"
    UNPROVEN = "unproven"
    """The interval alone would decide, and a side is doubtful: it convicts nobody and clears nobody."""

    @property
    def moved(self) -> bool:
        """Whether an effect is shown that something could be the cause of."""
        return self in (EffectVerdict.REGRESSED, EffectVerdict.IMPROVED)


class Effect(Document):
    """One figure of B over the same figure of A."""

    figure: str
    """`throughput`, or a latency's metric with its percentile."""
    unit: str
    higher_is_better: bool
    a: float | None
    b: float | None
    ratio: Bounds
    basis: str
    """What the interval rests on."""
    verdict: EffectVerdict
    why: str = ""
    """Why the verdict is inconclusive or unproven, and what would decide it."""


class PrecisionComparison(Document):
    """One precision of both results."""

    precision: Precision
    comparability: Comparability
    leading: str
    """The figure that decides, by the contract's regime and load."""
    verdict: EffectVerdict | None = None
    effects: tuple[Effect, ...] = ()
    """Empty where incomparable."""
    accuracy: str = ""
    """Never a speed figure without its accuracy beside it."""


class Weight(StrEnum):
    """How strongly a changed field is suspected, strongest first."""

    KNOWN = "known to change speed"
    LIBRARY = "other library code"
    VERSION = "other version or setting"
    STATE = "state or instance only"
    NONE = "changes no speed"


class FieldSuspect(Document):
    """One field that differs, and how suspicious it is."""

    name: str
    tier: Tier
    before: JsonValue
    after: JsonValue
    weight: Weight
    reason: str
    follows: str | None = None
    """The field whose change explains this one: it counts there, not here."""


class LayerDifference(Document):
    """A layer that differs: whose it is, how suspicious, and by which fields."""

    layer: Layer
    owner: str
    rank: int
    """1 is the strongest suspect."""
    weight: Weight
    fields: tuple[FieldSuspect, ...]


class CauseKind(StrEnum):
    """What the record says about the cause."""

    ONE_LAYER = "one layer changed"
    NOT_SEPARABLE = "several layers changed"
    MODEL = "the model changed"
    NOTHING_RECORDED = "nothing changed in the record"


LIKELY = ": the likely cause"
"""How the sentence ends that names one layer; of an effect that is not shown nothing is the cause."""


class EffectCause(Document):
    """What could be behind the effect, and the experiment that would tell."""

    kind: CauseKind
    layer: Layer | None = None
    """None where it is not one layer that changed."""
    owner: str | None = None
    """All of them where several layers of two results cannot be separated."""
    sentence: str
    experiment: str

    @property
    def record(self) -> str:
        """What differs, where no effect is shown that it could be the cause of."""
        return self.sentence.removesuffix(LIKELY)

    @property
    def likely(self) -> str:
        """The same where an effect is shown by something else than this one pair."""
        return f"{self.record}{LIKELY}" if self.kind is CauseKind.ONE_LAYER else self.sentence


@dataclass(frozen=True, slots=True)
class ContractDifference:
    """One contract key that means something else in two contracts, and whether that breaks comparability."""

    key: str
    before: JsonValue
    after: JsonValue
    """None where a side lacks the key."""
    breaks: bool
    reason: str

    @property
    def effect(self) -> str:
        """In the words of the command line."""
        return "breaks comparability" if self.breaks else "does not"


class NoiseBasis(StrEnum):
    """Where the noise between sittings is known from."""

    LEARNED = "learned"
    DECLARED = "declared"
    ONE_SITTING = "one sitting"
    """It is not known: an interval covers the restarts of its own sitting alone."""


class SittingNoise(Document):
    """A/A noise of a figure: how repeated measurements of one executor differ, as standard deviations."""

    figure: str
    precision: Precision
    basis: NoiseBasis
    sittings: int
    """How many were learned from."""
    restart: float | None = None
    sitting: float | None = None
    """Between sittings, beside what restarts leave in them; or as declared."""
    node: float | None = None
    said: str


class Side(Document):
    """One of the two results, named."""

    name: str
    """As the user named it."""
    result_id: str
    contract_id: str
    executor_id: str
    instance_id: str
    started_at: str
    validity: str


class Comparison(Document):
    """B held against A."""

    comparability: Comparability
    rules: tuple[RuleOutcome, ...]
    """Those that differ or break; every other rule holds."""
    effect: Bounds | None
    """B over A of the leading figure at `precision`; null where incomparable."""
    verdict: EffectVerdict | None
    layers: tuple[LayerDifference, ...]
    a: Side
    b: Side
    precision: Precision | None
    """The precision that decides: the worst verdict among those compared."""
    figure: str | None
    budget: float
    confidence: float
    per_precision: tuple[PrecisionComparison, ...]
    cause: EffectCause | None
    sound_if: tuple[str, ...]
    rules_checked: tuple[str, ...]
    order: Annotated[tuple[str, ...], Field(exclude_if=lambda order: not order)] = ()
    """`AB` or `BA` for each pair, where restarts of both were measured in pairs."""
    noise: Annotated[SittingNoise | None, Field(exclude_if=lambda noise: noise is None)] = None
    """Of the leading figure, where A and B are of two sittings."""
    answers: Annotated[Accuracy | None, Field(exclude_if=lambda answers: answers is None)] = None
    """B's kept answers against A's, where both were asked the same prompts; it stands also where no ratio does."""

    @property
    def refused(self) -> bool:
        """Whether no ratio may be given."""
        return self.comparability is Comparability.INCOMPARABLE

    @property
    def exit_code(self) -> ExitCode:
        """What a program that asked for it ends with."""
        if self.refused:
            return ExitCode.REFUSED
        codes = {EffectVerdict.REGRESSED: ExitCode.VERDICT_NO, EffectVerdict.UNPROVEN: ExitCode.UNPROVEN}
        return ExitCode.DONE if self.verdict is None else codes.get(self.verdict, ExitCode.DONE)
