"""Every route for every role: whoever may come in gets an answer, everybody else is refused, and none is forgotten."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import APIRoute

from hosted import ROLES, Caller, World, hidden
from lynxbench.server.app import make_app
from lynxbench.server.rights import API, RIGHTS, AccessScope

REFUSED = {401, 403}
STREAMS = ("GET", f"{API}/runs/{{run}}/events")


def all_routes(world: World) -> list[tuple[str, str]]:
    app = make_app(world.server, looking=False)
    paths = app.openapi()["paths"]
    found = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    hidden_ = [
        (method, route.path)
        for route in app.routes
        if isinstance(route, APIRoute) and not route.include_in_schema
        for method in route.methods
    ]
    return sorted({*found, *hidden_})


def test_every_route_has_a_right_and_every_right_a_route(world: World) -> None:
    routes = all_routes(world)
    if len(routes) < len(RIGHTS):  # newer versions keep included routers whole; their pages are asked for below
        assert set(routes) <= set(RIGHTS)
    else:
        assert set(routes) == set(RIGHTS)


def address_of(world: World, path: str) -> str:
    known = {
        "contract": world.results[0].contract_id,
        "result": world.results[0].result_id,
        "executor": world.results[0].executor_id,
        "form": "csv",
        "file": "analysis.json",
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


@pytest.mark.parametrize("role", [None, *ROLES])
def test_the_whole_matrix(world: World, role: str | None) -> None:
    """Role × route. A body that says nothing is enough: who may is asked before what."""
    scopes = ROLES[role] if role else frozenset()
    wrong = []
    for (method, path), need in RIGHTS.items():
        if (method, path) == ("POST", "/signin"):
            continue
        caller = world.caller(role)
        status = ask(caller, world, method, path)
        page = not path.startswith(API)
        may = need is None or need in scopes
        if page and method == "POST":
            expected = status in REFUSED  # forms are for browsers: a token never passes
        elif may:
            expected = status not in REFUSED and status < 500
        elif role is None and page:
            expected = status == 303
        else:
            expected = status == (401 if role is None else 403)
        if not expected:
            wrong.append((method, path, status))
    assert wrong == []


@pytest.mark.parametrize("role", ROLES)
def test_forms_of_sessions_follow_the_same_table(world: World, role: str) -> None:
    caller = Caller(world.port)
    assert caller.sign_in(role).status == 303
    csrf = hidden(caller.get("/account").text)
    wrong = []
    for (method, path), need in RIGHTS.items():
        if method != "POST" or path.startswith(API) or path in ("/signin", "/signout"):
            continue
        status = caller.form(address_of(world, path), {"csrf": csrf, "old": "x", "label": ""}).status
        may = need is None or need in ROLES[role]
        if (status == 403) == may and status != 429:
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
    from hosted import hosted, make_team
    from lynxbench.server.observing import Log
    from lynxbench.server.server_state import Server
    from lynxbench.server.settings import ServerSettings
    from lynxbench.watch.store import store_url

    team = make_team("alone", tmp_path)
    settings = ServerSettings(upload_folder=tmp_path / "uploads", environment=team.environment)
    server = Server(settings, team.location, store_url(None, team.location), Log(quiet=True))
    with hosted(World(server, team, team, {}, [], [])) as alone:
        assert Caller(alone.port).get("/").status == 200
        assert Caller(alone.port).get("/admin").status == 303
        assert Caller(alone.port).json("POST", f"{API}/uploads", {"sha256": "a" * 64, "size_bytes": 1}).status == 401
        server.access.add_user("first", "alone", frozenset({AccessScope.READ}), "a long enough password")
        server.changed()
        import time

        time.sleep(1.1)  # what another process changed counts within a second
        assert Caller(alone.port).get("/").status == 303
