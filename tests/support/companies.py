"""A server whose people sign in by a real OpenID provider, and how to walk from one to the other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hosted import PASSWORD, Answer, Caller, World, hosted
from lynxbench.server.provider_settings import GroupRight, ProviderSettings
from lynxbench.server.rights import AccessScope
from lynxbench.server.server_state import RETURN_PATH, Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.store import store_url
from openid_provider import CLIENT, SECRET, RunningProvider, running_provider
from recording_teams import make_team

READ, SUBMIT, CONTEST, ADMINISTER = AccessScope
GROUPS = (
    GroupRight(group="bench-readers", team="ml-platform", may=(READ,)),
    GroupRight(group="bench-submitters", team="infrastructure", may=(READ, SUBMIT)),
    GroupRight(group="bench-operators", may=(ADMINISTER,)),
    GroupRight(group="bench-guests", may=(READ,)),
)
PORT = 8420
BACK = f"http://127.0.0.1:{PORT}{RETURN_PATH}"


@dataclass
class Company:
    """A server, the provider that it asks, and how to walk from one to the other."""

    world: World
    provider: RunningProvider

    def caller(self) -> Caller:
        return Caller(self.world.port)

    def begin(self, caller: Caller, next_: str = "/results") -> str:
        sent = caller.get(f"/signin/oidc?{urlencode({'next': next_})}")
        assert sent.status == 303, sent.text
        return sent.headers["location"]

    def returned(self, caller: Caller, sub: str, next_: str = "/results") -> str:
        """The address on this server that the provider sends the browser to."""
        location = self.provider.log_in(self.begin(caller, next_), sub)
        assert location.startswith(f"{BACK}?")
        return location.removeprefix(f"http://127.0.0.1:{PORT}")

    def sign_in(self, sub: str, caller: Caller | None = None, next_: str = "/results") -> tuple[Caller, Answer]:
        caller = caller or self.caller()
        return caller, caller.get(self.returned(caller, sub, next_))

    def person(self, **claims: Any) -> str:
        """Somebody new at the provider."""
        sub = f"u-{secrets.token_hex(6)}"
        self.provider.tell("/people", {sub: {"preferred_username": f"new-{sub}", **claims}})
        return sub


def refused(answer: Answer, status: int, words: str) -> None:
    """A page that says why, and nothing that opens anything."""
    assert (answer.status, "lynx_session" in answer.cookies) == (status, False), answer.text[-600:]
    assert "Nobody was signed in with Example &amp; Co." in answer.text
    assert words in answer.text
    assert "Begin again" in answer.text
    assert answer.headers["cache-control"] == "no-store"


def rights_shown(caller: Caller) -> tuple[str, str, set[str]]:
    """Name, team and scopes of whoever is signed in, as the server tells them."""
    said = caller.get("/api/v1/whoami").json()
    assert said["via"] == "session"
    return said["name"], said["team"], set(said["scopes"])


@contextmanager
def open_company(folder: Path) -> Iterator[Company]:
    """Both, listening; `ada` is a local administrator with a password."""
    team = make_team("alone", folder)
    with running_provider() as provider:
        provider.tell("/clients", {CLIENT: [SECRET, [BACK]], "another": [None, [BACK]]})
        settings = ServerSettings(
            reads_per_s=0,
            upload_folder=folder / "uploads",
            environment={**team.environment, "LYNXBENCH_OIDC_SECRET": SECRET},
            provider=ProviderSettings(
                lynxbench_sign_in=1, issuer=provider.issuer, client_id=CLIENT, name="Example & Co", groups=GROUPS
            ),
        )
        server = Server(settings, team.location, store_url(None, team.location))
        server.access.add_user("ada", "alone", frozenset(AccessScope), PASSWORD)
        with hosted(World(server, team, team, {}, [], [])) as world:
            yield Company(world, provider)
