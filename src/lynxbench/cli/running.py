"""What the commands that measure do around a run: show how far it is, report it, record it, print it."""

from collections.abc import Callable, Mapping

import typer

from lynxbench.cli.answers import tell
from lynxbench.cli.output import print_result, tell_record, write_reports
from lynxbench.cli.progress import TerminalProgress
from lynxbench.errors import ExitCode
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.result_standings import standings
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.model.standing import agreement_shown
from lynxbench.record.agreeing import agreement_now
from lynxbench.record.recording import LedgerRecorder
from lynxbench.run.run_outcome import Finished


def carry_out(
    contract: Contract, work: Callable[[TerminalProgress], Finished], recorder: LedgerRecorder | None = None
) -> tuple[Finished, dict[str, str]]:
    """Measure while a person sees how far it is, and write the reports; the run, and what is where."""
    _tell_agreement(contract, recorder)
    with TerminalProgress(contract) as progress:
        finished = work(progress)
        progress.note("writing the report")
        return finished, write_reports(finished, _agreement_words(finished.result, recorder))


def show_run(finished: Finished, paths: Mapping[str, str], recorder: LedgerRecorder | None, as_json: bool) -> None:
    """Print the result, and what is to be known of its record; exit code 1 when it is void."""
    tell_record(recorder, finished.folder)
    recorded = recorder is not None and recorder.recorded is not None
    print_result(finished.result, paths, as_json, recorded, _agreement_words(finished.result, recorder))
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


def _agreement_words(result: Result, recorder: LedgerRecorder | None) -> tuple[str, ...]:
    """Who signed the contract before the run, as the run's own ledger has it; nothing where it names nobody."""
    if not result.contract.teams:
        return ()
    known, name = None, result.result_id
    if recorder is not None and recorder.recorded is not None:
        known = recorder.take(lambda ledger, _: standings(ledger.log, [name], Keyring().trust)[name])
    agreement = agreement_shown(result.contract.teams, known)
    return () if agreement is None else (agreement.words,)
