"""`lynxbench executor`: the nine layers of this machine, or the difference of two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.errors import ExitCode

if TYPE_CHECKING:
    from lynxbench.model.executor import Executor

HERE = "here"

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_JSON = typer.Option(False, "--json", help="Print one JSON document on standard output, nothing else.")
_DECLARE = typer.Option(None, "--declare", metavar="FILE", help="A site file: price, cooling, demand and more.")


@app.callback(invoke_without_command=True)
def executor(context: typer.Context, as_json: bool = _JSON, declare: Path | None = _DECLARE) -> None:
    """Show the nine layers of this machine, or compare two executors."""
    if context.invoked_subcommand is None:
        _show(as_json, declare)
    else:
        context.obj = (as_json, declare)


@app.command()
def show(context: typer.Context, as_json: bool = _JSON, declare: Path | None = _DECLARE) -> None:
    """Show the nine layers of this machine, field by field, each with its source."""
    before, named = context.obj
    _show(as_json or before, declare or named)


@app.command()
def diff(
    context: typer.Context,
    a: str = typer.Argument(help=f"An executor or result document, or `{HERE}` for this machine."),
    b: str = typer.Argument(HERE, help=f"Another one; `{HERE}` if left out."),
    all_tiers: bool = typer.Option(False, "--all-tiers", help="Also compare this very instance and its state."),
    as_json: bool = _JSON,
    declare: Path | None = _DECLARE,
) -> None:
    """Compare two executors by layer. Exit code 0: no difference, 1: they differ."""
    from lynxbench.cli.showing import terminal_text
    from lynxbench.record.listing import compared_fields, difference_document
    from lynxbench.report.documents.executors_document import compose_difference

    before, named = context.obj
    left, right = (_load(name, declare or named) for name in (a, b))
    changes = compared_fields(left, right, all_tiers=all_tiers)
    if as_json or before:
        _print_json(difference_document(left, right, changes))
    else:
        print(terminal_text(compose_difference(changes, (a, b))), end="")
    if changes:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _show(as_json: bool, declare: Path | None) -> None:
    from lynxbench.cli.showing import terminal_text
    from lynxbench.executor.compatibility import check_compatibility
    from lynxbench.executor.executor_conditions import notable_conditions
    from lynxbench.executor.executor_document import executor_document
    from lynxbench.executor.native_precisions import precision_table
    from lynxbench.report.documents.executors_document import compose_executor

    here = _load(HERE, declare)
    concluded = (check_compatibility(here), notable_conditions(here), precision_table(here))
    if as_json:
        _print_json(executor_document(here, *concluded))
    else:
        print(terminal_text(compose_executor(here, *concluded)), end="")


def _load(name: str, declare: Path | None) -> Executor:
    from lynxbench.executor.capture import capture_host
    from lynxbench.executor.declaration import read_declaration
    from lynxbench.executor.executor_document import read_executor

    if name != HERE:
        return read_executor(name)
    return capture_host(read_declaration(declare) if declare else None)


def _print_json(document: object) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
