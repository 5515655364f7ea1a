"""Executors: nine layers with their owners, and the difference of two, field by field."""

from __future__ import annotations

from lynxbench.errors import LynxbenchError
from lynxbench.executor.view import expand_change
from lynxbench.ledger.queries import Wanted
from lynxbench.model.canonical import short
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.record.listing import compared_fields
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, code, join, said, tag
from lynxbench.report.sections.record_section import render_executor
from lynxbench.report.sections.section_parts import chip, fact, section, table
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, empty, field, link_to, make_page
from lynxbench.server.pages.results_page import results_table
from lynxbench.server.server_state import Server

MOST_LISTED = 100
SHOWN_RESULTS = 15


def executors_page(server: Server) -> Page:
    """Every executor that was measured on."""
    found = reading.executor_ids(server, MOST_LISTED)
    rows: list[list[Child]] = [
        [link_to("executors", name), str(many), words.moment_text(newest)] for name, many, newest in found
    ]
    lead = "Everything that produced a number: captured from the machine, layer by layer, never typed in."
    body: Child = empty("No result yet.")
    if rows:
        body = table("Executors by their newest result", ("Executor", "Results", "Newest"), rows, (1,))
    return make_page("Executors", lead, section("list", "List", body), section("diff", "Difference", _form("", "")))


def executor_page(server: Server, executor_id: str) -> Page:
    """Nine layers of one executor, as its newest result recorded them."""
    listed, standing = reading.list_page(server, Wanted(executor=executor_id, limit=SHOWN_RESULTS))
    header = join(
        [
            tag("p", "Executor", class_="brand"),
            tag("h1", "Executor ", code(executor_id[:12])),
            tag(
                "nav",
                tag("a", "Compare with another executor", href=f"/executors/diff?a={executor_id}"),
                aria_label="Elsewhere",
                class_="tabs",
            ),
        ]
    )
    try:
        inner: Child = render_executor(reading.result_with_executor(server, executor_id))
    except LynxbenchError as error:
        inner = section("executor", "Executor by layer", empty("Its fields are not here: ", said(str(error))))
    return Page(
        f"Executor {short(executor_id)}",
        header,
        join([inner, section("results", "Results on it", results_table(listed, standing))]),
    )


def diff_page(server: Server, a: str, b: str, *, all_tiers: bool) -> Page:
    """What differs between the executors of two results, with the owner who can explain it."""
    left, right = reading.document(server, a), reading.document(server, b)
    changes = compared_fields(left.executor, right.executor, all_tiers=all_tiers)
    layers = [layer for layer in Layer if any(change.layer is layer for change in changes)]
    header = join(
        [
            tag("p", "Executor difference", class_="brand"),
            tag("h1", f"{words.count(len(changes), 'field')} in {words.count(len(layers), 'layer')} differ"),
            tag("dl", _side("A", left), _side("B", right), class_="facts"),
            tag(
                "nav",
                tag("a", "Also this very machine and its state", href=f"/executors/diff?a={a}&b={b}&all=1")
                if not all_tiers
                else tag("a", "Configuration alone", href=f"/executors/diff?a={a}&b={b}"),
                tag("a", "Compare the results", href=f"/compare?a={a}&b={b}"),
                aria_label="Elsewhere",
                class_="tabs",
            ),
        ]
    )
    parts: list[Child] = []
    for layer in layers:
        rows: list[list[Child]] = [
            [code(step.label), said(_cut(step.before)), said(_cut(step.after)), change.tier.value]
            for change in changes
            if change.layer is layer
            for step in expand_change(change)
        ]
        owner = right.contract.owner(layer)
        parts.append(
            section(
                f"layer-{layer}",
                layer.value.capitalize(),
                tag("p", chip(layer), " owner ", tag("strong", said(owner))),
                table(f"Fields of {layer} that differ", ("Field", "A", "B", "Tier"), rows),
            )
        )
    if not parts:
        parts.append(section("same", "No difference", tag("p", "Both executors are the same in every field compared.")))
    return Page("Executor difference", header, join([*parts, section("which", "Two others", _form(a, b))]))


def diff_form_page(a: str, b: str) -> Page:
    """Which two?"""
    return make_page(
        "Executor difference", "Name two executors, or two results.", section("which", "Which two", _form(a, b))
    )


def _side(name: str, result: Result) -> Safe:
    return fact(name, link_to("executors", result.executor_id), " in ", link_to("results", result.result_id))


def _form(a: str, b: str) -> Safe:
    return tag(
        "form",
        field("Executor or result A", "a", value=a, required=True, spellcheck="false"),
        field("Executor or result B", "b", value=b, required=True, spellcheck="false"),
        tag("button", "Show the difference"),
        method="get",
        action="/executors/diff",
        class_="filter ids",
    )


def _cut(text: str) -> str:
    return text if len(text) <= 300 else text[:300] + "…"
