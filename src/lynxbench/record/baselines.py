"""The level that a contract's results are held against at one machine: it stays until somebody accepts another.

What is held against the result before it would let a slow slide pass, and a regression on the second day; what follows
the best result would ratchet away on luck. So the level is a decision in the ledger, signed; before there is one, it is
the first sound result.
"""

from lynxbench.errors import Refused
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.key_log import NEWEST, logged_trust
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.queries import entries_of_contract, history
from lynxbench.ledger.result_standings import standings, voice_of
from lynxbench.model.canonical import short
from lynxbench.model.entries import DecisionTaken, EntryKind
from lynxbench.model.evidence_gate import Lack, standing_falls_short
from lynxbench.model.result import Result
from lynxbench.model.verdicts import ValidityVerdict
from lynxbench.record.recalling import result_document
from lynxbench.record.recording import seal

QUESTION = "Which result are later ones of this contract on this machine held against?"
BARRING = (Lack.RETRACTED, Lack.REFUTED, Lack.UNTRUSTED)
"""What a result's standing may lack that keeps it from being the level."""


def baseline_of(ledger: OpenLedger, result: Result, trust: TrustList) -> str | None:
    """The id of the result that this one is held against; None where there is no sound one before it."""
    before = [
        listed.result_id
        for listed in history(ledger.log, result.contract_id)
        if listed.instance_id == result.instance_id
        and listed.result_id != result.result_id
        and listed.validity == ValidityVerdict.VALID.value
    ]
    decided = [name for name in _decided(ledger, result.contract_id, trust) if name in before]
    return next((name for name in dict.fromkeys((*decided, *before)) if _stands(ledger, name, trust)), None)


def accept_baseline(ledger: OpenLedger, result: Result, key: SigningKey, answer: str) -> int:
    """Decide that later results are held against this one; the number of the entry. Refused where it is doubtful."""
    if result.validity.verdict is not ValidityVerdict.VALID:
        reasons = "; ".join(result.validity.reasons)
        raise Refused(f"{short(result.result_id)} is {result.validity.verdict}: {reasons}; nothing is held against it")
    cites = (result.result_id,)
    body = DecisionTaken(question=QUESTION, contract_id=result.contract_id, answer=answer, cites=cites)
    return ledger.log.append(seal(body, key))


def _stands(ledger: OpenLedger, name: str, trust: TrustList) -> bool:
    lacking = standing_falls_short(result_document(ledger, name), standings(ledger.log, [name], trust)[name])
    return not any(shortfall.lack in BARRING for shortfall in lacking)


def _decided(ledger: OpenLedger, contract_id: str, trust: TrustList) -> list[str]:
    """Results that a team whom the reader trusts decided on, the newest decision first."""
    now = logged_trust(ledger.log, trust).at(NEWEST)
    decisions = [
        logged.entry.body
        for logged in entries_of_contract(ledger.log, contract_id, [EntryKind.DECISION])
        if voice_of(logged, now).teams
    ]
    return [
        cited
        for body in reversed(decisions)
        if isinstance(body, DecisionTaken) and body.question == QUESTION
        for cited in body.cites
    ]
