"""The order of a run: register, capture, measure in fresh processes, compare, attribute, seal.

The one file that knows it. Every room does its part on plain values; this file carries them from one to the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter

from lynxbench import __version__
from lynxbench.errors import BadInput, CannotRun, Interrupted
from lynxbench.evidence.documents import RESULT_FILE, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import RunFolder, Slot, find_unfinished
from lynxbench.evidence.sample_file import write_samples
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.load.fresh_process import last_words, run_fresh
from lynxbench.load.journal import count_journal, read_journal
from lynxbench.measure.context import assumptions_of, conditions_of
from lynxbench.measure.telemetry import TelemetrySampler, read_telemetry
from lynxbench.measure.validity import combine_validity, judge_drift, without_figures
from lynxbench.model.attribution import Ceiling
from lynxbench.model.contract import Contract, TorchEngine
from lynxbench.model.executor import Tier, difference
from lynxbench.model.interventions import InterventionScope
from lynxbench.model.job import Job, JobReport, JobStatus
from lynxbench.model.precision import Precision, reference_of
from lynxbench.model.result import RULES, PrecisionResult, Result, ValidityVerdict
from lynxbench.model.samples import CountedProcess
from lynxbench.model.serving import ServedEngine
from lynxbench.model.surroundings import Surroundings
from lynxbench.model.workload import ClosedArrival
from lynxbench.run.concluding import Attempt, conclude_precision, read_attempt, reference_outputs, with_processes
from lynxbench.run.greeting import Greeting
from lynxbench.run.intervening import intervene
from lynxbench.run.known_ceilings import ceilings_for, read_ceilings, remember_ceilings
from lynxbench.run.run_outcome import SAMPLES_FILE, TELEMETRY_FILE, Finished, Progress, Recorder, kept
from lynxbench.run.served_run import resume_served, run_served
from lynxbench.run.worker import JOB_FILE, REPORT_FILE, STAGE_FILE


def run_contract(
    contract: Contract,
    out: Path,
    declaration: Declaration | None,
    progress: Progress,
    intervening: InterventionScope | None = None,
    recorder: Recorder | None = None,
    greeting: Greeting | None = None,
    around: Surroundings | None = None,
) -> Finished:
    """Run a contract from the beginning; `intervening` also tests the verdict by changing what it blames.

    `greeting` is what its server, where it has one, has answered already; `around` is given to in-process ones.
    """
    if isinstance(contract.engine, ServedEngine):
        return run_served(contract, out, declaration, progress, recorder, greeting)
    _refuse_open_loop(contract)
    executor = capture_host(declaration)
    now = datetime.now(UTC)
    run = RunFolder.create(out, contract, executor, _threads(contract), plan_of(contract), now, around)
    with kept(run, recorder):
        return _carry_out(run, declaration, progress, intervening)


def resume_contract(
    contract: Contract,
    out: Path,
    declaration: Declaration | None,
    progress: Progress,
    intervening: InterventionScope | None = None,
    recorder: Recorder | None = None,
) -> Finished:
    """Go on with the newest unfinished run of a contract."""
    run = find_unfinished(out, contract.contract_id)
    if run is None:
        raise BadInput(f"{out}: no unfinished run of {contract.name}; start one without --resume")
    if isinstance(contract.engine, ServedEngine):
        return resume_served(run, declaration, progress, recorder)
    with kept(run, recorder):
        return _carry_out(run, declaration, progress, intervening)


# --- in pieces: an experiment takes its cells' processes in turn ---------------------------------------------------


def begin_contract(
    contract: Contract,
    out: Path,
    declaration: Declaration | None,
    recorder: Recorder | None = None,
    around: Surroundings | None = None,
) -> RunFolder:
    """Register a run without taking a sample of it yet; `take_restart` and `end_contract` go on with it."""
    _refuse_open_loop(contract)
    executor = capture_host(declaration)
    now = datetime.now(UTC)
    run = RunFolder.create(out, contract, executor, _threads(contract), plan_of(contract), now, around)
    if recorder is not None:
        recorder.register(run)
    return run


def take_restart(
    run: RunFolder, restart: int, progress: Progress, beside: Callable[[], tuple[int, ...]] = tuple
) -> tuple[Attempt, ...]:
    """The processes of one repetition, each in its own time; one that came to an end earlier is not repeated.

    `beside` names processes that are known to run at the same time, on CPUs or devices of their own.
    """
    taken: list[Attempt] = []
    with TelemetrySampler(run.path / TELEMETRY_FILE) as sampler:
        for slot in run.registration.plan:
            if slot.restart == restart:
                attempt = _earlier_attempt(run, slot) or _measure_slot(run, slot, taken, sampler, progress, beside)
                taken.append(attempt)
    return tuple(taken)


def end_contract(
    run: RunFolder, declaration: Declaration | None, progress: Progress, recorder: Recorder | None = None
) -> Finished:
    """Conclude a run from the repetitions that were taken, and measure those that were not."""
    with kept(run, recorder):
        return _carry_out(run, declaration, progress, None)


def plan_of(contract: Contract) -> tuple[Slot, ...]:
    """Restarts × precisions, interleaved: the reference first of all, then the order turns with every restart."""
    reference = reference_of(contract.workload.precisions)
    first = sorted(contract.workload.precisions, key=lambda precision: precision is not reference)
    slots: list[Slot] = []
    for restart in range(contract.protocol.restarts):
        order = first if restart % 2 == 0 else first[::-1]
        slots += [Slot(index=len(slots) + i, restart=restart, precision=p) for i, p in enumerate(order)]
    return tuple(slots)


def _carry_out(
    run: RunFolder, declaration: Declaration | None, progress: Progress, intervening: InterventionScope | None
) -> Finished:
    started = perf_counter()
    progress.begin(run)
    with TelemetrySampler(run.path / TELEMETRY_FILE) as sampler:
        try:
            attempts = _measure(run, sampler, progress)
        except KeyboardInterrupt:
            kept = sum(count_journal(folder) for slot in run.registration.plan for folder in run.attempts(slot))
            raise Interrupted(
                f"interrupted; {kept} samples kept in {run.path}. Go on with the same command and --resume"
            ) from None
    progress.note("comparing and attributing")
    test = partial(intervene, run, progress=progress, scope=intervening) if intervening else None
    return _conclude(run, attempts, declaration, started, test)


# --- measuring ------------------------------------------------------------------------------------------------------


def _measure(run: RunFolder, sampler: TelemetrySampler, progress: Progress) -> list[Attempt]:
    attempts: list[Attempt] = []
    hopeless: set[Precision] = set()
    for slot in run.registration.plan:
        if slot.precision in hopeless:
            continue
        attempt = _earlier_attempt(run, slot) or _measure_slot(run, slot, attempts, sampler, progress)
        attempts.append(attempt)
        if attempt.report.status is not JobStatus.DONE and slot.restart == 0:
            hopeless.add(slot.precision)
    if not any(attempt.report.status is JobStatus.DONE for attempt in attempts):
        reasons = [a.report.error or (a.report.skip.reason if a.report.skip else "") for a in attempts]
        raise CannotRun(f"{run.registration.contract.name}: nothing could be measured here: {reasons[0]}")
    return attempts


def _earlier_attempt(run: RunFolder, slot: Slot) -> Attempt | None:
    return next((found for folder in run.attempts(slot) if (found := read_attempt(slot, folder)) is not None), None)


def _measure_slot(
    run: RunFolder,
    slot: Slot,
    earlier: Sequence[Attempt],
    sampler: TelemetrySampler,
    progress: Progress,
    beside: Callable[[], tuple[int, ...]] = tuple,
) -> Attempt:
    folder = run.new_attempt(slot)
    first = slot.restart == 0
    around = run.registration.surroundings
    job = Job(
        index=slot.index,
        restart=slot.restart,
        contract=run.registration.contract,
        precision=slot.precision,
        threads=run.registration.threads,
        take_outputs=first,
        take_profile=first,
        take_ceilings=first,
        known_ceilings=_known_ceilings(run, slot.precision) if first else (),
        reference_step_s=_reference_step_s(earlier),
        own_packages=around is not None and around.interpreter is not None,
    )
    (folder / JOB_FILE).write_text(job.model_dump_json(by_alias=True))
    started = perf_counter()

    def watch(pid: int) -> None:
        sampler.watch(pid, beside())
        stage_file = folder / STAGE_FILE
        stage = stage_file.read_text() if stage_file.exists() else "start"
        progress.watch(slot, stage, count_journal(folder), perf_counter() - started)

    code = run_fresh("lynxbench.run.worker", folder, job.threads, watch, around)
    file = folder / REPORT_FILE
    if file.exists():
        report = JobReport.model_validate_json(file.read_bytes())
    else:
        died = f"the process ended with code {code} and left no report: {last_words(folder)}"
        report = JobReport(status=JobStatus.FAILED, error=died)
    progress.end_slot(slot, report, perf_counter() - started)
    return Attempt(slot, folder, report)


def _known_ceilings(run: RunFolder, precision: Precision) -> tuple[Ceiling, ...]:
    if not isinstance(run.registration.contract.engine, TorchEngine):
        return ()
    return ceilings_for(read_ceilings(run.registration.executor.executor_id), precision)


def _reference_step_s(attempts: Sequence[Attempt]) -> float | None:
    for attempt in attempts:
        if attempt.report.status is JobStatus.DONE:
            seconds = read_journal(attempt.folder)[0].seconds
            return float(sorted(seconds)[len(seconds) // 2]) if len(seconds) else None
    return None


# --- concluding -----------------------------------------------------------------------------------------------------


def _conclude(
    run: RunFolder,
    attempts: Sequence[Attempt],
    declaration: Declaration | None,
    started: float,
    test: Callable[[PrecisionResult], PrecisionResult] | None,
) -> Finished:
    registration, contract = run.registration, run.registration.contract
    telemetry = read_telemetry(run.path / TELEMETRY_FILE)
    executor = with_processes(registration.executor, attempts)
    drift = difference(registration.executor, capture_host(declaration), (Tier.CONFIGURATION,))
    remember_ceilings(registration.executor.executor_id, [attempt.report for attempt in attempts])
    reference = reference_outputs(attempts)
    results: list[PrecisionResult] = []
    processes: list[CountedProcess] = []
    for precision in contract.workload.precisions:
        mine = [attempt for attempt in attempts if attempt.slot.precision is precision]
        one, counted = conclude_precision(contract, precision, mine, telemetry, reference)
        results.append(test(one) if test is not None else one)
        processes += counted
    processes.sort(key=lambda process: process.samples.process)
    attempted = [one for one in results if one.skipped is None or one.validity.verdict is ValidityVerdict.VOID]
    validity = combine_validity(judge_drift(drift), {one.precision.value: one.validity for one in attempted})
    if validity.verdict is ValidityVerdict.VOID:
        results = [without_figures(one) for one in results]
    result = Result(
        lynxbench_version=__version__,
        run_id=registration.run_id,
        started_at=registration.registered_at,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        measuring_s=round(perf_counter() - started, 3),
        contract_id=contract.contract_id,
        executor_id=executor.executor_id,
        instance_id=executor.instance_id,
        contract=contract,
        executor=executor,
        executor_drift=drift,
        conditions=conditions_of(contract, registration.threads),
        per_precision=tuple(results),
        attribution=next((one.attribution for one in results if one.attribution is not None), None),
        validity=validity,
        ceilings=tuple(ceiling for attempt in attempts for ceiling in attempt.report.ceilings),
        assumptions=assumptions_of(contract),
        samples=write_samples(run.path / SAMPLES_FILE, tuple(processes)),
        rules=RULES,
    ).sealed()
    write_result(run.path / RESULT_FILE, result)
    write_manifest(run.path)
    return Finished(result, run.path, tuple(processes), telemetry)


def _threads(contract: Contract) -> int:
    """The contract's threads, or one for each CPU this process may use."""
    engine = contract.engine
    asked = None if isinstance(engine, ServedEngine) else engine.threads
    return asked or len(os.sched_getaffinity(0))


def _refuse_open_loop(contract: Contract) -> None:
    arrival = contract.workload.arrival
    if not isinstance(arrival, ClosedArrival) or arrival.concurrency != 1:
        raise CannotRun(
            f"{contract.name}: engine {contract.engine.name} runs in-process, one iteration after the other; "
            "use arrival closed with concurrency 1"
        )
