"""`lynxbench history`: the series of a contract, its changes, and the layer that changed with each."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER

FROM = typer.Option(None, "--from", help="Folder with results of lynxbench run; may be given more than once.")
CONTRACT = typer.Argument(help="A contract: file, bundled name, id or its unique beginning.")


def history(
    contract: str = CONTRACT,
    precision: str | None = typer.Option(None, help="Which precision; the contract's first if left out."),
    folders: list[Path] | None = FROM,
    html: Path | None = typer.Option(None, help="Write a page with the series as a plot."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Show how a contract's figure moved, and tie each change to what changed in the record."""
    import os

    from lynxbench.cli.naming import parse_precision, print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.evidence.documents import write_text
    from lynxbench.record.histories import Past, history_of
    from lynxbench.report.documents.history_document import compose_history
    from lynxbench.report.render_html import render_html

    with Past(folders or (), ledger, os.environ) as past:
        found = history_of(past, contract, parse_precision(precision))
    if html is not None:
        write_text(html, render_html(compose_history(found)))
        typer.echo(f"written: {html}", err=True)
    if as_json:
        print_document(found.model_dump(mode="json"))
    else:
        print(terminal_text(compose_history(found)), end="")
