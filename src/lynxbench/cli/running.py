"""What the commands that measure do around a run: show how far it is, report it, record it, print it."""

from collections.abc import Callable, Mapping

import typer

from lynxbench.cli.answers import tell
from lynxbench.cli.output import near, print_result, tell_record
from lynxbench.cli.progress import TerminalProgress
from lynxbench.errors import ExitCode
from lynxbench.evidence.documents import RESULT_FILE
from lynxbench.evidence.keyring import Keyring
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract
from lynxbench.model.result import ValidityVerdict
from lynxbench.record.agreeing import agreement_now
from lynxbench.record.recording import LedgerRecorder
from lynxbench.record.run_reports import agreement_words, write_reports
from lynxbench.run.run_outcome import Finished


def carry_out(
    contract: Contract, work: Callable[[TerminalProgress], Finished], recorder: LedgerRecorder | None = None
) -> tuple[Finished, dict[str, str]]:
    """Measure while a person sees how far it is, and write the reports; the run, and what is where."""
    _tell_agreement(contract, recorder)
    with TerminalProgress(contract) as progress:
        finished = work(progress)
        progress.note("writing the report")
        page = write_reports(finished, agreement_words(finished.result, recorder))
    return finished, {"report": near(page), "result": near(finished.folder / RESULT_FILE)}


def show_run(finished: Finished, paths: Mapping[str, str], recorder: LedgerRecorder | None, as_json: bool) -> None:
    """Print the result, and what is to be known of its record; exit code 1 when it is void."""
    tell_record(recorder, finished.folder)
    recorded = recorder is not None and recorder.recorded is not None
    print_result(finished.result, paths, as_json, recorded, agreement_words(finished.result, recorder))
    if finished.result.validity.verdict is ValidityVerdict.VOID:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _tell_agreement(contract: Contract, recorder: LedgerRecorder | None) -> None:
    """Before the first sample, while it can still be mended: who has not signed a contract that names teams."""
    if not contract.teams or recorder is None:
        return
    report = recorder.take(lambda ledger, _: agreement_now(ledger, contract, Keyring().trust))
    if report is not None and not report.agreement.full:
        name = short(contract.contract_id)
        next_step = f"stop, have it signed (lynxbench contract sign {name}) and run then, or the result says so"
        tell(f"lynxbench: contract {name} is {report.words}: {next_step}")
