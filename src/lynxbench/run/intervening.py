"""Proof by intervention: the contract again with one thing changed, in fresh processes, after the measurement."""

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
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.precision_figures import measure_precision
from lynxbench.model.attribution import Intervention
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import Change, InterventionScope
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult
from lynxbench.run.attempts import Attempt, FreshProcess, kept_attempts, read_attempt, run_attempt
from lynxbench.run.fresh_job import REPORT_FILE
from lynxbench.run.process_results import samples_of
from lynxbench.run.run_outcome import Progress
from lynxbench.run.worker import OUTPUTS_FILE, read_outputs

WORKER = "lynxbench.run.worker"
FOLDER = "interventions"
PROCESSES = 2
"""Fresh processes a change is measured in: the fewest that give an interval."""
CONTROL = "unchanged"


def intervene(run: RunFolder, result: PrecisionResult, progress: Progress, scope: InterventionScope) -> PrecisionResult:
    """Test the attribution of one precision by changes its engine can make; measured gains beside predictions."""
    attribution = result.attribution
    if attribution is None or not result.run_means:
        return result
    contract = run.registration.contract
    device = _device(run, result.precision)
    proposals = propose_interventions(contract, attribution, precision=result.precision, device=device, scope=scope)
    if not proposals:
        return result.model_copy(update={"attribution": without_interventions(attribution, contract.engine.name)})
    baseline = list(result.run_means)
    if any(proposal.inapplicable is None for proposal in proposals):
        # One more process as agreed, now: what changed on the machine since the measurement is no gain.
        progress.note("intervention: a control run")
        control = _speed(run, f"{result.precision}-{CONTROL}", _job(run, contract, result.precision), progress)
        baseline += [control] if isinstance(control, float) else []
    tested = []
    for proposal in proposals:
        progress.note(f"intervention: {proposal.name}")
        tested.append((proposal, _test(run, proposal, result, baseline, progress)))
    return result.model_copy(update={"attribution": with_interventions(attribution, tested, baseline)})


def _test(
    run: RunFolder, proposal: InterventionProposal, result: PrecisionResult, baseline: list[float], progress: Progress
) -> Intervention:
    confidence = run.registration.contract.protocol.confidence
    if proposal.inapplicable is not None:
        return judge_intervention(proposal, baseline, [], confidence)
    speeds: list[float] = []
    for number in range(PROCESSES):
        job = _job(run, proposal.contract, proposal.precision, proposal.inside_engine, answers=number == 0)
        speed = _speed(run, _name(result, proposal, number), job, progress)
        if isinstance(speed, str):
            if not speeds:
                return not_measured(proposal, speed)
            break
        speeds.append(speed)
    judged = judge_intervention(proposal, baseline, speeds, confidence)
    if proposal.change is Change.STEP_PRECISION:
        return renoted(judged, _accuracy(run, result, proposal))
    return judged


def _name(result: PrecisionResult, proposal: InterventionProposal, number: int) -> str:
    return f"{result.precision}-{proposal.change.value.replace(' ', '-')}-{number}"


def _job(
    run: RunFolder, contract: Contract, precision: Precision, change: Change | None = None, *, answers: bool = False
) -> Job:
    minutes = contract.protocol.model_copy(update={"duration_s": None})  # a change shows in them, whatever was asked
    return Job(
        index=0,
        restart=0,
        contract=contract.model_copy(update={"protocol": minutes}),
        precision=precision,
        threads=run.registration.threads,
        take_outputs=answers and precision not in run.registration.contract.workload.precisions,
        change=change,
    )


def _speed(run: RunFolder, name: str, job: Job, progress: Progress) -> float | str:
    """Work per second of one fresh process, or why there is none; a finished one of an interrupted run is taken."""
    folder = run.path / FOLDER / name
    slot = Slot(index=len(run.registration.plan), restart=0, precision=job.precision)
    if (folder / REPORT_FILE).exists():
        attempt = read_attempt(slot, folder)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        process = FreshProcess(WORKER, job, job.threads, run.registration.surroundings)
        attempt = run_attempt(folder, slot, process, progress, label=f"{name}: ")
    if attempt.report.skip is not None:
        return f"does not apply: {attempt.report.skip.reason}"
    if not attempt.done:
        return attempt.why or "it did not finish"
    measured = measure_precision(job.contract, [samples_of(attempt)], attempt.report.unit)
    return next((mean for mean in measured.run_means if mean > 0), "no step of it was counted")


def _device(run: RunFolder, precision: Precision) -> str:
    """The device that the measured processes said they ran on."""
    return next((str(a.report.facts.get("runtime.device", "cpu")) for a in _measured(run, precision)), "cpu")


def _accuracy(run: RunFolder, result: PrecisionResult, proposal: InterventionProposal) -> str:
    """What the narrower format costs: no speed figure goes without it."""
    changed = run.path / FOLDER / _name(result, proposal, 0) / OUTPUTS_FILE
    answers = [attempt.folder / OUTPUTS_FILE for attempt in _measured(run, result.precision)]
    reference = next((file for file in answers if file.exists()), None)
    if reference is None or not changed.exists():
        return f"accuracy unknown: see the result of {proposal.precision} where the contract lists it"
    accuracy = compare_outputs(
        read_outputs(reference),
        read_outputs(changed),
        run.registration.contract.policy.accuracy,
        reference_precision=result.precision,
        is_reference=False,
    )
    figures = ", ".join(f"{name} {value:.2g}" for name, value in accuracy.metrics.items() if value is not None)
    return f"accuracy against {result.precision}: {figures or accuracy.verdict}"


def _measured(run: RunFolder, precision: Precision) -> list[Attempt]:
    return [attempt for attempt in kept_attempts(run) if attempt.slot.precision is precision]
