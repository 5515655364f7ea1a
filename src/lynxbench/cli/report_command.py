"""`lynxbench report`: a result again, in the form asked for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from lynxbench.cli.answers import write_page
from lynxbench.cli.output import render_form


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
    text = render_form(result, ReportFormat.JSON.value if as_json else form.value, ledger)
    if output is None:
        print(text, end="")
    write_page(output, lambda: text)
