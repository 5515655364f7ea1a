"""Teams, users, tokens and sessions. Secrets are kept as hashes, compared in constant time, and shown once."""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from lynxbench.errors import BadInput, NotFound
from lynxbench.model.team_names import looks_like, team_problem
from lynxbench.server.rights import AccessScope, Principal, Scopes, parse_scopes, scopes_text
from lynxbench.watch.store import Store, later_text, now_text
from lynxbench.watch.store_tables import identities, sessions, teams, tokens, users

SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 14, 8, 5
"""OWASP password storage cheat sheet: the setting that fits into 16 MiB."""
SCRYPT_MEMORY_BYTES = 64 << 20
LEAST_PASSWORD = 12
"""NIST SP 800-63B asks for 8 at least, and 15 where nothing else guards; between them, and rate-limited."""
MOST_PASSWORD = 200
SESSION_S = 12 * 3600
TOKEN_MARK = "lynx_"
TOKEN_SECRET_BYTES = 32
TOKEN_FORM = re.compile(r"lynx_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
NAME_FORM = re.compile(r"[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*")
MOST_NAME = 63
MOST_LABEL = 120
MOST_UNSEEN_S = 30 * 86400
"""How long tokens count of somebody whom the company's provider vouched for, and who did not sign in since: who leaves
the company leaves its provider, which tells nobody."""


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A new token; its text is known here and nowhere else."""

    token_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class User:
    """One user, without anything secret."""

    name: str
    team: str
    scopes: tuple[AccessScope, ...]
    made_at: str
    disabled_at: str | None
    has_password: bool


@dataclass(frozen=True, slots=True)
class Token:
    """One token, without its text."""

    token_id: str
    user: str
    label: str
    scopes: tuple[AccessScope, ...]
    made_at: str
    expires_at: str | None
    revoked_at: str | None


class Access:
    """Everything about who may come in."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # --- teams and users ----------------------------------------------------------------------------------------------

    def add_team(self, name: str) -> None:
        """A team; adding it again changes nothing."""
        problem = team_problem(name)
        if problem is not None:
            raise BadInput(problem)
        with self._store.writing() as connection:
            make_team(connection, name)

    def teams(self) -> list[str]:
        """All teams."""
        return [row.name for row in self._store.rows(select(teams.c.name).order_by(teams.c.name))]

    def add_user(self, name: str, team: str, scopes: Scopes, password: str | None = None) -> User:
        """A new user of a team; the team is made where it is new."""
        if len(name) > MOST_NAME or not NAME_FORM.fullmatch(name):
            raise BadInput(f"{name[:80]!r} is no user name: lower-case words joined by '.', '-' or '_'")
        held = parse_scopes(scopes)
        if not held:
            raise BadInput(f"{name}: give at least one scope of {', '.join(AccessScope)}")
        self.add_team(team)
        hashed = None if password is None else hash_password(password)
        with self._store.writing() as connection:
            if connection.execute(select(users.c.name).where(users.c.name == name)).first() is not None:
                raise BadInput(f"user {name} is there already")
            row = {"name": name, "team": team, "scopes": scopes_text(held), "password": hashed, "made_at": now_text()}
            connection.execute(insert(users), [row])
        return self.user(name)

    def user(self, name: str) -> User:
        """One user; NotFound where there is none."""
        return _user(self._store.one(select(users).where(users.c.name == name), f"no user {name[:80]!r}"))

    def users(self) -> list[User]:
        """All users, by name."""
        return [_user(row) for row in self._store.rows(select(users).order_by(users.c.name))]

    def has_administrator(self) -> bool:
        """Whether somebody can let others in: without one the server is not open to a network."""
        return any(AccessScope.ADMINISTER in user.scopes and user.disabled_at is None for user in self.users())

    def has_users(self) -> bool:
        """Whether anybody is known here."""
        return self._store.row(select(users.c.name).limit(1)) is not None

    def disable_user(self, name: str) -> None:
        """From now on neither password, sessions nor tokens of this user count."""
        self.user(name)
        self._store.change(
            update(users).where(users.c.name == name, users.c.disabled_at.is_(None)).values(disabled_at=now_text()),
            delete(sessions).where(sessions.c.user == name),
            update(tokens).where(tokens.c.user == name, tokens.c.revoked_at.is_(None)).values(revoked_at=now_text()),
        )

    def change_password(self, name: str, old: str, new: str) -> None:
        """A new password, for whoever knows the one of now; every session of the user ends."""
        if self.sign_in(name, old) is None:
            raise BadInput("the password now is another one")
        self._store.change(
            update(users).where(users.c.name == name).values(password=hash_password(new)),
            delete(sessions).where(sessions.c.user == name),
        )

    # --- tokens -------------------------------------------------------------------------------------------------------

    def make_token(self, user: str, label: str, scopes: Scopes, days: float | None = None) -> MadeToken:
        """A token of a user, with no more scopes than the user has."""
        owner = self.user(user)
        held = parse_scopes(scopes)
        beyond = held - set(owner.scopes)
        if not held or beyond:
            problem = f"{user} may not {scopes_text(beyond)}" if beyond else "give at least one scope"
            raise BadInput(f"token for {user}: {problem}")
        if owner.disabled_at is not None:
            raise BadInput(f"user {user} was disabled at {owner.disabled_at}")
        if not 0 < len(label) <= MOST_LABEL:
            raise BadInput(f"token for {user}: give it a label of 1 to {MOST_LABEL} characters")
        token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(TOKEN_SECRET_BYTES)
        made = MadeToken(token_id, f"{TOKEN_MARK}{token_id}_{secret}")
        row = {
            "token_id": token_id,
            "digest": digest_of(made.text),
            "user": user,
            "label": label,
            "scopes": scopes_text(held),
            "made_at": now_text(),
            "expires_at": None if days is None else later_text(days * 86400),
        }
        self._store.change(insert(tokens).values(row))
        return made

    def tokens(self, user: str | None = None) -> list[Token]:
        """Tokens, newest first."""
        chosen = select(tokens).order_by(tokens.c.made_at.desc(), tokens.c.token_id)
        if user is not None:
            chosen = chosen.where(tokens.c.user == user)
        return [_token(row) for row in self._store.rows(chosen)]

    def revoke_token(self, token_id: str, user: str | None = None) -> None:
        """From now on the token opens nothing; NotFound where there is no such token (of that user)."""
        chosen = update(tokens).where(tokens.c.token_id == token_id, tokens.c.revoked_at.is_(None))
        if user is not None:
            chosen = chosen.where(tokens.c.user == user)
        if not self._store.change(chosen.values(revoked_at=now_text())):
            raise NotFound(f"no token {token_id[:40]!r} that could be revoked")

    def by_token(self, text: str) -> Principal | None:
        """Whose token this is, if it still opens anything."""
        form = TOKEN_FORM.fullmatch(text)
        if form is None:
            return None
        row = self._store.row(_TOKEN, token_id=form[1], now=now_text(), unseen=later_text(-MOST_UNSEEN_S))
        if row is None or not hmac.compare_digest(row.digest, digest_of(text)):
            return None
        held = parse_scopes(row.scopes) & parse_scopes(row.user_scopes)
        return Principal(row.user, row.team, held, "token", credential=f"token {row.token_id}")

    # --- sessions -----------------------------------------------------------------------------------------------------

    def sign_in(self, name: str, password: str) -> str | None:
        """A new session's text, where name and password fit; the same time is spent where there is no such user."""
        row = self._store.row(select(users).where(users.c.name == name, users.c.disabled_at.is_(None)))
        stored = row.password if row is not None and row.password else _NO_PASSWORD
        return None if not fits(password, stored) or row is None else self.open_session(name)

    def open_session(self, name: str) -> str:
        """A new session's text, for whoever has shown who they are."""
        text = secrets.token_urlsafe(32)
        values = {
            "digest": digest_of(text),
            "user": name,
            "csrf": secrets.token_urlsafe(32),
            "made_at": now_text(),
            "expires_at": later_text(SESSION_S),
        }
        self._store.change(delete(sessions).where(sessions.c.expires_at < now_text()), insert(sessions).values(values))
        return text

    def by_session(self, text: str) -> Principal | None:
        """Whose session this is."""
        chosen = (
            select(sessions.c.csrf, users.c.name, users.c.team, users.c.scopes)
            .join(users, users.c.name == sessions.c.user)
            .where(
                sessions.c.digest == digest_of(text),
                sessions.c.expires_at > now_text(),
                users.c.disabled_at.is_(None),
            )
        )
        row = self._store.row(chosen)
        if row is None:
            return None
        return Principal(row.name, row.team, parse_scopes(row.scopes), "session", row.csrf, f"session of {row.name}")

    def sign_out(self, text: str) -> None:
        """End a session."""
        self._store.change(delete(sessions).where(sessions.c.digest == digest_of(text)))

    def count_sessions(self) -> int:
        """Sessions that are open now."""
        return self._store.count(sessions, sessions.c.expires_at > now_text())


def hash_password(password: str) -> str:
    """Salted scrypt; BadInput for a password that is too short or too long."""
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise BadInput(f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
    salt = secrets.token_bytes(16)
    return f"scrypt ${_encoded(salt)}${_encoded(_scrypt(password, salt))}"


def fits(password: str, stored: str) -> bool:
    """Whether a password is the one that was hashed."""
    parts = stored.split("$")
    if len(parts) != 3 or len(password) > MOST_PASSWORD:
        return False
    salt, expected = (base64.b64decode(part) for part in parts[1:])
    return hmac.compare_digest(_scrypt(password, salt), expected)


def digest_of(text: str) -> str:
    """SHA-256: enough for secrets of 256 random bits, which nobody can try through."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _scrypt(password: str, salt: bytes) -> bytes:
    data = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=SCRYPT_MEMORY_BYTES)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# built once: the database layer remembers how it is compiled
_TOKEN = (
    select(tokens, users.c.team, users.c.scopes.label("user_scopes"))
    .join(users, users.c.name == tokens.c.user)
    .outerjoin(identities, identities.c.user == tokens.c.user)
    .where(
        or_(identities.c.user.is_(None), identities.c.seen_at > bindparam("unseen")),
        tokens.c.token_id == bindparam("token_id"),
        tokens.c.revoked_at.is_(None),
        or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > bindparam("now")),
        users.c.disabled_at.is_(None),
    )
)
_NO_PASSWORD = f"scrypt ${_encoded(bytes(16))}${_encoded(bytes(64))}"
"""What a user without a password is held against, so that nobody learns from the time who exists."""


def _user(row: Any) -> User:
    scopes = tuple(map(AccessScope, row.scopes.split()))
    return User(row.name, row.team, scopes, row.made_at, row.disabled_at, row.password is not None)


def _token(row: Any) -> Token:
    scopes = tuple(map(AccessScope, row.scopes.split()))
    return Token(row.token_id, row.user, row.label, scopes, row.made_at, row.expires_at, row.revoked_at)


def make_team(connection: Connection, name: str) -> None:
    """A team where it is new; BadInput where its name can be mistaken for that of one which is here."""
    known = sorted(connection.execute(select(teams.c.name)).scalars())
    if name in known:
        return
    twin = next((team for team in known if looks_like(team, name)), None)
    if twin is not None:
        raise BadInput(f"team {name!r} can be mistaken for {twin!r}, which is here already; choose another name")
    connection.execute(insert(teams), [{"name": name, "made_at": now_text()}])
