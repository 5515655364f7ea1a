"""Whose signatures count: a list of public keys with team, roles, validity and revocation, and how many are needed.

HOME/trust.json, canonical JSON. Each person or ledger has one; nothing is trusted that is not in it: a key, or an
identity whose issuer vouches for short-lived keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ValidationError, model_validator
from pydantic import Field as Bound_

from lynxbench.errors import BadInput
from lynxbench.evidence.canonical_reader import parse_document
from lynxbench.evidence.issuer_keys import MAX_ISSUER_KEYS, Issuer, IssuerKey
from lynxbench.evidence.keys import KeyCard, PublicKey, PublicKeyText, Roles, parse_public_key
from lynxbench.model.canonical import canonical_bytes, short
from lynxbench.model.document import Document, first_problem
from lynxbench.model.entries import Reason, Role
from lynxbench.model.fields import Sha256
from lynxbench.model.team_names import Team, looks_like
from lynxbench.plain_files import read_plain

TRUST_FILE: Final = "trust.json"
MAX_TRUST_BYTES: Final = 4 << 20
_ADDED: Final = ("team_roles", "administrators", "identities")
"""Left out of the file where nobody set them: lists of earlier versions keep their bytes."""
_ANY, _MOST_ANY = "*", 4


def parse_moment(text: str) -> datetime:
    """A moment in UTC as ISO 8601 with its offset; ValueError otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not an ISO 8601 time") from None
    if moment.utcoffset() != timedelta(0):
        raise ValueError(f"{text[:40]!r} is not in UTC")
    return moment.astimezone(UTC)


def _in_utc(text: str) -> str:
    parse_moment(text)
    return text


Moment = Annotated[str, AfterValidator(_in_utc)]


class Revocation(Document):
    """From when on a key's signatures do not count, and why."""

    at: Moment
    reason: Reason


class TrustedKey(Document):
    """A public key whose signatures count, for whom, in which roles and when."""

    keyid: Sha256
    public_key: PublicKeyText
    team: Team
    roles: Roles
    valid_from: Moment
    valid_until: Moment | None = None
    revoked: Revocation | None = None

    @property
    def public(self) -> PublicKey:
        """The key itself."""
        return parse_public_key(self.public_key)

    def refusal_at(self, moment: datetime) -> str | None:
        """Why a signature made at that time does not count, or None when it does."""
        if moment < datetime.fromisoformat(self.valid_from):
            return f"was not valid before {self.valid_from}"
        if self.valid_until is not None and moment > datetime.fromisoformat(self.valid_until):
            return f"was valid until {self.valid_until}"
        if self.revoked is not None and moment >= datetime.fromisoformat(self.revoked.at):
            return f"was revoked at {self.revoked.at}: {self.revoked.reason}"
        return None

    @model_validator(mode="after")
    def _coherent(self) -> TrustedKey:
        if self.keyid != self.public.keyid:
            raise ValueError(f"keyid {short(self.keyid)} is not the SHA-256 of its public key")
        if self.valid_until is not None and parse_moment(self.valid_from) >= parse_moment(self.valid_until):
            raise ValueError(f"key {short(self.keyid)} is valid until before it is valid from")
        return self


def _as_pattern(text: str) -> str:
    literal = text.partition(_ANY)[0]
    if not 3 <= len(literal) <= len(text) <= 1000 or not text.isprintable():
        raise ValueError(f"{text[:80]!r} is no pattern of subjects; it begins with three characters before any '*'")
    if _ANY * 2 in text or text.count(_ANY) > _MOST_ANY:
        raise ValueError(f"{text[:80]!r} is no pattern of subjects; at most {_MOST_ANY} '*', none beside another")
    return text


SubjectPattern = Annotated[str, AfterValidator(_as_pattern)]


class TrustedIdentity(Document):
    """Whoever an issuer names so may act for a team, with short-lived keys that its tokens are made out to."""

    issuer: Issuer
    subject: SubjectPattern
    """The whole subject; `*` stands for one or more characters of one part, without ':' and '/'."""
    team: Team
    roles: Roles
    keys: Annotated[tuple[IssuerKey, ...], Bound_(min_length=1, max_length=MAX_ISSUER_KEYS)]
    """The issuer's keys as the reader has seen them: a token names one of these or counts for nothing."""
    revoked: Revocation | None = None

    def names(self, subject: str) -> bool:
        """Whether the pattern is the subject, from its first character to its last."""
        pattern = "[^:/]+".join(re.escape(part) for part in self.subject.split(_ANY))
        return re.fullmatch(pattern, subject) is not None


class Thresholds(Document):
    """How many distinct keys must stand behind a result."""

    runner: Annotated[int, Bound_(ge=1, le=16)] = 1
    witness: Annotated[int, Bound_(ge=0, le=16)] = 0
    """Witnesses come from teams that are not the runner's, each from a team of its own."""


class TrustList(Document):
    """The keys that count, and how many are needed."""

    schema_version: Literal[1] = 1
    keys: tuple[TrustedKey, ...] = ()
    thresholds: Thresholds = Thresholds()
    team_roles: dict[Team, Roles] = {}
    """What each of these teams may act as; the keys of a team that is not here act as their cards say."""
    administrators: tuple[Sha256, ...] = ()
    """Keys that may say in a ledger's key log what concerns other teams' keys."""
    identities: tuple[TrustedIdentity, ...] = ()

    def find(self, keyid: str) -> TrustedKey | None:
        """The trusted key of an id."""
        return next((key for key in self.keys if key.keyid == keyid), None)

    def find_prefix(self, prefix: str) -> TrustedKey:
        """The one trusted key whose id begins so; BadInput where there is none or more than one."""
        keys = [key for key in self.keys if key.keyid.startswith(prefix)]
        if len(keys) == 1 and prefix:
            return keys[0]
        if not keys:
            raise BadInput(f"{prefix}: no key of the trust list begins so; lynxbench key list shows them")
        raise BadInput(f"{prefix}: {len(keys)} keys of the trust list begin so; give more digits")

    def refuse_twin(self, team: str) -> None:
        """Refuse a team whose name can be mistaken for one that is already here."""
        twin = next((known for known in self._teams() if looks_like(known, team)), None)
        if twin is not None:
            raise BadInput(
                f"team {team!r} can be mistaken for {twin!r}, which is in the trust list; choose another name"
            )

    def adding(self, card: KeyCard, valid_from: datetime, valid_until: datetime | None = None) -> TrustList:
        """The list with one more key."""
        known = self.find(card.keyid)
        if known is not None:
            state = "revoked" if known.revoked else "trusted"
            raise BadInput(f"key {short(card.keyid)} is already in the trust list ({state}, {known.team})")
        new = TrustedKey(
            keyid=card.keyid,
            public_key=card.public_key,
            team=card.team,
            roles=card.roles,
            valid_from=_text(valid_from),
            valid_until=_text(valid_until) if valid_until is not None else None,
        )
        return self._rebuilt(keys=(*self.keys, new))

    def revoking(self, keyid: str, reason: str, at: datetime) -> TrustList:
        """The list with one key revoked from a time on; it stays in the list, and so do its older signatures."""
        known = self.find(keyid)
        if known is None:
            raise BadInput(f"key {short(keyid)} is not in the trust list")
        if known.revoked is not None:
            raise BadInput(f"key {short(keyid)} was already revoked at {known.revoked.at}: {known.revoked.reason}")
        try:
            revoked = known.model_copy(update={"revoked": Revocation(at=_text(at), reason=reason)})
        except ValidationError as error:
            raise BadInput(first_problem(error, "revocation")) from None
        return self._rebuilt(keys=tuple(revoked if key is known else key for key in self.keys))

    def granting(self, team: str, roles: tuple[Role, ...]) -> TrustList:
        """The list with what a team may act as; no roles: as the cards of its keys say."""
        others = {known: granted for known, granted in self.team_roles.items() if known != team}
        return self._rebuilt(team_roles=others | ({team: tuple(dict.fromkeys(roles))} if roles else {}))

    def administered(self, keyid: str, *, remove: bool = False) -> TrustList:
        """The list with one more, or one less, key that keeps the ledger's key log."""
        if remove != (keyid in self.administrators):
            raise BadInput(f"key {short(keyid)} is {'no' if remove else 'already an'} administrator here")
        others = tuple(known for known in self.administrators if known != keyid)
        return self._rebuilt(administrators=others if remove else (*others, keyid))

    def identifying(self, identity: TrustedIdentity) -> TrustList:
        """The list with an identity; one of the same issuer, subject and team is replaced."""
        others = tuple(known for known in self.identities if _same_identity(known) != _same_identity(identity))
        return self._rebuilt(identities=(*others, identity))

    def roles_of(self, key: TrustedKey) -> tuple[Role, ...]:
        """What a key may act as: what its card says, within what its team may."""
        granted = self.team_roles.get(key.team, tuple(Role))
        return tuple(role for role in key.roles if role in granted)

    def refusal_as(self, key: TrustedKey, role: Role) -> str | None:
        """Why a key's signature does not count in a role, or None when it does.

        Checking is open to every key of a team that may: only thresholds ask for a card that says witness.
        """
        granted = self.team_roles.get(key.team)
        if granted is not None and role not in granted:
            return f"acts as {role.value}, and its team is here as {', '.join(granted)} alone"
        if role is Role.RUNNER and role not in key.roles:
            return f"acts as {role.value}, and is a key for {', '.join(key.roles)} alone"
        return None

    def needing(self, thresholds: Thresholds) -> TrustList:
        """The list with other thresholds."""
        return self.model_copy(update={"thresholds": thresholds})

    def shortfalls(self, signers: Sequence[TrustedKey]) -> tuple[str, ...]:
        """Which thresholds the signers of a result (and of its verifications) do not meet, in words; empty: all met."""
        runners = [signer for signer in signers if Role.RUNNER in self.roles_of(signer)]
        teams = {runner.team for runner in runners}
        witnesses = {signer.team for signer in signers if Role.WITNESS in self.roles_of(signer)} - teams
        short_of: list[str] = []
        if len(runners) < self.thresholds.runner:
            short_of.append(f"{len(runners)} of {self.thresholds.runner} runner signatures")
        if len(witnesses) < self.thresholds.witness:
            short_of.append(f"{len(witnesses)} of {self.thresholds.witness} witness teams other than the runner's")
        return tuple(short_of)

    def to_bytes(self) -> bytes:
        """The list's only byte form."""
        unset = {name for name in _ADDED if not getattr(self, name)}
        return canonical_bytes(self.model_dump(mode="json", exclude=unset))

    def _rebuilt(self, **changed: object) -> TrustList:
        try:
            return TrustList.model_validate({name: getattr(self, name) for name in TrustList.model_fields} | changed)
        except ValidationError as error:
            raise BadInput(error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")) from None

    @model_validator(mode="after")
    def _distinct(self) -> TrustList:
        for key, other in combinations(self.keys, 2):
            if key.public_key == other.public_key:
                raise ValueError(f"key {short(key.keyid)} is listed twice")
        for team, other_team in combinations(self._teams(), 2):
            if looks_like(team, other_team):
                raise ValueError(f"teams {team!r} and {other_team!r} can be mistaken for one another; rename one")
        if len({_same_identity(identity) for identity in self.identities}) != len(self.identities):
            raise ValueError("an identity is listed twice")
        return self

    def _teams(self) -> tuple[str, ...]:
        named = (*(key.team for key in self.keys), *self.team_roles, *(known.team for known in self.identities))
        return tuple(dict.fromkeys(named))


def parse_trust(data: bytes, file: str = TRUST_FILE) -> TrustList:
    """A trust list from canonical bytes; EvidenceInvalid for anything else."""
    return parse_document(data, file, MAX_TRUST_BYTES, TrustList, "list")


def read_trust(where: Path) -> TrustList:
    """The trust list under a home folder; an empty one where none was written yet."""
    file = where / TRUST_FILE
    try:
        data = read_plain(file, MAX_TRUST_BYTES)
    except FileNotFoundError:
        return TrustList()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from error
    return parse_trust(data, str(file))


def _same_identity(identity: TrustedIdentity) -> tuple[str, str, str]:
    return identity.issuer, identity.subject, identity.team


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
