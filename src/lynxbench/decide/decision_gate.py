"""No decision has its strongest word where evidence that it rests on falls short; the next step is named instead."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from lynxbench.decide.purchase import attribution_of, blameless, saturation_point
from lynxbench.decide.whatif import without_cause
from lynxbench.model.decisions import (
    WITHOUT_DIAGNOSTIC,
    DecisionDocument,
    PrecisionDecision,
    PrecisionLine,
    PurchaseDecision,
    WhatIf,
)
from lynxbench.model.evidence_gate import (
    Lack,
    Shortfall,
    Shortfalls,
    cause_falls_short,
    figures_fall_short,
    standing_falls_short,
)
from lynxbench.model.planning import CapacityPlan, CostReport
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.standing import Standing

HELD_BACK = "held back"

AnyDecision = TypeVar("AnyDecision", bound=DecisionDocument)


def hold_back(decision: AnyDecision, results: Sequence[Result], standings: Mapping[str, Standing]) -> AnyDecision:
    """A decision as it is where all that it rests on carries it; otherwise without its strongest word."""
    short_of = shortfalls_of(decision, results, standings)
    if not short_of:
        return decision
    first, agreed = short_of[0], all(shortfall.lack is not Lack.NOT_AGREED for shortfall in short_of)
    words = f"{first.says}: {first.step}"
    decision = decision.model_copy(update=_without_cause(decision, results, standings))
    # read again, as for a pack, a decision is held back already, and its words are kept
    sentence = decision.sentence if is_held_back(decision) else f"{HELD_BACK}, {words}. {decision.sentence}"
    held: dict[str, object] = {
        "sentence": sentence,
        "cautions": tuple(dict.fromkeys((*decision.cautions, *(shortfall.line for shortfall in short_of)))),
    }
    if isinstance(decision, PurchaseDecision):
        held |= {"supported": "undecided", "because": words}
        if not agreed:
            held["follow_up"] = None
        if not is_held_back(decision):
            answered = f"{len(decision.answers) - decision.unanswered} of {len(decision.answers)} answered"
            missing = "" if decision.diagnosed else f"{WITHOUT_DIAGNOSTIC}; "
            held["sentence"] = f"{HELD_BACK}, {answered}: {missing}{words}."
    elif isinstance(decision, PrecisionDecision):
        whole = [shortfall for shortfall in short_of if shortfall.lack in _OF_STANDING]
        held["lines"] = tuple(_withheld(line, whole, decision, results) for line in decision.lines)
        if not is_held_back(decision):
            held["sentence"] = f"{HELD_BACK}, {words}. Nothing is a go until then"
    return decision.model_copy(update=held)


def _without_cause(
    decision: DecisionDocument, results: Sequence[Result], standings: Mapping[str, Standing]
) -> dict[str, object]:
    """What changes where the standing of what a blame rests on falls short; the figures were asked before."""
    if is_held_back(decision):
        return {}
    for result in results:
        short_of = standing_falls_short(result, standings.get(result.result_id))
        if not short_of:
            continue
        if isinstance(decision, WhatIf) and result.result_id == decision.result_id:
            return without_cause(decision)
        if isinstance(decision, PurchaseDecision) and result.result_id in decision.answers[1].evidence:
            attributed = attribution_of(result)
            if attributed is not None:
                answer = blameless(attributed.attribution, short_of[0])
                return {"answers": (decision.answers[0], answer, *decision.answers[2:])}
    return {}


def is_held_back(decision: DecisionDocument) -> bool:
    """Whether a decision lacks the evidence or the agreement that it asks for."""
    return decision.sentence.startswith(HELD_BACK)


def claims_too_much(decision: DecisionDocument, results: Sequence[Result], standings: Mapping[str, Standing]) -> bool:
    """Whether a decision has its strongest word without the agreement that it asks for.

    What else it rests on is said beside it: whom a reader trusts is the reader's, and older packs asked for less.
    """
    if all(shortfall.lack is not Lack.NOT_AGREED for shortfall in shortfalls_of(decision, results, standings)):
        return False
    if isinstance(decision, PurchaseDecision):
        return decision.supported != "undecided"
    if isinstance(decision, PrecisionDecision):
        return any(line.verdict == "go" for line in decision.lines)
    return not is_held_back(decision)


def shortfalls_of(
    decision: DecisionDocument, results: Sequence[Result], standings: Mapping[str, Standing]
) -> Shortfalls:
    """What the results that a decision cites lack to carry it, the gravest first."""
    short_of: list[Shortfall] = []
    for result in results:
        if result.result_id in decision.cites:
            short_of += standing_falls_short(result, standings.get(result.result_id))
            short_of += _of_evidence(decision, result)
    order = list(Lack)
    return tuple(sorted(dict.fromkeys(short_of), key=lambda shortfall: order.index(shortfall.lack)))


_OF_STANDING = (Lack.RETRACTED, Lack.REFUTED, Lack.NOT_AGREED, Lack.UNTRUSTED)


def _of_evidence(decision: DecisionDocument, result: Result) -> Iterator[Shortfall]:
    """What the figures lack at the precisions that the decision speaks of, and the cause where it rests on one."""
    for figures in _figures_of(decision, result):
        yield from figures_fall_short(result, figures)
    if isinstance(decision, WhatIf) and decision.result_id == result.result_id:
        at = _at(result, decision.precision)
        attribution = None if at is None else at.attribution or result.attribution
        if attribution is not None:
            yield from cause_falls_short(result, at, attribution)
    if isinstance(decision, PurchaseDecision) and result.result_id not in decision.answers[3].evidence[1:]:
        attributed = attribution_of(result)  # of today's hardware: a test instance is asked for its speed alone
        if attributed is not None:
            yield from cause_falls_short(*attributed)


def _figures_of(decision: DecisionDocument, result: Result) -> Iterator[PrecisionResult]:
    named: list[PrecisionResult | None] = []
    if isinstance(decision, CapacityPlan | WhatIf) and decision.result_id == result.result_id:
        named.append(_at(result, decision.precision))
    elif isinstance(decision, CostReport):
        chosen = [candidate for candidate in decision.candidates if candidate.result_id == result.result_id]
        named += [_at(result, candidate.precision) for candidate in chosen]
    elif isinstance(decision, PrecisionDecision):  # judged line by line; a line without a verdict rests on nothing
        judged = [line.precision for line in decision.lines if line.verdict in _DECIDED]
        named += [_at(result, precision) for precision in judged] if _is_newest(decision, result) else []
    elif isinstance(decision, PurchaseDecision):
        point = saturation_point(result)
        named.append(None if point is None else point.figures)
    return (figures for figures in named if figures is not None)


_DECIDED = ("go", "no-go")


def _withheld(
    line: PrecisionLine, whole: Sequence[Shortfall], decision: PrecisionDecision, results: Sequence[Result]
) -> PrecisionLine:
    """A line whose own figures, or the whole result, cannot carry a go or a no-go."""
    if line.verdict not in _DECIDED:
        return line
    result = next((result for result in results if _is_newest(decision, result)), None)
    figures = None if result is None else _at(result, line.precision)
    own = () if result is None or figures is None else figures_fall_short(result, figures)
    short_of = (*whole, *own)
    if not short_of:
        return line
    return line.model_copy(update={"verdict": "undetermined", "why": f"{short_of[0].says}; otherwise: {line.why}"})


def _is_newest(decision: PrecisionDecision, result: Result) -> bool:
    """Whether it is the result whose precisions a decision lists: the last that it cites."""
    return decision.cites[-1:] == (result.result_id,)


def _at(result: Result, precision: Precision) -> PrecisionResult | None:
    return next((figures for figures in result.per_precision if figures.precision is precision), None)
