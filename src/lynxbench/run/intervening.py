"""Proof by intervention: the contract again with one thing changed, in fresh processes, after the measurement.

The run starts the processes; `verify` reads what they left, and both come to what they say by the same functions.
"""

from collections.abc import Callable, Sequence

from lynxbench.attribute.judge.intervention_tests import (
    InterventionProposal,
    judge_intervention,
    not_measured,
    propose_interventions,
    renoted,
    with_interventions,
    without_interventions,
)
from lynxbench.errors import BadResult
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.precision_figures import measure_precision
from lynxbench.model.attribution import Intervention
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import Change, InterventionScope
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, PrecisionResult
from lynxbench.model.samples import ProcessSamples
from lynxbench.run.attempts import Attempt, FreshProcess, kept_attempts, read_attempt, run_attempt
from lynxbench.run.fresh_job import JOB_FILE, REPORT_FILE
from lynxbench.run.process_results import samples_of
from lynxbench.run.run_outcome import Progress
from lynxbench.run.worker import OUTPUTS_FILE, read_outputs

WORKER = "lynxbench.run.worker"
FOLDER = "interventions"
PROCESSES = 2
"""Fresh processes a change is measured in: the fewest that give an interval."""
CONTROL = "unchanged"

_Speed = Callable[[str, Job], float | str]
"""Work per second of the process with this name and this job, or why there is none."""


def intervene(run: RunFolder, result: PrecisionResult, progress: Progress, scope: InterventionScope) -> PrecisionResult:
    """Test the attribution of one precision by changes its engine can make; measured gains beside predictions."""
    proposals = _proposals(run, result, scope)
    return _tested(run, result, proposals, lambda name, job: _speed(run, name, job, progress), progress.note)


def intervened_again(
    run: RunFolder, result: PrecisionResult, names: Sequence[str], rules: int = RULES
) -> PrecisionResult:
    """The same from what the processes of the interventions with these names left; BadResult where that is not here."""
    for scope in InterventionScope:
        proposals = _proposals(run, result, scope)
        if [proposal.name for proposal in proposals] == list(names):
            return _tested(run, result, proposals, lambda name, job: _kept_speed(run, name, job, rules), rules=rules)
    raise BadResult(f"{', '.join(names) or 'no intervention'}: not what tests this attribution on this engine")


def kept_interventions(run: RunFolder, precision: Precision) -> tuple[str, ...]:
    """The names of the processes of one precision's interventions that are kept."""
    changed = [_changed_name(precision, change, number) for change in Change for number in range(PROCESSES)]
    names = (f"{precision}-{CONTROL}", *changed)
    return tuple(name for name in names if (run.path / FOLDER / name).exists())


def intervention_samples(run: RunFolder) -> dict[str, ProcessSamples]:
    """The samples of every process of an intervention that finished, by its name."""
    samples = {}
    for name in sorted(path.name for path in (run.path / FOLDER).glob("*")):
        slot = Slot(index=len(run.registration.plan), restart=0, precision=run.registration.plan[0].precision)
        attempt = read_attempt(slot, run.path / FOLDER / name)
        if attempt.done:
            samples[name] = samples_of(attempt)
    return samples


def _proposals(run: RunFolder, result: PrecisionResult, scope: InterventionScope) -> tuple[InterventionProposal, ...]:
    if result.attribution is None or not result.run_means:
        return ()
    return propose_interventions(
        run.registration.contract,
        result.attribution,
        precision=result.precision,
        device=_device(run, result.precision),
        scope=scope,
    )


def _tested(
    run: RunFolder,
    result: PrecisionResult,
    proposals: Sequence[InterventionProposal],
    speed: _Speed,
    note: Callable[[str], object] = str,
    rules: int = RULES,
) -> PrecisionResult:
    """What the proposed changes make of an attribution, by the speed of their processes."""
    attribution, contract = result.attribution, run.registration.contract
    if attribution is None or not result.run_means:
        return result
    if not proposals:
        return result.model_copy(update={"attribution": without_interventions(attribution, contract.engine.name)})
    baseline = list(result.run_means)
    if any(proposal.inapplicable is None for proposal in proposals):
        # One more process as agreed, now: what changed on the machine since the measurement is no gain.
        note("intervention: a control run")
        control = speed(f"{result.precision}-{CONTROL}", _job(run, contract, result.precision))
        baseline += [control] if isinstance(control, float) else []
    tested = []
    for proposal in proposals:
        note(f"intervention: {proposal.name}")
        tested.append((proposal, _test(run, proposal, result, baseline, speed, rules)))
    return result.model_copy(update={"attribution": with_interventions(attribution, tested, baseline)})


def _test(
    run: RunFolder,
    proposal: InterventionProposal,
    result: PrecisionResult,
    baseline: list[float],
    speed: _Speed,
    rules: int,
) -> Intervention:
    confidence = run.registration.contract.protocol.confidence
    if proposal.inapplicable is not None:
        return judge_intervention(proposal, baseline, [], confidence)
    speeds: list[float] = []
    for number in range(PROCESSES):
        job = _job(run, proposal.contract, proposal.precision, proposal.inside_engine, answers=number == 0)
        ran = speed(_name(result, proposal, number), job)
        if isinstance(ran, str):
            if not speeds:
                return not_measured(proposal, ran)
            break
        speeds.append(ran)
    judged = judge_intervention(proposal, baseline, speeds, confidence)
    if proposal.change is Change.STEP_PRECISION:
        return renoted(judged, _accuracy(run, result, proposal, rules))
    return judged


def _name(result: PrecisionResult, proposal: InterventionProposal, number: int) -> str:
    return _changed_name(result.precision, proposal.change, number)


def _changed_name(precision: Precision, change: Change, number: int) -> str:
    return f"{precision}-{change.value.replace(' ', '-')}-{number}"


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
    slot = _slot(run, job)
    if (folder / REPORT_FILE).exists():
        attempt = read_attempt(slot, folder)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        process = FreshProcess(WORKER, job, job.threads, run.registration.surroundings)
        attempt = run_attempt(folder, slot, process, progress, label=f"{name}: ")
    return _counted_speed(attempt, job)


def _kept_speed(run: RunFolder, name: str, job: Job, rules: int) -> float | str:
    """The same of a process that ended long ago, which was told what this job says and nothing else."""
    folder, where = run.path / FOLDER / name, f"{FOLDER}/{name}"
    if not folder.is_dir():
        raise BadResult(f"{where} is not here: its process was not kept, so its gain cannot be computed again")
    if not (folder / JOB_FILE).is_file():
        raise BadResult(f"{where}: {JOB_FILE} is not here, so nobody can see what its process was told")
    told = read_document(folder / JOB_FILE, Job, "what its process was told")
    apart = [field for field in Job.model_fields if getattr(told, field) != getattr(job, field)]
    if apart:
        raise BadResult(f"{where}: its process was told another {apart[0].replace('_', ' ')} than the intervention has")
    return _counted_speed(read_attempt(_slot(run, job), folder), job, rules)


def _slot(run: RunFolder, job: Job) -> Slot:
    """A place after those of the plan, which has none for it."""
    return Slot(index=len(run.registration.plan), restart=0, precision=job.precision)


def _counted_speed(attempt: Attempt, job: Job, rules: int = RULES) -> float | str:
    """Work per second that a process counted, or why there is none."""
    if attempt.report.skip is not None:
        return f"does not apply: {attempt.report.skip.reason}"
    if not attempt.done:
        return attempt.why or "it did not finish"
    measured = measure_precision(job.contract, [samples_of(attempt)], attempt.report.unit, rules)
    return next((mean for mean in measured.run_means if mean > 0), "no step of it was counted")


def _device(run: RunFolder, precision: Precision) -> str:
    """The device that the measured processes said they ran on."""
    return next((str(a.report.facts.get("runtime.device", "cpu")) for a in _measured(run, precision)), "cpu")


def _accuracy(run: RunFolder, result: PrecisionResult, proposal: InterventionProposal, rules: int) -> str:
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
        rules=rules,
    )
    figures = ", ".join(f"{name} {value:.2g}" for name, value in accuracy.metrics.items() if value is not None)
    return f"accuracy against {result.precision}: {figures or accuracy.verdict}"


def _measured(run: RunFolder, precision: Precision) -> list[Attempt]:
    return [attempt for attempt in kept_attempts(run) if attempt.slot.precision is precision]
