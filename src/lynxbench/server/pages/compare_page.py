"""Two results beside each other: comparability first."""

from dataclasses import replace

from lynxbench.errors import BadInput
from lynxbench.model.comparison import Comparison
from lynxbench.model.precision import Precision
from lynxbench.record.comparing_results import refuse_one
from lynxbench.report import doc
from lynxbench.report.doc import code, link, refer
from lynxbench.report.documents.comparison_document import compose_comparison
from lynxbench.report.documents.matrix_document import compose_matrix
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, make_page, pair_form, problem_note
from lynxbench.server.pages.pickers import offered_results
from lynxbench.server.pages.results_page import recomputed_word
from lynxbench.server.server_state import Server
from lynxbench.watch.recorded_comparisons import compare_recorded


def compare_form_page(server: Server, a: str, b: str, problem: str = "") -> Page:
    """Which two? And why the two that were named cannot be compared."""
    lead = (
        "Pick two results, or name them: last, last~1, NAME@a, the beginning of an id. An unsound pair gets no ratio."
    )
    wrong = doc.Section("problem", "What is wrong", (problem_note(problem),)) if problem else None
    blocks = (wrong, doc.Section("which", "Which two", (_form(server, a, b),)))
    report = doc.Report("Compare", blocks, lead="These two cannot be compared." if problem else lead)
    return make_page(report, status=404 if problem else 200)


def compare_page(server: Server, a: str, b: str, precision: Precision | None) -> Page:
    """B held against A."""
    report = compose_comparison(comparison_of(server, a, b, precision))
    elsewhere = doc.Links(
        "Elsewhere",
        [
            refer("results", a, "Result A"),
            refer("results", b, "Result B"),
            link("Executors, field by field", f"/executors/diff?a={a}&b={b}"),
            link("The other way round", f"/compare?a={b}&b={a}"),
        ],
    )
    return make_page(
        replace(
            report,
            name=f"{b[:12]} against {a[:12]}",
            blocks=(
                *report.blocks,
                _recomputed(server, a, b),
                doc.Section("which", "Two others", (_form(server, a, b),)),
            ),
            title=("Result ", code(b[:12]), " held against ", code(a[:12])),
            brand="Comparison",
            links=elsewhere,
        )
    )


def matrix_page(server: Server, names: tuple[str, ...], precision: Precision | None) -> Page:
    """Each held against those before it."""
    report = compose_matrix(names, matrix_of(server, names, precision))
    elsewhere = doc.Links("Elsewhere", [link("All results", "/results")])
    recomputed = _recomputed(server, *names)
    return make_page(
        replace(report, blocks=(*report.blocks, recomputed), brand="Comparison", links=elsewhere),
    )


def matrix_of(server: Server, names: tuple[str, ...], precision: Precision | None) -> dict[tuple[str, str], Comparison]:
    """Every pair as `lynxbench compare` has it."""

    def ask() -> dict[tuple[str, str], Comparison]:
        return compare_recorded(server.ledger, server.recomputations, names, server.trust, precision)

    made: dict[tuple[str, str], Comparison] = server.cache.get(
        ("matrix", names, precision), (*names, reading.trust_topic(server)), ask
    )
    return made


def comparison_of(server: Server, a: str, b: str, precision: Precision | None) -> Comparison:
    """As `lynxbench compare` has it, with samples where they are at hand."""
    refuse_one(a, b)

    def ask() -> Comparison:
        return server.watch.compare(a, b, server.trust, precision)

    made: Comparison = server.cache.get(("compare", a, b, precision), (a, b, reading.trust_topic(server)), ask)
    return made


def _recomputed(server: Server, *names: str) -> doc.Section:
    """Whether the figures on each side are those that its samples give."""
    outcomes = reading.recomputed_of(server, names)
    items = [(code(name[:12]), " is ", recomputed_word(outcomes[name])) for name in names]
    return doc.Section("recomputed", "Recomputed by this server", (doc.Points(items),))


def _form(server: Server, a: str, b: str) -> doc.Embedded:
    names = ("A, the one to hold against", "B, the other")
    return pair_form("/compare", names, "Compare", a, b, offered_results(server))


def diff_names(server: Server, text: str) -> str:
    """A result or an executor that a URL names: the id of a result that holds it."""
    try:
        return reading.named(server, text, "result")
    except BadInput:
        executor = reading.named(server, text, "executor")
        return reading.result_with_executor(server, executor).result_id
