"""The ledger's account of keys: whose each is, since when, in which roles, and when and why it was revoked.

The log takes trust away and gives none. Whom a reader trusts is said by the reader's own list, which names keys, and
identities that a token in the log can prove. What is revoked here by somebody who may say so counts for every reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import CheckedSignatures, Envelope, check_signatures
from lynxbench.evidence.key_entries import key_of_entry, signed_by
from lynxbench.evidence.trust import Revocation, TrustedKey, TrustList, parse_moment
from lynxbench.ledger.ledger_tables import entries, subjects
from lynxbench.ledger.log import Ledger, Logged, batched
from lynxbench.model.canonical import short
from lynxbench.model.entries import ACTS, EntryKind, KeyAnnounced, KeyRevoked

KEY_KINDS = (EntryKind.KEY.value, EntryKind.KEY_REVOKED.value)
REPEATED = "an earlier entry announced it"
NEWEST = -1
"""Before every entry: what the log revokes counts from the time that it names."""


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """One entry about a key: who says it, and why it does not count where it does not."""

    logged: Logged
    body: KeyAnnounced | KeyRevoked
    by: tuple[str, ...]
    refusal: str | None
    since: str
    """From when on it counts. A key that alone revokes itself does so from its logging on: a thief cannot undo more."""

    @property
    def reason(self) -> str:
        """Why, where it revokes."""
        return self.body.reason if isinstance(self.body, KeyRevoked) else ""

    @property
    def counts(self) -> bool:
        """Whether somebody who may say so says it."""
        return self.refusal is None


@dataclass(frozen=True, slots=True)
class KeyLog:
    """The history of keys in a ledger, as a reader's trust list judges it."""

    events: tuple[KeyEvent, ...]

    @property
    def announced(self) -> dict[str, KeyEvent]:
        """By key: the entry that says whose it is."""
        return self._counting(KeyAnnounced)

    @property
    def revoked(self) -> dict[str, KeyEvent]:
        """By key: the entry that revoked it."""
        return self._counting(KeyRevoked)

    def _counting(self, kind: type[KeyAnnounced] | type[KeyRevoked]) -> dict[str, KeyEvent]:
        return {event.body.keyid: event for event in self.events if event.counts and isinstance(event.body, kind)}

    def disagreements(self, trust: TrustList, keyids: Collection[str] | None = None) -> tuple[str, ...]:
        """Where the reader's list and this log say different things of one key (None: of any), a line each."""
        announced, revoked = self.announced, self.revoked
        lines: list[str] = []
        for key in trust.keys:
            if keyids is not None and key.keyid not in keyids:
                continue
            about = f"key {short(key.keyid)} of {key.team}"
            lines += [f"{about}: {line}" for line in _revoked_otherwise(key, key.keyid in announced, revoked)]
            event = announced.get(key.keyid)
            if event is not None and isinstance(event.body, KeyAnnounced) and event.body.token is None:
                lines += [f"{about}: {line}" for line in _announced_otherwise(key, event.body)]
            for other in self.events:
                team = getattr(other.body, "team", key.team)
                if other.body.keyid == key.keyid and team != key.team:
                    lines.append(f"{about}: entry {other.logged.seq} says that it is {team}'s")
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class LoggedTrust:
    """A reader's trust with what a ledger's key log takes from it, and with the identities that tokens in it prove."""

    trust: TrustList
    revoked: dict[str, KeyEvent]
    """By key: the entry that revoked it."""
    _at: dict[frozenset[str], TrustList] = field(default_factory=dict, compare=False, repr=False)

    def at(self, seq: int) -> TrustList:
        """Whose signatures count on the entry of this number.

        A key that was revoked by an earlier entry signs nothing any more, whatever time anybody states: the order of
        entries is in the tree. On earlier entries it counts until the time from which it was revoked.
        """
        if not self.revoked:
            return self.trust
        before = frozenset(keyid for keyid, event in self.revoked.items() if event.logged.seq < seq)
        if before not in self._at:
            keys = tuple(self._narrowed(key, key.keyid in before) for key in self.trust.keys)
            self._at[before] = self.trust.model_copy(update={"keys": keys})
        return self._at[before]

    def check(self, logged: Logged) -> CheckedSignatures:
        """Who signed an entry of the ledger, in the role that it takes."""
        role = ACTS.get(logged.entry.body.kind)
        return check_signatures(logged.envelope, self.at(logged.seq), at=logged.judged_at, role=role)

    def _narrowed(self, key: TrustedKey, is_over: bool) -> TrustedKey:
        if key.keyid not in self.revoked:
            return key
        event = self.revoked[key.keyid]
        at = key.valid_from if is_over else event.since
        if key.revoked is not None and parse_moment(key.revoked.at) <= parse_moment(at):
            return key
        reason = f"{event.reason} (entry {event.logged.seq} of the ledger, since {event.since})"
        return key.model_copy(update={"revoked": Revocation.model_construct(at=at, reason=reason)})


def read_key_log(ledger: Ledger, trust: TrustList) -> KeyLog:
    """Every entry about a key in the log's order, judged by the reader's list and by what was revoked before it."""
    from lynxbench.evidence.identities import with_identities

    logged_entries = ledger.read_where(entries.c.kind.in_(KEY_KINDS))
    return judge_key_entries(logged_entries, trust, with_identities(trust, _announcements(logged_entries)))


def logged_trust(ledger: Ledger, trust: TrustList, keyids: Collection[str] | None = None) -> LoggedTrust:
    """The reader's trust for entries of this ledger that these keys signed (None: any keys)."""
    bound = trust
    if trust.identities:
        from lynxbench.evidence.identities import with_identities  # few trust lists name any

        unknown = None if keyids is None else [keyid for keyid in keyids if trust.find(keyid) is None]
        bound = with_identities(trust, _announcements(_about_keys(ledger, unknown)))
    revocations = ledger.read_where(entries.c.kind == EntryKind.KEY_REVOKED.value)
    log = judge_key_entries(revocations, trust, bound) if revocations else KeyLog(())
    return LoggedTrust(bound, log.revoked)


def tokens_beside(ledger: Ledger, about: Iterable[Logged]) -> list[Logged]:
    """The entries that bind the short-lived keys among the signers of others: without them nobody could check those."""
    signers = {signature.keyid for logged in about for signature in logged.envelope.signatures}
    return [logged for logged in _about_keys(ledger, signers) if getattr(logged.entry.body, "token", None) is not None]


def judge_key_entries(logged_entries: Sequence[Logged], trust: TrustList, bound: TrustList) -> KeyLog:
    """Entries about keys, oldest first: each counts or does not, given those before it.

    `bound` is the reader's trust with short-lived keys. They have no say over other keys: a job is not its team.
    """
    events: list[KeyEvent] = []
    announced: dict[str, TrustedKey] = {}
    revoked: dict[str, int] = {}
    for logged in logged_entries:
        body = logged.entry.body
        if not isinstance(body, (KeyAnnounced, KeyRevoked)):
            continue
        try:
            checked = check_signatures(logged.envelope, bound, at=logged.judged_at)
            voices = [signer for signer in checked.signers if signer.keyid not in revoked]
            signers = [signer for signer in voices if trust.find(signer.keyid) is not None]
            described = bound.find(body.keyid) or announced.get(body.keyid)
            repeated = isinstance(body, KeyAnnounced) and body.keyid in announced and body.keyid not in revoked
            refusal = REPEATED if repeated else _refusal(logged, body, signers, trust, described, revoked)
        except EvidenceInvalid as error:
            voices, signers, described, refusal = [], [], None, str(error)
        teams = tuple(dict.fromkeys(signer.team for signer in voices))
        is_end = isinstance(body, KeyRevoked)
        since = _effective_since(logged, body.since, signers, described, trust) if is_end else body.since
        events.append(KeyEvent(logged, body, teams, refusal, since))
        if refusal is None and isinstance(body, KeyAnnounced):
            announced[body.keyid] = key_of_entry(body)
        elif refusal is None:
            revoked[body.keyid] = logged.seq
    return KeyLog(tuple(events))


def _refusal(
    logged: Logged,
    body: KeyAnnounced | KeyRevoked,
    signers: Sequence[TrustedKey],
    trust: TrustList,
    described: TrustedKey | None,
    revoked: dict[str, int],
) -> str | None:
    """Why an entry about a key does not count; None where it does."""
    if body.keyid in revoked:
        return f"the key was revoked by entry {revoked[body.keyid]}; it does not come back"
    by_administrator = any(signer.keyid in trust.administrators for signer in signers)
    known = trust.find(body.keyid)
    if isinstance(body, KeyRevoked):
        if described is None:
            return "neither your trust list nor this log knows the key"
        itself = signed_by(logged.envelope, described.public)
        if itself or by_administrator or any(signer.team == described.team for signer in signers):
            return None
        return f"neither the key, nor {described.team}, nor an administrator whom you trust signed it"
    if known is not None and known.team != body.team:
        return f"your trust list says that it is {known.team}'s key"
    beyond = set(body.roles) - set(trust.team_roles.get(body.team, body.roles))
    if beyond:
        return f"{body.team} is not {', '.join(sorted(beyond))} in your trust list"
    if body.token is not None:
        from lynxbench.evidence.identities import identify

        identify(logged.envelope, body, trust)
        return None
    if by_administrator:
        return None
    if not signed_by(logged.envelope, key_of_entry(body).public):
        return "the key itself did not sign, nor an administrator whom you trust"
    colleagues = [signer for signer in signers if signer.team == body.team]
    if not colleagues:
        return f"no key of {body.team} that you trust signed it"
    beyond = set(body.roles) - {role for signer in colleagues for role in trust.roles_of(signer)}
    return f"claims {', '.join(sorted(beyond))}, which no signer of it is" if beyond else None


def _effective_since(
    logged: Logged, stated: str, signers: Sequence[TrustedKey], described: TrustedKey | None, trust: TrustList
) -> str:
    """From when on a revocation counts: the time that it names, where anybody else than the key stands behind it."""
    if described is None:
        return stated
    others = [signer for signer in signers if signer.keyid != described.keyid]
    if any(signer.keyid in trust.administrators or signer.team == described.team for signer in others):
        return stated
    return max(parse_moment(stated), logged.judged_at).isoformat()


def _revoked_otherwise(key: TrustedKey, is_announced: bool, revoked: dict[str, KeyEvent]) -> Iterable[str]:
    event = revoked.get(key.keyid)
    if event is not None:
        said = f"revoked in the ledger since {event.since} (entry {event.logged.seq}: {event.reason})"
        if key.revoked is None:
            yield f"{said}, and not in your trust list; run: lynxbench key revoke {short(key.keyid)} --reason …"
        elif parse_moment(key.revoked.at) > parse_moment(event.since):
            yield f"{said}, in your trust list since {key.revoked.at}"
    elif key.revoked is not None and is_announced:
        yield f"revoked in your trust list since {key.revoked.at}, and not in the ledger"


def _announced_otherwise(key: TrustedKey, said: KeyAnnounced) -> Iterable[str]:
    if set(key.roles) != set(said.roles):
        yield f"{', '.join(said.roles)} in the ledger, {', '.join(key.roles)} in your trust list"
    if parse_moment(key.valid_from) < parse_moment(said.since):
        yield f"since {said.since} in the ledger, already from {key.valid_from} on in your trust list"
    if said.until is not None and (key.valid_until is None or parse_moment(key.valid_until) > parse_moment(said.until)):
        yield f"until {said.until} in the ledger, {key.valid_until or 'without an end'} in your trust list"


def _about_keys(ledger: Ledger, keyids: Collection[str] | None) -> list[Logged]:
    """Announcements of these keys, or all of them, in the log's order."""
    is_key = entries.c.kind == EntryKind.KEY.value
    if keyids is None:
        return ledger.read_where(is_key)
    found: list[Logged] = []
    for some in batched(sorted(keyids)):
        found += ledger.read_where(is_key, entries.c.seq.in_(select(subjects.c.seq).where(subjects.c.id.in_(some))))
    return sorted(found, key=lambda logged: logged.seq)


def _announcements(logged_entries: Iterable[Logged]) -> Iterable[tuple[Envelope, KeyAnnounced]]:
    for logged in logged_entries:
        if isinstance(logged.entry.body, KeyAnnounced):
            yield logged.envelope, logged.entry.body
