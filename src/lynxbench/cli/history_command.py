"""`lynxbench history` and `signals`: how a contract's figure moved, and whether the whole stack is behind it."""

import os
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, write_page
from lynxbench.cli.options import AS_JSON, CONTRACT, FOLDERS, LEDGER
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import ExitCode
from lynxbench.model.precision import Precision
from lynxbench.record.histories import history_of, opened_past, whole_history
from lynxbench.record.machine_signals import signals_of
from lynxbench.report.documents.history_document import compose_history, compose_signals
from lynxbench.report.render_html import render_html


def history(
    contract: str = CONTRACT,
    precision: Precision | None = typer.Option(None, help="Which precision; the contract's first if left out."),
    folders: list[Path] = FOLDERS,
    html: Path | None = typer.Option(None, help="Write a page with the series as a plot."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Show how a contract's figure moved on each machine, and tie each change to the record; NAME@b is machine b's."""
    with opened_past(folders, ledger, os.environ) as past:
        series = history_of(past, contract, precision)
        write_page(html, lambda: render_html(compose_history(series, *whole_history(past, contract, series))))
    answer(as_json, series, lambda: terminal_text(compose_history(series)))


def signals(
    contract: str = CONTRACT,
    folders: list[Path] = FOLDERS,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Look for the five signs that a problem belongs to the whole stack, on each machine; NAME@b is machine b's.

    Exit code 1 when two or more are present on one machine.
    """
    with opened_past(folders, ledger, os.environ) as past:
        signs = signals_of(past, contract)
    answer(as_json, signs, lambda: terminal_text(compose_signals(signs)))
    if any(each.stack_shaped for each in signs.each_machine):
        raise typer.Exit(ExitCode.VERDICT_NO)
