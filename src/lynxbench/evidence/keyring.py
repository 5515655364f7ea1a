"""One person's keys and trust list together: which key signs, and who is trusted, changed under one lock."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from lynxbench.errors import BadInput, KeyNotReady
from lynxbench.evidence.keys import PASSPHRASE_VARIABLE, KeyFolder, SigningKey, home, new_signing_key
from lynxbench.evidence.trust import TRUST_FILE, TrustList, read_trust
from lynxbench.evidence.whole_files import locked, write_text
from lynxbench.model.canonical import short
from lynxbench.model.entries import Role
from lynxbench.model.team_names import LOCAL_TEAM

KEY_VARIABLE: Final = "LYNXBENCH_KEY"
FIRST_KEY: Final = "local"
"""Name of the key that is made where there is none."""
DEFAULT_FILE: Final = "signing-key"
"""Beside the trust list: the name of the key that `key use` chose."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The key that signs, and one line for people when it was made just now."""

    key: SigningKey
    news: str | None = None


class Keyring:
    """The keys and the trust list under one home folder."""

    def __init__(self, where: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self.where = where or home(self._environment)
        self.keys = KeyFolder(self.where / "keys", self._environment.get(PASSPHRASE_VARIABLE) or None)
        self._lock = self.where / ".lock"

    @property
    def trust(self) -> TrustList:
        """Whom this person trusts."""
        return read_trust(self.where)

    def change_trust(self, change: Callable[[TrustList], TrustList]) -> TrustList:
        """Change the trust list; two programs at once do not lose each other's change."""
        with locked(self._lock):
            changed = change(read_trust(self.where))
            self._write_trust(changed)
        return changed

    def create(self, name: str, team: str, roles: tuple[Role, ...], now: datetime) -> SigningKey:
        """A fresh key, which its owner trusts from the start."""
        with locked(self._lock):
            return self._create(name, team, roles, now)

    def signing_key(self, now: datetime) -> Chosen:
        """The key that signs: by $LYNXBENCH_KEY, by `key use`, or the only one; made where there is none."""
        name = self._environment.get(KEY_VARIABLE) or self.default
        if name:
            return Chosen(self._opened(name))
        names = self.keys.names()
        if not names:
            with locked(self._lock):
                names = self.keys.names()  # somebody may have been quicker
                if not names:
                    key = self._create(FIRST_KEY, LOCAL_TEAM, (Role.RUNNER,), now)
                    news = (
                        f"made key {short(key.keyid)} for team {LOCAL_TEAM!r} in {self.keys.path}; it signs from now on"
                    )
                    return Chosen(key, news)
        if len(names) > 1:
            choose = f"choose one with lynxbench key use NAME, or {KEY_VARIABLE} for one command"
            raise KeyNotReady(f"{self.keys.path}: {len(names)} keys ({', '.join(names)}); {choose}")
        return Chosen(self._opened(names[0]))

    @property
    def default(self) -> str | None:
        """The key that `key use` chose, where one is chosen and still there."""
        try:
            name = (self.where / DEFAULT_FILE).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return name if name in self.keys.names() else None

    def use(self, named: str) -> str:
        """Let a key sign from now on, by its name or its team's; the key's name."""
        known = self.keys.names()
        chosen = [named] if named in known else [name for name in known if self.keys.card(name).team == named]
        if len(chosen) != 1:
            there = f"keys {', '.join(chosen)} are of that team; name one of them" if chosen else "there is no such key"
            raise BadInput(f"{named}: {there}; here are {', '.join(known) or 'none'}")
        try:
            write_text(self.where / DEFAULT_FILE, f"{chosen[0]}\n")
        except OSError as error:
            raise BadInput(f"{self.where / DEFAULT_FILE}: {error.strerror or error}") from error
        return chosen[0]

    def _opened(self, name: str) -> SigningKey:
        try:
            return self.keys.open(name)
        except BadInput as error:
            raise KeyNotReady(str(error)) from error

    def _create(self, name: str, team: str, roles: tuple[Role, ...], now: datetime) -> SigningKey:
        trust = read_trust(self.where)
        trust.refuse_twin(team)
        self.keys.refuse_taken(name)
        key = new_signing_key(team, roles, now)
        self._write_trust(trust.adding(key.card, now))  # before the key can be seen: it never signs untrusted
        self.keys.store(name, key)
        return key

    def _write_trust(self, trust: TrustList) -> None:
        try:
            write_text(self.where / TRUST_FILE, trust.to_bytes().decode("utf-8"))
        except OSError as error:
            raise BadInput(f"{self.where / TRUST_FILE}: {error.strerror or error}") from error
