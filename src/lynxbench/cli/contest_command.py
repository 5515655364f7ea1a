"""`lynxbench contest` and `retract`: doubts and withdrawals are signed entries; nothing is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER, named_result
from lynxbench.errors import Refused

if TYPE_CHECKING:
    from lynxbench.ledger.location import OpenLedger
    from lynxbench.model.entries import ResultContested, ResultRetracted

REASON = typer.Option(..., "--reason", help="Why, in words that the other teams can check.")


def contest(
    result: str = typer.Argument(help="A result: id, its unique beginning, or a path."),
    reason: str = REASON,
    cites: list[str] = typer.Option([], "--cites", help="Results that show it: ids or their beginnings."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say, signed, that you do not accept a result, and why; it follows the result from now on."""
    import os

    from lynxbench.model.entries import ResultContested
    from lynxbench.record.recalling import opened

    with opened(ledger, os.environ) as open_:
        result_id = named_result(open_, result)
        cited = tuple(named_result(open_, one) for one in cites)
        body = ResultContested(result_id=result_id, reason=_reason(reason), cites=cited)
        _append(open_, body, "contested", as_json)


def retract(
    result: str = typer.Argument(help="A result: id, its unique beginning, or a path."),
    reason: str = REASON,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Take back a result of your own team, with the reason; it stays in the record, marked."""
    import os
    from datetime import UTC, datetime

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.queries import find_result, voice_of
    from lynxbench.model.canonical import short
    from lynxbench.model.entries import ResultRetracted
    from lynxbench.record.recalling import opened

    keyring = Keyring()
    key = keyring.signing_key(datetime.now(UTC)).key
    with opened(ledger, os.environ) as open_:
        result_id = named_result(open_, result)
        recorded = find_result(open_.log, result_id)
        assert recorded is not None
        voice = voice_of(recorded, keyring.trust)
        if key.keyid not in voice.keys and key.team not in voice.teams:
            raise Refused(
                f"{short(result_id)}: signed by {voice.name}, and you sign as {key.team}; only its own team retracts a "
                "result. Use: lynxbench contest"
            )
        _append(open_, ResultRetracted(result_id=result_id, reason=_reason(reason)), "retracted", as_json)


def _append(ledger: OpenLedger, body: ResultContested | ResultRetracted, what: str, as_json: bool) -> None:
    import json
    from datetime import UTC, datetime

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.model.canonical import short
    from lynxbench.record.recording import seal

    key = Keyring().signing_key(datetime.now(UTC)).key
    seq = ledger.log.append(seal(body, key))
    ledger.seen.check(ledger.log)
    if as_json:
        print(json.dumps({"seq": seq, "team": key.team, "entry": body.model_dump(mode="json")}, indent=1))
    else:
        print(f"{short(body.result_id)} {what} by {key.team} as entry {seq}")


def _reason(text: str) -> str:
    from lynxbench.errors import BadInput
    from lynxbench.record.recording import MAX_REASON

    reason = text.strip()
    if not 0 < len(reason) <= MAX_REASON:
        raise BadInput(f"--reason: give 1 to {MAX_REASON} characters that say why")
    return reason
