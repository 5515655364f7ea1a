"""`lynxbench run`: the main job."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.errors import ExitCode


def run(
    contract: str = typer.Argument("quickstart", help="A contract file, or the name of a bundled one."),
    out: Path = typer.Option(Path("results"), help="Folder that receives one folder a run."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished run of this contract."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    intervene: bool = typer.Option(
        False,
        "--intervene",
        help="Also test the verdict: run again with what it blames changed (compiled, batch doubled).",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the result document on standard output, nothing else."),
) -> None:
    """Capture, measure, attribute, record, report. Exit code 1 when the result is void."""
    from lynxbench.cli.output import print_result, write_reports
    from lynxbench.cli.progress import TerminalProgress
    from lynxbench.contract.loader import read_contract
    from lynxbench.executor.declaration import read_declaration
    from lynxbench.model.result import ValidityVerdict
    from lynxbench.pipeline import resume_contract, run_contract

    agreed = read_contract(contract)
    declaration = read_declaration(declare) if declare else None
    with TerminalProgress(agreed) as progress:
        start = resume_contract if resume else run_contract
        finished = start(agreed, out, declaration, progress, intervene)
        progress.note("writing the report")
        paths = write_reports(finished)
    print_result(finished.result, paths, as_json)
    if finished.result.validity.verdict is ValidityVerdict.VOID:
        raise typer.Exit(ExitCode.VERDICT_NO)
