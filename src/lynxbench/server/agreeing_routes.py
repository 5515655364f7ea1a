"""Signatures under contracts on the page: who signed, and the form that takes what a team's own key signed."""

from dataclasses import replace

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from lynxbench.errors import LynxbenchError
from lynxbench.server.guard import read_form
from lynxbench.server.page_routes import Here, shown_line
from lynxbench.server.pages.agreeing_page import MOST_TEXT, agree_page, hand_in
from lynxbench.server.routing import READ, SUBMIT, Routes, TheAuthor, TheCaller

route = Routes()


@route("GET", "/agree", READ)
async def agree_form(here: Here, who: TheCaller) -> Response:
    return here.html(agree_page(who))


@route("POST", "/agree", SUBMIT)
async def agree(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    server, text = here.server, (await read_form(request)).text("entry", MOST_TEXT)
    if server.submissions.wait_s(who.credential or who.name) > 0:
        raise HTTPException(429, "too many submissions; wait a little", {"Retry-After": "60"})
    try:
        name = await run_in_threadpool(
            lambda: server.audit.carry_out(by, "sign contract", "", hand_in, server, who, text.encode())
        )
    except LynxbenchError as error:
        return here.html(replace(agree_page(who, text, shown_line(server, error)), status=422))
    return RedirectResponse(f"/contracts/{name}#agreement", 303)
