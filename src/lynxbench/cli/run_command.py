"""`lynxbench run`: the main job."""

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from lynxbench.cli.options import DECLARE, OUT, RECORDING_LEDGER, RESUME
from lynxbench.contract.loader import read_contract
from lynxbench.executor.declaration import read_declaration
from lynxbench.model.interventions import InterventionScope
from lynxbench.run.greeting import greet

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class RunCommand(TyperCommand):
    """Lets `--intervene` stand alone: without a word it means the verdict's own tests."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare `--intervene` its word."""
        following = [*args, ""][1:]
        scopes = set(InterventionScope)
        bare = [word == "--intervene" and after not in scopes for word, after in zip(args, following, strict=True)]
        given = [f"{word}=verdict" if alone else word for word, alone in zip(args, bare, strict=True)]
        return super().parse_args(ctx, given)


@app.command(cls=RunCommand)
def run(
    contract: str = typer.Argument("quickstart", help="A contract file, or the name of a bundled one."),
    out: Path = OUT,
    resume: bool = RESUME,
    declare: Path | None = DECLARE,
    intervene: InterventionScope | None = typer.Option(
        None,
        "--intervene",
        metavar="[verdict|all]",
        help="Also test the verdict: run again with what it blames changed; `all` tries every change there is.",
    ),
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = typer.Option(False, "--json", help="Print the result document on standard output, nothing else."),
) -> None:
    """Capture, measure, attribute, record, report. Exit code 1 when the result is void."""
    agreed = read_contract(contract)
    declaration = read_declaration(declare) if declare else None
    greeting = None if resume else greet(agreed)
    # A server is asked before the rest is loaded: its first request comes within a second of the command.
    from lynxbench.cli.output import recorder_for
    from lynxbench.cli.running import carry_out, show_run
    from lynxbench.run.pipeline import run_contract

    recorder = recorder_for(ledger)
    finished, paths = carry_out(
        agreed,
        lambda progress: run_contract(agreed, out, declaration, progress, intervene, recorder, greeting, resume=resume),
        recorder,
    )
    show_run(finished, paths, recorder, as_json)
