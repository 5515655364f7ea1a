"""Pages that are read, and files to take away: addresses to pages, kept while nothing changes."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Annotated

from fastapi import Depends, HTTPException, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from lynxbench.errors import BadInput, LynxbenchError
from lynxbench.ledger.names import FULL_ID, looks_like_id
from lynxbench.model.evidence_gate import standing_falls_short
from lynxbench.model.precision import Precision
from lynxbench.record.recalling_analyses import body_of
from lynxbench.report.documents.matrix_document import FEWEST, MOST
from lynxbench.report.documents.pack_document import compose_pack
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.json_document import render_json
from lynxbench.report.render_html import render_html
from lynxbench.server import ledger_views as reading
from lynxbench.server.api.request_models import MOST_NUMBER, Analysis, Named, Seq
from lynxbench.server.page_cache import CLOCK, EVERYTHING, OWN, WORK
from lynxbench.server.pages import analyses_page as analyses
from lynxbench.server.pages import claims_page as claims
from lynxbench.server.pages import compare_page as compare
from lynxbench.server.pages import contracts_page as contracts
from lynxbench.server.pages import decisions_page as decisions
from lynxbench.server.pages import executors_page as executors
from lynxbench.server.pages import ledger_page as ledger
from lynxbench.server.pages import overview_page as overview
from lynxbench.server.pages import page_shell as shell
from lynxbench.server.pages import results_page as results
from lynxbench.server.pages import runs_page as runs
from lynxbench.server.pages import search_page as searching
from lynxbench.server.read_pages import ELSEWHERE
from lynxbench.server.rights import API, INSIDE
from lynxbench.server.routing import OPEN, READ, Routes, TheCaller, TheServer, answer, server_of
from lynxbench.server.server_state import Server

MOST_NAMED = 64
"""Names that an address may list; that is more than are compared, so that the page can say so."""
Short = Annotated[str, Path(max_length=40)]
FILE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""For files that are opened by themselves: nothing in them runs, and they are no part of this site."""

MakePage = Callable[..., shell.Page]

route = Routes()


class PageVisit:
    """One request for a page: what its address names, and how the page is shown to whoever asks."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.server = server_of(request)

    async def show(
        self, topics: Sequence[str], make: MakePage, *given: Hashable, keep: bool = True, **named: Hashable
    ) -> Response:
        """What a function makes of the server and what is given: made once, and kept while its topics do not change."""
        work = partial(make, self.server, *given, **named)
        name = ("page", make.__module__, make.__qualname__, given, *named.items())
        if not keep:
            return self.html(await self.server.pages.alone(work))
        elsewhere = partial(self._made_elsewhere, work, make, given, named)
        if self.request.scope.get(INSIDE) == ELSEWHERE:
            page = await self.server.pages.page(name, topics, elsewhere)
        else:
            page = await self.server.pages.page(name, topics, work, elsewhere if self.server.looks_after else None)
        self.server.read_pages.note(self.request.scope)
        return self.html(page)

    def _made_elsewhere(
        self, work: Callable[[], shell.Page], make: MakePage, given: tuple[Hashable, ...], named: dict[str, Hashable]
    ) -> shell.Page:
        """The same, by the process that makes pages; here where that cannot."""
        return self.server.page_process.make(make, given, named) or work()

    def html(self, page: shell.Page) -> Response:
        """A page in its shell, for whoever asks."""
        request = self.request
        text, digest = shell.render_shell(page, request.state.principal, request.url.path)
        mark = f'"{digest}"'
        headers = {"Cache-Control": "private, no-cache", "ETag": mark}
        if page.status == 200 and request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return HTMLResponse(text, page.status, headers)

    def named(self, text: str, what: str) -> str:
        """The id that an address names; NotFound where it names none."""
        if len(text) != FULL_ID or not looks_like_id(text):  # a beginning or a name may mean another tomorrow
            return reading.named(self.server, text, what)
        return self.server.cache.get(("named", what, text), (), lambda: reading.named(self.server, text, what))

    async def find(self, text: str, what: str) -> str:
        """The same; what was found before is found without waiting."""
        known = self.server.cache.peek(("named", what, text), ())
        return str(known) if known is not None else await run_in_threadpool(self.named, text, what)


async def _visit(request: Request) -> PageVisit:
    return PageVisit(request)


Here = Annotated[PageVisit, Depends(_visit)]


def _listing(path: str, topics: Sequence[str], make: MakePage) -> None:
    """A page that is the same whoever asks, and asks nothing."""

    @route("GET", path, READ)
    async def page(here: Here) -> Response:
        return await here.show(topics, make)


_listing("/", (EVERYTHING, OWN, WORK), overview.overview_page)
_listing("/runs", (OWN, WORK, CLOCK), runs.runs_page)


_Number = Annotated[int, Query(ge=1, le=MOST_NUMBER)]


def _entries_listing(path: str, make: MakePage) -> None:
    """A page of entries, newest first; `before` one of them the older ones."""

    @route("GET", path, READ)
    async def page(here: Here, before: _Number | None = None) -> Response:
        return await here.show((EVERYTHING, OWN), make, before)


_entries_listing("/decisions", decisions.decisions_page)
_entries_listing("/experiments", analyses.experiments_page)
_entries_listing("/fleet", analyses.fleet_page)


@route("GET", "/contracts", READ)
async def contracts_(here: Here, page: _Number = 1) -> Response:
    return await here.show((EVERYTHING, OWN, WORK), overview.contracts_page, page)


@route("GET", "/executors", READ)
async def executors_(here: Here, page: _Number = 1) -> Response:
    return await here.show((EVERYTHING,), executors.executors_page, page)


@route("GET", "/contracts/{contract}", READ)
async def contract_(here: Here, contract: Named, precision: str | None = None, signs: bool = False) -> Response:
    chosen, name = reading.precision_of(precision), await here.find(contract, "contract")
    return await here.show((name, OWN), contracts.contract_page, name, chosen, signs=signs)


@route("GET", "/contracts/{contract}/series.{form}", READ)
def series_(here: Here, contract: Named, form: str, precision: str | None = None) -> Response:
    if form not in ("svg", "csv", "json"):
        raise HTTPException(404, "a series comes as svg, csv or json")
    name = here.named(contract, "contract")
    text, kind = contracts.series_file(reading.history(here.server, name, reading.precision_of(precision)), form)
    return _file(text, kind, f"{name[:12]}.{form}")


@route("GET", "/contracts/{contract}/chart.json", READ)
def chart_(here: Here, contract: Named, precision: str | None = None) -> Response:
    name, chosen = here.named(contract, "contract"), reading.precision_of(precision)
    # Up to two hundred documents are read for it: once, until a result of the contract comes.
    make = lambda: contracts.chart_document(here.server, name, chosen)  # noqa: E731
    text = here.server.cache.get(("chart", name, chosen), (name, OWN), make)
    return Response(text, media_type="application/json", headers={"Cache-Control": "private, no-cache"})


@route("GET", "/results", READ)
async def results_(
    here: Here,
    contract: str = "",
    executor: str = "",
    precision: str = "",
    valid: str = "",
    since: str = "",
    tag: str = "",
    before: str = "",
) -> Response:
    texts = {"contract": contract, "executor": executor, "precision": precision, "valid": valid, "since": since}
    texts |= {"tag": tag, "before": before}
    filters = {name: text[:80] for name, text in texts.items() if text}

    return await here.show((EVERYTHING, OWN), results.results_page, tuple(filters.items()))


@route("GET", "/results/{result}", READ)
async def result_(here: Here, result: Named) -> Response:
    name = await here.find(result, "result")
    return await here.show((name, OWN), results.result_page, name)


@route("GET", "/results/{result}/result.json", READ)
def result_json_(here: Here, result: Named) -> Response:
    name = here.named(result, "result")
    return _file(render_json(reading.document(here.server, name)), "application/json", f"{name[:12]}.json")


@route("GET", "/results/{result}/report.html", READ)
def report_(here: Here, result: Named) -> Response:
    name = here.named(result, "result")
    files = reading.files_of(here.server, name)
    outcome = reading.recomputed_of(here.server, [name])[name]
    standing = reading.standings_of(here.server, [name])[name]
    words, also = (outcome.sentence, *standing.words), standing_falls_short(files.result, standing)
    report = compose_result(files.result, files.processes, files.telemetry, words, files.problem or "", also)
    return _file(render_html(report), "text/html", f"{name[:12]}.html")


@route("GET", "/results/{result}/plots/{name}.svg", READ)
def plot_(here: Here, result: Named, name: str) -> Response:
    result_id = here.named(result, "result")
    return _plot(results.rendered(here.server, result_id).plots, name, result_id)


@route("GET", "/compare", READ)
async def compare_(
    here: Here,
    a: str = "",
    b: str = "",
    precision: str | None = None,
    r: Annotated[list[str] | None, Query(max_length=MOST_NAMED)] = None,
) -> Response:
    chosen = reading.precision_of(precision)
    if several := tuple(dict.fromkeys(name[:80].strip() for name in r or ())):
        return await _selected(here, several, chosen)
    a, b = a[:80].strip(), b[:80].strip()
    if not a or not b:
        return await here.show((EVERYTHING,), compare.compare_form_page, a, b, keep=not (a or b))
    try:
        left, right = await here.find(a, "result"), await here.find(b, "result")
        return await here.show((left, right, OWN), compare.compare_page, left, right, chosen)
    except BadInput as error:
        problem = shown_line(here.server, error)
        return await here.show((EVERYTHING,), compare.compare_form_page, a, b, problem, keep=False)


async def _selected(here: Here, several: tuple[str, ...], chosen: Precision | None) -> Response:
    """Ticked results: the later ones are held against the earlier."""
    if not FEWEST <= len(several) <= MOST:
        line = f"choose {FEWEST} to {MOST} results; {len(several)} were"
        return await here.show((EVERYTHING,), compare.compare_form_page, "", "", line, keep=False)
    try:
        found = [await here.find(name, "result") for name in several]
        names = await run_in_threadpool(reading.oldest_first, here.server, found)
        if len(names) < FEWEST:
            raise BadInput("the results that were chosen are one and the same")
    except BadInput as error:
        problem = shown_line(here.server, error)
        return await here.show((EVERYTHING,), compare.compare_form_page, "", "", problem, keep=False)
    if len(names) == FEWEST:
        return await here.show((*names, OWN), compare.compare_page, *names, chosen)
    return await here.show((*names, OWN), compare.matrix_page, names, chosen)


@route("GET", "/search", READ)
async def search_(here: Here, q: str = "") -> Response:
    return await here.show((EVERYTHING, OWN), searching.search_page, q[: searching.LONGEST].strip())


@route("GET", "/executors/diff", READ)
async def diff_(here: Here, a: str = "", b: str = "", all: bool = False) -> Response:
    a, b = a[:80].strip(), b[:80].strip()
    if not a or not b:
        return await here.show((EVERYTHING,), executors.diff_form_page, a, b, keep=not (a or b))
    left = await run_in_threadpool(compare.diff_names, here.server, a)
    right = await run_in_threadpool(compare.diff_names, here.server, b)
    return await here.show((left, right), executors.diff_page, left, right, all_tiers=all)


@route("GET", "/executors/{executor}", READ)
async def executor_(here: Here, executor: Named) -> Response:
    name = await here.find(executor, "executor")
    return await here.show((name, OWN), executors.executor_page, name)


@route("GET", "/decisions/{seq}", READ)
async def decision_(here: Here, seq: Seq) -> Response:
    return await here.show((EVERYTHING, OWN), decisions.decision_page, seq)


@route("GET", "/decisions/{seq}/pack.html", READ)
def pack_(server: TheServer, seq: Seq) -> Response:
    text = render_html(compose_pack(decisions.pack_of(server, seq)))
    return HTMLResponse(text, headers={"Content-Security-Policy": FILE_POLICY})


@route("GET", "/ledger", READ)
async def ledger_(here: Here, before: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None) -> Response:
    return await here.show((EVERYTHING, OWN), ledger.ledger_page, before)


@route("GET", "/ledger/{seq}", READ)
async def entry_(here: Here, seq: Seq) -> Response:
    return await here.show((EVERYTHING, OWN), ledger.entry_page, seq)


@route("GET", "/claims", READ)
async def claims_(here: Here, viewer: TheCaller) -> Response:
    keep = viewer.via != "session"  # the form of a session is that session's own
    return await here.show((OWN,), claims.claims_page, viewer, keep=keep)


@route("GET", "/claims/{claim}", READ)
async def claim_(here: Here, claim: Short) -> Response:
    return await here.show((OWN,), claims.claim_page, claim, keep=False)


@route("GET", "/runs/{run}", READ)
async def run_(here: Here, run: Short) -> Response:
    return await here.show((OWN,), runs.run_page, run, keep=False)


def _analyses(place: str) -> None:
    """Pages of one kind of analysis, their pictures and files."""

    @route("GET", f"{place}/{{analysis}}", READ)
    async def page(here: Here, analysis: Analysis) -> Response:
        logged = await run_in_threadpool(analyses.find, here.server, analysis, place)
        return await here.show((EVERYTHING, OWN), analyses.analysis_page, body_of(logged).analysis_id, place)

    @route("GET", f"{place}/{{analysis}}/analysis.json", READ)
    def document(server: TheServer, analysis: Analysis) -> Response:
        name = body_of(analyses.find(server, analysis, place)).analysis_id
        return _file(server.ledger.blobs.get(name).decode("utf-8"), "application/json", f"{name[:12]}.json")

    @route("GET", f"{place}/{{analysis}}/report.html", READ)
    def report(server: TheServer, analysis: Analysis) -> Response:
        logged = analyses.find(server, analysis, place)
        return _file(analyses.report_of(server, logged), "text/html", f"{body_of(logged).analysis_id[:12]}.html")

    @route("GET", f"{place}/{{analysis}}/plots/{{name}}.svg", READ)
    def plot(server: TheServer, analysis: Analysis, name: str) -> Response:
        logged = analyses.find(server, analysis, place)
        return _plot(analyses.rendered(server, logged).plots, name, body_of(logged).analysis_id)


_analyses("/experiments")
_analyses("/fleet")


@route("GET", f"{API}/openapi.json", READ)
def openapi_(request: Request) -> Response:
    return answer(request.app.openapi())


@route("GET", "/static/{name}", OPEN)
async def static_(name: str) -> Response:
    file = next((file for file in (shell.style(), shell.script()) if file.name == name), None)
    if file is None:
        raise HTTPException(404, "no such file")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(file.text, media_type=file.kind, headers=headers)


@route("GET", "/healthz", OPEN)
async def healthz_() -> Response:
    return PlainTextResponse("ok\n")


@route("GET", "/readyz", OPEN)
def readyz_(server: TheServer) -> Response:
    try:
        server.ledger.log.head()
        server.store.schema()
    except LynxbenchError as error:
        server.log.warning("not ready", extra={"error": str(error)})
        return PlainTextResponse("the database cannot be reached\n", 503)
    return PlainTextResponse("ready\n")


@route("GET", "/metrics", READ)
def metrics_(server: TheServer) -> Response:
    return Response(server.metrics.render(), media_type=CONTENT_TYPE_LATEST)


def shown_line(server: Server, error: LynxbenchError) -> str:
    """An error's line without where the database is."""
    return str(error).replace(server.ledger.log.database.name, "this ledger").replace(server.store.name, "the server")


def _file(text: str, kind: str, name: str) -> Response:
    """Something to take away: opened by itself it can do nothing."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": FILE_POLICY,
        "Cache-Control": "private, no-cache",
    }
    return Response(text, media_type=kind, headers=headers)


def _plot(plots: Mapping[str, str], name: str, identifier: str) -> Response:
    if name not in plots:
        raise HTTPException(404, f"no plot of that name; there are {', '.join(sorted(plots)) or 'none'}")
    return _file(shell.standalone_svg(plots[name]), "image/svg+xml", f"{identifier[:12]}-{name}.svg")
