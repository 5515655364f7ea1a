"""`lynxbench contest` and `retract`: doubts and withdrawals are signed entries; nothing is deleted."""

import os
from datetime import UTC, datetime

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.naming import append_signed, named_result
from lynxbench.cli.options import AS_JSON, LEDGER, RESULT
from lynxbench.errors import BadInput, Refused
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.ledger.result_standings import owner_of_result
from lynxbench.model.canonical import short
from lynxbench.model.entries import ResultContested, ResultRetracted
from lynxbench.model.standing import Voice
from lynxbench.record.recording import MAX_REASON

REASON = typer.Option(..., "--reason", help="Why, in words that the other teams can check.")


def contest(
    result: str = RESULT,
    reason: str = REASON,
    cites: list[str] = typer.Option([], "--cites", help="Results that show it: ids or their beginnings."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say, signed, that you do not accept a result, and why; it follows the result from now on."""
    with opened(ledger, os.environ) as open_:
        result_id = named_result(open_, result)
        cited = tuple(named_result(open_, name) for name in cites)
        body = ResultContested(result_id=result_id, reason=_reason(reason), cites=cited)
        _append(open_, body, "contested", as_json)


def retract(
    result: str = RESULT,
    reason: str = REASON,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Take back a result of your own team, with the reason; it stays in the record, marked."""
    keyring = Keyring()
    key = keyring.signing_key(datetime.now(UTC)).key
    with opened(ledger, os.environ) as open_:
        result_id = named_result(open_, result)
        trust = keyring.trust
        owner, known = owner_of_result(open_.log, result_id, trust), trust.find(key.keyid)
        team = known.team if known is not None else key.team
        mine = Voice((team,), (key.keyid,))
        is_own = mine.speaks_for(owner) if owner.teams else key.keyid in owner.keys
        if not is_own:
            whose = f"another key's of team {team}, which nobody named" if team in owner.teams else f"{owner.name}'s"
            raise Refused(
                f"{short(result_id)}: the run was {whose}, and you sign as {team}; only its own team retracts a "
                "result. Use: lynxbench contest"
            )
        _append(open_, ResultRetracted(result_id=result_id, reason=_reason(reason)), "retracted", as_json)


def _append(ledger: OpenLedger, body: ResultContested | ResultRetracted, what: str, as_json: bool) -> None:
    seq, team = append_signed(ledger, body)
    document = {"seq": seq, "team": team, "entry": body.model_dump(mode="json")}
    answer(as_json, lambda: document, lambda: f"{short(body.result_id)} {what} by {team} as entry {seq}\n")


def _reason(text: str) -> str:
    reason = text.strip()
    if not 0 < len(reason) <= MAX_REASON:
        raise BadInput(f"--reason: give 1 to {MAX_REASON} characters that say why")
    return reason
