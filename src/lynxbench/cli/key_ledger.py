"""`lynxbench key publish | log | bind`: what a ledger says of keys, and what is said there."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, tell
from lynxbench.cli.options import AS_JSON, LEDGER
from lynxbench.errors import BadInput, ExitCode
from lynxbench.evidence.id_tokens import LONG_LIFE, MAX_TOKEN_BYTES, parse_id_token
from lynxbench.evidence.issuer_keys import MAX_KEY_SET_BYTES, IssuerKey, fetch_key_set, parse_key_set
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.key_log import KeyEvent, KeyLog, read_key_log
from lynxbench.ledger.location import opened
from lynxbench.model.canonical import short
from lynxbench.model.entries import KeyAnnounced
from lynxbench.reading import read_text
from lynxbench.record.key_publishing import PublishedKey, bind_key, life_warning, publish_key

TOKEN_VARIABLE = "LYNXBENCH_OIDC_TOKEN"
JWKS = typer.Option(None, "--jwks", help="The issuer's keys as a file; without it, they are fetched from the issuer.")


def publish(
    key: str = typer.Argument(help="A key of the trust list: its id, or a unique beginning of it."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say in the ledger, signed, whose key this is; or, where the trust list has it so, that it was revoked."""
    ring = Keyring()
    keyid = ring.trust.find_prefix(key).keyid
    with opened(ledger, os.environ, create=True) as open_:
        published = publish_key(open_, ring, keyid, datetime.now(UTC))
    _show_published(published, keyid, as_json)


def log(
    team: str | None = typer.Option(None, help="Keys of this team alone."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Show the history of keys in the ledger: whose, since when, in which roles, revoked when and why. Exit code 1
    where it disagrees with your trust list.
    """
    trust = Keyring().trust
    with opened(ledger, os.environ) as open_:
        history = read_key_log(open_.log, trust)
    events = [event for event in history.events if team is None or _team_of(event, history, trust) == team]
    lines = history.disagreements(trust, None if team is None else {event.body.keyid for event in events})
    answer(
        as_json,
        lambda: {"events": [_event_document(event) for event in events], "disagreements": list(lines)},
        lambda: render_key_log(events, lines, history, trust),
    )
    if lines:
        raise typer.Exit(ExitCode.VERDICT_NO)


def bind(
    name: str = typer.Argument(help="A key of yours, made with `lynxbench key new`."),
    token: str | None = typer.Option(
        None, "--oidc-token", help="File with the ID token, made out to lynxbench:KEYID; - reads standard input."
    ),
    jwks: Path | None = JWKS,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Bind a key to the identity in an ID token, for as long as the token lives, and say so in the ledger. Without
    --oidc-token, the token is taken from LYNXBENCH_OIDC_TOKEN.
    """
    text = read_token(token)
    claimed = parse_id_token(text)
    keys = issuer_keys(claimed.issuer, jwks)
    with opened(ledger, os.environ, create=True) as open_:
        published, verified = bind_key(open_, Keyring(), name, text, keys, datetime.now(UTC))
    warning = life_warning(verified, LONG_LIFE)
    if warning is not None:
        tell(f"warning: {warning}")
    _show_published(published, published.body.keyid, as_json)


def read_token(place: str | None) -> str:
    """The ID token of a file, of standard input, or of the environment."""
    if place is None:
        text = os.environ.get(TOKEN_VARIABLE, "")
        if not text:
            raise BadInput(f"no ID token; give --oidc-token FILE, or set {TOKEN_VARIABLE}")
    elif place == "-":
        text = sys.stdin.read(MAX_TOKEN_BYTES + 2)
    else:
        text = read_text(place, "an ID token", largest_bytes=MAX_TOKEN_BYTES + 2)
    return text.strip()


def issuer_keys(issuer: str, jwks: Path | None) -> tuple[IssuerKey, ...]:
    """An issuer's keys from a file, or from the issuer itself over HTTPS."""
    if jwks is None:
        if not issuer.startswith("https://"):
            raise BadInput(f"issuer {issuer[:80]!r} is no https address; give its keys as a file with --jwks")
        return fetch_key_set(issuer)
    return parse_key_set(read_text(jwks, "a key set", largest_bytes=MAX_KEY_SET_BYTES).encode("utf-8"), str(jwks))


def render_key_log(events: list[KeyEvent], lines: tuple[str, ...], history: KeyLog, trust: TrustList) -> str:
    """The history, oldest first, then where it disagrees with the reader's list."""
    if not events:
        return "the ledger says nothing of keys; lynxbench key publish KEY says whose it is\n"
    text = ""
    for event in events:
        by = ", ".join(event.by) or "nobody you trust"
        mark = "" if event.counts else f"\n{'':>8}does not count: {event.refusal}"
        text += f"{event.logged.seq:>6}  {_sentence(event, history, trust)}; by {by}{mark}\n"
    if lines:
        text += "your trust list says otherwise:\n" + "".join(f"  {line}\n" for line in lines)
    return text


def _sentence(event: KeyEvent, history: KeyLog, trust: TrustList) -> str:
    body = event.body
    if isinstance(body, KeyAnnounced):
        until = f" until {body.until}" if body.until else ""
        bound = " by an ID token" if body.token else ""
        return f"key {short(body.keyid)} is {body.team}'s ({', '.join(body.roles)}) since {body.since}{until}{bound}"
    team = _team_of(event, history, trust)
    whose = f" of {team}" if team else ""
    return f"key {short(body.keyid)}{whose} was revoked since {event.since}: {body.reason}"


def _team_of(event: KeyEvent, history: KeyLog, trust: TrustList) -> str | None:
    if isinstance(event.body, KeyAnnounced):
        return event.body.team
    known, announced = trust.find(event.body.keyid), history.announced.get(event.body.keyid)
    return known.team if known else getattr(announced and announced.body, "team", None)


def _event_document(event: KeyEvent) -> dict[str, object]:
    return {
        "seq": event.logged.seq,
        "logged_at": event.logged.logged_at,
        "by": list(event.by),
        "counts": event.counts,
        "refusal": event.refusal,
        "effective_since": event.since,
        **event.body.model_dump(mode="json"),
    }


def _show_published(published: PublishedKey | None, keyid: str, as_json: bool) -> None:
    answer(
        as_json,
        lambda: {"keyid": keyid, "seq": published and published.seq, "new": published is not None},
        lambda: (
            f"key {short(keyid)}: the ledger says so already\n"
            if published is None
            else f"key {short(keyid)}: {published.body.kind.value} recorded as entry {published.seq}\n"
        ),
    )
