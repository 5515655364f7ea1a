"""What the commands that measure do around a run: show how far it is, report it, record it, print it."""

from collections.abc import Callable, Mapping

import typer

from lynxbench.cli.output import print_result, tell_record, write_reports
from lynxbench.cli.progress import TerminalProgress
from lynxbench.errors import ExitCode
from lynxbench.model.contract import Contract
from lynxbench.model.result import ValidityVerdict
from lynxbench.record.recording import LedgerRecorder
from lynxbench.run.run_outcome import Finished


def carry_out(contract: Contract, work: Callable[[TerminalProgress], Finished]) -> tuple[Finished, dict[str, str]]:
    """Measure while a person sees how far it is, and write the reports; the run, and what is where."""
    with TerminalProgress(contract) as progress:
        finished = work(progress)
        progress.note("writing the report")
        return finished, write_reports(finished)


def show_run(finished: Finished, paths: Mapping[str, str], recorder: LedgerRecorder | None, as_json: bool) -> None:
    """Print the result, and what is to be known of its record; exit code 1 when it is void."""
    tell_record(recorder, finished.folder)
    print_result(finished.result, paths, as_json, recorder is not None and recorder.recorded is not None)
    if finished.result.validity.verdict is ValidityVerdict.VOID:
        raise typer.Exit(ExitCode.VERDICT_NO)
