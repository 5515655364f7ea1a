"""Accounts of people whom the company's provider vouches for: known by issuer and subject, never by a name."""

import hashlib
import re

from sqlalchemy import Connection, delete, insert, select, update

from lynxbench.errors import BadInput, Refused
from lynxbench.server.access import NAME_FORM, make_team
from lynxbench.server.provider_settings import MappedRights
from lynxbench.server.rights import ANONYMOUS, scopes_text
from lynxbench.watch.store import Store, now_text
from lynxbench.watch.store_tables import identities, sessions, users

MOST_WISHED = 48
"""Letters of a wished name: a mark that tells two people apart still fits behind it."""
UNNAMED = "member"


class AccountRefused(Refused):
    """The provider vouches for this person, and they may still not come in."""


class ProviderAccounts:
    """Who came by the provider, under which name they are known here, and when they last did."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, issuer: str, subject: str, wished: str, rights: MappedRights | None) -> str:
        """The name of the account, with the team and scopes that its groups come to now; AccountRefused where none.

        An account without a right any more keeps its name and loses its scopes and sessions at once; its tokens have
        no more scopes than it has. A name that somebody else has here is never taken over.
        """
        mine = (identities.c.issuer == issuer) & (identities.c.subject == subject)
        with self._store.writing() as connection:
            known = connection.execute(select(identities.c.user).where(mine)).first()
            if rights is None:
                if known is not None:
                    connection.execute(update(users).where(users.c.name == known.user).values(scopes=""))
                    connection.execute(delete(sessions).where(sessions.c.user == known.user))
                refusal = "none of your groups may do anything here; ask whoever runs this server"
            else:
                refusal = ""
                name = known.user if known is not None else self._make(connection, issuer, subject, wished, rights)
                row = connection.execute(select(users.c.disabled_at).where(users.c.name == name)).one()
                if row.disabled_at is not None:
                    refusal = f"the account {name} was disabled here"
                else:
                    _add_team(connection, rights.team)
                    now_may = {"team": rights.team, "scopes": scopes_text(rights.scopes)}
                    connection.execute(update(users).where(users.c.name == name).values(**now_may))
                    connection.execute(update(identities).where(mine).values(seen_at=now_text()))
        if refusal:
            raise AccountRefused(refusal)
        return name

    def issuer_of(self, user: str) -> str | None:
        """Who vouches for a user; None where a password does, or nobody."""
        row = self._store.row(select(identities.c.issuer).where(identities.c.user == user))
        return None if row is None else str(row.issuer)

    @staticmethod
    def _make(connection: Connection, issuer: str, subject: str, wished: str, rights: MappedRights) -> str:
        mark = hashlib.sha256(f"{issuer}\0{subject}".encode("utf-8", "surrogatepass")).hexdigest()
        base = plain_name(wished)
        tried = (base, f"{base}-{mark[:8]}", f"{UNNAMED}-{mark[:40]}")
        taken = set(connection.execute(select(users.c.name).where(users.c.name.in_(tried))).scalars()) | {ANONYMOUS}
        name = next((name for name in tried if name not in taken), None)
        if name is None:
            raise AccountRefused("every name for this account is taken here; ask whoever runs this server")
        at = now_text()
        row = {"name": name, "team": rights.team, "scopes": scopes_text(rights.scopes), "made_at": at}
        connection.execute(insert(users), [row])
        connection.execute(
            insert(identities), [{"issuer": issuer, "subject": subject, "user": name, "made_at": at, "seen_at": at}]
        )
        return name


def plain_name(wished: str) -> str:
    """A user name as close to what the provider calls somebody as the form of names allows."""
    words = re.sub(r"[^a-z0-9]+", "-", wished.partition("@")[0].lower()[:MOST_WISHED]).strip("-")
    words = words.lstrip("0123456789-")
    return words if NAME_FORM.fullmatch(words) else UNNAMED


def _add_team(connection: Connection, name: str) -> None:
    try:
        make_team(connection, name)
    except BadInput as error:
        raise AccountRefused(str(error)) from None
