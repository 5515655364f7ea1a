"""The application: routes, the guard around them, and every deliberate error as one line."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse, Response

from lynxbench import __version__
from lynxbench.errors import BadLedger, LynxbenchError, NotFound, Refused
from lynxbench.report.doc import Report, Section
from lynxbench.server import agreeing_routes, form_routes, page_routes, provider_routes, view_routes
from lynxbench.server.api import (
    administering_api,
    agreeing_api,
    evidence_api,
    submitting_api,
    witness_api,
    working_api,
)
from lynxbench.server.guard import Doorkeeper, Guard, NeedsSignIn, problem
from lynxbench.server.page_routes import PageVisit, shown_line
from lynxbench.server.pages.page_shell import make_page, problem_note
from lynxbench.server.rights import API, nobody
from lynxbench.server.routing import right_of, server_of
from lynxbench.server.server_state import Server

PARTS = (
    page_routes.route,  # first: a request is held against one route after the other, and most are for pages
    evidence_api.route,
    witness_api.route,
    submitting_api.route,
    working_api.route,
    administering_api.access,
    administering_api.route,
    form_routes.route,
    provider_routes.route,
    view_routes.route,
    view_routes.api,
    agreeing_api.route,
    agreeing_routes.route,
)
SWITCH_S = 0.0005
"""How long a busy thread keeps the interpreter from the others: a submission that is being verified must not hold up
page views for Python's usual five milliseconds at a time."""

WORKERS = 8
"""Threads that answer the API; more would only take turns on one interpreter."""


def make_app(server: Server, *, looking: bool = True) -> FastAPI:
    """The application over an open server; `looking=False` leaves out the thread that looks after things."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        to_thread.current_default_thread_limiter().total_tokens = WORKERS
        if looking:
            made = await server.read_pages.make_all(app)
            server.log.info("pages made", extra={"pages": made})
            server.start()
        try:
            yield
        finally:
            sys.setswitchinterval(before)
            await asyncio.to_thread(server.stop)

    app = FastAPI(
        title="lynxbench",
        version=__version__,
        summary="The shared measurement: results, their evidence and standing.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=[Middleware(Guard, server=server)],
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.state.server = server
    app.state.door = Doorkeeper(server)
    for part in PARTS:
        part.join(app)
    for route in app.routes:
        right_of(route)
    for kind in (HTTPException, RequestValidationError, LynxbenchError, NeedsSignIn, Exception):
        app.add_exception_handler(kind, _refused)
    return app


def _status_of(error: LynxbenchError) -> int:
    if isinstance(error, NotFound | Refused):
        return 404 if isinstance(error, NotFound) else 409
    return 503 if isinstance(error, BadLedger) else 422


def _respond(
    request: Request, status: int, line: str, headers: dict[str, str] | None = None, exit_code: int | None = None
) -> Response:
    if request.url.path.startswith(API):
        made: Response = problem(status, line, exit_code)
    else:
        if not hasattr(request.state, "principal"):
            request.state.principal = nobody(may_read=False)
        words = {404: "Not there", 403: "Not allowed", 429: "Too many requests"}.get(status, "That did not work")
        page = make_page(Report(words, (Section("why", "Why", (problem_note(line),)),)), status=status)
        made = PageVisit(request).html(page)
    made.headers.update(headers or {})
    return made


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, NeedsSignIn):
        return RedirectResponse(f"/signin?next={quote(error.target, safe='')}", 303)
    if isinstance(error, HTTPException):
        return _respond(request, error.status_code, str(error.detail), dict(error.headers or {}))
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _respond(request, 422, f"{where}: {first['msg']}"[:500])
    if isinstance(error, LynxbenchError):
        line = shown_line(server_of(request), error)
        return _respond(request, _status_of(error), line, exit_code=int(error.exit_code))
    fields = {"path": request.url.path, "error": f"{type(error).__name__}: {error}"}
    server_of(request).log.error("broken", extra=fields)
    return problem(500, "this should not have happened; the server's log says what it was")
