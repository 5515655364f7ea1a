"""What the processes of one precision come to, from what they left on disk: figures, doubts, accuracy, attribution."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.unit_activity import weigh_activity
from lynxbench.errors import BadInput
from lynxbench.load.journal import read_journal
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.device_activity import device_activity
from lynxbench.measure.endurance_course import describe_endurance
from lynxbench.measure.energy import counted_span_ns, energy_beside, energy_per_request, energy_per_unit, find_governor
from lynxbench.measure.precision_figures import MeasuredPrecision, measure_precision
from lynxbench.measure.rolled import judge_rolled, measure_rolled
from lynxbench.measure.validity import Doubt, judge_evidence, validity_of
from lynxbench.model.attribution import Attribution, StepWork
from lynxbench.model.contract import Contract
from lynxbench.model.endurance import Endurance
from lynxbench.model.job import Skip
from lynxbench.model.precision import Native, Precision, reference_of
from lynxbench.model.result import RULES, Accuracy, PrecisionResult
from lynxbench.model.samples import CountedProcess, Outputs, ProcessSamples, Telemetry
from lynxbench.model.workload import PresetModel, Task
from lynxbench.run.attempts import Attempt, rolled_process
from lynxbench.run.worker import OUTPUTS_FILE, read_outputs
from lynxbench.workload.lengths import typical
from lynxbench.workload.presets import ModelFamily, presets

SAMPLE_FIGURES = ("throughput", "run_means", "latency_ms", "peak", "sustained", "steady", "slo")
"""Fields of a precision's result that follow from the samples alone."""
FORMAT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Of weights that were not quantised, and of the cache."""
QUANTISED_BITS = 8
"""Of a quantised weight where the engine says nothing else."""


def conclude_precision(
    contract: Contract,
    precision: Precision,
    attempts: Sequence[Attempt],
    telemetry: Telemetry | None,
    reference: tuple[Precision, Outputs] | None,
    rules: int = RULES,
) -> tuple[PrecisionResult, tuple[CountedProcess, ...]]:
    """Everything that the processes of one precision say; needs nothing but what they left behind."""
    done = [attempt for attempt in attempts if attempt.done]
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
    unit = done[0].report.unit
    endurance: Endurance | None = None
    if contract.protocol.duration_s is None:
        measured = measure_precision(contract, [samples_of(attempt) for attempt in done], unit, rules)
        stretches = measured.processes
        findings = judge_evidence(measured, telemetry, contract, failures, rules=rules)
    else:
        rolled = measure_rolled(contract, rolled_process(done[0].slot, _attempts_of(done[0])), unit, rules)
        measured, stretches = rolled.measured, rolled.stretches
        findings = judge_rolled(rolled, telemetry, contract, failures, rules)
        endurance = describe_endurance(contract, rolled, telemetry, unit)
    spans = [counted_span_ns(process) for process in stretches]
    iterations = None if endurance is None else endurance.iterations
    executed = done[0].report.executed
    attribution, missing = _attribution(contract, precision, done[0], measured, rules)
    activity = device_activity(telemetry, spans)
    if attribution is not None:
        attribution = weigh_activity(attribution, activity, contract.owner)
    energy = energy_per_unit(telemetry, stretches, unit)
    result = PrecisionResult(
        precision=precision,
        governed_by=find_governor(telemetry, spans),
        accuracy=_accuracy(contract, precision, done[0], reference, rules),
        native=executed.native if executed else Native.UNKNOWN,
        executed=executed,
        memory_bytes=max((a.report.peak_memory_bytes or 0 for a in done), default=0) or None,
        device_memory_bytes=max((a.report.peak_device_memory_bytes or 0 for a in done), default=0) or None,
        energy_j_per_unit=energy,
        energy_j_per_request=energy_per_request(energy, measured.processes, contract.workload.batch, iterations),
        activity=activity,
        energy_beside=energy_beside(telemetry, stretches, unit),
        endurance=endurance,
        validity=validity_of(findings),
        restarts=len(done),
        attribution=attribution,
        attribution_missing=missing,
    )
    return with_figures(result, measured), measured.processes


def with_figures(result: PrecisionResult, measured: MeasuredPrecision) -> PrecisionResult:
    """A result with what the samples alone give."""
    return result.model_copy(update={name: getattr(measured, name) for name in SAMPLE_FIGURES})


def _attempts_of(attempt: Attempt) -> list[Path]:
    """The folders of all attempts at one process, oldest first."""
    return sorted(attempt.folder.parent.glob(f"{attempt.slot.index:03d}-*"))


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
    files = {a.slot.precision: a.folder / OUTPUTS_FILE for a in attempts if (a.folder / OUTPUTS_FILE).exists()}
    if not files:
        return None
    reference = reference_of(tuple(files))
    return reference, read_outputs(files[reference])


def _accuracy(
    contract: Contract, precision: Precision, attempt: Attempt, reference: tuple[Precision, Outputs] | None, rules: int
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
        rules=rules,
    )


def _attribution(
    contract: Contract, precision: Precision, attempt: Attempt, measured: MeasuredPrecision, rules: int
) -> tuple[Attribution | None, str | None]:
    """Where the time went, or why that is not known: a trace that cannot be read costs the attribution, not the run."""
    try:
        if (trace := attempt.trace) is None:
            return None, f"engine {contract.engine.name} has no profiler"
        unprofiled_ms = next((p.estimate for p in measured.latency_ms["latency"] if p.percentile == 50.0), None)
        attribution = attribute_trace(
            trace,
            ceilings=attempt.report.ceilings,
            precision=precision,
            unprofiled_step_ms=unprofiled_ms,
            owner=contract.owner,
            work=least_work(contract, attempt.report.facts),
            rules=rules,
        )
    except BadInput as error:
        return None, str(error)
    return attribution, None


def least_work(contract: Contract, facts: Mapping[str, JsonValue]) -> StepWork | None:
    """The least work of a step of a named decoder shape: weights read once, the cache of its context, the products.

    A recorded graph shows kernels and no operands, so its trace cannot say how near the ceiling a step ran. The
    workload can: whatever the kernels, one token more reads every weight of the products once.
    """
    workload = contract.workload
    if workload.task not in (Task.PREFILL, Task.DECODE) or not isinstance(workload.model, PresetModel):
        return None
    preset = presets().get(workload.model.name)
    each = FORMAT_BYTES.get(str(facts.get("application.weights_dtype")))
    parameters, quantised = facts.get("application.parameters"), facts.get("application.quantised_parameters")
    if preset is None or preset.family is not ModelFamily.DECODER or each is None or workload.input_tokens is None:
        return None
    if not isinstance(parameters, int) or not isinstance(quantised, int):
        return None
    config = preset.config
    width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    table = int(config["vocab_size"]) * width
    looked_up = 0 if config.get("tie_word_embeddings") else table  # rows are gathered, the table is not read
    multiplied = parameters - looked_up
    bits = facts.get("application.quantised_bits", QUANTISED_BITS)
    narrow = bits / 8 if isinstance(bits, int | float) else QUANTISED_BITS / 8
    weights = quantised * narrow + (multiplied - quantised) * each
    tokens, layers = int(typical(workload.input_tokens)), workload.model.layers or int(config["num_hidden_layers"])
    if workload.task is Task.PREFILL:
        # One position alone goes through the output head.
        operations = 2.0 * workload.batch * tokens * (multiplied - table)
        return StepWork(float(weights), operations, f"weights once, products of {workload.batch * tokens} tokens")
    head = int(config.get("head_dim") or width // heads)
    cached = workload.batch * tokens * layers * 2 * int(config["num_key_value_heads"]) * head * each
    how = f"weights once, keys and values of {workload.batch} × {tokens} tokens"
    return StepWork(float(weights + cached), 2.0 * workload.batch * multiplied, how)
