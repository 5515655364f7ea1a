"""`lynxbench results tag` and `note`: what a team wants found or known about a result, signed like all else."""

import os
from collections.abc import Callable
from pathlib import Path

import typer
from pydantic import ValidationError

from lynxbench.cli.answers import answer
from lynxbench.cli.naming import append_signed, named_result, signed_by_me
from lynxbench.cli.options import AS_JSON, LEDGER, RESULT, TOKEN
from lynxbench.errors import BadInput
from lynxbench.ledger.location import opened
from lynxbench.ledger.names import FULL_ID
from lynxbench.model.canonical import short
from lynxbench.model.entries import ResultNoted, ResultTagged
from lynxbench.record.recording import MAX_REASON
from lynxbench.record.remote import remote_from

REMARKS = "/api/v1/remarks"
SERVER = typer.Option(None, "--server", help="Send the signed entry to this server instead of a ledger of yours.")


def tag(
    result: str = RESULT,
    tags: list[str] = typer.Argument(None, help="Tags to put on it: lower-case words.", show_default=False),
    remove: list[str] = typer.Option([], "--remove", help="A tag of your own team to take off again."),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Put your team's tags on a result, signed, or take them off again.

    Tags of other teams stay as they are. Nothing that is judged rests on a tag.
    """
    put, taken = tuple(dict.fromkeys(tags or ())), tuple(dict.fromkeys(remove))
    if not put and not taken:
        raise BadInput("give a tag, or --remove one")
    both = sorted(set(put) & set(taken))
    if both:
        raise BadInput(f"{both[0]}: put on and taken off at once; give one of them")
    try:
        ResultTagged(result_id="0" * FULL_ID, put=put, taken=taken)
    except ValidationError:
        raise BadInput(
            "a tag is lower-case letters, digits, '.', '_' and '-', 63 at most, and 32 of them at once"
        ) from None
    done = " ".join([*(f"+{name}" for name in put), *(f"-{name}" for name in taken)])
    _say(result, lambda name: ResultTagged(result_id=name, put=put, taken=taken), done, server, token, ledger, as_json)


def note(
    result: str = RESULT,
    text: str = typer.Option(..., "--text", help="What others should know about it."),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Write, signed, what others should know about a result; nothing rests on it.

    A doubt is told with `lynxbench contest`. A note stays in the record like every entry.
    """
    words = text.strip()
    if not 0 < len(words) <= MAX_REASON:
        raise BadInput(f"--text: give 1 to {MAX_REASON} characters")
    _say(result, lambda name: ResultNoted(result_id=name, text=words), "noted", server, token, ledger, as_json)


def _say(
    result: str,
    made: Callable[[str], ResultTagged | ResultNoted],
    done: str,
    server: str | None,
    token: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    if server is not None and len(result) == FULL_ID and not Path(result).exists():
        body = made(result)
        seq, team, where = _send(body, server, token)
    else:
        with opened(ledger, os.environ) as open_:
            body = made(named_result(open_, result))
            seq, team, where = _send(body, server, token) if server is not None else (*append_signed(open_, body), "")
    document = {"seq": seq, "team": team, "entry": body.model_dump(mode="json")}
    answer(as_json, lambda: document, lambda: f"{short(body.result_id)} {done} by {team} as entry {seq}{where}\n")


def _send(body: ResultTagged | ResultNoted, server: str, token: str | None) -> tuple[int, str, str]:
    envelope, team = signed_by_me(body)
    remote = remote_from(server, token, os.environ)
    taken = remote.ask("POST", REMARKS, {"envelope": envelope.to_bytes().decode("ascii")})
    return int(taken["seq"]), team, f" of {remote.url}"
