"""`lynxbench rerun`: the same contract, executed here, against what the ledger holds."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import ExitCode


def rerun(
    result: str = typer.Argument(help="A result: id, its unique beginning, or a path."),
    out: Path = typer.Option(Path("results"), help="Folder that receives one folder a run."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Execute a result's contract here and say whether it is reproduced. Exit code 1 when it is not."""
    import json
    import os

    from lynxbench.cli.output import recorder_for, tell_record, write_reports
    from lynxbench.cli.progress import TerminalProgress
    from lynxbench.evidence.run_folder import surroundings_of
    from lynxbench.executor.declaration import read_declaration
    from lynxbench.model.entries import RerunVerdict
    from lynxbench.record.recalling import recalled
    from lynxbench.record.recording import record_rerun
    from lynxbench.record.rerunning import judge_rerun, render_rerun, rerun_document
    from lynxbench.run.pipeline import run_contract

    declaration = read_declaration(declare) if declare else None
    with recalled(result, ledger, os.environ) as found:
        original = found.result
        around = surroundings_of(found.folder)
    recorder = recorder_for(ledger)
    with TerminalProgress(original.contract) as progress:
        finished = run_contract(original.contract, out, declaration, progress, None, recorder, around=around)
        progress.note("writing the report")
        write_reports(finished)
    tell_record(recorder, finished.folder)
    judged = judge_rerun(original, finished.result)
    seq = record_rerun(recorder, original.result_id, finished.result.result_id, judged)
    if as_json:
        print(json.dumps(rerun_document(original, finished.result, judged, seq), indent=1, ensure_ascii=False))
    else:
        print(render_rerun(original, finished.result, judged), end="")
    if judged.verdict is RerunVerdict.NOT_REPRODUCED:
        raise typer.Exit(ExitCode.VERDICT_NO)
