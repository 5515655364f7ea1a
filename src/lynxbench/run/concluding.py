"""What in-process samples come to: figures, doubts, accuracy and attribution, from what the processes left on disk.

The run and `verify` both call this: what is recomputed is computed by the very same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.unit_activity import weigh_activity
from lynxbench.errors import BadInput
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.load.journal import read_journal
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.device_activity import device_activity
from lynxbench.measure.energy import counted_span_ns, energy_per_request, energy_per_unit, find_governor
from lynxbench.measure.precision_figures import MeasuredPrecision, measure_precision
from lynxbench.measure.run_conditions import judge_conditions
from lynxbench.measure.validity import Doubt, judge_precision, validity_of
from lynxbench.model.attribution import Attribution
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor
from lynxbench.model.job import JobReport, JobStatus, Skip
from lynxbench.model.precision import Native, Precision, reference_of
from lynxbench.model.result import Accuracy, PrecisionResult
from lynxbench.model.samples import CountedProcess, Outputs, ProcessSamples, Telemetry
from lynxbench.run.least_work import least_work
from lynxbench.run.worker import OUTPUTS_FILE, REPORT_FILE, read_outputs

NO_REPORT = "the process left no report"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one process of the plan left behind."""

    slot: Slot
    folder: Path
    report: JobReport


def kept_attempts(run: RunFolder) -> list[Attempt]:
    """What a finished run concluded from: a process's first attempt that left a report, else its last one's death."""
    attempts = []
    for slot in run.registration.plan:
        folders = run.attempts(slot)
        attempt = next((found for folder in folders if (found := read_attempt(slot, folder)) is not None), None)
        if attempt is None and folders:
            attempt = Attempt(slot, folders[-1], JobReport(status=JobStatus.FAILED, error=NO_REPORT))
        if attempt is not None:
            attempts.append(attempt)
    return attempts


def read_attempt(slot: Slot, folder: Path) -> Attempt | None:
    """An attempt that came to an end of its own; None where the process left no report."""
    file = folder / REPORT_FILE
    return Attempt(slot, folder, JobReport.model_validate_json(file.read_bytes())) if file.exists() else None


def conclude_precision(
    contract: Contract,
    precision: Precision,
    attempts: Sequence[Attempt],
    telemetry: Telemetry | None,
    reference: tuple[Precision, Outputs] | None,
) -> tuple[PrecisionResult, tuple[CountedProcess, ...]]:
    """Everything that the processes of one precision say; needs nothing but what they left behind."""
    done = [attempt for attempt in attempts if attempt.report.status is JobStatus.DONE]
    failures = [attempt.report.error for attempt in attempts if attempt.report.error]
    skip = next((attempt.report.skip for attempt in attempts if attempt.report.skip), None)
    if not done:
        findings = [Doubt(f"not measured: {skip.reason}")] if skip else [Doubt(f, void=True) for f in failures]
        native = Native.EMULATED if skip and skip.estimated_s is not None else Native.UNSUPPORTED
        return PrecisionResult(
            precision=precision,
            skipped=skip or Skip(reason=f"failed: {failures[0]}" if failures else "not attempted"),
            native=native if skip else Native.UNKNOWN,
            validity=validity_of(findings),
        ), ()
    measured = measure_precision(contract, [samples_of(attempt) for attempt in done], done[0].report.unit)
    spans = [counted_span_ns(process) for process in measured.processes]
    conditions = judge_conditions(telemetry, spans, contract.protocol) if telemetry is not None else []
    findings = [*judge_precision(measured, contract.protocol, failures), *(Doubt(line) for line in conditions)]
    executed = done[0].report.executed
    attribution, missing = _attribution(contract, precision, done[0], measured)
    activity = device_activity(telemetry, spans)
    if attribution is not None:
        attribution = weigh_activity(attribution, activity, contract.owner)
    energy = energy_per_unit(telemetry, measured.processes, done[0].report.unit)
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
        energy_j_per_unit=energy,
        energy_j_per_request=energy_per_request(energy, measured.processes, contract.workload.batch),
        activity=activity,
        slo=measured.slo,
        validity=validity_of(findings),
        restarts=len(done),
        run_means=measured.run_means,
        attribution=attribution,
        attribution_missing=missing,
    ), measured.processes


def samples_of(attempt: Attempt) -> ProcessSamples:
    """The samples of a finished process, from its journal."""
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


def reference_outputs(attempts: Sequence[Attempt]) -> tuple[Precision, Outputs] | None:
    """The answers that the other precisions are held against."""
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
    contract: Contract, precision: Precision, attempt: Attempt, measured: MeasuredPrecision
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
            work=least_work(contract, attempt.report.facts),
        )
    except BadInput as error:
        return None, str(error)
    return attribution, None


def with_processes(executor: Executor, attempts: Sequence[Attempt]) -> Executor:
    """The host's layers with what the measured processes themselves knew; the reference's process speaks first."""
    for attempt in reversed([a for a in attempts if a.report.status is JobStatus.DONE]):
        executor = executor.merged(attempt.report.fields)
    return executor
