"""`lynxbench run`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from lynxbench.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from lynxbench.executor.declaration import Declaration

SCOPES = ("verdict", "all")


class RunCommand(TyperCommand):
    """Lets `--intervene` stand alone: without a word it means the verdict's own tests."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare `--intervene` its word."""
        following = [*args, ""][1:]
        bare = [word == "--intervene" and after not in SCOPES for word, after in zip(args, following, strict=True)]
        given = [f"{word}=verdict" if alone else word for word, alone in zip(args, bare, strict=True)]
        return super().parse_args(ctx, given)


def run(
    contract: str = typer.Argument("quickstart", help="A contract file, or the name of a bundled one."),
    out: Path = typer.Option(Path("results"), help="Folder that receives one folder a run."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished run of this contract."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    intervene: str | None = typer.Option(
        None,
        "--intervene",
        metavar="[verdict|all]",
        help="Also test the verdict: run again with what it blames changed; `all` tries every change there is.",
    ),
    ledger: str | None = typer.Option(None, "--ledger", help="Folder or URL of the ledger; none: record nowhere."),
    as_json: bool = typer.Option(False, "--json", help="Print the result document on standard output, nothing else."),
) -> None:
    """Capture, measure, attribute, record, report. Exit code 1 when the result is void."""
    from lynxbench.contract.loader import read_contract
    from lynxbench.run.greeting import greet

    if intervene is not None and intervene not in SCOPES:
        raise BadInput(f"--intervene {intervene!r}: write verdict or all, or nothing for verdict")
    agreed = read_contract(contract)
    declaration = _declared(declare)
    # A server is asked before the rest is loaded: its first request comes within a second of the command.
    greeting = None if resume else greet(agreed)

    from lynxbench.cli.output import print_result, recorder_for, tell_record, write_reports
    from lynxbench.cli.progress import TerminalProgress
    from lynxbench.model.interventions import InterventionScope
    from lynxbench.model.result import ValidityVerdict
    from lynxbench.run.pipeline import run_contract

    recorder = recorder_for(ledger)
    scope = InterventionScope(intervene) if intervene else None
    with TerminalProgress(agreed) as progress:
        finished = run_contract(agreed, out, declaration, progress, scope, recorder, greeting, resume=resume)
        progress.note("writing the report")
        paths = write_reports(finished)
    tell_record(recorder, finished.folder)
    print_result(finished.result, paths, as_json, recorder is not None and recorder.recorded is not None)
    if finished.result.validity.verdict is ValidityVerdict.VOID:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _declared(path: Path | None) -> Declaration | None:
    if path is None:
        return None
    from lynxbench.executor.declaration import read_declaration

    return read_declaration(path)
