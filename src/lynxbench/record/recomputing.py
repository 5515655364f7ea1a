"""A result's figures once more, from the raw samples in its folder, by the functions that the run itself called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lynxbench.evidence.run_folder import RunFolder
from lynxbench.measure.context import assumptions_of, conditions_of
from lynxbench.measure.load_context import served_assumptions
from lynxbench.measure.precision_figures import measure_precision
from lynxbench.measure.telemetry import read_telemetry
from lynxbench.measure.validity import Doubt, combine_validity, judge_drift, without_figures
from lynxbench.model.attribution import Ceiling
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor
from lynxbench.model.job import JobStatus
from lynxbench.model.layers import Layer
from lynxbench.model.load_figures import PreFlight
from lynxbench.model.precision import Precision
from lynxbench.model.result import Conditions, PrecisionResult, Result, Validity, ValidityVerdict
from lynxbench.model.samples import CountedProcess
from lynxbench.model.serving import ServedEngine
from lynxbench.run.concluding import NO_REPORT, conclude_precision, kept_attempts, reference_outputs, with_processes
from lynxbench.run.run_outcome import TELEMETRY_FILE
from lynxbench.run.served_concluding import RESTARTED, ServerTold, conclude_served, kept_asked, void_served
from lynxbench.run.served_run import PREFLIGHT_FILE

SAMPLE_FIGURES = ("throughput", "run_means", "latency_ms", "peak", "sustained", "steady", "slo", "restarts")
"""What the samples file alone gives."""
LIVE = "read live from the server; nobody can read it again"


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What the raw files say; a reason stands for what they cannot."""

    per_precision: Mapping[Precision, PrecisionResult]
    processes: tuple[CountedProcess, ...]
    validity: Validity | None = None
    ceilings: tuple[Ceiling, ...] | None = None
    executor: Executor | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Field of a precision's result → why it could not be recomputed."""
    deaths: bool = False
    """Whether a process died without a report: how it died was known to the run alone."""


def recompute_run(result: Result, run: RunFolder) -> Recomputed:
    """Everything, from the folder of a run with all its attempts."""
    if isinstance(result.contract.engine, ServedEngine):
        return _served(result, run)
    return _inprocess(result, run)


def recompute_samples(result: Result, processes: Sequence[CountedProcess]) -> Recomputed:
    """What the samples file alone gives, where the attempts are not at hand."""
    if isinstance(result.contract.engine, ServedEngine):
        return Recomputed({}, (), unknown=dict.fromkeys(SAMPLE_FIGURES, "the request records of the run are not here"))
    found: dict[Precision, PrecisionResult] = {}
    counted: list[CountedProcess] = []
    for stated in result.per_precision:
        mine = [one.samples for one in processes if one.samples.precision == stated.precision.value]
        if not mine:
            continue
        measured = measure_precision(result.contract, mine, _stated_unit(stated))
        counted += measured.processes
        one = stated.model_copy(
            update={name: getattr(measured, name) for name in SAMPLE_FIGURES if name != "restarts"}
            | {"restarts": len(mine)}
        )
        found[stated.precision] = without_figures(one) if result.validity.verdict is ValidityVerdict.VOID else one
    counted.sort(key=lambda process: process.samples.process)
    return Recomputed(found, tuple(counted))


def stated_context(contract: Contract, threads: int) -> tuple[Conditions, tuple[str, ...]]:
    """The conditions and assumptions that follow from a contract."""
    served = isinstance(contract.engine, ServedEngine)
    return conditions_of(contract, threads), (served_assumptions if served else assumptions_of)(contract)


def _inprocess(result: Result, run: RunFolder) -> Recomputed:
    contract = result.contract
    attempts = kept_attempts(run)
    file = run.path / TELEMETRY_FILE
    telemetry = read_telemetry(file) if file.exists() else None
    reference = reference_outputs(attempts)
    found: dict[Precision, PrecisionResult] = {}
    processes: list[CountedProcess] = []
    for precision in contract.workload.precisions:
        mine = [attempt for attempt in attempts if attempt.slot.precision is precision]
        found[precision], counted = conclude_precision(contract, precision, mine, telemetry, reference)
        processes += counted
    processes.sort(key=lambda process: process.samples.process)
    attempted = [one for one in found.values() if one.skipped is None or one.validity.verdict is ValidityVerdict.VOID]
    whole = judge_drift(result.executor_drift)
    validity = combine_validity(whole, {one.precision.value: one.validity for one in attempted})
    if validity.verdict is ValidityVerdict.VOID:
        found = {precision: without_figures(one) for precision, one in found.items()}
    return Recomputed(
        found,
        tuple(processes),
        validity=validity if telemetry is not None else None,
        ceilings=tuple(ceiling for attempt in attempts for ceiling in attempt.report.ceilings),
        executor=with_processes(run.registration.executor, attempts),
        unknown={} if telemetry is not None else _without_telemetry() | _without_counters(result),
        deaths=any(attempt.report.error == NO_REPORT for attempt in attempts),
    )


def _served(result: Result, run: RunFolder) -> Recomputed:
    (stated,) = result.per_precision
    asked = kept_asked(run)
    file = run.path / TELEMETRY_FILE
    telemetry = read_telemetry(file) if file.exists() else None
    preflight = PreFlight.model_validate_json((run.path / PREFLIGHT_FILE).read_bytes())
    cache = stated.load.cache.counters if stated.load is not None else {}
    spent = stated.load.server_counters if stated.load is not None else {}
    is_local = "server_host" not in result.executor.layers.get(Layer.SYSTEM, {})
    one, processes = conclude_served(run, asked, preflight, telemetry, ServerTold(cache, spent, is_local))
    whole = judge_drift(result.executor_drift)
    if RESTARTED in result.validity.reasons:
        whole.append(Doubt(RESTARTED, void=True))
    validity = combine_validity(whole, {one.precision.value: one.validity})
    if validity.verdict is ValidityVerdict.VOID:
        one = void_served(one)
    return Recomputed(
        {one.precision: one},
        processes,
        validity=validity if telemetry is not None else None,
        unknown={}
        if telemetry is not None
        else _without_telemetry() | {"attribution": f"{TELEMETRY_FILE} is not here"},
        deaths=any(client.report.status is not JobStatus.DONE for client in asked),
    )


def _without_telemetry() -> dict[str, str]:
    missing = ("validity", "governed_by", "energy_j_per_unit", "energy_j_per_request", "activity")
    return dict.fromkeys(missing, f"{TELEMETRY_FILE} is not here")


def _without_counters(result: Result) -> dict[str, str]:
    """An attribution that a device's counters had a say in cannot be made again without them."""
    weighed = any(one.activity is not None for one in result.per_precision)
    return {"attribution": f"{TELEMETRY_FILE} is not here"} if weighed else {}


def _stated_unit(stated: PrecisionResult) -> str:
    figure = stated.throughput or stated.peak or stated.sustained
    return figure.unit.removesuffix("s/s") if figure is not None else "unit"


def has_attempts(folder: Path) -> bool:
    """Whether the processes' own files are in the folder, not only what was drawn from them."""
    return (folder / "attempts").is_dir()
