"""Who asks, and what they may do: four scopes, none of which contains another."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from lynxbench.errors import BadInput


class AccessScope(StrEnum):
    """What a person or a token may do."""

    READ = "read"
    SUBMIT = "submit"
    CONTEST = "contest"
    ADMINISTER = "administer"


Scopes = str | Iterable[str]
"""Scopes by their names; as one text, separated by spaces or commas."""
API = "/api/v1"
ANONYMOUS = "anonymous"

INSIDE = "lynxbench.inside"
"""Marks what the server asks of itself; nothing that comes over a connection can carry it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks."""

    name: str
    team: str
    scopes: frozenset[AccessScope]
    via: str
    """`token`, `session`, `anonymous`."""
    csrf: str = ""
    """What a form of this session must carry."""
    credential: str = ""
    """Which token or session, by a name that is not secret: for limits and the audit log."""

    def may(self, scope: AccessScope | None) -> bool:
        """Whether a route that asks for this scope is open; None is open to everybody."""
        return scope is None or scope in self.scopes

    @property
    def label(self) -> str:
        """For logs and lists."""
        return f"{self.name} ({self.team})" if self.team else self.name


def nobody(*, may_read: bool) -> Principal:
    """Somebody without credentials."""
    return Principal(ANONYMOUS, "", frozenset({AccessScope.READ}) if may_read else frozenset(), ANONYMOUS)


def parse_scopes(words: Scopes) -> frozenset[AccessScope]:
    """Scopes from their names; BadInput for a word that is none."""
    try:
        return frozenset(map(AccessScope, words.replace(",", " ").split() if isinstance(words, str) else words))
    except ValueError as error:
        raise BadInput(f"scopes are {', '.join(AccessScope)}; {error}") from None


def scopes_text(scopes: Iterable[AccessScope]) -> str:
    """Scopes in their order, as the tables have them."""
    return " ".join(scope.value for scope in AccessScope if scope in set(scopes))
