"""One contract: its series with changes marked by layer, the five signs, how like production it is, and its text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from lynxbench.compare.stack_signals import read_signals
from lynxbench.model.contract import Contract
from lynxbench.model.history import History, Signals, SignalState
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.record.histories import record_of
from lynxbench.report import words
from lynxbench.report.history_view import render_level_changes, render_series
from lynxbench.report.markup import Child, Safe, join, said, tag
from lynxbench.report.sections.section_parts import bullets, chip, fact, section, table
from lynxbench.report.svg.canvas import WIDE
from lynxbench.report.svg.history_plot import draw_levels
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.overview_page import notice_item, verdict_words
from lynxbench.server.pages.page_shell import Page, empty, link_to
from lynxbench.server.pages.svg_file import standalone_svg
from lynxbench.server.server_state import Server
from lynxbench.watch.store_tables import likenesses

SHOWN_RESULTS = 15


def contract_page(server: Server, contract_id: str, precision: Precision | None, *, signs: bool = False) -> Page:
    """The series first."""
    contract = reading.contract_of(server, contract_id)
    if contract is None:
        return _without_text(server, contract_id)
    chosen = precision or contract.workload.precisions[0]
    found = reading.history(server, contract_id, chosen)
    notices = server.watch.notices(contract_id=contract_id, limit=10)
    told = server.watch.told([one.notice for one in notices])
    still = next((one for one in notices if one.closed_at is None), None)
    header = join(
        [
            tag("p", "Contract", class_="brand"),
            tag("h1", said(contract.question)),
            tag(
                "dl",
                fact("Name", said(contract.name)),
                fact("Verdict", verdict_words(found, still, None)),
                fact("Regime", contract.regime.value),
                fact("Results", f"{len(found.points)} in the series"),
                fact("Id", tag("code", contract_id[:12])),
                class_="facts",
            ),
            _precisions(contract, contract_id, chosen),
        ]
    )
    items = [notice_item(one, told.get(one.notice, [])) for one in notices if one.closed_at is None]
    closed = [one for one in notices if one.closed_at is not None]
    main = join(
        [
            section("attention", "Needs attention", tag("ul", items, class_="attention")) if items else None,
            _series(found, contract_id, chosen),
            render_level_changes(found),
            _left_out(found),
            _recovered(closed) if closed else None,
            signs_section(signals_of(server, contract_id)) if signs else _ask_signs(contract_id),
            _newest(server, contract_id),
            _likeness(server, contract, contract_id),
            _owners(contract),
            _text(contract),
        ]
    )
    return Page(contract.name, header, main)


def series_file(found: History, form: str) -> tuple[str, str]:
    """The plot or its data as a file: text and content type."""
    if form == "svg":
        return standalone_svg(draw_levels(found, f"{found.contract}, {found.precision}", WIDE)), "image/svg+xml"
    if form == "json":
        return found.model_dump_json(), "application/json"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("started", "result", "executor", "estimate", "low", "high", "unit"))
    for point in found.points:
        bounds = ["" if value is None else f"{value:.6g}" for value in (point.estimate, point.low, point.high)]
        unit = "'" + point.unit if point.unit[:1] in "=+-@\t" else point.unit
        writer.writerow((point.started_at, point.result_id, point.executor_id, *bounds, unit))
    return out.getvalue(), "text/csv"


def signals_of(server: Server, contract_id: str) -> Signals:
    """The five signs, as `lynxbench signals` reads them."""

    def ask() -> Signals:
        return read_signals(record_of(reading.PagePast.over(server.ledger, server.trust), contract_id))

    made: Signals = server.cache.get(("signals", contract_id), (contract_id,), ask)
    return made


def _precisions(contract: Contract, contract_id: str, chosen: Precision) -> Safe | None:
    if len(contract.workload.precisions) < 2:
        return None
    links = [
        tag(
            "a",
            one.value,
            href=f"/contracts/{contract_id}?precision={one.value}",
            aria_current="true" if one is chosen else None,
        )
        for one in contract.workload.precisions
    ]
    return tag("nav", links, aria_label="Precision", class_="tabs")


def _series(found: History, contract_id: str, precision: Precision) -> Safe:
    if not found.points:
        return section("series", "Series", empty(said(found.note or "No result of this contract counts yet.")))
    base = f"/contracts/{contract_id}/series"
    query = f"?precision={precision.value}"
    links = [(f"{name}", f"{base}.{form}{query}") for name, form in (("Plot as SVG", "svg"), ("Data as CSV", "csv"))]
    drawn = render_series(found, links)
    assert drawn is not None
    return drawn


def _left_out(found: History) -> Safe | None:
    if not found.left_out:
        return None
    many = words.count(len(found.left_out), "result")
    inner = tag(
        "details", tag("summary", f"{many}, each with why"), bullets([said(one) for one in found.left_out[:200]])
    )
    return section("left-out", "Left out of the series", inner)


def _recovered(closed: Sequence[Any]) -> Safe:
    rows: list[list[Child]] = [
        [
            words.moment_text(one.opened_at),
            said(one.place),
            said(one.owner),
            words.moment_text(one.closed_at),
            link_to("results", one.closed_by, tag("code", one.closed_by[:12]))
            if len(one.closed_by or "") == 64
            else said(one.closed_by or ""),
        ]
        for one in closed
    ]
    return section(
        "recovered", "Regressions that ended", table("Ended", ("Opened", "Place", "Owner", "Closed", "By"), rows)
    )


def _newest(server: Server, contract_id: str) -> Safe:
    from lynxbench.ledger.queries import Wanted
    from lynxbench.server.pages.results_page import results_table

    listed, standing = reading.list_page(server, Wanted(contract=contract_id, limit=SHOWN_RESULTS))
    return section(
        "results",
        "Newest results",
        results_table(listed, standing, contract=False),
        tag("p", tag("a", "All results of this contract", href=f"/results?contract={contract_id}")),
    )


def _likeness(server: Server, contract: Contract, contract_id: str) -> Safe:
    row = server.store.row(
        select(likenesses).where(likenesses.c.contract_id == contract_id).order_by(likenesses.c.at.desc()).limit(1)
    )
    lead = "How far the workload is from a log of production, dimension by dimension, against what chance would show."
    if row is None:
        command = "lynxbench contract check CONTRACT --against-log LOG"
        body: Child = empty(
            "Nobody has held a production log against this contract here. Locally: ",
            tag("code", command),
            "; for everybody: ",
            tag("code", f"POST /api/v1/contracts/{contract_id[:12]}…/likeness"),
        )
        return section("likeness", "Representativeness", body, lead=lead)
    report = json.loads(row.report)
    rows: list[list[Child]] = [
        [
            one["name"],
            tag("span", one["verdict"], class_="tone-bad" if one["verdict"] == "differs" else "tone-good"),
            words.digits(one["distance"]),
            words.digits(one["noise"]),
            words.digits(one["limit"]),
            said(one["says"]),
        ]
        for one in report["dimensions"]
    ]
    head = ("Dimension", "Verdict", "Distance", "Chance", "Limit", "In words")
    said_by = f"{words.count(row.requests, 'request')}, held against it by {row.by} at {words.moment_text(row.at)}."
    return section("likeness", "Representativeness", table(said_by, head, rows, (2, 3, 4)), lead=lead)


def _owners(contract: Contract) -> Safe:
    rows: list[list[Child]] = [[chip(layer), said(contract.owner(layer))] for layer in Layer]
    return section("owners", "Owners", table("Who owns each layer under this contract", ("Layer", "Owner"), rows))


def _text(contract: Contract) -> Safe:
    text = words.clean_lines(json.dumps(contract.canonical(), ensure_ascii=False, indent=2))
    agreed = [f"{a.team}{', ' + a.by if a.by else ''}{', ' + a.date if a.date else ''}" for a in contract.agreed]
    return section(
        "text",
        "The whole contract",
        tag("div", tag("h3", "Agreed by"), bullets([said(one) for one in agreed]), class_="prose") if agreed else None,
        tag("details", tag("summary", "Show it"), tag("pre", tag("code", text), tabindex="0")),
    )


def signs_section(found: Signals) -> Safe:
    """The five signs of a problem of the whole stack."""
    tones = {SignalState.PRESENT: "bad", SignalState.ABSENT: "good", SignalState.NOT_ENOUGH_DATA: "plain"}
    rows: list[list[Child]] = [
        [one.name, tag("span", one.state.value, class_=f"tone-{tones[one.state]}"), said(one.said), said(one.needed)]
        for one in found.signals
    ]
    head = ("Sign", "State", "Seen", "Needed")
    return section("signs", "Signs of a whole-stack problem", table(found.sentence, head, rows))


def _ask_signs(contract_id: str) -> Safe:
    link = tag("a", "Look for the five signs", href=f"/contracts/{contract_id}?signs=true#signs")
    lead = "Read from the newest documents, so it takes a moment."
    return section("signs", "Signs of a whole-stack problem", tag("p", link), lead=lead)


def _without_text(server: Server, contract_id: str) -> Page:
    header = join([tag("p", "Contract", class_="brand"), tag("h1", tag("code", contract_id[:12]))])
    body = section("text", "The contract’s text is not in this ledger", empty("Its results are listed below."))
    return Page(contract_id[:12], header, join([body, _newest(server, contract_id)]))
