"""The order of a run: register, capture, measure in fresh processes, compare, attribute, seal.

The one file that knows it. Every room does its part on plain values; this file carries them from one to the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter

from lynxbench import __version__
from lynxbench.attribute.api import attribute_trace
from lynxbench.errors import BadInput, CannotRun, Interrupted
from lynxbench.evidence.documents import RESULT_FILE, write_result
from lynxbench.evidence.run_folder import RunFolder, Slot, find_unfinished
from lynxbench.evidence.samples import write_samples
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.intervening import intervene
from lynxbench.load.fresh_process import last_words, run_fresh
from lynxbench.load.journal import count_journal, read_journal
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.conditions import judge_conditions
from lynxbench.measure.context import assumptions_of, conditions_of
from lynxbench.measure.power import counted_span_ns, energy_per_unit, find_governor
from lynxbench.measure.precision import Measured, measure_precision
from lynxbench.measure.telemetry import TelemetrySampler, read_telemetry
from lynxbench.measure.validity import (
    Finding,
    combine_validity,
    judge_drift,
    judge_precision,
    validity_of,
    without_figures,
)
from lynxbench.model.attribution import Attribution
from lynxbench.model.contract import ClosedArrival, Contract, ServedEngine
from lynxbench.model.executor import Executor, Tier, difference
from lynxbench.model.job import Job, JobReport, JobStatus, Skip
from lynxbench.model.precision import Native, Precision, reference_of
from lynxbench.model.result import Accuracy, PrecisionResult, Result, ValidityVerdict
from lynxbench.model.samples import CountedProcess, Outputs, ProcessSamples, Telemetry
from lynxbench.running import SAMPLES_FILE, TELEMETRY_FILE, Finished, Progress
from lynxbench.serving import resume_served, run_served
from lynxbench.worker import JOB_FILE, OUTPUTS_FILE, REPORT_FILE, STAGE_FILE, read_outputs


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one process of the plan left behind."""

    slot: Slot
    folder: Path
    report: JobReport


def run_contract(
    contract: Contract, out: Path, declaration: Declaration | None, progress: Progress, intervening: bool = False
) -> Finished:
    """Run a contract from the beginning; `intervening` also tests the verdict by changing what it blames."""
    if isinstance(contract.engine, ServedEngine):
        return run_served(contract, out, declaration, progress)
    _refuse_open_loop(contract)
    executor = capture_host(declaration)
    now = datetime.now(UTC)
    run = RunFolder.create(out, contract, executor, _threads(contract), plan_of(contract), now)
    return _carry_out(run, declaration, progress, intervening)


def resume_contract(
    contract: Contract, out: Path, declaration: Declaration | None, progress: Progress, intervening: bool = False
) -> Finished:
    """Go on with the newest unfinished run of a contract."""
    run = find_unfinished(out, contract.contract_id)
    if run is None:
        raise BadInput(f"{out}: no unfinished run of {contract.name}; start one without --resume")
    if isinstance(contract.engine, ServedEngine):
        return resume_served(run, declaration, progress)
    return _carry_out(run, declaration, progress, intervening)


def plan_of(contract: Contract) -> tuple[Slot, ...]:
    """Restarts × precisions, interleaved: the reference first of all, then the order turns with every restart."""
    reference = reference_of(contract.workload.precisions)
    first = sorted(contract.workload.precisions, key=lambda precision: precision is not reference)
    slots: list[Slot] = []
    for restart in range(contract.protocol.restarts):
        order = first if restart % 2 == 0 else first[::-1]
        slots += [Slot(index=len(slots) + i, restart=restart, precision=p) for i, p in enumerate(order)]
    return tuple(slots)


def _carry_out(run: RunFolder, declaration: Declaration | None, progress: Progress, intervening: bool) -> Finished:
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
    test = partial(intervene, run, progress=progress) if intervening else None
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
    for folder in run.attempts(slot):
        file = folder / REPORT_FILE
        if file.exists():
            return Attempt(slot, folder, JobReport.model_validate_json(file.read_bytes()))
    return None


def _measure_slot(
    run: RunFolder, slot: Slot, earlier: Sequence[Attempt], sampler: TelemetrySampler, progress: Progress
) -> Attempt:
    folder = run.new_attempt(slot)
    first = slot.restart == 0
    job = Job(
        index=slot.index,
        restart=slot.restart,
        contract=run.registration.contract,
        precision=slot.precision,
        threads=run.registration.threads,
        take_outputs=first,
        take_profile=first,
        take_ceilings=first,
        reference_step_s=_reference_step_s(earlier),
    )
    (folder / JOB_FILE).write_text(job.model_dump_json(by_alias=True))
    started = perf_counter()

    def watch(pid: int) -> None:
        sampler.watch(pid)
        stage_file = folder / STAGE_FILE
        stage = stage_file.read_text() if stage_file.exists() else "start"
        progress.watch(slot, stage, count_journal(folder), perf_counter() - started)

    code = run_fresh("lynxbench.worker", folder, job.threads, watch)
    file = folder / REPORT_FILE
    if file.exists():
        report = JobReport.model_validate_json(file.read_bytes())
    else:
        died = f"the process ended with code {code} and left no report: {last_words(folder)}"
        report = JobReport(status=JobStatus.FAILED, error=died)
    progress.end_slot(slot, report, perf_counter() - started)
    return Attempt(slot, folder, report)


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
    executor = _with_processes(registration.executor, attempts)
    drift = difference(registration.executor, capture_host(declaration), (Tier.CONFIGURATION,))
    reference = _reference_outputs(attempts)
    results: list[PrecisionResult] = []
    processes: list[CountedProcess] = []
    for precision in contract.workload.precisions:
        mine = [attempt for attempt in attempts if attempt.slot.precision is precision]
        one, counted = _conclude_precision(contract, precision, mine, telemetry, reference)
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
    ).sealed()
    write_result(run.path / RESULT_FILE, result)
    return Finished(result, run.path, tuple(processes), telemetry)


def _conclude_precision(
    contract: Contract,
    precision: Precision,
    attempts: Sequence[Attempt],
    telemetry: Telemetry | None,
    reference: tuple[Precision, Outputs] | None,
) -> tuple[PrecisionResult, tuple[CountedProcess, ...]]:
    done = [attempt for attempt in attempts if attempt.report.status is JobStatus.DONE]
    failures = [attempt.report.error for attempt in attempts if attempt.report.error]
    skip = next((attempt.report.skip for attempt in attempts if attempt.report.skip), None)
    if not done:
        findings = [Finding(f"not measured: {skip.reason}")] if skip else [Finding(f, void=True) for f in failures]
        native = Native.EMULATED if skip and skip.estimated_s is not None else Native.UNSUPPORTED
        return PrecisionResult(
            precision=precision,
            skipped=skip or Skip(reason=f"failed: {failures[0]}" if failures else "not attempted"),
            native=native if skip else Native.UNKNOWN,
            validity=validity_of(findings),
        ), ()
    measured = measure_precision(contract, [_samples_of(attempt) for attempt in done], done[0].report.unit)
    spans = [counted_span_ns(process) for process in measured.processes]
    conditions = judge_conditions(telemetry, spans, contract.protocol) if telemetry is not None else []
    findings = [*judge_precision(measured, contract.protocol, failures), *(Finding(line) for line in conditions)]
    executed = done[0].report.executed
    attribution, missing = _attribution(contract, precision, done[0], measured)
    return PrecisionResult(
        precision=precision,
        throughput=measured.throughput,
        latency_ms=measured.latency_ms,
        peak=measured.peak,
        sustained=measured.sustained,
        governed_by=find_governor(telemetry, spans),
        steady=measured.steady,
        accuracy=_accuracy(contract, precision, done[0], reference),
        native=executed.native if executed else Native.UNKNOWN,
        executed=executed,
        memory_bytes=max((a.report.peak_memory_bytes or 0 for a in done), default=0) or None,
        device_memory_bytes=max((a.report.peak_device_memory_bytes or 0 for a in done), default=0) or None,
        energy_j_per_unit=energy_per_unit(telemetry, measured.processes, done[0].report.unit),
        slo=measured.slo,
        validity=validity_of(findings),
        restarts=len(done),
        run_means=measured.run_means,
        attribution=attribution,
        attribution_missing=missing,
    ), measured.processes


def _samples_of(attempt: Attempt) -> ProcessSamples:
    iterations, marks = read_journal(attempt.folder)
    assert attempt.report.setup_ns is not None
    return ProcessSamples(
        process=attempt.slot.index,
        precision=attempt.slot.precision.value,
        setup_ns=attempt.report.setup_ns,
        compile_ns=attempt.report.compile_ns,
        iterations=iterations,
        marks=marks,
    )


def _reference_outputs(attempts: Sequence[Attempt]) -> tuple[Precision, Outputs] | None:
    kept = {a.slot.precision: a.folder / OUTPUTS_FILE for a in attempts if (a.folder / OUTPUTS_FILE).exists()}
    if not kept:
        return None
    reference = reference_of(tuple(kept))
    return reference, read_outputs(kept[reference])


def _accuracy(
    contract: Contract, precision: Precision, attempt: Attempt, reference: tuple[Precision, Outputs] | None
) -> Accuracy | None:
    file = attempt.folder / OUTPUTS_FILE
    if reference is None or not file.exists():
        return None
    return compare_outputs(
        reference[1],
        read_outputs(file),
        contract.policy.accuracy,
        reference_precision=reference[0],
        is_reference=precision is reference[0],
    )


def _attribution(
    contract: Contract, precision: Precision, attempt: Attempt, measured: Measured
) -> tuple[Attribution | None, str | None]:
    """Where the time went, or why that is not known: a trace that cannot be read costs the attribution, not the run."""
    if attempt.report.trace is None:
        return None, f"engine {contract.engine.name} has no profiler"
    unprofiled_ms = next((p.estimate for p in measured.latency_ms["latency"] if p.percentile == 50.0), None)
    try:
        attribution = attribute_trace(
            attempt.folder / attempt.report.trace,
            ceilings=attempt.report.ceilings,
            precision=precision,
            unprofiled_step_ms=unprofiled_ms,
            owner=contract.owner,
        )
    except BadInput as error:
        return None, str(error)
    return attribution, None


def _with_processes(executor: Executor, attempts: Sequence[Attempt]) -> Executor:
    """The host's layers with what the measured processes themselves knew; the reference's process speaks first."""
    for attempt in reversed([a for a in attempts if a.report.status is JobStatus.DONE]):
        executor = executor.merged(attempt.report.fields)
    return executor


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
