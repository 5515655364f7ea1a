"""`lynxbench rerun`: the same contract, executed here, against what the ledger holds."""

import os
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON, DECLARE, LEDGER, OUT, RESULT
from lynxbench.cli.output import recorder_for, tell_record
from lynxbench.cli.running import carry_out
from lynxbench.errors import ExitCode
from lynxbench.evidence.run_folder import surroundings_of
from lynxbench.executor.declaration import read_declaration
from lynxbench.model.entries import RerunVerdict
from lynxbench.record.recalling import recalled
from lynxbench.record.recording import record_rerun
from lynxbench.record.rerunning import judge_rerun, render_rerun, rerun_document
from lynxbench.run.pipeline import run_contract


def rerun(
    result: str = RESULT,
    out: Path = OUT,
    declare: Path | None = DECLARE,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Execute a result's contract here and say whether it is reproduced. Exit code 1 when it is not."""
    declaration = read_declaration(declare) if declare else None
    with recalled(result, ledger, os.environ) as named:
        original, around = named.result, surroundings_of(named.folder)
    contract, recorder = original.contract, recorder_for(ledger)
    finished, _ = carry_out(
        contract,
        lambda progress: run_contract(contract, out, declaration, progress, None, recorder, around=around),
    )
    tell_record(recorder, finished.folder)
    judged = judge_rerun(original, finished.result)
    seq = record_rerun(recorder, original.result_id, finished.result.result_id, judged)
    answer(
        as_json,
        lambda: rerun_document(original, finished.result, judged, seq),
        lambda: render_rerun(original, finished.result, judged),
    )
    if judged.verdict is RerunVerdict.NOT_REPRODUCED:
        raise typer.Exit(ExitCode.VERDICT_NO)
