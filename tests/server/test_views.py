"""Saved views: one's own are nobody else's business, shared ones lead everybody to the same place, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest
from sqlalchemy import delete

from browsers import Look, launched_browser
from hosted import PASSWORD, Answer, Caller, World, hidden
from lynxbench.errors import BadInput, Refused
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.saved_views import SavedViews, parse_query
from lynxbench.watch.store import Store
from lynxbench.watch.store_tables import views as views_table

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def place(world: World) -> Iterator[World]:
    """The shared server, left without a view."""
    yield world
    world.server.store.change(delete(views_table))
    world.calm()


def signed_in(place: World, role: str) -> Caller:
    caller = Caller(place.port)
    assert caller.sign_in(role).status == 303
    place.calm()
    return caller


def save(caller: Caller, name: str, query: str, *, at: str = "/results", shared: bool = False) -> Answer:
    csrf = hidden(caller.get("/account").text)
    fields = {"csrf": csrf, "name": name, "place": at, "query": query}
    return caller.form("/views/shared" if shared else "/views", fields)


def named(caller: Caller) -> dict[str, str]:
    return {view["name"]: view["address"] for view in caller.get("/api/v1/views").json()["views"]}


def opened(caller: Caller, name: str) -> Answer:
    views = caller.get("/api/v1/views").json()["views"]
    return caller.get(f"/views/{next(view['view'] for view in views if view['name'] == name)}")


def test_a_view_of_ones_own_is_opened_and_removed_by_its_owner_alone(place: World) -> None:
    reader, other = signed_in(place, "reader"), signed_in(place, "submitter")
    page = reader.get("/views/new?place=%2Fresults&valid=valid&sort=Throughput&way=descending&odd=1").text
    query = unescape(hidden(page, "query"))
    assert query == "valid=valid&sort=Throughput&way=descending"
    assert "Save for everybody" not in page
    assert save(reader, f"mine {SCRIPT}", query).headers["location"] == "/views"
    listed = reader.get("/views").text
    assert "mine &lt;script&gt;" in listed
    assert SCRIPT not in listed
    (view,) = reader.get("/api/v1/views").json()["views"]
    assert (view["owner"], view["shared"]) == ("reader", False)
    answer = reader.get(f"/views/{view['view']}")
    assert (answer.status, answer.headers["location"]) == (303, "/results?valid=valid&sort=Throughput&way=descending")
    assert reader.get(answer.headers["location"]).status == 200
    assert named(other) == {}
    assert other.get(f"/views/{view['view']}").status == 404
    gone = {"csrf": hidden(other.get("/account").text), "view": view["view"]}
    assert other.form("/views/remove", gone).status == 422
    assert save(reader, f"mine {SCRIPT}", "").status == 422, "a name is taken once"
    assert reader.form("/views/remove", gone | {"csrf": hidden(reader.get("/account").text)}).status == 303
    assert named(reader) == {}


def test_a_shared_view_is_everybodys_to_open_and_its_makers_to_remove(place: World) -> None:
    maker, reader = signed_in(place, "contester"), signed_in(place, "reader")
    query = urlencode({"contract": "compared", "tag": "golden", "words": "fp32 + x"})
    assert save(reader, "for all", query, shared=True).status == 403, "the route asks for `contest`"
    assert save(maker, "for all", query, shared=True).status == 303
    assert opened(reader, "for all").headers["location"] == "/results?contract=compared&tag=golden&words=fp32+%2B+x"
    (view,) = reader.get("/api/v1/views").json()["views"]
    fields = {"csrf": hidden(reader.get("/account").text), "view": view["view"]}
    assert reader.form("/views/remove", fields).status == 422
    assert "or an administrator remove it" in reader.form("/views/remove", fields).text
    admin = signed_in(place, "administrator")
    assert admin.form("/views/remove", fields | {"csrf": hidden(admin.get("/account").text)}).status == 303
    assert named(reader) == {}


@pytest.mark.parametrize(
    ("at", "query"),
    [
        ("//evil.example", ""),
        ("https://evil.example/", "valid=valid"),
        ("/admin", ""),
        ("/results?x=", "valid=valid"),
        ("/results", "contract=" + "x" * 201),
        ("/results", "words=%0d%0aSet-Cookie:a"),
        ("/results", "valid=valid&valid=void"),
        ("/results", "&".join(f"r={number:064x}" for number in range(9))),
        ("/results", "&".join(f"{name}={'%C3%A4' * 200}" for name in ("contract", "executor", "words", "tag"))),
        ("/results", "&".join("a=b" for _ in range(60))),
    ],
)
def test_a_view_leads_nowhere_else(at: str, query: str) -> None:
    with pytest.raises(BadInput):
        parse_query(at, query)


def test_views_are_bounded_and_come_and_go_with_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lynxbench.server.saved_views.MOST_OWN", 3)
    store = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    try:
        who, views = Principal("ada", "ml", frozenset(AccessScope), "session", "c"), SavedViews(store)
        for number in range(3):
            views.save(who, f"view {number}", "/results", "valid=valid", shared=False)
        with pytest.raises(Refused, match="3 views are kept, and no more are"):
            views.save(who, "one more", "/results", "", shared=False)
        views.save(who, "for all", "/results", "", shared=True)
        store.migrate("0005")
        store.migrate()
        assert views.list(who) == []
    finally:
        store.close()


def test_a_browser_saves_how_a_table_is_sorted_narrowed_and_ticked(place: World) -> None:
    here = f"http://127.0.0.1:{place.port}"
    with launched_browser() as browser:
        look = Look(browser, 1280)
        page = look.page
        page.goto(f"{here}/signin?next=%2Fresults%3Fvalid%3Dvalid")
        page.get_by_label("Name").fill("contester")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{here}/results?valid=valid")
        page.get_by_role("button", name="Measured").click()
        page.get_by_role("button", name="Measured").click()
        page.get_by_label("Filter: Results, newest first").fill("compared")
        narrowed = (
            "[...document.querySelectorAll('tbody tr:not([hidden])')].every(r => r.innerText.includes('compared'))"
        )
        page.wait_for_function(narrowed)
        for box in page.locator("tbody tr:not([hidden]) input.pick").all()[:2]:
            box.check()
        order = page.locator("table tbody tr:not([hidden]) td:first-child a").all_text_contents()
        page.get_by_role("link", name="Save this view").click()
        page.get_by_label("Name").fill("as I left it")
        page.get_by_role("button", name="Save for everybody").click()
        page.wait_for_url(f"{here}/views")
        page.evaluate("sessionStorage.clear()")
        page.get_by_role("link", name="as I left it").click()
        page.wait_for_url(f"{here}/results?**")
        assert page.locator("th[aria-sort=descending]").inner_text().strip() == "Measured"
        assert page.get_by_label("Filter: Results, newest first").input_value() == "compared"
        assert page.locator("table tbody tr:not([hidden]) td:first-child a").all_text_contents() == order
        assert page.locator("input.pick:checked").count() == 2
        assert look.said == []
        look.close()
    place.calm()
