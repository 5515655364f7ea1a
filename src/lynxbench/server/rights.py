"""Who may do what: four scopes, and the one table that says which scope every route asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AccessScope(StrEnum):
    """What a person or a token may do. None contains another."""

    READ = "read"
    SUBMIT = "submit"
    CONTEST = "contest"
    ADMINISTER = "administer"


SCOPES = tuple(AccessScope)
PAGE = "page"
API = "/api/v1"


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


ANONYMOUS = "anonymous"


def nobody(*, may_read: bool) -> Principal:
    """Somebody without credentials."""
    return Principal(ANONYMOUS, "", frozenset({AccessScope.READ}) if may_read else frozenset(), ANONYMOUS)


_R, _S, _C, _A = AccessScope.READ, AccessScope.SUBMIT, AccessScope.CONTEST, AccessScope.ADMINISTER

RIGHTS: dict[tuple[str, str], AccessScope | None] = {
    # what says whether the server lives, and how to get in
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/static/{name}"): None,
    ("GET", "/signin"): None,
    ("POST", "/signin"): None,
    ("POST", "/signout"): None,
    ("GET", "/metrics"): _R,
    # pages
    ("GET", "/"): _R,
    ("GET", "/contracts"): _R,
    ("GET", "/contracts/{contract}"): _R,
    ("GET", "/contracts/{contract}/series.{form}"): _R,
    ("GET", "/results"): _R,
    ("GET", "/results/{result}"): _R,
    ("GET", "/results/{result}/report.html"): _R,
    ("GET", "/results/{result}/result.json"): _R,
    ("GET", "/results/{result}/plots/{name}.svg"): _R,
    ("GET", "/compare"): _R,
    ("GET", "/executors"): _R,
    ("GET", "/executors/diff"): _R,
    ("GET", "/executors/{executor}"): _R,
    ("GET", "/results/{result}/contest"): _C,
    ("POST", "/results/{result}/contest"): _C,
    ("GET", "/experiments"): _R,
    ("GET", "/experiments/{analysis}"): _R,
    ("GET", "/experiments/{analysis}/{file}"): _R,
    ("GET", "/experiments/{analysis}/plots/{name}.svg"): _R,
    ("GET", "/fleet"): _R,
    ("GET", "/fleet/{analysis}"): _R,
    ("GET", "/fleet/{analysis}/{file}"): _R,
    ("GET", "/fleet/{analysis}/plots/{name}.svg"): _R,
    ("GET", "/decisions"): _R,
    ("GET", "/decisions/{seq}"): _R,
    ("GET", "/decisions/{seq}/pack.html"): _R,
    ("GET", "/ledger"): _R,
    ("GET", "/ledger/{seq}"): _R,
    ("GET", "/claims"): _R,
    ("POST", "/claims"): _C,
    ("GET", "/claims/{claim}"): _R,
    ("GET", "/runs"): _R,
    ("GET", "/runs/{run}"): _R,
    ("GET", "/account"): _R,
    ("POST", "/account/tokens"): _R,
    ("POST", "/account/tokens/revoke"): _R,
    ("POST", "/account/password"): _R,
    ("GET", "/admin"): _A,
    ("POST", "/admin/users"): _A,
    ("POST", "/admin/users/disable"): _A,
    ("POST", "/admin/teams"): _A,
    ("POST", "/admin/keys"): _A,
    ("POST", "/admin/keys/revoke"): _A,
    ("POST", "/admin/tokens/revoke"): _A,
    ("POST", "/admin/contacts"): _A,
    ("POST", "/admin/schedules/pause"): _A,
    ("GET", "/admin/audit"): _A,
    # the API
    ("GET", f"{API}/openapi.json"): _R,
    ("GET", f"{API}/whoami"): _R,
    ("GET", f"{API}/results"): _R,
    ("GET", f"{API}/results/{{result}}"): _R,
    ("GET", f"{API}/results/{{result}}/bundle"): _R,
    ("GET", f"{API}/analyses"): _R,
    ("GET", f"{API}/analyses/{{analysis}}"): _R,
    ("GET", f"{API}/analyses/{{analysis}}/bundle"): _R,
    ("GET", f"{API}/contracts"): _R,
    ("GET", f"{API}/contracts/{{contract}}"): _R,
    ("GET", f"{API}/contracts/{{contract}}/history"): _R,
    ("GET", f"{API}/contracts/{{contract}}/signals"): _R,
    ("POST", f"{API}/contracts/{{contract}}/likeness"): _S,
    ("GET", f"{API}/compare"): _R,
    ("GET", f"{API}/executors/{{executor}}"): _R,
    ("GET", f"{API}/executors-diff"): _R,
    ("GET", f"{API}/foreign"): _R,
    ("GET", f"{API}/decisions"): _R,
    ("POST", f"{API}/claims"): _R,
    ("GET", f"{API}/ledger"): _R,
    ("GET", f"{API}/ledger/entries"): _R,
    ("GET", f"{API}/ledger/entries/{{seq}}"): _R,
    ("GET", f"{API}/ledger/proofs/{{seq}}"): _R,
    ("GET", f"{API}/ledger/consistency"): _R,
    ("POST", f"{API}/uploads"): _S,
    ("GET", f"{API}/uploads/{{upload}}"): _S,
    ("PATCH", f"{API}/uploads/{{upload}}"): _S,
    ("POST", f"{API}/uploads/{{upload}}/finish"): _S,
    ("DELETE", f"{API}/uploads/{{upload}}"): _S,
    ("GET", f"{API}/keys"): _R,
    ("POST", f"{API}/keys"): _A,
    ("POST", f"{API}/keys/{{keyid}}/revoke"): _A,
    ("GET", f"{API}/users"): _A,
    ("POST", f"{API}/users"): _A,
    ("POST", f"{API}/users/{{user}}/disable"): _A,
    ("GET", f"{API}/tokens"): _A,
    ("POST", f"{API}/tokens"): _A,
    ("DELETE", f"{API}/tokens/{{token_id}}"): _A,
    ("GET", f"{API}/contacts"): _A,
    ("PUT", f"{API}/contacts"): _A,
    ("DELETE", f"{API}/contacts"): _A,
    ("GET", f"{API}/audit"): _A,
    ("GET", f"{API}/notices"): _R,
    ("POST", f"{API}/notices/{{notice}}/accept"): _C,
    ("GET", f"{API}/schedules"): _R,
    ("PUT", f"{API}/schedules/{{schedule}}"): _S,
    ("DELETE", f"{API}/schedules/{{schedule}}"): _S,
    ("POST", f"{API}/agents/{{agent}}/poll"): _S,
    ("GET", f"{API}/runs"): _R,
    ("GET", f"{API}/runs/{{run}}"): _R,
    ("POST", f"{API}/runs/{{run}}/live"): _S,
    ("POST", f"{API}/runs/{{run}}/end"): _S,
    ("GET", f"{API}/runs/{{run}}/events"): _R,
}
"""Every route with the scope it asks for. A route that is missing here is refused to everybody."""


def parse_scopes(words: str | list[str] | tuple[str, ...]) -> frozenset[AccessScope]:
    """Scopes from their names, separated by spaces or commas; ValueError for a word that is none."""
    names = words.replace(",", " ").split() if isinstance(words, str) else list(words)
    return frozenset(AccessScope(name) for name in names)


def scopes_text(scopes: frozenset[AccessScope]) -> str:
    """Scopes in their order, as the tables have them."""
    return " ".join(scope.value for scope in SCOPES if scope in scopes)
