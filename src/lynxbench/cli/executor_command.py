"""`lynxbench executor`: the nine layers of this machine, or the difference of two."""

from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import command_group
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import ExitCode
from lynxbench.executor.capture import capture_host
from lynxbench.executor.compatibility import check_compatibility
from lynxbench.executor.declaration import read_declaration
from lynxbench.executor.executor_conditions import notable_conditions
from lynxbench.executor.executor_document import executor_document, read_executor
from lynxbench.executor.native_precisions import precision_table
from lynxbench.model.executor import Executor
from lynxbench.record.executor_differences import compared_fields, difference_document
from lynxbench.report.documents.executors_document import compose_difference, compose_executor

HERE = "here"
DECLARE = typer.Option(None, "--declare", metavar="FILE", help="A site file: price, cooling, demand and more.")

app = command_group("The nine layers of this machine, or a difference of two.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def executor(context: typer.Context, as_json: bool = AS_JSON, declare: Path | None = DECLARE) -> None:
    """Show the nine layers of this machine, or compare two executors."""
    if context.invoked_subcommand is None:
        _show(as_json, declare)
    else:
        context.obj = (as_json, declare)


@app.command()
def show(context: typer.Context, as_json: bool = AS_JSON, declare: Path | None = DECLARE) -> None:
    """Show the nine layers of this machine, field by field, each with its source."""
    json_before, declared_before = context.obj
    _show(as_json or json_before, declare or declared_before)


@app.command()
def diff(
    context: typer.Context,
    a: str = typer.Argument(help=f"An executor or result document, or `{HERE}` for this machine."),
    b: str = typer.Argument(HERE, help=f"Another one; `{HERE}` if left out."),
    all_tiers: bool = typer.Option(False, "--all-tiers", help="Also compare this very instance and its state."),
    as_json: bool = AS_JSON,
    declare: Path | None = DECLARE,
) -> None:
    """Compare two executors by layer. Exit code 0: no difference, 1: they differ."""
    json_before, declared_before = context.obj
    left, right = (_load(name, declare or declared_before) for name in (a, b))
    changes = compared_fields(left, right, all_tiers=all_tiers)
    answer(
        as_json or json_before,
        lambda: difference_document(left, right, changes),
        lambda: terminal_text(compose_difference(changes, (a, b))),
    )
    if changes:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _show(as_json: bool, declare: Path | None) -> None:
    here = _load(HERE, declare)
    concluded = (check_compatibility(here), notable_conditions(here), precision_table(here))
    answer(
        as_json,
        lambda: executor_document(here, *concluded),
        lambda: terminal_text(compose_executor(here, *concluded)),
    )


def _load(name: str, declare: Path | None) -> Executor:
    if name != HERE:
        return read_executor(name)
    return capture_host(read_declaration(declare) if declare else None)
