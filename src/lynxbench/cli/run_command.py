"""`lynxbench run`: the main job."""

import os
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from lynxbench.cli.answers import answer, tell
from lynxbench.cli.options import DECLARE, OUT, RECORDING_LEDGER, RESUME
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput
from lynxbench.executor.declaration import read_declaration
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import InterventionScope, parse_intervention
from lynxbench.model.launching import ARGUMENTS
from lynxbench.model.quantities import format_duration
from lynxbench.run.greeting import greet

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class RunCommand(TyperCommand):
    """Lets `--intervene` stand alone: without a word it means the verdict's own tests."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare `--intervene` its word."""
        following = [*args, ""][1:]
        bare = [word == "--intervene" and not _is_choice(after) for word, after in zip(args, following, strict=True)]
        given = [f"{word}=verdict" if alone else word for word, alone in zip(args, bare, strict=True)]
        return super().parse_args(ctx, given)


def _is_choice(word: str) -> bool:
    return word in set(InterventionScope) or word.startswith(ARGUMENTS)


def _tell_fitted(fitted: Contract, whole: Contract) -> None:
    """That another contract is run than the one that was named, and in what it differs."""
    limit, full = (format_duration(one.protocol.limit_s) for one in (fitted, whole))
    names = f"contract {short(fitted.contract_id)} instead of {short(whole.contract_id)}"
    tell(f"lynxbench: fitted: at most {limit} a process instead of {full}; {names}, with whose results it has no ratio")


@app.command(cls=RunCommand)
def run(
    contract: str = typer.Argument("quickstart", help="A contract file, its name without .yaml, or a bundled one."),
    out: Path = OUT,
    resume: bool = RESUME,
    declare: Path | None = DECLARE,
    intervene: str | None = typer.Option(
        None,
        "--intervene",
        metavar="[verdict|all|KEY=VALUE]",
        help="Also test the verdict: run again with what it blames changed; `all` tries every change there is, and "
        "engine.serve.arguments.NAME=VALUE that one of a server which is started here.",
    ),
    plan: bool = typer.Option(False, "--plan", help="Say what would be done and how long it takes; do nothing."),
    within: str | None = typer.Option(
        None, "--within", help="Fit the measuring into this time, such as 10m: another contract, under another id."
    ),
    reference: str | None = typer.Option(
        None, "--reference", help="A result of another server whose kept answers these are held against: path or id."
    ),
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = typer.Option(False, "--json", help="Print the result document on standard output, nothing else."),
) -> None:
    """Capture, measure, attribute, record, report. Exit code 1 when the result is void."""
    choice = None if intervene is None else parse_intervention(intervene)
    agreed = read_contract(contract)
    if plan or within is not None:
        from lynxbench.cli.run_plan import fit_within, plan_run

        whole, agreed = agreed, agreed if within is None else fit_within(agreed, within)
        if agreed is not whole:
            _tell_fitted(agreed, whole)
        if plan:
            planned = plan_run(agreed)
            answer(as_json, planned.document, planned.text)
            return
    declaration = read_declaration(declare) if declare else None
    if reference is not None and resume:
        raise BadInput("--reference with --resume: a run keeps the reference that it was begun with; leave it out")
    greeting = None if resume else greet(agreed, lambda line: tell(f"lynxbench: {line}"))
    # A server is asked before the rest is loaded: its first request comes within a second of the command.
    from lynxbench.cli.output import recorder_for
    from lynxbench.cli.running import carry_out, show_run
    from lynxbench.run.pipeline import run_contract
    from lynxbench.run.served_accuracy import read_reference

    answers = None
    if reference is not None:
        from lynxbench.record.recalling import recalled

        with recalled(reference, ledger, os.environ) as known:
            answers = read_reference(known.result, known.folder, agreed)
    recorder = recorder_for(ledger)
    finished, paths = carry_out(
        agreed,
        lambda progress: run_contract(
            agreed, out, declaration, progress, choice, recorder, greeting, reference=answers, resume=resume
        ),
        recorder,
    )
    show_run(finished, paths, recorder, as_json)
