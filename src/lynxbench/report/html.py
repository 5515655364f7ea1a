"""One self-contained page: verdict, figures, questions, what was counted, plots, causes, executor, evidence."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.report import findings
from lynxbench.report.markup import Safe, raw, tag
from lynxbench.report.palette import colour_rules
from lynxbench.report.sections.causes import render_causes
from lynxbench.report.sections.load import render_load
from lynxbench.report.sections.measured import render_counted, render_plots, render_precisions
from lynxbench.report.sections.opening import render_figures, render_header, render_questions, render_verdict
from lynxbench.report.sections.record import render_context, render_evidence, render_executor
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
        tag("script", raw(_asset("script.js"))),
        class_="void" if findings.is_void(result) else None,
    )
    return "<!doctype html>\n" + tag("html", _head(result), body, lang="en") + "\n"


def _head(result: Result) -> Safe:
    style, script = _style(), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{clean(result.contract.name)}: {clean(result.contract.question)[:120]} · lynxbench"),
        tag("style", raw(style)),
    )


@cache
def _style() -> str:
    return "\n" + colour_rules() + "\n" + _asset("style.css")


@cache
def _asset(name: str) -> str:
    """A file of this package; part of the code, not of anybody's data."""
    return files("lynxbench.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
