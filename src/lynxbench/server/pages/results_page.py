"""Results: the list, and one result in the order of its report, verdict first, evidence and standing last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lynxbench.ledger.queries import Listed, Wanted, standings
from lynxbench.model.canonical import short
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.model.standing import Standing
from lynxbench.model.verification import Check, CheckOutcome
from lynxbench.record.listing import say
from lynxbench.record.recalling import ledger_checks
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, join, raw, said, tag
from lynxbench.report.sections.causes_section import render_causes
from lynxbench.report.sections.load_section import render_load
from lynxbench.report.sections.measured_section import render_counted, render_plots, render_precisions
from lynxbench.report.sections.opening_section import render_figures, render_header, render_questions, render_verdict
from lynxbench.report.sections.record_section import render_context, render_evidence, render_executor
from lynxbench.report.sections.section_parts import section, table
from lynxbench.server import ledger_views as reading
from lynxbench.server.ledger_views import ResultFiles, Spoken
from lynxbench.server.pages.page_shell import Page, brief, choice, empty, field, figure_cell, link_to, make_page
from lynxbench.server.pages.svg_file import plots_in, with_plot_links
from lynxbench.server.server_state import Server

PER_PAGE = 50
_DOUBTED = frozenset({"retracted", "does not verify", "contested", "untrusted", "key revoked"})


def results_page(server: Server, wanted: Wanted, asked: Mapping[str, str]) -> Page:
    """A list that can be narrowed; the address says how, so that it can be shared."""
    listed, standing = reading.list_page(server, wanted)
    form = tag(
        "form",
        field("Contract", "contract", value=asked.get("contract", ""), placeholder="id or its beginning"),
        field("Executor", "executor", value=asked.get("executor", ""), placeholder="id or its beginning"),
        choice(
            "Precision",
            "precision",
            [("", "any"), *((p.value, p.value) for p in Precision)],
            asked.get("precision", ""),
        ),
        choice(
            "Validity", "valid", [("", "any"), *((v.value, v.value) for v in ValidityVerdict)], asked.get("valid", "")
        ),
        field("Since", "since", type="date", value=asked.get("since", "")),
        tag("button", "Show"),
        method="get",
        action="/results",
        class_="filter",
        role="search",
        aria_label="Narrow the list",
    )
    many = f"The newest {len(listed)}, newest first." if listed else ""
    body = results_table(listed, standing) if listed else empty("No result fits.")
    return make_page("Results", many, section("list", "List", form, body))


def results_table(listed: Sequence[Listed], standing: Mapping[str, Standing], *, contract: bool = True) -> Safe:
    """One row a precision, each figure with its interval."""
    rows: list[list[Child]] = []
    for one in listed:
        for index, figure in enumerate(one.figures or (None,)):
            first = index == 0
            stands = standing[one.result_id].short
            row: list[Child] = [
                link_to("results", one.result_id) if first else "",
                brief(one.started_at) if first else "",
                link_to("executors", one.executor_id) if first else "",
                figure.precision if figure else "",
                figure_cell(figure.throughput if figure else None),
                _validity(figure.validity if figure else one.validity),
                tag("span", stands, class_="tone-warn" if stands in _DOUBTED else None) if first else "",
            ]
            if contract:
                row.insert(1, link_to("contracts", one.contract_id, said(one.contract_name)) if first else "")
            rows.append(row)
    head = ["Result", "Measured", "Executor", "Precision", "Throughput", "Validity", "Standing"]
    if contract:
        head.insert(1, "Contract")
    if not rows:
        return empty("No result yet.")
    return table("Results, newest first", head, rows, (5 if contract else 4,))


def _validity(text: str) -> Safe:
    tone = {"valid": "good", "doubtful": "warn", "void": "bad"}.get(text, "plain")
    return tag("span", text, class_=f"tone-{tone}")


def result_page(server: Server, result_id: str) -> Page:
    """One result. The report's own sections; what others say of it stands beside."""
    found = rendered(server, result_id)
    standing = standings(server.ledger.log, [result_id], server.trust)[result_id]
    about = reading.spoken_of(server, [result_id, found.result.run_id])
    checks = ledger_checks(server.ledger, result_id, server.trust, standing)
    header = render_header(found.result)
    main = join(
        [
            _elsewhere(found.result),
            found.before,
            _missing(found.problem) if found.problem else None,
            found.after,
            standing_section(standing, about, checks, result_id),
        ]
    )
    return Page(f"{found.result.contract.name} {short(result_id)}", header, main)


class _Rendered:
    """A result's own sections: they never change, so they are made once."""

    __slots__ = ("after", "before", "plots", "problem", "result", "size_bytes")

    def __init__(self, files: ResultFiles) -> None:
        result = files.result
        self.result, self.problem = result, files.problem
        drawn = render_plots(result, files.processes, files.telemetry) if files.problem is None else None
        before = join(
            [
                render_verdict(result),
                render_figures(result),
                render_questions(result),
                render_counted(result),
                drawn,
            ]
        )
        after = join(
            [
                render_causes(result),
                render_load(result),
                render_precisions(result),
                render_executor(result),
                render_context(result),
                render_evidence(result),
            ]
        )
        self.plots = plots_in(before) | plots_in(after)
        base = f"/results/{result.result_id}/plots"
        self.before, self.after = (raw(with_plot_links(part, base)) for part in (before, after))
        self.size_bytes = 2 * (len(self.before) + len(self.after))


def rendered(server: Server, result_id: str) -> _Rendered:
    """A result's own sections and pictures, made once."""
    made: _Rendered = server.cache.get(
        ("result", result_id), (f"document:{result_id}",), lambda: _Rendered(reading.files_of(server, result_id))
    )
    return made


def _elsewhere(result: Result) -> Safe:
    links = [
        tag("a", "This contract’s series", href=f"/contracts/{result.contract_id}"),
        tag("a", "This executor", href=f"/executors/{result.executor_id}"),
        tag("a", "Compare with another", href=f"/compare?b={result.result_id}"),
        tag("a", "Contest it", href=f"/results/{result.result_id}/contest"),
        tag("a", "Result as JSON", href=f"/results/{result.result_id}/result.json"),
        tag("a", "Report as one file", href=f"/results/{result.result_id}/report.html", download=True),
    ]
    return tag("nav", links, aria_label="Elsewhere", class_="tabs")


def _missing(problem: str) -> Safe:
    words_ = "No plot is drawn from samples: ", said(problem)
    return section("plots", "Plots", empty(*words_))


def standing_section(standing: Standing, about: Sequence[Spoken], checks: Sequence[Check], result_id: str) -> Safe:
    """What a result stands on: who signed, verified, contested, re-ran; and how to say something about it."""
    rows: list[list[Child]] = [
        [
            tag("a", f"#{one.logged.seq}", href=f"/ledger/{one.logged.seq}"),
            words.moment_text(one.logged.entry.made_at),
            said(one.voice.name),
            said(say(one.logged.entry)),
        ]
        for one in about
    ]
    marks = {CheckOutcome.HOLDS: "tone-good", CheckOutcome.DOES_NOT_HOLD: "tone-bad", CheckOutcome.CANNOT: "tone-warn"}
    lines = [tag("li", said(check.line), class_=marks[check.outcome]) for check in checks]
    name = short(result_id)
    steps = [
        tag("pre", tag("code", f"lynxbench pull --server URL {name}"), tabindex="0"),
        tag("pre", tag("code", f"lynxbench verify {name}"), tabindex="0"),
        tag(
            "pre",
            tag("code", f'lynxbench contest {name} --reason "…" && lynxbench push --server URL {name}'),
            tabindex="0",
        ),
    ]
    return section(
        "standing",
        "Standing",
        tag("p", tag("strong", said("; ".join(standing.words)))),
        tag("ul", lines, class_="outcomes"),
        table("Everything that was said about it", ("Entry", "When", "By", "What"), rows),
        tag("div", tag("h3", "Verify or contest it on your own machine, with your own key"), steps, class_="prose"),
    )
