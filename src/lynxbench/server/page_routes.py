"""Pages that are read: addresses to pages, kept while nothing changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from lynxbench.errors import BadInput, BadLedger, LynxbenchError
from lynxbench.ledger.names import FULL_ID
from lynxbench.ledger.queries import Wanted, standings
from lynxbench.model.precision import Precision
from lynxbench.model.result import ValidityVerdict
from lynxbench.report.html import render_html
from lynxbench.report.json_document import render_json
from lynxbench.report.pack import render_pack
from lynxbench.server import ledger_views as reading
from lynxbench.server.making import Maker
from lynxbench.server.observing import CONTENT_TYPE
from lynxbench.server.page_cache import CLOCK, EVERYTHING, OWN, WORK
from lynxbench.server.pages import claims_page as claim_pages
from lynxbench.server.pages import compare_page as compare
from lynxbench.server.pages import contracts_page as contracts
from lynxbench.server.pages import decisions_page as decisions
from lynxbench.server.pages import executors_page as executors
from lynxbench.server.pages import ledger_page as ledger
from lynxbench.server.pages import overview_page as overview
from lynxbench.server.pages import results_page as results
from lynxbench.server.pages import runs_page as runs
from lynxbench.server.pages.page_shell import (
    Page,
    render_shell,
    script_name,
    script_text,
    style_name,
    style_text,
)
from lynxbench.server.pages.svg_file import standalone_svg
from lynxbench.server.server_state import Server

MOST_NUMBER = 2**53 - 1
Seq = Annotated[int, Path(ge=0, le=MOST_NUMBER)]
Named = Annotated[str, Path(min_length=4, max_length=80)]
FILE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""For files that are opened by themselves: nothing in them runs, and they are no part of this site."""

T = TypeVar("T")

router = APIRouter(include_in_schema=False)


def server_of(request: Request) -> Server:
    """The server that a request reached."""
    found = request.app.state.server
    assert isinstance(found, Server)
    return found


async def show(
    request: Request, name: Hashable, topics: Sequence[str], make: Callable[[], Page], *, keep: bool = True
) -> Response:
    """A page in its shell; made once for everybody and kept while its topics do not change."""
    server = server_of(request)
    page: Page | None = server.cache.peek(("page", name), topics) if keep else None
    if page is None:
        maker = request.app.state.maker
        assert isinstance(maker, Maker)
        page = server.cache.aged(("page", name), topics) if keep and maker.busy else None
        if page is not None:
            maker.begin(server, name, topics, make)
        else:
            page = await maker.made(server, name, topics, make) if keep else await maker.alone(make)
    return html(request, page)


def html(request: Request, page: Page) -> Response:
    """A page in its shell, for whoever asks."""
    text = render_shell(page, request.state.principal, request.url.path).encode()
    mark = f'"{hashlib.blake2b(text, digest_size=12).hexdigest()}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": mark}
    if page.status == 200 and request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(text, page.status, headers)


def found_id(server: Server, text: str, what: str) -> str:
    """The id that an address names; 404 where it names none."""
    if len(text) != FULL_ID:  # a beginning that is unique today need not be so tomorrow
        return _find(server, text, what)
    return str(server.cache.get(("named", what, text), (), lambda: _find(server, text, what)))


async def quick_id(request: Request, text: str, what: str) -> str:
    """The same; what was found before is found without waiting."""
    server = server_of(request)
    known = server.cache.peek(("named", what, text), ()) if len(text) == FULL_ID else None
    return str(known) if known is not None else await run_in_threadpool(found_id, server, text, what)


async def quick_result(request: Request, text: str) -> str:
    """A result that a person named; BadInput where there is none such."""
    server = server_of(request)
    known = server.cache.peek(("named", "result", text), ()) if len(text) == FULL_ID else None
    return str(known) if known is not None else await run_in_threadpool(reading.named, server, text, "result")


def _find(server: Server, text: str, what: str) -> str:
    try:
        return reading.named(server, text, what)
    except BadInput as error:
        raise HTTPException(404, str(error).replace(server.ledger.log.database.name, "this ledger")) from None


def precision_of(text: str | None) -> Precision | None:
    """The precision that an address names; 422 where it is none."""
    if not text:
        return None
    try:
        return Precision(text)
    except ValueError:
        raise HTTPException(422, f"precision is one of {', '.join(Precision)}") from None


@router.get("/")
async def overview_(request: Request) -> Response:
    server = server_of(request)
    return await show(request, "overview", (EVERYTHING, OWN, WORK), lambda: overview.overview_page(server))


@router.get("/contracts")
async def contracts_(request: Request) -> Response:
    server = server_of(request)
    return await show(request, "contracts", (EVERYTHING, OWN, WORK), lambda: overview.contracts_page(server))


@router.get("/contracts/{contract}")
async def contract_(request: Request, contract: Named, precision: str | None = None, signs: bool = False) -> Response:
    server, chosen = server_of(request), precision_of(precision)
    name = await quick_id(request, contract, "contract")
    make = lambda: contracts.contract_page(server, name, chosen, signs=signs)  # noqa: E731
    return await show(request, ("contract", name, chosen, signs), (name, OWN), make)


@router.get("/contracts/{contract}/series.{form}")
def series_(request: Request, contract: Named, form: str, precision: str | None = None) -> Response:
    server = server_of(request)
    if form not in ("svg", "csv", "json"):
        raise HTTPException(404, "a series comes as svg, csv or json")
    name = found_id(server, contract, "contract")
    found = reading.history(server, name, precision_of(precision))
    text, kind = contracts.series_file(found, form)
    return file(text, kind, f"{name[:12]}.{form}")


@router.get("/results")
async def results_(
    request: Request,
    contract: str = "",
    executor: str = "",
    precision: str = "",
    valid: str = "",
    since: str = "",
) -> Response:
    server = server_of(request)
    asked = {"contract": contract, "executor": executor, "precision": precision, "valid": valid, "since": since}
    asked = {name: text[:80] for name, text in asked.items() if text}
    name = ("results", tuple(sorted(asked.items())))
    make = lambda: results.results_page(server, wanted_of(server, asked, results.PER_PAGE), asked)  # noqa: E731
    return await show(request, name, (EVERYTHING, OWN), make)


def wanted_of(server: Server, asked: dict[str, str], limit: int) -> Wanted:
    """Which results an address asks for."""
    valid, since = asked.get("valid"), asked.get("since")
    if valid is not None and valid not in set(ValidityVerdict):
        raise HTTPException(422, f"valid is one of {', '.join(ValidityVerdict)}")
    since_s: int | None = None
    if since is not None:
        try:
            moment = datetime.fromisoformat(since)
            since_s = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
        except (ValueError, OverflowError):
            raise HTTPException(422, "since is a date such as 2026-11-15") from None
    chosen = precision_of(asked.get("precision"))
    return Wanted(
        contract=found_id(server, asked["contract"], "contract") if "contract" in asked else None,
        executor=found_id(server, asked["executor"], "executor") if "executor" in asked else None,
        precision=chosen.value if chosen else None,
        since_s=since_s,
        validity=valid,
        limit=limit,
    )


@router.get("/results/{result}")
async def result_(request: Request, result: Named) -> Response:
    server = server_of(request)
    name = await quick_id(request, result, "result")
    return await show(request, ("result", name), (name, OWN), lambda: results.result_page(server, name))


@router.get("/results/{result}/result.json")
def result_json_(request: Request, result: Named) -> Response:
    server = server_of(request)
    name = found_id(server, result, "result")
    return file(render_json(reading.document(server, name)), "application/json", f"{name[:12]}.json")


@router.get("/results/{result}/report.html")
def report_(request: Request, result: Named) -> Response:
    server = server_of(request)
    name = found_id(server, result, "result")
    found = reading.files_of(server, name)
    words = standings(server.ledger.log, [name], server.trust)[name].words
    text = render_html(found.result, found.processes, found.telemetry, words)
    return file(text, "text/html", f"{name[:12]}.html")


@router.get("/results/{result}/plots/{name}.svg")
def plot_(request: Request, result: Named, name: str) -> Response:
    server = server_of(request)
    identifier = found_id(server, result, "result")
    plots = results.rendered(server, identifier).plots
    if name not in plots:
        raise HTTPException(404, f"no plot of that name; there are {', '.join(sorted(plots)) or 'none'}")
    return file(standalone_svg(plots[name]), "image/svg+xml", f"{identifier[:12]}-{name}.svg")


@router.get("/compare")
async def compare_(request: Request, a: str = "", b: str = "", precision: str | None = None) -> Response:
    server, chosen = server_of(request), precision_of(precision)
    a, b = a[:80].strip(), b[:80].strip()
    if not a or not b:
        return html(request, compare.compare_form_page(a, b))
    try:
        left, right = await quick_result(request, a), await quick_result(request, b)
        make = lambda: compare.compare_page(server, left, right, chosen)  # noqa: E731
        return await show(request, ("compare", left, right, chosen), (left, right, OWN), make)
    except BadInput as error:
        return html(request, compare.refused_compare(a, b, shown_line(server, error)))


@router.get("/executors")
async def executors_(request: Request) -> Response:
    server = server_of(request)
    return await show(request, "executors", (EVERYTHING,), lambda: executors.executors_page(server))


@router.get("/executors/diff")
async def diff_(request: Request, a: str = "", b: str = "", all: bool = False) -> Response:
    server = server_of(request)
    a, b = a[:80].strip(), b[:80].strip()
    if not a or not b:
        return html(request, executors.diff_form_page(a, b))
    try:
        left = await run_in_threadpool(compare.diff_names, server, a)
        right = await run_in_threadpool(compare.diff_names, server, b)
    except LynxbenchError as error:
        raise HTTPException(404, shown_line(server, error)) from None
    make = lambda: executors.diff_page(server, left, right, all_tiers=all)  # noqa: E731
    return await show(request, ("diff", left, right, all), (left, right), make)


@router.get("/executors/{executor}")
async def executor_(request: Request, executor: Named) -> Response:
    server = server_of(request)
    name = await quick_id(request, executor, "executor")
    return await show(request, ("executor", name), (name, OWN), lambda: executors.executor_page(server, name))


@router.get("/decisions")
async def decisions_(request: Request) -> Response:
    server = server_of(request)
    return await show(request, "decisions", (EVERYTHING, OWN), lambda: decisions.decisions_page(server))


@router.get("/decisions/{seq}")
async def decision_(request: Request, seq: Seq) -> Response:
    server = server_of(request)
    make = there(lambda: decisions.decision_page(server, seq))
    return await show(request, ("decision", seq), (EVERYTHING, OWN), make)


@router.get("/decisions/{seq}/pack.html")
def pack_(request: Request, seq: Seq) -> Response:
    server = server_of(request)
    text = there(lambda: render_pack(decisions.pack_of(server, seq)))()
    return HTMLResponse(text, headers={"Content-Security-Policy": FILE_POLICY})


@router.get("/ledger")
async def ledger_(request: Request, before: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None) -> Response:
    server = server_of(request)
    return await show(request, ("ledger", before), (EVERYTHING, OWN), lambda: ledger.ledger_page(server, before))


@router.get("/ledger/{seq}")
async def entry_(request: Request, seq: Seq) -> Response:
    server = server_of(request)
    make = there(lambda: ledger.entry_page(server, seq))
    return await show(request, ("entry", seq), (EVERYTHING, OWN), make)


@router.get("/claims")
async def claims_(request: Request) -> Response:
    server, viewer = server_of(request), request.state.principal
    keep = viewer.via != "session"  # the form of a session is that session's own
    return await show(request, "claims", (OWN,), lambda: claim_pages.claims_page(server, viewer), keep=keep)


@router.get("/claims/{claim}")
async def claim_(request: Request, claim: Annotated[str, Path(max_length=40)]) -> Response:
    server = server_of(request)
    make = there(lambda: claim_pages.claim_page(claim_pages.kept_claim(server, claim)))
    return await show(request, ("claim", claim), (OWN,), make, keep=False)


@router.get("/runs")
async def runs_(request: Request) -> Response:
    server = server_of(request)
    return await show(request, "runs", (OWN, WORK, CLOCK), lambda: runs.runs_page(server))


@router.get("/runs/{run}")
async def run_(request: Request, run: Annotated[str, Path(max_length=40)]) -> Response:
    server = server_of(request)
    return await show(request, ("run", run), (OWN,), there(lambda: runs.run_page(server, run)), keep=False)


@router.get("/static/{name}")
async def static_(name: str) -> Response:
    kept = {style_name(): (style_text, "text/css"), script_name(): (script_text, "text/javascript")}.get(name)
    if kept is None:
        raise HTTPException(404, "no such file")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(kept[0](), media_type=kept[1], headers=headers)


@router.get("/healthz")
async def healthz_() -> Response:
    return PlainTextResponse("ok\n")


@router.get("/readyz")
def readyz_(request: Request) -> Response:
    server = server_of(request)
    try:
        server.ledger.log.head()
        server.store.schema()
    except LynxbenchError as error:
        server.log.say("not ready", level="warning", error=str(error))
        return PlainTextResponse("the database cannot be reached\n", 503)
    return PlainTextResponse("ready\n")


@router.get("/metrics")
def metrics_(request: Request) -> Response:
    return Response(server_of(request).metrics.render(), media_type=CONTENT_TYPE)


def file(text: str, kind: str, name: str) -> Response:
    """Something to take away: opened by itself it can do nothing."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": FILE_POLICY,
        "Cache-Control": "private, no-cache",
    }
    return Response(text, media_type=kind, headers=headers)


def there(make: Callable[[], T]) -> Callable[[], T]:
    """The same, where what is not there is a 404."""

    def made() -> T:
        try:
            return make()
        except (BadInput, BadLedger) as error:
            raise HTTPException(404, str(error)) from None

    return made


def shown_line(server: Server, error: LynxbenchError) -> str:
    """An error's line without where the database is."""
    return str(error).replace(server.ledger.log.database.name, "this ledger").replace(server.store.name, "the server")
