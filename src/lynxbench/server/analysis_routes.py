"""Pages of experiments, tunings and fleet runs, their pictures and files; and the form that prepares a contest."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from lynxbench.errors import LynxbenchError
from lynxbench.ledger.log import Logged
from lynxbench.record.recalling_analyses import body_of
from lynxbench.server.form_routes import FormFields
from lynxbench.server.guard import read_form, remote_of
from lynxbench.server.page_cache import EVERYTHING, OWN
from lynxbench.server.page_routes import Named, file, html, quick_id, server_of, show, shown_line, there
from lynxbench.server.pages import analyses_page as analyses
from lynxbench.server.pages import contesting_page as contesting
from lynxbench.server.pages.svg_file import standalone_svg

EXPERIMENTS, FLEET = "/experiments", "/fleet"
Analysis = Annotated[str, Path(min_length=4, max_length=200)]

router = APIRouter(include_in_schema=False)


@router.get("/experiments")
async def experiments_(request: Request) -> Response:
    server = server_of(request)
    return await show(request, "experiments", (EVERYTHING, OWN), lambda: analyses.experiments_page(server))


@router.get("/experiments/{analysis}")
async def experiment_(request: Request, analysis: Analysis) -> Response:
    return await _page(request, analysis, EXPERIMENTS)


@router.get("/experiments/{analysis}/{file}")
def experiment_file_(request: Request, analysis: Analysis, file: str) -> Response:
    return _file(request, analysis, EXPERIMENTS, file)


@router.get("/experiments/{analysis}/plots/{name}.svg")
def experiment_plot_(request: Request, analysis: Analysis, name: str) -> Response:
    return _plot(request, analysis, EXPERIMENTS, name)


@router.get("/fleet")
async def fleet_(request: Request) -> Response:
    server = server_of(request)
    return await show(request, "fleet", (EVERYTHING, OWN), lambda: analyses.fleet_page(server))


@router.get("/fleet/{analysis}")
async def fleet_run_(request: Request, analysis: Analysis) -> Response:
    return await _page(request, analysis, FLEET)


@router.get("/fleet/{analysis}/{file}")
def fleet_file_(request: Request, analysis: Analysis, file: str) -> Response:
    return _file(request, analysis, FLEET, file)


@router.get("/fleet/{analysis}/plots/{name}.svg")
def fleet_plot_(request: Request, analysis: Analysis, name: str) -> Response:
    return _plot(request, analysis, FLEET, name)


async def _page(request: Request, text: str, place: str) -> Response:
    server = server_of(request)
    logged = await run_in_threadpool(_found, request, text, place)
    make = lambda: analyses.analysis_page(server, logged)  # noqa: E731
    return await show(request, ("analysis", body_of(logged).analysis_id), (EVERYTHING, OWN), make)


def _found(request: Request, text: str, place: str) -> Logged:
    return there(lambda: analyses.find(server_of(request), text, place))()


def _file(request: Request, text: str, place: str, name: str) -> Response:
    server, logged = server_of(request), _found(request, text, place)
    short_name = body_of(logged).analysis_id[:12]
    if name == "analysis.json":
        data = server.ledger.blobs.get(body_of(logged).analysis_id)
        return file(data.decode("utf-8"), "application/json", f"{short_name}.json")
    if name == "report.html":
        if analyses.rendered(server, logged).document is None:
            raise HTTPException(404, "this analysis cannot be drawn")
        return file(analyses.report_of(server, logged), "text/html", f"{short_name}.html")
    raise HTTPException(404, "an analysis comes as analysis.json or report.html")


def _plot(request: Request, text: str, place: str, name: str) -> Response:
    logged = _found(request, text, place)
    plots = analyses.rendered(server_of(request), logged).plots
    if name not in plots:
        raise HTTPException(404, f"no plot of that name; there are {', '.join(sorted(plots)) or 'none'}")
    return file(standalone_svg(plots[name]), "image/svg+xml", f"{body_of(logged).analysis_id[:12]}-{name}.svg")


# --- contesting ------------------------------------------------------------------------------------------------------


@router.get("/results/{result}/contest")
async def contest_form_(request: Request, result: Named) -> Response:
    name = await quick_id(request, result, "result")
    return html(request, contesting.contest_page(request.state.principal, name, _url(request)))


@router.post("/results/{result}/contest")
async def contest_(request: Request, result: Named) -> Response:
    server, who = server_of(request), request.state.principal
    name = await quick_id(request, result, "result")
    form = FormFields(await read_form(request))
    reason = cites = ""
    try:
        reason, cites = form.text("reason", 2 * contesting.MOST_REASON), form.text("cites", 4000)
        doubt = await run_in_threadpool(contesting.parse_doubt, server, name, reason, cites)
    except LynxbenchError as error:
        page = contesting.contest_page(who, name, _url(request), None, reason, cites, shown_line(server, error))
        return html(request, page)
    remote = remote_of(request.scope, server)
    await run_in_threadpool(lambda: server.audit.note(who.label, "prepare contest", name, remote=remote))
    return html(request, contesting.contest_page(who, name, _url(request), doubt, reason, cites))


def _url(request: Request) -> str:
    """Where the reader reached this server: what their own command line must reach, too."""
    return f"{request.url.scheme}://{request.url.netloc}"
