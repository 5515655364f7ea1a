"""One self-contained page: verdict, figures, questions, what was counted, plots, causes, executor, evidence."""

from __future__ import annotations

from collections.abc import Sequence

from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.report import findings
from lynxbench.report.markup import raw, tag
from lynxbench.report.page import asset, render_page
from lynxbench.report.sections.causes_section import render_causes
from lynxbench.report.sections.load_section import render_load
from lynxbench.report.sections.measured_section import render_counted, render_plots, render_precisions
from lynxbench.report.sections.opening_section import render_figures, render_header, render_questions, render_verdict
from lynxbench.report.sections.record_section import render_context, render_evidence, render_executor
from lynxbench.report.words import clean


def render_html(
    result: Result,
    processes: tuple[CountedProcess, ...],
    telemetry: Telemetry | None,
    standing: Sequence[str] = (),
) -> str:
    """The report as one HTML text that opens without a network and without executing anything it carries.

    `standing` is what others say about the result, where a ledger knows.
    """
    body = tag(
        "body",
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        render_header(result),
        tag(
            "main",
            *([tag("p", tag("strong", "Standing"), f" {clean('; '.join(standing))}")] if standing else []),
            render_verdict(result),
            render_figures(result),
            render_questions(result),
            render_precisions(result),
            render_load(result),
            render_counted(result),
            render_plots(result, processes, telemetry),
            render_causes(result),
            render_executor(result),
            render_context(result),
            render_evidence(result),
        ),
        tag(
            "footer",
            tag("p", f"lynxbench {clean(result.lynxbench_version)}. A number never travels without its context."),
        ),
        tag("script", raw(asset("script.js"))),
        class_="void" if findings.is_void(result) else None,
    )
    title = f"{clean(result.contract.name)}: {clean(result.contract.question)[:120]} · lynxbench"
    return render_page(title, body, script=asset("script.js"))
