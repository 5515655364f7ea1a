"""Decisions ask for full agreement: without it no decision has its strongest word, and the next step is named."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lynxbench.model.canonical import short
from lynxbench.model.decisions import DecisionDocument, PrecisionDecision, PrecisionLine, PurchaseDecision
from lynxbench.model.result import Result
from lynxbench.model.standing import Standing, agreement_shown

HELD_BACK = "held back"

AnyDecision = TypeVar("AnyDecision", bound=DecisionDocument)


def hold_back(decision: AnyDecision, results: Sequence[Result], standings: Mapping[str, Standing]) -> AnyDecision:
    """A decision as it is where every contract it rests on was agreed in time; otherwise without its strongest word."""
    lacking: list[tuple[Result, str]] = []
    for result in results:
        agreement = agreement_shown(result.contract.teams, standings.get(result.result_id))
        if result.result_id in decision.cites and agreement is not None and not agreement.full:
            lacking.append((result, agreement.words))
    if not lacking:
        return decision
    cautions = [f"result {short(result.result_id)}: its contract is {words}" for result, words in lacking]
    first, words = lacking[0]
    step = f"lynxbench contract agreement {short(first.contract_id)} says who must sign it; then measure again"
    # read again, as for a pack, a decision is held back already, and its words are kept
    sentence = decision.sentence if is_held_back(decision) else f"{HELD_BACK}, {words}: {step}. {decision.sentence}"
    held: dict[str, object] = {
        "sentence": sentence,
        "cautions": tuple(dict.fromkeys((*decision.cautions, *cautions))),
    }
    if isinstance(decision, PurchaseDecision):
        held |= {"supported": "undecided", "because": f"{words}: {step}", "follow_up": None}
        if not is_held_back(decision):
            answered = len(decision.answers) - decision.unanswered
            held["sentence"] = f"{HELD_BACK}, {answered} of {len(decision.answers)} answered: {words}: {step}."
    elif isinstance(decision, PrecisionDecision):
        held["lines"] = tuple(_undetermined(line, words) for line in decision.lines)
        if not is_held_back(decision):
            held["sentence"] = f"{HELD_BACK}, {words}: {step}. Nothing is a go until then"
    return decision.model_copy(update=held)


def is_held_back(decision: DecisionDocument) -> bool:
    """Whether a decision lacks the agreement that it asks for."""
    return decision.sentence.startswith(HELD_BACK)


def claims_too_much(decision: DecisionDocument, results: Sequence[Result], standings: Mapping[str, Standing]) -> bool:
    """Whether a decision has its strongest word without the agreement that it asks for."""
    if hold_back(decision, results, standings) is decision:
        return False
    if isinstance(decision, PurchaseDecision):
        return decision.supported != "undecided"
    if isinstance(decision, PrecisionDecision):
        return any(line.verdict == "go" for line in decision.lines)
    return not is_held_back(decision)


def _undetermined(line: PrecisionLine, words: str) -> PrecisionLine:
    if line.verdict != "go":
        return line
    return line.model_copy(update={"verdict": "undetermined", "why": f"{words}; otherwise: {line.why}"})
