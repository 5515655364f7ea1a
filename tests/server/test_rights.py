"""Every route for every role: whoever may come in gets an answer, everybody else is refused, and none is forgotten."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from hosted import ROLES, Caller, World, hidden
from lynxbench.server.app import PARTS, make_app
from lynxbench.server.rights import API, AccessScope
from lynxbench.server.routing import Routes, right_of

REFUSED = {401, 403}
STREAMS = ("GET", f"{API}/runs/{{run}}/events")


def all_rights(world: World) -> dict[tuple[str, str], AccessScope | None]:
    """What every route declares."""
    app = make_app(world.server, looking=False)
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(app.routes)
    return {(method, route.path): right_of(route).scope for route in routes for method in route.methods}


def test_the_whole_server_declares_its_rights(world: World) -> None:
    rights = all_rights(world)
    assert len(rights) > 100
    everybody = {path for (_, path), scope in rights.items() if scope is None}
    assert everybody == {"/healthz", "/readyz", "/static/{name}", "/signin", "/signout"} | {
        "/signin/oidc", "/signin/oidc/callback", "/signin/left",
    }  # fmt: skip
    assert all(scope is AccessScope.ADMINISTER for (_, path), scope in rights.items() if path.startswith("/admin"))
    changing = {scope for (method, path), scope in rights.items() if method != "GET" and path.startswith(API)}
    assert changing == {AccessScope.READ, AccessScope.SUBMIT, AccessScope.CONTEST, AccessScope.ADMINISTER}
    assert [key for key, scope in rights.items() if key[0] != "GET" and scope is AccessScope.READ] == [
        ("POST", f"{API}/claims"),  # lints a text and keeps nothing
        ("POST", f"{API}/ledger/witnessed"),  # keeps what a registered witness signed, and nothing else
        ("POST", "/account/tokens"),
        ("POST", "/account/tokens/revoke"),
        ("POST", "/account/password"),
        ("POST", "/views"),  # a view of one's own
        ("POST", "/views/remove"),  # one's own; another's shared one for administrators alone
    ]


def test_a_route_without_a_right_does_not_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgotten(Routes):
        def join(self, app: FastAPI) -> None:
            app.add_api_route("/forgotten", lambda: None)

    monkeypatch.setattr("lynxbench.server.app.PARTS", (*PARTS, Forgotten()))
    with pytest.raises(RuntimeError, match="/forgotten: a route declares the one right"):
        make_app(world.server, looking=False)


def address_of(world: World, path: str) -> str:
    known = {
        "contract": world.results[0].contract_id,
        "result": world.results[0].result_id,
        "executor": world.results[0].executor_id,
        "form": "csv",
        "analysis": world.analyses["fleet" if path.startswith("/fleet") else "experiment"],
        "seq": "0",
        "name": "nothing",
    }
    filled = re.sub(r"\{(\w+)\}", lambda match: known.get(match[1], "nothing"), path)
    if path in (f"{API}/compare", f"{API}/executors-diff"):
        filled += f"?a={known['result']}&b={world.results[1].result_id}"
    if path == f"{API}/contacts":
        filled += "?owner=nobody&channel=mail"
    return filled


def ask(caller: Caller, world: World, method: str, path: str) -> int:
    address = address_of(world, path)
    if (method, path) == STREAMS:
        address += "?follow=false"
    if method == "GET":
        return caller.get(address).status
    if path.startswith(API):
        headers = {"Content-Type": "application/json", "Upload-Offset": "0"}
        return caller.ask(method, address, b"{}", headers).status
    return caller.ask(method, address, b"", {"Content-Type": "application/x-www-form-urlencoded"}).status


@pytest.fixture(scope="module")
def single(world: World) -> dict[AccessScope | None, Caller]:
    """Nobody, and tokens of one scope each: none contains another."""
    made = world.server.access.make_token
    tokens = {scope: made("administrator", f"{scope} alone", [scope]).text for scope in AccessScope}
    return {None: Caller(world.port), **{scope: Caller(world.port, text) for scope, text in tokens.items()}}


@pytest.mark.parametrize("held", [None, *AccessScope])
def test_the_whole_matrix(world: World, single: dict[AccessScope | None, Caller], held: AccessScope | None) -> None:
    """Scope × route. A body that says nothing is enough: who may is asked before what."""
    wrong = []
    for (method, path), need in all_rights(world).items():
        if (method, path) == ("POST", "/signin"):
            continue
        status = ask(single[held], world, method, path)
        page = not path.startswith(API)
        if page and method == "POST":
            expected = status in REFUSED  # forms are for browsers: a token never passes
        elif need is None or need is held:
            expected = status not in REFUSED and status < 500
        elif held is None and page:
            expected = status == 303
        else:
            expected = status == (401 if held is None else 403)
        if not expected:
            wrong.append((method, path, status))
    assert wrong == []


@pytest.mark.parametrize("role", ROLES)
def test_forms_of_sessions_follow_the_same_rights(world: World, role: str) -> None:
    caller = Caller(world.port)
    assert caller.sign_in(role).status == 303
    csrf = hidden(caller.get("/account").text)
    wrong = []
    for (method, path), need in all_rights(world).items():
        if method != "POST" or path.startswith(API) or path in ("/signin", "/signout"):
            continue
        world.calm()
        status = caller.form(address_of(world, path), {"csrf": csrf, "old": "x", "label": ""}).status
        may = need is None or need in ROLES[role]
        if (status == 403) == may or status == 429:
            wrong.append((path, status))
    assert wrong == []
    world.calm()


def test_scopes_do_not_contain_each_other(world: World) -> None:
    token = world.server.access.make_token("administrator", "narrow", frozenset({AccessScope.ADMINISTER})).text
    caller = Caller(world.port, token)
    assert caller.get(f"{API}/users").status == 200
    assert caller.get(f"{API}/results").status == 403
    assert caller.json("POST", f"{API}/uploads", {"sha256": "a" * 64, "size_bytes": 1}).status == 403


def test_without_users_this_machine_may_read_and_nothing_else(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from hosted import hosted
    from lynxbench.server.server_state import Server
    from lynxbench.server.settings import ServerSettings
    from lynxbench.watch.store import store_url
    from recording_teams import make_team

    team = make_team("alone", tmp_path)
    settings = ServerSettings(upload_folder=tmp_path / "uploads", environment=team.environment)
    server = Server(settings, team.location, store_url(None, team.location))
    with hosted(World(server, team, team, {}, [], [])) as alone:
        assert Caller(alone.port).get("/").status == 200
        assert Caller(alone.port).get("/admin").status == 303
        assert Caller(alone.port).json("POST", f"{API}/uploads", {"sha256": "a" * 64, "size_bytes": 1}).status == 401
        server.access.add_user("first", "alone", frozenset({AccessScope.READ}), "a long enough password")
        server.changed()
        import time

        time.sleep(1.1)  # what another process changed counts within a second
        assert Caller(alone.port).get("/").status == 303
