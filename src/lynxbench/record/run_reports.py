"""The report of a run: beside its result when it ends, and again for whoever recalls it, with what is said of it."""

from pathlib import Path

from lynxbench.evidence.documents import check_samples
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.sample_file import read_samples
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger.result_standings import standings
from lynxbench.model.evidence_gate import Shortfalls, standing_falls_short
from lynxbench.model.result import Result
from lynxbench.model.standing import agreement_shown
from lynxbench.record.recalling import Recalled
from lynxbench.record.recording import LedgerRecorder
from lynxbench.report.doc import Report
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.render_html import render_html
from lynxbench.report.render_markdown import render_markdown
from lynxbench.run.concluding import telemetry_in
from lynxbench.run.run_outcome import Finished


def write_reports(finished: Finished, standing: tuple[str, ...] = ()) -> Path:
    """Write the HTML and Markdown reports beside the result; where the page is."""
    report = compose_result(finished.result, finished.processes, finished.telemetry, standing)
    page = finished.folder / "report.html"
    write_text(page, render_html(report))
    write_text(finished.folder / "report.md", render_markdown(report))
    return page


def agreement_words(result: Result, recorder: LedgerRecorder | None) -> tuple[str, ...]:
    """Who signed the contract before the run, as the run's own ledger has it; nothing where it names nobody."""
    if not result.contract.teams:
        return ()
    known, name = None, result.result_id
    if recorder is not None and recorder.recorded is not None:
        known = recorder.take(lambda ledger, _: standings(ledger.log, [name], Keyring().trust)[name])
    agreement = agreement_shown(result.contract.teams, known)
    return () if agreement is None else (agreement.words,)


def compose_recalled(recall: Recalled, *, plots: bool) -> Report:
    """The report of a recalled result; plots need its samples, which must be the ones it was made from."""
    result, folder = recall.result, recall.folder
    standing, also = standing_words(recall), also_lacking(recall)
    if not plots:
        return compose_result(result, standing=standing, also=also)
    samples = read_samples(check_samples(result, folder))
    return compose_result(result, samples, telemetry_in(folder), standing, also=also)


def standing_words(recall: Recalled) -> tuple[str, ...]:
    """What others say; where no ledger knows the result, that nobody can be shown to have agreed to its contract."""
    if recall.standing is not None:
        return recall.standing.words
    agreement = agreement_shown(recall.result.contract.teams, None)
    return () if agreement is None else (agreement.words,)


def also_lacking(recall: Recalled) -> Shortfalls:
    """What its standing lacks, where a ledger knows it."""
    return () if recall.standing is None else standing_falls_short(recall.result, recall.standing)
