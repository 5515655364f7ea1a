"""`lynxbench key`: a team's keys, and whose signatures count here."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import typer
from pydantic import ValidationError

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import COMMANDS, command_group
from lynxbench.cli.options import AS_JSON, moment_of
from lynxbench.cli.terminal import say_json
from lynxbench.errors import BadInput
from lynxbench.evidence.keyring import FIRST_KEY, Keyring
from lynxbench.evidence.keys import MAX_CARD_BYTES, parse_card, read_card
from lynxbench.evidence.trust import Thresholds, TrustedKey, TrustList
from lynxbench.model.canonical import canonical_bytes, short
from lynxbench.model.entries import Role

app = command_group("A team's signing keys, and whose signatures count here.", COMMANDS["key"])


@app.command()
def new(
    name: str = typer.Argument(help="What the key's files are called."),
    team: str = typer.Option(..., help="Whose key it is, such as ml-platform."),
    role: list[Role] = typer.Option([Role.RUNNER], help="In which capacity it signs; may be given more than once."),
    as_json: bool = AS_JSON,
) -> None:
    """Make a key for a team and trust it here. Encrypted when LYNXBENCH_KEY_PASSPHRASE is set."""
    ring = Keyring()
    before = ring.keys.names()
    key = ring.create(name, team, tuple(dict.fromkeys(role)), datetime.now(UTC))
    if set(before) <= {FIRST_KEY}:  # the one that was made without being asked for gives way to the first that was
        ring.use(name)
    signs = "it signs from now on" if ring.default == name else f"to sign with it: lynxbench key use {name}"
    answer(
        as_json,
        key.card,
        lambda: (
            f"key {key.keyid}\n"
            f"  team            {key.team} ({', '.join(key.card.roles)})\n"
            f"  private         {ring.keys.path / name}.pem\n"
            f"  signing         {signs}\n"
            f"  give to others  lynxbench key export {name} > {name}.json\n"
        ),
    )


@app.command("list")
def list_keys(as_json: bool = AS_JSON) -> None:
    """The trust list: every key, its team, roles and state, and which of them are here."""
    ring = Keyring()
    trust = ring.trust
    here = {ring.keys.card(name).keyid: name for name in ring.keys.names()}
    answer(
        as_json,
        lambda: {
            "keys": [{**key.model_dump(mode="json"), "here": here.get(key.keyid)} for key in trust.keys],
            "thresholds": trust.thresholds.model_dump(mode="json"),
            **trust.model_dump(mode="json", include={"team_roles", "administrators", "identities"}),
            "signs": ring.default,
        },
        lambda: render_trust(trust, here, datetime.now(UTC), ring.default),
    )


@app.command()
def use(name: str = typer.Argument(help="The key's name, or its team's."), as_json: bool = AS_JSON) -> None:
    """Let a key sign from now on, where several are here. LYNXBENCH_KEY chooses another for one command."""
    ring = Keyring()
    chosen = ring.use(name)
    card = ring.keys.card(chosen)
    answer(
        as_json,
        lambda: {"name": chosen, "team": card.team, "keyid": card.keyid},
        lambda: f"{chosen} of {card.team} signs from now on\n",
    )


@app.command()
def trust(
    card: Path = typer.Argument(help="The card of a key, from `lynxbench key export`; - reads standard input."),
    until: str | None = typer.Option(None, help="Valid until this time (ISO 8601, UTC)."),
    since: str | None = typer.Option(None, help="Valid from this time on; without it from when the key was made."),
    as_json: bool = AS_JSON,
) -> None:
    """Let another team's signatures count here."""
    from_pipe = str(card) == "-"
    given = parse_card(sys.stdin.buffer.read(MAX_CARD_BYTES + 1), "standard input") if from_pipe else read_card(card)
    start = moment_of(since or given.made_at, "--since")
    end = moment_of(until, "--until") if until else None
    changed = Keyring().change_trust(lambda known: known.adding(given, start, end))
    _show(changed.find(given.keyid), as_json, "trusted")


@app.command()
def revoke(
    key: str = typer.Argument(help="A key's id, or a unique beginning of it."),
    reason: str = typer.Option(..., help="Why; people who look at its signatures are told."),
    since: str | None = typer.Option(None, help="Not trusted from this time on (ISO 8601, UTC); without it, from now."),
    as_json: bool = AS_JSON,
) -> None:
    """Let a key's signatures count no more. What it signed before stays, shown as by a since-revoked key."""
    ring = Keyring()
    keyid = ring.trust.find_prefix(key).keyid
    moment = moment_of(since, "--since") if since else datetime.now(UTC)
    changed = ring.change_trust(lambda known: known.revoking(keyid, reason, moment))
    _show(changed.find(keyid), as_json, "revoked")


@app.command()
def export(name: str = typer.Argument(help="The key's name."), as_json: bool = AS_JSON) -> None:
    """Print a key's card: the public part, for others to trust. It is JSON either way."""
    del as_json  # the card is a JSON document; the option is there because every command has it
    say_json(canonical_bytes(Keyring().keys.card(name).model_dump(mode="json")).decode("utf-8"))


@app.command()
def threshold(
    runner: int | None = typer.Option(None, help="Distinct runner keys that must stand behind a result."),
    witness: int | None = typer.Option(None, help="Teams other than the runner's that must witness it."),
    as_json: bool = AS_JSON,
) -> None:
    """How many signatures a result needs here; without options, show it."""
    ring = Keyring()
    thresholds = ring.trust.thresholds
    given = {name: count for name, count in (("runner", runner), ("witness", witness)) if count is not None}
    if given:
        try:
            needed = Thresholds(**{**thresholds.model_dump(), **given})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise BadInput(f"--{first['loc'][0]}: {first['msg']}") from None
        thresholds = ring.change_trust(lambda known: known.needing(needed)).thresholds
    answer(as_json, thresholds, lambda: f"{_needed(thresholds)}\n")


def render_trust(trust: TrustList, here: dict[str, str], now: datetime, signs: str | None = None) -> str:
    """The trust list as text."""
    if not trust.keys and not trust.identities:
        return "no keys yet; the first run makes one, or: lynxbench key new NAME --team TEAM\n"
    teams = [*(key.team for key in trust.keys), *(identity.team for identity in trust.identities)]
    width = max(map(len, teams))
    lines = []
    for key in trust.keys:
        state = key.refusal_at(now) or "trusted"
        mine = f"  here as {here[key.keyid]}" if key.keyid in here else ""
        mine += "  administrator" if key.keyid in trust.administrators else ""
        mine += ", signs" if signs is not None and here.get(key.keyid) == signs else ""
        lines.append(f"{short(key.keyid)}  {key.team:<{width}}  {', '.join(key.roles):<15}  {state}{mine}")
    for identity in trust.identities:
        state = f"was revoked at {identity.revoked.at}: {identity.revoked.reason}" if identity.revoked else "trusted"
        whom = f"{identity.subject} of {identity.issuer}"
        lines.append(f"{'identity':<12}  {identity.team:<{width}}  {', '.join(identity.roles):<15}  {state}  {whom}")
    lines += [f"{team} acts here as {', '.join(roles)} alone" for team, roles in sorted(trust.team_roles.items())]
    return "\n".join([*lines, _needed(trust.thresholds)]) + "\n"


def _needed(thresholds: Thresholds) -> str:
    return f"a result needs {thresholds.runner} runner and {thresholds.witness} witness signatures"


def _show(key: TrustedKey | None, as_json: bool, word: str) -> None:
    assert key is not None
    answer(as_json, key, lambda: f"{word}: key {key.keyid} of {key.team} ({', '.join(key.roles)})\n")
