"""`lynxbench signals`: the five signs of a whole-stack problem."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.cli.history_command import CONTRACT, FROM
from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import ExitCode


def signals(
    contract: str = CONTRACT,
    folders: list[Path] | None = FROM,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Look for the five signs that a problem belongs to the whole stack. Exit code 1 when two or more are present."""
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.compare.stack_signals import read_signals
    from lynxbench.record.histories import Past, record_of
    from lynxbench.report.documents.history_document import compose_signals

    with Past(folders or (), ledger, os.environ) as past:
        found = read_signals(record_of(past, contract))
    if as_json:
        print_document(found.model_dump(mode="json"))
    else:
        print(terminal_text(compose_signals(found)), end="")
    if found.stack_shaped:
        raise typer.Exit(ExitCode.VERDICT_NO)
