"""Executors: nine layers with their owners, and the difference of two, field by field."""

from lynxbench.errors import LynxbenchError
from lynxbench.ledger.queries import Wanted
from lynxbench.model.canonical import short
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.record.executor_differences import compared_fields
from lynxbench.report import doc, words
from lynxbench.report.doc import Fact, Style, code, link, refer, said
from lynxbench.report.documents.executors_document import difference_layers, difference_title
from lynxbench.report.documents.record_sections import executor_section
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, make_page, pages_links, pair_form
from lynxbench.server.pages.pickers import offered_executors
from lynxbench.server.pages.results_page import selected_form, ticked_table
from lynxbench.server.server_state import Server

MOST_LISTED = 100
SHOWN_RESULTS = 15


def executors_page(server: Server, page: int = 1) -> Page:
    """Every executor that was measured on, so many at a time."""
    known = reading.executor_ids(server, MOST_LISTED + 1, (page - 1) * MOST_LISTED)
    machines = reading.machines_of(server, (name for name, _, _ in known[:MOST_LISTED]))
    rows = [
        (refer("executors", name), said(machines.get(name, "not known")), str(many), words.moment_text(newest))
        for name, many, newest in known[:MOST_LISTED]
    ]
    head = ("Executor", "Device", "Results", "Newest")
    listed = doc.Table(head, rows, "Executors by their newest result", (2,), empty="No result yet.")
    around = pages_links("/executors", page, more=len(known) > MOST_LISTED)
    difference = doc.Section("diff", "Difference", (_form(server, "", ""),))
    blocks = (doc.Section("list", "List", (listed, around)), difference)
    lead = "Everything that produced a number: captured from the machine, layer by layer, never typed in."
    return make_page(doc.Report("Executors", blocks, lead=lead))


def executor_page(server: Server, executor_id: str) -> Page:
    """Nine layers of one executor, as its newest result recorded them."""
    listed, standing = reading.list_page(server, Wanted(executor=executor_id, limit=SHOWN_RESULTS))
    try:
        layers = executor_section(reading.result_with_executor(server, executor_id))
    except LynxbenchError as error:
        missing = doc.Note(("Its fields are not here: ", said(str(error))), Style.EMPTY)
        layers = doc.Section("executor", "Executor by layer", (missing,))
    name = reading.machines_of(server, [executor_id]).get(executor_id)
    results = ticked_table(server, listed, standing, named=False)
    report = doc.Report(
        f"Executor {short(executor_id)}",
        (layers, doc.Section("results", "Results on it", (selected_form() if listed else None, results))),
        title=("Executor ", said(f"{name} ") if name else "", code(executor_id[:12])),
        brand="Executor",
        links=doc.Links("Elsewhere", [link("Compare with another executor", f"/executors/diff?a={executor_id}")]),
    )
    return make_page(report)


def diff_page(server: Server, a: str, b: str, *, all_tiers: bool) -> Page:
    """What differs between the executors of two results, with the owner who can explain it."""
    left, right = reading.document(server, a), reading.document(server, b)
    changes = compared_fields(left.executor, right.executor, all_tiers=all_tiers)
    body: doc.Block = doc.Note("Both executors are the same in every field compared.")
    if changes:
        body = difference_layers(changes, right.contract.owner, _equal(left.executor, right.executor))
    tiers = link("Also this very machine and its state", f"/executors/diff?a={a}&b={b}&all=1")
    if all_tiers:
        tiers = link("Configuration alone", f"/executors/diff?a={a}&b={b}")
    report = doc.Report(
        "Executor difference",
        (
            doc.Section("layers", "Layers that differ", (body,)),
            doc.Section("which", "Two others", (_form(server, a, b),)),
        ),
        title=difference_title(changes),
        brand="Executor difference",
        facts=(_side("A", left), _side("B", right)),
        links=doc.Links("Elsewhere", [tiers, link("Compare the results", f"/compare?a={a}&b={b}")]),
    )
    return make_page(report)


def _equal(left: Executor, right: Executor) -> dict[Layer, list[str]]:
    """Fields that say the same on both sides."""
    return {
        layer: [
            name
            for name, field in left.layers.get(layer, {}).items()
            if (other := right.layers.get(layer, {}).get(name)) is not None and other.value == field.value
        ]
        for layer in Layer
    }


def diff_form_page(server: Server, a: str, b: str) -> Page:
    """Which two?"""
    which = doc.Section("which", "Which two", (_form(server, a, b),))
    return make_page(doc.Report("Executor difference", (which,), lead="Pick two executors, or name two results."))


def _side(name: str, result: Result) -> Fact:
    return name, (refer("executors", result.executor_id), " in ", refer("results", result.result_id))


def _form(server: Server, a: str, b: str) -> doc.Embedded:
    names = ("Executor or result A", "Executor or result B")
    return pair_form("/executors/diff", names, "Show the difference", a, b, offered_executors(server))
