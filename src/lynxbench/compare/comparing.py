"""Comparability first; only then the effect, the verdict, and who to ask. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lynxbench.compare.effects import MEDIAN_LATENCY, THROUGHPUT, TOO_FEW_CALLS, effects_at, leading_figure
from lynxbench.compare.pair import ComparedPair, RuleFinding, breaks, differs
from lynxbench.compare.precision_rules import SITTING_RULE, judge_precision, judge_sitting
from lynxbench.compare.rules import BY_NUMBER, RULES
from lynxbench.compare.sittings import describe_noise
from lynxbench.compare.suspects import cause_of, changes_between, model_changed, on_another_machine, rank_changes
from lynxbench.compare.whole_rules import judge_whole
from lynxbench.model.comparison import (
    Comparability,
    Comparison,
    Effect,
    EffectVerdict,
    PrecisionComparison,
    RuleOutcome,
    RuleVerdict,
    Side,
    SittingNoise,
)
from lynxbench.model.contract import Contract
from lynxbench.model.entries import ForeignImported
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.workload import ClosedArrival

WORST_FIRST = (
    EffectVerdict.REGRESSED,
    EffectVerdict.UNPROVEN,
    EffectVerdict.INCONCLUSIVE,
    EffectVerdict.WITHIN_BUDGET,
    EffectVerdict.IMPROVED,
)
ALONE = {
    EffectVerdict.REGRESSED: "a loss beyond the budget",
    EffectVerdict.IMPROVED: "a gain beyond the budget",
    EffectVerdict.WITHIN_BUDGET: "no loss beyond the budget",
}
"""What the interval alone would show; a doubtful side keeps it from being a verdict."""


def compare_pair(pair: ComparedPair, precision: Precision | None = None) -> Comparison:
    """B against A, at one precision or at all that both measured."""
    budget = min(side.result.contract.policy.regression for side in pair.sides)
    confidence = max(side.result.contract.protocol.confidence for side in pair.sides)
    whole = list(judge_whole(pair))
    chosen, about = _precisions(pair, precision)
    whole += about
    sound = not _broken(whole)
    rows: list[PrecisionComparison] = []
    findings = list(whole)
    for shared in chosen:
        here = [replace(finding, precision=shared) for finding in judge_precision(pair, shared)]
        findings += here
        rows.append(_row(pair, shared, whole, here, budget, confidence, sound))
    comparability = _overall(rows, whole)
    decisive = _decisive(rows)
    effect = None if decisive is None else leading_effect(decisive)
    a, b = pair.a.result, pair.b.result
    layers = rank_changes(changes_between(a, b), b.contract.owners)
    cause = cause_of(layers, model_changed=model_changed(a, b), contract=b.contract.name)
    if a.instance_id != b.instance_id:
        cause = on_another_machine(cause)
    verdict = None if decisive is None else decisive.verdict
    if verdict is None or not verdict.moved:
        cause = cause.model_copy(update={"sentence": cause.record})
    return Comparison(
        comparability=comparability,
        rules=tuple(_outcomes(findings)),
        effect=None if effect is None else effect.ratio,
        verdict=verdict,
        layers=layers,
        a=_side(a, pair.a.label),
        b=_side(b, pair.b.label),
        precision=None if decisive is None else decisive.precision,
        figure=None if effect is None else effect.figure,
        budget=budget,
        confidence=confidence,
        per_precision=tuple(rows),
        cause=None if comparability is Comparability.INCOMPARABLE else cause,
        sound_if=tuple(dict.fromkeys(_remedy(f) for f in findings if f.outcome is not RuleVerdict.DIFFERS)),
        rules_checked=tuple(rule.number for rule in RULES),
        order=pair.order,
        noise=None if decisive is None or effect is None else _noise(pair, decisive.precision, effect.figure),
    )


def _noise(pair: ComparedPair, precision: Precision, figure: str) -> SittingNoise | None:
    if pair.between is None:
        return None
    return describe_noise(figure, precision, pair.between.learned.get((precision, figure)), pair.declared_noise)


def leading_effect(row: PrecisionComparison) -> Effect | None:
    """The effect that decides; throughput where the leading latency could not be resolved in both."""
    by_name = {effect.figure: effect for effect in row.effects}
    return by_name.get(row.leading) or by_name.get(MEDIAN_LATENCY if row.leading != THROUGHPUT else THROUGHPUT)


def _precisions(pair: ComparedPair, wanted: Precision | None) -> tuple[tuple[Precision, ...], list[RuleFinding]]:
    a, b = (
        tuple(figures.precision for figures in side.result.per_precision if figures.skipped is None)
        for side in pair.sides
    )
    both = tuple(precision for precision in a if precision in b and wanted in (None, precision))
    if not both:
        words = [
            f"{side.label} measured {', '.join(has) or 'nothing'}" for side, has in zip(pair.sides, (a, b), strict=True)
        ]
        prefix = f"{wanted} is wanted: " if wanted is not None else ""
        common = f" (both have {', '.join(p for p in a if p in b)})" if set(a) & set(b) else ""
        return (), [breaks("R04", f"{prefix}{words[0]}, {words[1]}{common}")]
    findings = []
    for side, own, other in ((pair.a, a, b), (pair.b, b, a)):
        alone = [precision for precision in own if precision not in other]
        if alone and wanted is None:
            findings.append(differs("R04", f"only {side.label} measured {', '.join(alone)}"))
    return both, findings


def _row(
    pair: ComparedPair,
    precision: Precision,
    whole: list[RuleFinding],
    here: list[RuleFinding],
    budget: float,
    confidence: float,
    sound: bool,
) -> PrecisionComparison:
    leading = leading_figure(pair.a.result.contract)
    a, b = (side.at(precision) for side in pair.sides)
    if not sound or _broken(here):
        return PrecisionComparison(precision=precision, comparability=Comparability.INCOMPARABLE, leading=leading)
    effects = tuple(
        _withheld(effect, _doubts(pair, precision, effect.figure, [*whole, *here]))
        for effect in effects_at(pair, precision, budget, confidence)
    )
    row = PrecisionComparison(
        precision=precision,
        comparability=Comparability.WITH_DIFFERENCES if whole or here else Comparability.COMPARABLE,
        leading=_deciding(leading, effects, pair.a.result.contract),
        effects=effects,
        accuracy=_accuracy_words(a, b),
    )
    decisive = leading_effect(row)  # None: a latency leads and neither it nor the median is resolved in both
    verdict = EffectVerdict.INCONCLUSIVE if decisive is None else decisive.verdict
    return row.model_copy(update={"verdict": verdict})


def _deciding(leading: str, effects: Sequence[Effect], contract: Contract) -> str:
    """The leading figure; throughput where that is a median and calls are too few for one of each process.

    Calls that follow one another take on average what their rate says. A load that arrives by itself fixes the rate,
    and of a tail the rate says nothing: there nothing decides.
    """
    few = any(effect.figure == leading == MEDIAN_LATENCY and effect.why == TOO_FEW_CALLS for effect in effects)
    return THROUGHPUT if few and isinstance(contract.workload.arrival, ClosedArrival) else leading


def _doubts(
    pair: ComparedPair, precision: Precision, figure: str, findings: Iterable[RuleFinding]
) -> list[RuleFinding]:
    """What keeps one figure from deciding: what a side lacks, then that nobody knows how sittings differ in it."""
    sides = [each for each in findings if each.outcome is RuleVerdict.DOUBTS and each.rule != SITTING_RULE]
    return [*sides, *judge_sitting(pair, precision, figure)]


def _withheld(effect: Effect, doubts: Sequence[RuleFinding]) -> Effect:
    """A doubtful side shows its figures; it convicts nobody, clears nobody and is not celebrated."""
    if not doubts or effect.verdict not in ALONE:
        return effect
    why = f"the interval alone shows {ALONE[effect.verdict]}; {doubts[0].said}. To settle it: {_remedy(doubts[0])}"
    return effect.model_copy(update={"verdict": EffectVerdict.UNPROVEN, "why": why})


def _accuracy_words(a: PrecisionResult | None, b: PrecisionResult | None) -> str:
    words = []
    for figures in (a, b):
        accuracy = None if figures is None else figures.accuracy
        if accuracy is None:
            words.append("not measured")
        elif accuracy.is_reference:
            words.append("reference")
        else:
            loss = "" if accuracy.loss is None else f" (loss {accuracy.loss:.2%})"
            words.append(f"{accuracy.verdict}{loss}")
    return words[0] if words[0] == words[1] else f"{words[0]} → {words[1]}"


def _broken(findings: Iterable[RuleFinding]) -> bool:
    return any(finding.outcome is RuleVerdict.BREAKS for finding in findings)


def _overall(rows: list[PrecisionComparison], whole: list[RuleFinding]) -> Comparability:
    kinds = {row.comparability for row in rows}
    if _broken(whole) or kinds <= {Comparability.INCOMPARABLE}:
        return Comparability.INCOMPARABLE
    return Comparability.COMPARABLE if kinds == {Comparability.COMPARABLE} else Comparability.WITH_DIFFERENCES


def _decisive(rows: list[PrecisionComparison]) -> PrecisionComparison | None:
    judged = [row for row in rows if row.verdict is not None]
    return min(judged, key=lambda row: WORST_FIRST.index(row.verdict), default=None)


def _outcomes(findings: Iterable[RuleFinding]) -> list[RuleOutcome]:
    listed = [
        RuleOutcome(
            rule=finding.rule,
            name=BY_NUMBER[finding.rule].name,
            outcome=finding.outcome,
            said=finding.said,
            remedy=_remedy(finding),
            precision=finding.precision,
        )
        for finding in findings
    ]
    severity = (RuleVerdict.BREAKS, RuleVerdict.DOUBTS, RuleVerdict.DIFFERS)
    return sorted(listed, key=lambda outcome: (severity.index(outcome.outcome), outcome.rule))


def _remedy(finding: RuleFinding) -> str:
    return finding.remedy or BY_NUMBER[finding.rule].remedy


def compare_foreign(a: Result | ForeignImported, b: Result | ForeignImported, names: tuple[str, str]) -> Comparison:
    """A pair of which at least one is foreign: incomparable, with everything that it fails to state."""
    findings = [
        breaks("R18", f"{name} is a result of {side.tool}, which does not state: {', '.join(side.missing)}")
        for name, side in zip(names, (a, b), strict=True)
        if isinstance(side, ForeignImported)
    ]
    assert findings, "neither is foreign"
    return Comparison(
        comparability=Comparability.INCOMPARABLE,
        rules=tuple(_outcomes(findings)),
        effect=None,
        verdict=None,
        layers=(),
        a=_side(a, names[0]),
        b=_side(b, names[1]),
        precision=None,
        figure=None,
        budget=0.0,
        confidence=0.0,
        per_precision=(),
        cause=None,
        sound_if=(BY_NUMBER["R18"].remedy,),
        rules_checked=tuple(rule.number for rule in RULES),
    )


def _side(result: Result | ForeignImported, name: str) -> Side:
    if isinstance(result, ForeignImported):
        ids = dict.fromkeys(("result_id", "contract_id", "executor_id", "instance_id"), "")
        return Side(name=name, started_at=str(result.stated.get("started_at") or ""), validity="foreign", **ids)
    return Side(
        name=name,
        result_id=result.result_id,
        contract_id=result.contract_id,
        executor_id=result.executor_id,
        instance_id=result.instance_id,
        started_at=result.started_at,
        validity=result.validity.verdict.value,
    )
