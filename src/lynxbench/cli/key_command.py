"""`lynxbench key`: a team's keys, and whose signatures count here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.errors import BadInput

if TYPE_CHECKING:
    from datetime import datetime

    from lynxbench.evidence.trust import TrustedKey, TrustList
    from lynxbench.model.entries import Role

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

JSON = typer.Option(False, "--json", help="Print one JSON document on standard output, nothing else.")


@app.command()
def new(
    name: str = typer.Argument(help="What the key's files are called."),
    team: str = typer.Option(..., help="Whose key it is, such as ml-platform."),
    role: list[str] = typer.Option(["runner"], help="In which capacity it signs: runner, witness, or both."),
    as_json: bool = JSON,
) -> None:
    """Make a key for a team and trust it here. Encrypted when LYNXBENCH_KEY_PASSPHRASE is set."""
    from lynxbench.evidence.keyring import Keyring

    ring = Keyring()
    key = ring.create(name, team, _roles(role), _now())
    if as_json:
        _print_json(key.card.model_dump(mode="json"))
    else:
        print(f"key {key.keyid}")
        print(f"  team            {key.team} ({', '.join(key.card.roles)})")
        print(f"  private         {ring.keys.path / name}.pem")
        print(f"  give to others  lynxbench key export {name} > {name}.json")


@app.command("list")
def list_keys(as_json: bool = JSON) -> None:
    """The trust list: every key, its team, roles and state, and which of them are here."""
    from lynxbench.evidence.keyring import Keyring

    ring = Keyring()
    trust = ring.trust
    here = {ring.keys.card(name).keyid: name for name in ring.keys.names()}
    if as_json:
        keys = [{**key.model_dump(mode="json"), "here": here.get(key.keyid)} for key in trust.keys]
        _print_json({"keys": keys, "thresholds": trust.thresholds.model_dump(mode="json")})
    else:
        print(render_trust(trust, here, _now()), end="")


@app.command()
def trust(
    card: Path = typer.Argument(help="The card of a key, from `lynxbench key export`; - reads standard input."),
    until: str | None = typer.Option(None, help="Valid until this time (ISO 8601, UTC)."),
    since: str | None = typer.Option(None, help="Valid from this time on; without it from when the key was made."),
    as_json: bool = JSON,
) -> None:
    """Let another team's signatures count here."""
    import sys

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.evidence.keys import MAX_CARD_BYTES, parse_card, read_card

    from_pipe = str(card) == "-"
    given = parse_card(sys.stdin.buffer.read(MAX_CARD_BYTES + 1), "standard input") if from_pipe else read_card(card)
    start = _time(since or given.made_at)
    changed = Keyring().change_trust(lambda known: known.adding(given, start, _time(until) if until else None))
    _show(changed.find(given.keyid), as_json, "trusted")


@app.command()
def revoke(
    key: str = typer.Argument(help="A key's id, or a unique beginning of it."),
    reason: str = typer.Option(..., help="Why; people who look at its signatures are told."),
    since: str | None = typer.Option(None, help="Not trusted from this time on (ISO 8601, UTC); without it, from now."),
    as_json: bool = JSON,
) -> None:
    """Let a key's signatures count no more. What it signed before stays, shown as by a since-revoked key."""
    from lynxbench.evidence.keyring import Keyring

    ring = Keyring()
    keyid = ring.trust.find_prefix(key).keyid
    moment = _time(since) if since else _now()
    changed = ring.change_trust(lambda known: known.revoking(keyid, reason, moment))
    _show(changed.find(keyid), as_json, "revoked")


@app.command()
def export(name: str = typer.Argument(help="The key's name."), as_json: bool = JSON) -> None:
    """Print a key's card: the public part, for others to trust. It is JSON either way."""
    from lynxbench.evidence.keyring import Keyring
    from lynxbench.model.canonical import canonical_bytes

    del as_json  # the card is a JSON document; the option is there because every command has it
    print(canonical_bytes(Keyring().keys.card(name).model_dump(mode="json")).decode("utf-8"))


@app.command()
def threshold(
    runner: int | None = typer.Option(None, help="Distinct runner keys that must stand behind a result."),
    witness: int | None = typer.Option(None, help="Teams other than the runner's that must witness it."),
    as_json: bool = JSON,
) -> None:
    """How many signatures a result needs here; without options, show it."""
    from pydantic import ValidationError

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.evidence.trust import Thresholds

    ring = Keyring()
    known = ring.trust
    if runner is not None or witness is not None:
        wanted = {"runner": runner, "witness": witness}
        given = {name: count for name, count in wanted.items() if count is not None}
        try:
            needed = Thresholds(**{**known.thresholds.model_dump(), **given})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise BadInput(f"--{first['loc'][0]}: {first['msg']}") from None
        known = ring.change_trust(lambda old: old.needing(needed))
    if as_json:
        _print_json(known.thresholds.model_dump(mode="json"))
    else:
        print(f"a result needs {known.thresholds.runner} runner and {known.thresholds.witness} witness signatures")


def render_trust(trust: TrustList, here: dict[str, str], now: datetime) -> str:
    """The trust list as text."""
    from lynxbench.model.canonical import short

    if not trust.keys:
        return "no keys yet; the first run makes one, or: lynxbench key new NAME --team TEAM\n"
    width = max(len(key.team) for key in trust.keys)
    lines = []
    for key in trust.keys:
        state = key.refusal_at(now) or "trusted"
        mine = f"  here as {here[key.keyid]}" if key.keyid in here else ""
        lines.append(f"{short(key.keyid)}  {key.team:<{width}}  {', '.join(key.roles):<15}  {state}{mine}")
    needed = trust.thresholds
    lines.append(f"a result needs {needed.runner} runner and {needed.witness} witness signatures")
    return "\n".join(lines) + "\n"


def _show(key: TrustedKey | None, as_json: bool, word: str) -> None:
    assert key is not None
    if as_json:
        _print_json(key.model_dump(mode="json"))
    else:
        print(f"{word}: key {key.keyid} of {key.team} ({', '.join(key.roles)})")


def _roles(words: list[str]) -> tuple[Role, ...]:
    from lynxbench.model.entries import Role

    known = [role.value for role in Role]
    for word in words:
        if word not in known:
            raise BadInput(f"--role {word!r}: a key signs as {' or '.join(known)}")
    return tuple(dict.fromkeys(Role(word) for word in words))


def _now() -> datetime:
    from datetime import UTC, datetime

    return datetime.now(UTC)


def _time(text: str) -> datetime:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{text!r} is not a time; write it like 2026-11-15T08:00:00+00:00") from None
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _print_json(document: object) -> None:
    import json

    print(json.dumps(document, indent=1, ensure_ascii=False))
