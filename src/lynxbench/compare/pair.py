"""Two results on their way to a comparison, with what other rooms know about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lynxbench.model.canonical import short
from lynxbench.model.comparison import ContractDifference, RuleVerdict
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.standing import Standing
from lynxbench.stats.sessions import LevelVariance

LatencyRuns = Mapping[Precision, Mapping[tuple[str, float], tuple[float, ...]]]
"""By precision, then by metric and percentile: that percentile in each fresh process, in milliseconds."""


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side: the result, its standing, and its latencies by process where the samples were at hand."""

    result: Result
    name: str = ""
    standing: Standing | None = None
    """What others say of it, where a ledger knows."""
    latency_runs: LatencyRuns = field(default_factory=dict)
    refuted: str = ""
    """What recomputing its figures from its own samples found wrong, where whoever compares did so."""
    not_recomputed: str = ""
    """Why whoever compares could not recompute them."""

    @property
    def label(self) -> str:
        """How rules speak of it: the name given, or the beginning of its id."""
        return self.name or short(self.result.result_id)

    def at(self, precision: Precision) -> PrecisionResult | None:
        """What was measured at a precision; None where nothing was."""
        figures = next((candidate for candidate in self.result.per_precision if candidate.precision is precision), None)
        return None if figures is None or figures.skipped is not None else figures


@dataclass(frozen=True, slots=True)
class BetweenSittings:
    """That A and B are of two sittings, and what is known of how sittings differ there, by precision and figure."""

    learned: Mapping[tuple[Precision, str], LevelVariance] = field(default_factory=dict)

    def of(self, precision: Precision, figure: str) -> LevelVariance | None:
        """What was learned of a figure; None where that is too little."""
        variance = self.learned.get((precision, figure))
        return variance if variance is not None and variance.known else None


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """B is held against A."""

    a: ComparedSide
    b: ComparedSide
    differences: tuple[ContractDifference, ...] = ()
    """Of their contracts; the contract room rules on them."""
    between: BetweenSittings | None = None
    """None: they are of one sitting, or of two machines, whose difference is part of what is asked."""
    order: tuple[str, ...] = ()
    """Of the halves of each pair (`AB` or `BA`), where their restarts were measured in pairs."""

    @property
    def sides(self) -> tuple[ComparedSide, ComparedSide]:
        """Both, A first."""
        return self.a, self.b

    @property
    def declared_noise(self) -> float | None:
        """Between sittings, as the contracts declare it; the larger, where they do not agree."""
        declared = [side.result.contract.protocol.session_noise for side in self.sides]
        return max((noise for noise in declared if noise is not None), default=None)


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What a judge found: only where a rule does not simply hold."""

    rule: str
    outcome: RuleVerdict
    said: str
    remedy: str = ""
    """In place of the rule's own, where more can be said."""
    precision: Precision | None = None


def breaks(rule: str, words: str, remedy: str = "") -> RuleFinding:
    """A rule that makes the pair incomparable."""
    return RuleFinding(rule, RuleVerdict.BREAKS, words, remedy)


def differs(rule: str, words: str) -> RuleFinding:
    """A difference that is listed and leaves the pair comparable."""
    return RuleFinding(rule, RuleVerdict.DIFFERS, words)


def doubts(rule: str, words: str, remedy: str) -> RuleFinding:
    """A side whose figures may be shown and may not decide."""
    return RuleFinding(rule, RuleVerdict.DOUBTS, words, remedy)
