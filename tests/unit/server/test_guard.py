"""From where somebody asks, and what is remembered of who asked."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi import HTTPException, Request

from lynxbench.server.guard import MOST_REMEMBERED, Doorkeeper, remote_of
from lynxbench.server.limits import WRONG_TOKENS_PER_MIN
from lynxbench.server.rights import AccessScope
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.store import store_url
from recording_teams import make_team

PEER = "10.0.0.1"


def scope_of(*forwarded: str, client: str | None = PEER, token: str = "") -> dict[str, Any]:
    headers = [(b"x-forwarded-for", line.encode()) for line in forwarded]
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    return {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": headers,
        "client": (client, 5) if client else None,
    }


@pytest.mark.parametrize(
    ("proxies", "forwarded", "remote"),
    [
        (0, ("192.0.2.9",), PEER),
        (1, (), PEER),
        (1, ("198.51.100.1",), "198.51.100.1"),
        (1, ("192.0.2.9, 198.51.100.1",), "198.51.100.1"),
        (1, ("192.0.2.9", "198.51.100.1"), "198.51.100.1"),
        (1, ("192.0.2.9, 192.0.2.8", "192.0.2.7, 198.51.100.1"), "198.51.100.1"),
        (2, ("192.0.2.9, 198.51.100.1, 10.0.0.2",), "198.51.100.1"),
        (2, ("192.0.2.9", "198.51.100.1", "10.0.0.2"), "198.51.100.1"),
        (2, ("198.51.100.1",), "198.51.100.1"),
        (1, ("198.51.100.1,",), "198.51.100.1"),
        (1, ("<script>",), PEER),
        (1, ("x" * 5000,), PEER),
        (3, ("2001:db8::7, 10.0.0.3, 10.0.0.2",), "2001:db8::7"),
    ],
)
def test_only_what_ones_own_proxies_added_is_believed(proxies: int, forwarded: tuple[str, ...], remote: str) -> None:
    """An attacker writes lines of their own; each proxy adds whom it heard at the right, or in a further line."""
    server = cast(Server, SimpleNamespace(settings=ServerSettings(proxies=proxies)))
    assert remote_of(scope_of(*forwarded), server) == remote


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    team = make_team("ml", tmp_path)
    settings = ServerSettings(upload_folder=tmp_path / "uploads", environment=team.environment)
    made = Server(settings, team.location, store_url(None, team.location))
    made.access.add_user("agent", "ml", [AccessScope.READ])
    yield made
    made.stop()


def status_of(door: Doorkeeper, token: str, client: str) -> int:
    try:
        asyncio.run(door.principal(Request(scope_of(client=client, token=token))))
    except HTTPException as error:
        return error.status_code
    return 200


def test_wrong_tokens_are_counted_and_not_remembered(server: Server) -> None:
    door = Doorkeeper(server)
    good = server.access.make_token("agent", "x", [AccessScope.READ]).text
    fresh = server.access.make_token("agent", "y", [AccessScope.READ]).text
    assert status_of(door, good, "192.0.2.1") == 200
    wrong = [f"lynx_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}" for _ in range(WRONG_TOKENS_PER_MIN + 20)]
    wrong[::3] = [f"{number}{'x' * 50_000}" for number in range(len(wrong[::3]))]
    statuses = [status_of(door, token, "192.0.2.1") for token in wrong]
    assert statuses[:WRONG_TOKENS_PER_MIN] == [401] * WRONG_TOKENS_PER_MIN
    assert statuses[-1] == 429
    assert len(door._remembered) == 1, "only what opened something"
    assert sum(map(len, door._remembered)) < 100, "by its hash"
    assert status_of(door, good, "192.0.2.1") == 200, "an agent at the same address works on"
    assert status_of(door, fresh, "192.0.2.2") == 200, "and everybody elsewhere"


def test_a_token_guessed_from_many_places_fills_no_memory(server: Server) -> None:
    door = Doorkeeper(server)
    for number in range(500):
        assert status_of(door, f"wrong-{number}", f"198.51.{number % 250}.{number // 250}") == 401
    assert not door._remembered
    assert MOST_REMEMBERED >= 1000


def test_a_revoked_token_that_was_remembered_opens_nothing(server: Server) -> None:
    door = Doorkeeper(server)
    made = server.access.make_token("agent", "x", [AccessScope.READ])
    assert status_of(door, made.text, "192.0.2.1") == 200
    server.access.revoke_token(made.token_id)
    server.changed()
    assert status_of(door, made.text, "192.0.2.1") == 401
    assert not door._remembered
