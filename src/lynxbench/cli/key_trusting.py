"""`lynxbench key team | administrator | issuer`: what teams may act as here, and who may vouch for keys."""

from datetime import UTC, datetime
from pathlib import Path

import typer
from pydantic import ValidationError

from lynxbench.cli.answers import answer
from lynxbench.cli.key_ledger import JWKS, issuer_keys
from lynxbench.cli.options import AS_JSON
from lynxbench.errors import BadInput
from lynxbench.evidence.issuer_keys import IssuerKey
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.trust import Revocation, TrustedIdentity, TrustList
from lynxbench.model.canonical import short
from lynxbench.model.document import first_problem
from lynxbench.model.entries import Role


def team(
    name: str = typer.Argument(help="A team, such as ml-platform."),
    role: list[Role] = typer.Option([], help="What it may act as here; may be given more than once."),
    unbounded: bool = typer.Option(False, "--any", help="Let its keys act again as their cards say."),
    as_json: bool = AS_JSON,
) -> None:
    """Say what the keys of a team may act as here, whatever their cards say; without options, show it."""
    ring = Keyring()
    if role and unbounded:
        raise BadInput("--role and --any contradict each other; give one of them")
    given = tuple(dict.fromkeys(role))
    trust = ring.change_trust(lambda known: known.granting(name, given)) if role or unbounded else ring.trust
    granted = trust.team_roles.get(name)
    answer(
        as_json,
        lambda: {"team": name, "roles": None if granted is None else [part.value for part in granted]},
        lambda: f"{name}: {'as the cards of its keys say' if granted is None else ', '.join(granted)}\n",
    )


def administrator(
    key: str = typer.Argument(help="A key of the trust list: its id, or a unique beginning of it."),
    remove: bool = typer.Option(False, "--remove", help="Let it be one no longer."),
    as_json: bool = AS_JSON,
) -> None:
    """Let a key say in a ledger whose keys are whose, and which are revoked, for every team."""
    ring = Keyring()
    known = ring.trust.find_prefix(key)
    trust = ring.change_trust(lambda trusted: trusted.administered(known.keyid, remove=remove))
    word = "no administrator any more" if remove else "administrator of key logs"
    answer(
        as_json,
        lambda: {"administrators": list(trust.administrators)},
        lambda: f"key {short(known.keyid)} of {known.team}: {word}\n",
    )


def issuer(
    address: str = typer.Argument(help="The issuer, such as https://token.actions.githubusercontent.com."),
    subject: str = typer.Option(..., help="The whole subject; * stands for one part of it, without ':' and '/'."),
    team: str = typer.Option(..., help="For which team such an identity acts."),
    role: list[Role] = typer.Option([Role.RUNNER], help="As what; may be given more than once."),
    jwks: Path | None = JWKS,
    revoke: str | None = typer.Option(None, help="Trust it no longer from now on, and why."),
    as_json: bool = AS_JSON,
) -> None:
    """Trust short-lived keys that an issuer's ID tokens bind to a subject; again takes in keys that it has since."""
    ring = Keyring()
    keys = () if revoke is not None else issuer_keys(address, jwks)
    now = datetime.now(UTC).isoformat(timespec="seconds")

    def change(trust: TrustList) -> TrustList:
        known = next((one for one in trust.identities if (one.issuer, one.subject, one.team) == wanted), None)
        if known is not None and known.revoked is not None:
            raise BadInput(f"{address}: {subject!r} of {team} was revoked at {known.revoked.at}; it stays revoked")
        if revoke is None:
            # keys of before stay: entries of before were signed under them
            held = {} if known is None else {one.kid: one for one in known.keys}
            return trust.identifying(_identity(address, subject, team, role, _merged(held, keys)))
        if known is None:
            raise BadInput(f"{address}: no identity {subject!r} of {team} is trusted here")
        return trust.identifying(known.model_copy(update={"revoked": Revocation(at=now, reason=revoke)}))

    wanted = (address, subject, team)
    try:
        trust = ring.change_trust(change)
    except ValidationError as error:
        raise BadInput(first_problem(error, "identity")) from None
    (identity,) = (one for one in trust.identities if (one.issuer, one.subject, one.team) == wanted)
    word = "trusted" if identity.revoked is None else "revoked"
    answer(
        as_json,
        identity,
        lambda: f"{word}: {subject} of {address} for {team} ({', '.join(identity.roles)}), {len(identity.keys)} keys\n",
    )


def _identity(address: str, subject: str, team: str, roles: list[Role], keys: tuple[IssuerKey, ...]) -> TrustedIdentity:
    return TrustedIdentity(issuer=address, subject=subject, team=team, roles=tuple(dict.fromkeys(roles)), keys=keys)


def _merged(held: dict[str, IssuerKey], fresh: tuple[IssuerKey, ...]) -> tuple[IssuerKey, ...]:
    """Both, by their names; a key that changed under its name is refused: one of the two is not the issuer's."""
    for key in fresh:
        if held.setdefault(key.kid, key) != key:
            raise BadInput(f"key {key.kid!r} of the issuer is another one than before; ask the issuer which is right")
    return tuple(held.values())
