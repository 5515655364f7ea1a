"""Proof by intervention: the contract again with one thing changed, in fresh processes, after the measurement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from lynxbench.attribute.judge.intervention_tests import (
    InterventionProposal,
    judge_intervention,
    not_measured,
    propose_interventions,
    renoted,
    with_interventions,
    without_interventions,
)
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.load.fresh_process import run_fresh
from lynxbench.load.journal import count_journal, read_journal
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.precision_figures import measure_precision
from lynxbench.model.attribution import Intervention
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import Change, InterventionScope
from lynxbench.model.job import Job, JobReport, JobStatus
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult
from lynxbench.model.samples import ProcessSamples
from lynxbench.run.run_outcome import Progress
from lynxbench.run.worker import JOB_FILE, OUTPUTS_FILE, REPORT_FILE, STAGE_FILE, read_outputs

FOLDER = "interventions"
PROCESSES = 2
"""Fresh processes a change is measured in: the fewest that give an interval."""
CONTROL = "unchanged"


@dataclass(frozen=True, slots=True)
class _Ran:
    """What one process of an intervention left behind: its work per second, or why there is none."""

    per_s: float | None
    why: str = ""


def intervene(run: RunFolder, result: PrecisionResult, progress: Progress, scope: InterventionScope) -> PrecisionResult:
    """Test the attribution of one precision by changes its engine can make; measured gains beside predictions."""
    found = result.attribution
    if found is None or not result.run_means:
        return result
    contract = run.registration.contract
    device = _device(run, result.precision)
    proposals = propose_interventions(contract, found, precision=result.precision, device=device, scope=scope)
    if not proposals:
        return result.model_copy(update={"attribution": without_interventions(found, contract.engine.name)})
    baseline = list(result.run_means)
    if any(proposal.inapplicable is None for proposal in proposals):
        # One more process as agreed, now: what changed on the machine since the measurement is no gain.
        progress.note("intervention: a control run")
        again = _run(run, f"{result.precision}-{CONTROL}", _job(run, contract, result.precision), progress)
        baseline += [again.per_s] if again.per_s is not None else []
    done = []
    for proposal in proposals:
        progress.note(f"intervention: {proposal.name}")
        done.append((proposal, _test(run, proposal, result, baseline, progress)))
    return result.model_copy(update={"attribution": with_interventions(found, done, baseline)})


def _test(
    run: RunFolder, proposal: InterventionProposal, result: PrecisionResult, baseline: list[float], progress: Progress
) -> Intervention:
    confidence = run.registration.contract.protocol.confidence
    if proposal.inapplicable is not None:
        return judge_intervention(proposal, baseline, [], confidence)
    gained: list[float] = []
    for number in range(PROCESSES):
        name = f"{result.precision}-{proposal.change.value.replace(' ', '-')}-{number}"
        job = _job(run, proposal.contract, proposal.precision, proposal.inside_engine, answers=number == 0)
        ran = _run(run, name, job, progress)
        if ran.per_s is None:
            if not gained:
                return not_measured(proposal, ran.why)
            break
        gained.append(ran.per_s)
    judged = judge_intervention(proposal, baseline, gained, confidence)
    if proposal.change is Change.STEP_PRECISION:
        return renoted(judged, _accuracy(run, result, proposal))
    return judged


def _job(
    run: RunFolder, contract: Contract, precision: Precision, change: Change | None = None, *, answers: bool = False
) -> Job:
    asked = answers and precision not in run.registration.contract.workload.precisions
    threads = run.registration.threads
    return Job(
        index=0,
        restart=0,
        contract=contract,
        precision=precision,
        threads=threads,
        take_outputs=asked,
        change=change,
    )


def _run(run: RunFolder, name: str, job: Job, progress: Progress) -> _Ran:
    """One fresh process; a finished one of an interrupted run is taken as it is."""
    folder = run.path / FOLDER / name
    file = folder / REPORT_FILE
    if not file.exists():
        _start(run, name, folder, job, progress)
    if not file.exists():
        return _Ran(None, "the process left no report")
    report = JobReport.model_validate_json(file.read_bytes())
    if report.skip is not None:
        return _Ran(None, f"does not apply: {report.skip.reason}")
    if report.status is not JobStatus.DONE or report.setup_ns is None:
        return _Ran(None, report.error or "it did not finish")
    iterations, marks = read_journal(folder)
    samples = ProcessSamples(0, job.precision.value, report.setup_ns, report.compile_ns, iterations, marks)
    means = [mean for mean in measure_precision(job.contract, [samples], report.unit).run_means if mean > 0]
    return _Ran(means[0]) if means else _Ran(None, "no step of it was counted")


def _start(run: RunFolder, name: str, folder: Path, job: Job, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOB_FILE).write_text(job.model_dump_json(by_alias=True))
    slot = Slot(index=len(run.registration.plan), restart=0, precision=job.precision)
    started = perf_counter()

    def watch(pid: int) -> None:
        stage = (folder / STAGE_FILE).read_text() if (folder / STAGE_FILE).exists() else "start"
        progress.watch(slot, f"{name}: {stage}", count_journal(folder), perf_counter() - started)

    run_fresh("lynxbench.run.worker", folder, job.threads, watch)


def _device(run: RunFolder, precision: Precision) -> str:
    """The device that the measured processes said they ran on."""
    for folder in _attempts(run, precision):
        if (folder / REPORT_FILE).exists():
            facts = JobReport.model_validate_json((folder / REPORT_FILE).read_bytes()).facts
            return str(facts.get("runtime.device", "cpu"))
    return "cpu"


def _accuracy(run: RunFolder, result: PrecisionResult, proposal: InterventionProposal) -> str:
    """What the narrower format costs: no speed figure goes without it."""
    changed = run.path / FOLDER / f"{result.precision}-{proposal.change.value.replace(' ', '-')}-0" / OUTPUTS_FILE
    kept = [folder / OUTPUTS_FILE for folder in _attempts(run, result.precision) if (folder / OUTPUTS_FILE).exists()]
    if not kept or not changed.exists():
        return f"accuracy unknown: see the result of {proposal.precision} where the contract lists it"
    policy = run.registration.contract.policy.accuracy
    found = compare_outputs(
        read_outputs(kept[0]),
        read_outputs(changed),
        policy,
        reference_precision=result.precision,
        is_reference=False,
    )
    figures = ", ".join(f"{name} {value:.2g}" for name, value in found.metrics.items() if value is not None)
    return f"accuracy against {result.precision}: {figures or found.verdict}"


def _attempts(run: RunFolder, precision: Precision) -> list[Path]:
    return [folder for slot in run.registration.plan if slot.precision is precision for folder in run.attempts(slot)]
