"""One contract: its series with changes marked by layer, the five signs, how like production it is, and its text."""

import json
from collections.abc import Sequence

from sqlalchemy import select

from lynxbench.errors import LynxbenchError, NotFound
from lynxbench.ledger.queries import Wanted
from lynxbench.model.contract import Contract
from lynxbench.model.history import History, Signals
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result
from lynxbench.record.histories import MOST_DOCUMENTS
from lynxbench.record.machine_signals import signals_of as signals_of_each
from lynxbench.report import doc, words
from lynxbench.report.chart import chart_text
from lynxbench.report.doc import Inline, Span, Style, Tone, chip, code, link, refer, said, strong
from lynxbench.report.documents.history_chart import history_chart
from lynxbench.report.documents.history_document import (
    causes_section,
    changes_section,
    machine_facts,
    machine_sections,
    series_section,
    signals_section,
)
from lynxbench.report.documents.record_sections import agreement_blocks
from lynxbench.report.render_html import csv_text
from lynxbench.report.svg.canvas import WIDE
from lynxbench.report.svg.history_plot import draw_levels
from lynxbench.server import ledger_views as reading
from lynxbench.server.page_past import PagePast
from lynxbench.server.pages.agreeing_page import agreement_section
from lynxbench.server.pages.overview_page import notice_item, verdict_words
from lynxbench.server.pages.page_shell import Page, make_page, standalone_svg
from lynxbench.server.pages.results_page import selected_form, ticked_table
from lynxbench.server.server_state import Server
from lynxbench.visible import visible_json
from lynxbench.watch.regressions import Notice
from lynxbench.watch.store_tables import likenesses
from lynxbench.workload.representative import Likeness

SHOWN_RESULTS = 15
SHOWN_NOTICES = 10
SHOWN_LEFT_OUT = 200
_LIKE = {Likeness.LIKE.value: Tone.GOOD, Likeness.DIFFERS.value: Tone.BAD}


def contract_page(server: Server, contract_id: str, precision: Precision | None, *, signs: bool = False) -> Page:
    """The series first."""
    contract = reading.contract_of(server, contract_id)
    if contract is None:
        return _without_text(server, contract_id)
    chosen = precision or reading.shown_precision(server, contract)
    history = reading.history(server, contract_id, chosen)
    notices = server.watch.notices(contract_id=contract_id, limit=SHOWN_NOTICES)
    still = server.watch.notices(contract_id=contract_id, still=True)
    deliveries = server.watch.told([notice.notice for notice in still])
    doubt = reading.newest_doubt(server, contract_id)
    items = [notice_item(notice, deliveries.get(notice.notice, [])) for notice in still]
    return make_page(
        doc.Report(
            contract.name,
            (
                doc.Section("attention", "Needs attention", (doc.Points(items, kind=doc.Bullet.ATTENTION),))
                if items
                else None,
                _series(history, contract_id, chosen),
                changes_section(history),
                causes_section(history),
                *machine_sections(history),
                _left_out(history),
                _recovered([notice for notice in notices if notice.closed_at is not None]),
                signals_section(signals_of(server, contract_id)) if signs else _ask_signs(contract_id),
                _newest(server, contract_id),
                _likeness(server, contract_id),
                _owners(contract),
                agreement_section(server, contract),
                doc.Section("text", "The whole contract", agreement_blocks(contract)),
            ),
            title=said(contract.question),
            brand="Contract",
            facts=(
                ("Name", said(contract.name)),
                ("Verdict", verdict_words(history, still[0] if still else None, doubt)),
                ("Regime", contract.regime.value),
                *machine_facts(history),
                ("A/A noise", history.noise.said) if history.noise is not None else None,
                ("Id", code(contract_id[:12])),
            ),
            links=_precisions(contract, contract_id, chosen),
        )
    )


def chart_document(server: Server, contract_id: str, precision: Precision | None) -> str:
    """The series of every precision with the latencies of the newest results, as the plot's script reads it."""
    contract = reading.contract_of(server, contract_id)
    if contract is None:
        raise NotFound(f"{contract_id[:12]}: the contract's text is not in this ledger")
    chosen = precision or reading.shown_precision(server, contract)
    order = [chosen, *(other for other in contract.workload.precisions if other is not chosen)]
    found = [reading.history(server, contract_id, each) for each in order]
    first = found[0].machine  # what stands in one plot is of one machine
    histories = [one for each in found for one in each.each_machine if one.machine == first or not each.machines]
    names = dict.fromkeys(point.result_id for history in histories for point in history.points[-MOST_DOCUMENTS:])
    documents = [document for name in names if (document := _kept_document(server, name)) is not None]
    chart = history_chart(histories, documents)
    if chart is None:
        raise NotFound(f"{contract_id[:12]}: no result of this contract counts yet")
    return visible_json(chart_text(chart))


def _kept_document(server: Server, result_id: str) -> Result | None:
    try:
        return reading.document(server, result_id)
    except LynxbenchError:  # lost or damaged: a gap in the plot, and its own page says so
        return None


def series_file(history: History, form: str) -> tuple[str, str]:
    """The plot or its data as a file: text and content type."""
    if form == "svg":
        return standalone_svg(draw_levels(history, f"{history.contract}, {history.precision}", WIDE)), "image/svg+xml"
    if form == "json":
        return visible_json(history.model_dump_json()), "application/json"
    rows = [
        (
            *(p.started_at, p.result_id, p.executor_id, p.instance_id, p.estimate),
            *(words.or_nan(p.low), words.or_nan(p.high), p.unit, "doubtful" if p.doubtful else "", p.agreement),
        )
        for each in history.each_machine
        for p in each.points
    ]
    head = ("started", "result", "executor", "machine", "estimate", "low", "high", "unit", "doubt", "agreement")
    return csv_text(head, rows), "text/csv"


@reading.cached()
def signals_of(server: Server, contract_id: str) -> Signals:
    """The five signs, as `lynxbench signals` reads them."""
    return signals_of_each(PagePast(server), contract_id)


def _precisions(contract: Contract, contract_id: str, chosen: Precision) -> doc.Links | None:
    if len(contract.workload.precisions) < 2:
        return None
    return doc.Links(
        "Precision",
        [
            strong(precision.value)
            if precision is chosen
            else link(precision.value, f"/contracts/{contract_id}?precision={precision.value}")
            for precision in contract.workload.precisions
        ],
    )


def _series(history: History, contract_id: str, precision: Precision) -> doc.Section:
    base, query = f"/contracts/{contract_id}/series", f"?precision={precision.value}"
    links = [(name, f"{base}.{form}{query}") for name, form in (("Plot as SVG", "svg"), ("Data as CSV", "csv"))]
    empty = doc.Note(said(history.note or "No result of this contract counts yet."), Style.EMPTY)
    chart = history_chart([history], more=f"/contracts/{contract_id}/chart.json{query}")
    return series_section(history, links, chart) or doc.Section("series", "Series", (empty,))


def _left_out(history: History) -> doc.Section | None:
    left_out = [line for each in history.each_machine for line in each.left_out]
    if not left_out:
        return None
    listed = doc.Points([said(line) for line in left_out[:SHOWN_LEFT_OUT]])
    title = f"{words.count(len(left_out), 'result')}, each with why"
    return doc.Section("left-out", "Left out of the series", (doc.Group(title, (listed,), folded=True),))


def _recovered(closed: Sequence[Notice]) -> doc.Section | None:
    rows = [
        (
            words.moment_text(notice.opened_at),
            said(notice.place),
            said(notice.owner),
            words.moment_text(notice.closed_at or ""),
            refer("results", by) if len(by := notice.closed_by or "") == 64 else said(by),
        )
        for notice in closed
    ]
    table = doc.Table(("Opened", "Place", "Owner", "Closed", "By"), rows, "Ended")
    return doc.Section("recovered", "Regressions that ended", (table,)) if rows else None


def _newest(server: Server, contract_id: str) -> doc.Section:
    listed, standing = reading.list_page(server, Wanted(contract=contract_id, limit=SHOWN_RESULTS))
    table = ticked_table(server, listed, standing, contract=False)
    every = doc.Note(link("All results of this contract", f"/results?contract={contract_id}"))
    return doc.Section("results", "Newest results", (selected_form() if listed else None, table, every))


def _likeness(server: Server, contract_id: str) -> doc.Section:
    row = server.store.row(
        select(likenesses).where(likenesses.c.contract_id == contract_id).order_by(likenesses.c.at.desc()).limit(1)
    )
    lead = "How far the workload is from a log of production, dimension by dimension, against what chance would show."
    rows: list[tuple[Inline, ...]] = []
    title = ""
    if row is not None:
        title = f"{words.count(row.requests, 'request')}, held against it by {row.by} at {words.moment_text(row.at)}."
        for dimension in json.loads(row.report)["dimensions"]:
            verdict = Span(dimension["verdict"], _LIKE.get(dimension["verdict"], Tone.WARN))
            figures = (words.digits(dimension[name]) for name in ("distance", "noise", "limit"))
            rows.append((dimension["name"], verdict, *figures, said(dimension["says"])))
    nobody = (
        "Nobody has held a production log against this contract here. Locally: ",
        code("lynxbench contract check CONTRACT --against-log LOG"),
        "; for everybody: ",
        code(f"POST /api/v1/contracts/{contract_id[:12]}…/likeness"),
    )
    head = ("Dimension", "Verdict", "Distance", "Chance", "Limit", "In words")
    return doc.Section("likeness", "Representativeness", (doc.Table(head, rows, title, (2, 3, 4), empty=nobody),), lead)


def _owners(contract: Contract) -> doc.Section:
    rows = [(chip(layer), said(contract.owner(layer))) for layer in Layer]
    return doc.Section(
        "owners", "Owners", (doc.Table(("Layer", "Owner"), rows, "Who owns each layer under this contract"),)
    )


def _ask_signs(contract_id: str) -> doc.Section:
    ask = doc.Note(link("Look for the five signs", f"/contracts/{contract_id}?signs=true#signs"))
    lead = "Read from the newest documents, so it takes a moment."
    return doc.Section("signs", "Signs of a whole-stack problem", (ask,), lead)


def _without_text(server: Server, contract_id: str) -> Page:
    body = doc.Note("Its results are listed below.", Style.EMPTY)
    missing = doc.Section("text", "The contract’s text is not in this ledger", (body,))
    name = contract_id[:12]
    return make_page(doc.Report(name, (missing, _newest(server, contract_id)), code(name), "Contract"))
