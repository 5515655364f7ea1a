"""`lynxbench report`: a result again, in the form asked for."""

import os
from enum import StrEnum
from pathlib import Path

import typer

from lynxbench.cli.answers import write_page
from lynxbench.cli.output import tell_blame
from lynxbench.cli.showing import PLAIN_WIDTH, terminal_text
from lynxbench.cli.terminal import say, say_json, tell
from lynxbench.model.canonical import short
from lynxbench.record.recalling import recalled
from lynxbench.record.run_reports import also_lacking, compose_recalled, standing_words
from lynxbench.report.json_document import render_json
from lynxbench.report.render_html import render_html
from lynxbench.report.render_markdown import render_markdown
from lynxbench.report.render_terminal import render_terminal


class ReportFormat(StrEnum):
    """How a report is written."""

    TERMINAL = "terminal"
    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


def report(
    result: str = typer.Argument(help="A result document, the folder of a run, or an id in the ledger."),
    form: ReportFormat = typer.Option(ReportFormat.TERMINAL, "--format", help="What to write."),
    output: Path | None = typer.Option(None, "--output", "-o", help="File to write instead of standard output."),
    ledger: str | None = typer.Option(None, "--ledger", help="Folder or URL of the ledger, for ids and standing."),
    as_json: bool = typer.Option(False, "--json", help="The same as --format json."),
) -> None:
    """Render a result document; its ids and the hash of its samples are checked first."""
    form = ReportFormat.JSON if as_json else form
    text = _rendered(result, form, ledger, into_file=output is not None)
    if output is None and form is ReportFormat.JSON:
        say_json(text)
    elif output is None:
        say(text, end="")
    write_page(output, lambda: text)


def _rendered(named: str, form: ReportFormat, ledger: str | None, *, into_file: bool) -> str:
    """A result as text; plots need its samples, which must be the ones it was made from."""
    with recalled(named, ledger, os.environ) as recall:
        if form is ReportFormat.HTML:
            return render_html(compose_recalled(recall, plots=True))
    if form is ReportFormat.JSON:
        result = recall.result
        if result.contract.teams:  # the sealed document cannot say it
            tell(f"lynxbench: {short(result.result_id)}: {'; '.join(standing_words(recall))}")
        tell_blame(result, also_lacking(recall))
        return render_json(result)
    report = compose_recalled(recall, plots=False)
    if form is ReportFormat.MARKDOWN:
        return render_markdown(report)
    return render_terminal(report, width=PLAIN_WIDTH) if into_file else terminal_text(report)
