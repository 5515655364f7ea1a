"""Saved views: pages, forms and the list for programs."""

from collections.abc import Callable

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from lynxbench.errors import LynxbenchError
from lynxbench.server.administration import ChangeAuthor
from lynxbench.server.api.request_models import Short
from lynxbench.server.guard import read_form, safe_target
from lynxbench.server.page_routes import Here, PageVisit, shown_line
from lynxbench.server.pages.page_shell import Page
from lynxbench.server.pages.views_page import new_view_page, views_page
from lynxbench.server.rights import API, Principal
from lynxbench.server.routing import CONTEST, READ, Routes, TheAuthor, TheCaller, TheServer, answer
from lynxbench.server.saved_views import SavedView, parse_query

MOST_SENT = 4000

route = Routes()
api = Routes(API, "views")


@api("GET", "/views", READ, {"views": list[SavedView]})
def views_(server: TheServer, who: TheCaller) -> Response:
    """Saved views: one's own and everybody's, each with the address that it leads to."""
    return answer({"views": server.views.list(who)})


@route("GET", "/views", READ)
async def views(here: Here, who: TheCaller) -> Response:
    return here.html(await run_in_threadpool(views_page, here.server, who))


@route("GET", "/views/new", READ)
async def new_view(here: Here, request: Request, who: TheCaller, place: str = "/results") -> Response:
    try:
        query = parse_query(place, request.url.query)
    except LynxbenchError as error:
        return here.html(new_view_page(who, place[:40], "", shown_line(here.server, error)))
    return here.html(new_view_page(who, place, query))


@route("GET", "/views/{view}", READ)
async def open_view(here: Here, who: TheCaller, view: Short) -> Response:
    held = await run_in_threadpool(here.server.views.get, who, view)
    return RedirectResponse(safe_target(held.address), 303)


@route("POST", "/views", READ)
async def save_view(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    return await _save(here, request, who, by, shared=False)


@route("POST", "/views/shared", CONTEST)
async def share_view(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    return await _save(here, request, who, by, shared=True)


@route("POST", "/views/remove", READ)
async def remove_view(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    view, server = (await read_form(request)).text("view", 40), here.server

    def work() -> None:
        server.audit.carry_out(by, "remove view", view, server.views.remove, who, view)

    return await _submitted(here, work, lambda line: views_page(server, who, line))


async def _save(here: PageVisit, request: Request, who: Principal, by: ChangeAuthor, *, shared: bool) -> Response:
    form, server = await read_form(request), here.server
    name, place, query = form.text("name", 400), form.text("place", 40), form.text("query", MOST_SENT)

    def work() -> None:
        action = "share view" if shared else "save view"
        server.audit.carry_out(by, action, name, server.views.save, who, name, place, query, shared=shared)

    return await _submitted(here, work, lambda line: new_view_page(who, place, query, line))


async def _submitted(here: PageVisit, work: Callable[[], None], again: Callable[[str], Page]) -> Response:
    try:
        await run_in_threadpool(work)
    except LynxbenchError as error:
        return here.html(await run_in_threadpool(again, shown_line(here.server, error)))
    return RedirectResponse("/views", 303)
