"""Two results beside each other: comparability first."""

from __future__ import annotations

from lynxbench.errors import BadInput
from lynxbench.model.comparison import Comparison
from lynxbench.model.precision import Precision
from lynxbench.report.comparison_sections import render_comparison_sections, side_facts
from lynxbench.report.markup import Safe, join, said, tag
from lynxbench.report.sections.section_parts import section
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, field, link_to, make_page
from lynxbench.server.server_state import Server


def compare_form_page(a: str, b: str) -> Page:
    """Which two?"""
    lead = "Name two results by their ids or the beginnings of them. An unsound pair gets no ratio."
    return make_page("Compare", lead, section("which", "Which two", _form(a, b)))


def compare_page(server: Server, a: str, b: str, precision: Precision | None) -> Page:
    """B held against A."""
    found = comparison_of(server, a, b, precision)
    header = join(
        [
            tag("p", "Comparison", class_="brand"),
            tag("h1", "Result ", tag("code", b[:12]), " held against ", tag("code", a[:12])),
            side_facts(found),
            tag(
                "nav",
                link_to("results", a, "Result A"),
                link_to("results", b, "Result B"),
                tag("a", "Executors, field by field", href=f"/executors/diff?a={a}&b={b}"),
                tag("a", "The other way round", href=f"/compare?a={b}&b={a}"),
                aria_label="Elsewhere",
                class_="tabs",
            ),
        ]
    )
    main = join([*render_comparison_sections(found), section("which", "Two others", _form(a, b))])
    return Page(f"{b[:12]} against {a[:12]}", header, main)


def comparison_of(server: Server, a: str, b: str, precision: Precision | None) -> Comparison:
    """As `lynxbench compare` has it, with samples where they are at hand."""

    def ask() -> Comparison:
        return server.watch.compare(a, b, server.trust, precision)

    made: Comparison = server.cache.get(("compare", a, b, precision), (a, b), ask)
    return made


def refused_compare(a: str, b: str, problem: str) -> Page:
    """Why two names cannot be compared."""
    lead = "These two cannot be compared."
    problem_section = section("problem", "What is wrong", tag("p", said(problem), class_="tone-bad"))
    return make_page("Compare", lead, problem_section, section("which", "Which two", _form(a, b)), status=404)


def _form(a: str, b: str) -> Safe:
    return tag(
        "form",
        field("A, the one to hold against", "a", value=a, required=True, spellcheck="false"),
        field("B, the other", "b", value=b, required=True, spellcheck="false"),
        tag("button", "Compare"),
        method="get",
        action="/compare",
        class_="filter ids",
    )


def diff_names(server: Server, text: str) -> str:
    """A result or an executor that a URL names: the id of a result that holds it."""
    try:
        return reading.named(server, text, "result")
    except BadInput:
        executor = reading.named(server, text, "executor")
        return reading.result_with_executor(server, executor).result_id
