"""What administrators change, written once for the API, the forms and the command line; every change is audited."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from sqlalchemy import Connection, insert, select

from lynxbench.errors import LynxbenchError
from lynxbench.evidence.keys import KeyCard
from lynxbench.evidence.trust import TrustList
from lynxbench.model.contract import Contract
from lynxbench.server.access import Access, MadeToken, User
from lynxbench.server.key_registry import KeyRegistry
from lynxbench.server.rights import Scopes
from lynxbench.watch.notifying import Contact, Contacts
from lynxbench.watch.schedules import Schedule, Scheduler
from lynxbench.watch.sealed_secrets import SecretSealer
from lynxbench.watch.store import Store, now_text
from lynxbench.watch.store_tables import audit

_ADD_LINE = insert(audit)
MOST_DETAIL = 2000
OK, REFUSED = "ok", "refused"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChangeAuthor:
    """Who changes something, and from where."""

    label: str
    remote: str = ""


COMMAND_LINE = ChangeAuthor("command line")


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of the audit log."""

    number: int
    at: str
    who: str
    action: str
    subject: str
    outcome: str
    remote: str
    detail: str


class AuditLog:
    """Who did what, from where, and what came of it. Appended, never changed; no secret ever enters it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def note(self, by: ChangeAuthor, action: str, subject: str = "", *, outcome: str = OK, detail: str = "") -> None:
        """Append one line."""
        with self._store.writing() as connection:
            self.add(connection, by, action, subject, outcome, detail)

    def add(
        self,
        connection: Connection,
        by: ChangeAuthor,
        action: str,
        subject: str = "",
        outcome: str = OK,
        detail: str = "",
    ) -> None:
        """The same with what else is written just now."""
        row = {
            "at": now_text(),
            "who": by.label[:120],
            "action": action[:60],
            "subject": subject[:200],
            "outcome": outcome,
            "remote": by.remote[:60],
            "detail": detail[:MOST_DETAIL],
        }
        connection.execute(_ADD_LINE, [row])

    def carry_out(
        self, by: ChangeAuthor, action: str, subject: str, work: Callable[P, T], *given: P.args, **named: P.kwargs
    ) -> T:
        """Do something, and write down who asked for it and what came of it."""
        try:
            made = work(*given, **named)
        except LynxbenchError as error:
            self.note(by, action, subject, outcome=REFUSED, detail=str(error))
            raise
        self.note(by, action, subject)
        return made

    def list(self, before: int | None = None, limit: int = 100) -> list[AuditLine]:
        """Newest first."""
        chosen = select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            chosen = chosen.where(audit.c.number < before)
        return [AuditLine(*row) for row in self._store.rows(chosen)]


class Administration:
    """Users, teams, tokens, keys, contacts and schedules; `changed` is called after each change."""

    def __init__(
        self, store: Store, own: TrustList, sealer: SecretSealer, changed: Callable[[], None] = lambda: None
    ) -> None:
        self.access = Access(store)
        self.audit = AuditLog(store)
        self.keys = KeyRegistry(store, own)
        self.contacts = Contacts(store, sealer)
        self.scheduler = Scheduler(store)
        self._changed = changed

    def add_user(self, by: ChangeAuthor, name: str, team: str, scopes: Scopes, password: str | None) -> User:
        """Let somebody in; the team is made where it is new."""
        return self._carry_out(by, "add user", name, self.access.add_user, name, team, scopes, password)

    def disable_user(self, by: ChangeAuthor, name: str) -> None:
        """From now on neither password, sessions nor tokens of this user count."""
        self._carry_out(by, "disable user", name, self.access.disable_user, name)

    def change_password(self, by: ChangeAuthor, name: str, old: str, new: str) -> None:
        """A new password, for whoever knows the one of now."""
        self._carry_out(by, "change password", name, self.access.change_password, name, old, new)

    def add_team(self, by: ChangeAuthor, name: str) -> None:
        """A team; adding it again changes nothing."""
        self._carry_out(by, "add team", name, self.access.add_team, name)

    def make_token(self, by: ChangeAuthor, user: str, label: str, scopes: Scopes, days: float | None) -> MadeToken:
        """A token of a user, with no more scopes than the user has."""
        return self._carry_out(by, "make token", user, self.access.make_token, user, label, scopes, days)

    def revoke_token(self, by: ChangeAuthor, token_id: str, user: str | None = None) -> None:
        """End a token; with a user, only one of theirs."""
        self._carry_out(by, "revoke token", token_id, self.access.revoke_token, token_id, user)

    def register_key(self, by: ChangeAuthor, card: bytes) -> KeyCard:
        """Register a team's public key: what it signs is taken from now on."""
        return self._carry_out(by, "register key", "", self.keys.register, card, by.label)

    def revoke_key(self, by: ChangeAuthor, keyid: str, reason: str) -> None:
        """What the key signs from now on counts no longer."""
        self._carry_out(by, "revoke key", keyid, self.keys.revoke, keyid, reason)

    def set_contact(self, by: ChangeAuthor, owner: str, channel: str, address: str, secret: str | None) -> Contact:
        """Where an owner is reached; `*` is everybody who has no contact of their own."""
        return self._carry_out(by, "set contact", owner, self.contacts.put, owner, channel, address, secret)

    def remove_contact(self, by: ChangeAuthor, owner: str, channel: str) -> None:
        """Tell this owner no longer."""
        self._carry_out(by, "remove contact", owner, self.contacts.remove, owner, channel)

    def put_schedule(
        self, by: ChangeAuthor, name: str, team: str, timetable: str, contract: Contract, agents: Sequence[str]
    ) -> Schedule:
        """Put a contract on a timetable, or change the team's own."""
        put = self.scheduler.put
        return self._carry_out(by, "put schedule", name, put, name, team, timetable, contract, by.label, agents)

    def pause_schedule(self, by: ChangeAuthor, name: str, paused: bool) -> None:
        """Stop a schedule for now, or let it go on from now."""
        self._carry_out(by, "pause schedule", name, self.scheduler.pause, name, paused)

    def remove_schedule(self, by: ChangeAuthor, name: str, team: str) -> None:
        """Take a team's schedule away; its runs stay in the book."""
        self._carry_out(by, "remove schedule", name, self.scheduler.remove, name, team)

    def _carry_out(
        self, by: ChangeAuthor, action: str, subject: str, work: Callable[P, T], *given: P.args, **named: P.kwargs
    ) -> T:
        made = self.audit.carry_out(by, action, subject, work, *given, **named)
        self._changed()
        return made
