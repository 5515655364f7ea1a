"""Proof by intervention: the contract again with one thing changed, in fresh processes, after the measurement."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from lynxbench.attribute.interventions import Proposal, judge_intervention, propose_interventions, with_interventions
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.load.fresh_process import run_fresh
from lynxbench.load.journal import count_journal, read_journal
from lynxbench.measure.precision import measure_precision
from lynxbench.model.attribution import Intervention
from lynxbench.model.job import Job, JobReport, JobStatus
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult
from lynxbench.model.samples import ProcessSamples
from lynxbench.running import Progress
from lynxbench.worker import JOB_FILE, REPORT_FILE, STAGE_FILE

FOLDER = "interventions"


def intervene(run: RunFolder, result: PrecisionResult, progress: Progress) -> PrecisionResult:
    """Test the attribution of one precision by every change its engine can make; measured gains beside predictions."""
    found = result.attribution
    if found is None or not result.run_means:
        return result
    done = []
    for proposal in propose_interventions(run.registration.contract, found):
        progress.note(f"intervention: {proposal.name}")
        done.append(_test(run, proposal, result, progress))
    return result.model_copy(update={"attribution": with_interventions(found, done)})


def _test(run: RunFolder, proposal: Proposal, result: PrecisionResult, progress: Progress) -> Intervention:
    folder = run.path / FOLDER / f"{result.precision.value}-{proposal.name.replace(' ', '-')}"
    if not (folder / REPORT_FILE).exists():
        _run_changed(run, proposal, result.precision, folder, progress)
    file = folder / REPORT_FILE
    report = JobReport.model_validate_json(file.read_bytes()) if file.exists() else None
    if report is None or report.status is not JobStatus.DONE or report.setup_ns is None:
        judged = judge_intervention(proposal, result.run_means, [])
        why = (report.error or "skipped") if report is not None else "the process left no report"
        return judged.model_copy(update={"note": f"not measured: {why}"})
    iterations, marks = read_journal(folder)
    samples = ProcessSamples(0, result.precision.value, report.setup_ns, report.compile_ns, iterations, marks)
    return judge_intervention(
        proposal, result.run_means, measure_precision(proposal.contract, [samples], report.unit).run_means
    )


def _run_changed(run: RunFolder, proposal: Proposal, precision: Precision, folder: Path, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(index=0, restart=0, contract=proposal.contract, precision=precision, threads=run.registration.threads)
    (folder / JOB_FILE).write_text(job.model_dump_json(by_alias=True))
    slot = Slot(index=len(run.registration.plan), restart=0, precision=precision)
    started = perf_counter()

    def watch(pid: int) -> None:
        stage = (folder / STAGE_FILE).read_text() if (folder / STAGE_FILE).exists() else "start"
        progress.watch(slot, f"{proposal.name}: {stage}", count_journal(folder), perf_counter() - started)

    run_fresh("lynxbench.worker", folder, job.threads, watch)
