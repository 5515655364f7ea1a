"""What any HTTP client may expect: HEAD as GET without its body, and JSON in which nothing hides."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.routing import APIRoute

from compared import make_contract, make_executor, make_result
from hosted import World, hosted, make_world
from lynxbench.model.canonical import plain_json
from lynxbench.server.app import make_app
from lynxbench.server.rights import API
from lynxbench.visible import UNSAFE
from recording_teams import record

HIDDEN = "a \u202e turned round, \u2066 isolated, \u200b unseen, é kept · \U0001f600"
CONTROLS = "6.1 \x7f deleted, \x9b controlled, \x1b[2J cleared"
MOVES = ("server-timing", "date", "set-cookie", "etag")
"""Of every answer its own."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(make_world(tmp_path_factory.mktemp("plain"), shapes=(), decisions=False)) as listening:
        yield listening


def test_head_answers_as_get_without_a_body(place: World) -> None:
    """Found: 405 on every page and every GET of the API."""
    caller, result = place.caller("reader"), place.results[0]
    addresses = [
        *("/", "/contracts", "/results", "/runs", "/healthz", "/signin", "/results/nothing-such"),
        *(f"/contracts/{result.contract_id}", f"/contracts/{result.contract_id}/series.csv"),
        *(f"{API}/results", f"{API}/results/{result.result_id}", f"{API}/contracts/{result.contract_id}/history"),
        *(f"{API}/results/{result.result_id}/bundle", f"{API}/results/{'0' * 64}", f"{API}/users", "/nothing"),
    ]
    for address in addresses:
        got, head = caller.get(address), caller.ask("HEAD", address)
        assert (head.status, head.body) == (got.status, b""), address
        named = [{name: text for name, text in one.headers.items() if name not in MOVES} for one in (got, head)]
        assert named[0].keys() == named[1].keys(), address
        assert named[0]["content-type"] == named[1]["content-type"], address
    assert place.caller().ask("HEAD", f"{API}/results").status == place.caller().get(f"{API}/results").status


def test_head_of_what_takes_no_get_is_refused_as_get_is(place: World) -> None:
    caller = place.caller("administrator")
    for address in (f"{API}/uploads", "/signout"):
        assert caller.ask("HEAD", address).status == caller.get(address).status == 405
    for address in ("/signin/oidc", "/signin/oidc/callback?code=1&state=2"):
        assert caller.ask("HEAD", address).status == 405, "what a GET spends is not spent by who only looks"


def test_no_route_declares_head(place: World) -> None:
    app = make_app(place.server, looking=False)
    assert not any("HEAD" in route.methods for route in app.routes if isinstance(route, APIRoute))


def test_head_of_a_live_view_ends(place: World) -> None:
    """Its body has no end, and may not begin for half a minute."""
    scheduler, team = place.server.scheduler, place.team.name
    scheduler.put("followed", team, "every 1 s", make_contract(), "test", ["slow"])
    began = datetime.now(UTC) + timedelta(seconds=30)
    claimed = scheduler.poll("slow", team, "x", began)
    assert claimed is not None
    caller, address = place.caller("reader"), f"{API}/runs/{claimed[0].run}/events"
    for _ in range(12):  # more than the streams that one caller may hold open
        began = time.monotonic()
        assert caller.ask("HEAD", address).status == 200
        assert time.monotonic() - began < 5
    until = time.monotonic() + 10
    while place.server.board.streams:
        assert time.monotonic() < until, "a stream that nobody follows is kept open"
        time.sleep(0.1)


def test_json_of_the_api_hides_nothing_and_is_the_same_document(place: World) -> None:
    """Found: text that reads backwards went out raw, where pages and the command line write it out."""
    contract = make_contract(name="hiding", question=HIDDEN)
    executor = make_executor({"system.kernel": CONTROLS})
    held = record(place.server.ledger, make_result(contract=contract, executor=executor), place.team.key)
    caller = place.caller("reader")
    addresses = {
        f"{API}/contracts/{held.contract_id}": lambda found: found["contract"]["question"],
        f"{API}/results/{held.result_id}": lambda found: found["result"]["contract"]["question"],
        f"/results/{held.result_id}/result.json": lambda found: found["contract"]["question"],
    }
    for address, question in addresses.items():
        answer = caller.get(address)
        text = answer.body.decode("utf-8")
        assert answer.status == 200, address
        assert UNSAFE.search(text) is None, address
        assert question(json.loads(text)) == HIDDEN, address
        assert "é kept · \U0001f600" in text, "what is seen stays as it is"
    whole = json.loads(caller.get(f"{API}/results/{held.result_id}").body)["result"]
    assert whole == json.loads(json.dumps(plain_json(held.document())))
    assert whole["executor"]["layers"]["system"]["kernel"]["value"] == CONTROLS
    refused = caller.get(f"{API}/results/%E2%80%AE{'0' * 8}")
    assert refused.status in (404, 422)
    assert UNSAFE.search(refused.body.decode("utf-8")) is None
