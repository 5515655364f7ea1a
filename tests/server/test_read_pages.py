"""Pages that people read are made again before a restarted server answers anybody."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hosted import World, hosted, make_world
from lynxbench.server.app import make_app
from lynxbench.server.read_pages import HERE, MOST_PAGES, ReadPages, _scope_of
from lynxbench.server.rights import INSIDE


def test_what_was_read_before_a_restart_is_made_before_anybody_asks(tmp_path: Path) -> None:
    world = make_world(tmp_path, shapes=(), decisions=False)
    result = world.results[0].result_id
    with hosted(world):
        reader = world.caller("reader")
        for page in ("/", f"/results/{result}", f"/results?contract={world.results[0].contract_id}", "/claims"):
            assert reader.get(page).status == 200
        assert reader.get("/results/" + "0" * 64).status == 404
        world.server.look()
        addresses = world.server.read_pages.addresses()
        assert addresses[0] == "/claims"
        assert set(addresses[1:]) == {"/", f"/results/{result}", f"/results?contract={world.results[0].contract_id}"}
        again = ReadPages(world.server.store)
        assert set(again.addresses()) == set(addresses), "written down: a server that is killed has no time for it"

        cache, requests = world.server.cache, world.server.metrics.requests
        cache._cached.clear()
        counted = requests.collect()[0].samples
        app = make_app(world.server, looking=False)
        assert asyncio.run(again.make_all(app, seconds=600.0)) == len(addresses)
        made = {name for name in cache._cached if isinstance(name, tuple) and name[0] == "page"}
        assert len(made) == len(addresses)
        assert requests.collect()[0].samples == counted, "nobody asked"
        misses = cache.misses
        assert reader.get(f"/results/{result}").status == 200
        assert cache.misses == misses
        assert asyncio.run(again.make_all(app, seconds=-1.0)) == 0, "a start does not take for ever"


def test_only_reading_is_open_from_inside_and_nobody_outside_is(world: World) -> None:
    app = make_app(world.server, looking=False)
    answers: list[int] = []

    async def send(message: dict) -> None:  # type: ignore[type-arg]
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    async def receive() -> dict:  # type: ignore[type-arg]
        return {"type": "http.request", "body": b"", "more_body": False}

    for path in ("/results", "/admin", "/api/v1/uploads/any"):
        asyncio.run(app(_scope_of(path, HERE), receive, send))
    assert answers[0] == 200
    assert answers[1:] == [303, 401]
    headers = {INSIDE: "true", f"x-{INSIDE}": "true"}
    assert world.caller().ask("GET", "/results", headers=headers).status in (303, 401)


def test_so_many_are_remembered_and_no_more(world: World) -> None:
    pages = ReadPages(world.server.store)
    for number in range(MOST_PAGES + 5):
        pages.note({"path": f"/results/{number}", "query_string": b""})
    pages.note({"path": "/results/7", "query_string": b"a=1"})
    pages.note({"path": "/" + "x" * 1000, "query_string": b""})
    assert pages.addresses()[:2] == ["/results/7?a=1", f"/results/{MOST_PAGES + 4}"]
    assert len(pages.addresses()) == MOST_PAGES
