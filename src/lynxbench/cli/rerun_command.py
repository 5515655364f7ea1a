"""`lynxbench rerun`: the same contract, executed here, against what the ledger holds; shown first, and asked for."""

import os
import sys
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, tell
from lynxbench.cli.options import AS_JSON, DECLARE, LEDGER, OUT
from lynxbench.cli.output import recorder_for, tell_record
from lynxbench.cli.running import carry_out
from lynxbench.errors import ExitCode, Refused
from lynxbench.evidence.keyring import Keyring
from lynxbench.executor.declaration import read_declaration
from lynxbench.model.canonical import short
from lynxbench.model.entries import RerunVerdict
from lynxbench.record.bundled_results import is_bundle, recalled_bundle
from lynxbench.record.known_sittings import known_sittings
from lynxbench.record.recalling import recalled
from lynxbench.record.recording import record_rerun
from lynxbench.record.rerun_plan import RerunPlan, plan_rerun, render_plan
from lynxbench.record.rerunning import judge_rerun, render_rerun, rerun_document
from lynxbench.record.verifying import verify_folder
from lynxbench.run.pipeline import run_contract


def rerun(
    result: str = typer.Argument(help="A result: path, bundle, id or its unique beginning."),
    out: Path = OUT,
    declare: Path | None = DECLARE,
    show: bool = typer.Option(False, "--show", help="Show what would be executed, and execute nothing."),
    yes: bool = typer.Option(False, "--yes", help="Execute it without asking."),
    python: Path | None = typer.Option(
        None, "--python", help="Python to measure in, where the original was measured in one of its own."
    ),
    send_key: str | None = typer.Option(
        None, "--send-key", help="The variable whose value the contract's server may be sent, where it asks for one."
    ),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Execute a result's contract here and say whether it is reproduced. Exit code 1: it is not; 6: undetermined."""
    declaration = read_declaration(declare) if declare else None
    path = Path(result)
    bundled = is_bundle(path)
    with recalled_bundle(path, Keyring().trust) if bundled else recalled(result, ledger, os.environ) as named:
        report = verify_folder(path if path.exists() and not bundled else named.folder)
        plan = plan_rerun(named.result, named.folder, report, os.environ, python, send_key)
    if show:
        answer(as_json, plan.document, lambda: render_plan(plan))
        return
    _agree(plan, yes)
    original, contract, recorder = plan.result, plan.contract, recorder_for(ledger)
    finished, _ = carry_out(
        contract,
        lambda progress: run_contract(contract, out, declaration, progress, None, recorder, around=plan.around),
        recorder,
    )
    tell_record(recorder, finished.folder)
    between = known_sittings(original, finished.result, ledger, os.environ)
    judged = judge_rerun(original, finished.result, plan.left_out, recomputed=report.recomputed, between=between)
    seq = record_rerun(recorder, original.result_id, finished.result.result_id, judged)
    answer(
        as_json,
        lambda: rerun_document(original, finished.result, judged, seq),
        lambda: render_rerun(original, finished.result, judged),
    )
    if judged.verdict is not RerunVerdict.REPRODUCED:
        raise typer.Exit(ExitCode.VERDICT_NO if judged.verdict is RerunVerdict.NOT_REPRODUCED else ExitCode.UNPROVEN)


def _agree(plan: RerunPlan, yes: bool) -> None:
    """Show what is about to be executed, and go on only where somebody says so."""
    name = short(plan.result.result_id)
    if not yes and not sys.stdin.isatty():
        raise Refused(
            f"{name}: a rerun executes its contract, and nobody can be asked; read it with --show, then say --yes"
        )
    for line in render_plan(plan).splitlines():
        tell(line)
    if not yes and not typer.confirm("Execute this?", err=True):
        raise Refused(f"{name}: not executed")
