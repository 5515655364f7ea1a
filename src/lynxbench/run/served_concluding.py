"""What a served run comes to: the server captured again, figures from the clients' records, doubts, a sealed result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lynxbench import __version__
from lynxbench.attribute.attributing import attribute_requests
from lynxbench.engines.kserve import parse_triton_stats
from lynxbench.engines.served import api_key_headers
from lynxbench.errors import BadResult
from lynxbench.evidence.documents import RESULT_FILE, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.evidence.sample_file import hash_file, write_samples
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.server import Address, CapturedServer, capture_server, counted_between, with_server
from lynxbench.load.load_record import LoadRecord, merge, read_record, requests_of
from lynxbench.load.load_summary import account, describe_cache, describe_instrument, describe_tokens
from lynxbench.measure.context import conditions_of
from lynxbench.measure.energy import counted_span_ns, energy_per_unit, find_governor
from lynxbench.measure.load_context import judge_requests, served_assumptions
from lynxbench.measure.run_conditions import judge_conditions
from lynxbench.measure.served_load import MeasuredLoad, ServedRun, measure_load
from lynxbench.measure.telemetry import read_telemetry
from lynxbench.measure.validity import (
    Doubt,
    combine_validity,
    judge_drift,
    judge_precision,
    validity_of,
    without_figures,
)
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, FieldChange, Tier, difference
from lynxbench.model.job import ExecutedAs, JobReport, JobStatus
from lynxbench.model.load_figures import LoadFigures, PreFlight, RecordFile, SaturationRecord
from lynxbench.model.precision import Native
from lynxbench.model.result import RULES, PrecisionResult, Result, ValidityVerdict
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.model.serving import CacheState, KserveEngine, ServedEngine
from lynxbench.model.workload import SaturatingArrival, ServedModel
from lynxbench.run.client.client_job import RECORD_FILE, REPORT_FILE, SATURATION_FILE, ClientFacts
from lynxbench.run.concluding import NO_REPORT
from lynxbench.run.run_outcome import SAMPLES_FILE, TELEMETRY_FILE, Finished

RESTARTED = "the server was restarted during the run"
LARGEST_CLOCK_BOUND_NS = 1_000_000
"""A client's clock must be known to a millisecond: its share of the schedule may be off against others' by as much."""


@dataclass(frozen=True, slots=True)
class ServerTold:
    """What a server said of itself over the run; read live, so nobody can read it again."""

    counters: Mapping[str, float]
    where_time_went: Mapping[str, float]
    shares_host: bool
    """Whether it ran on the host whose telemetry was taken."""


@dataclass(frozen=True, slots=True)
class ClientAttempt:
    """What one fresh client left behind."""

    slot: Slot
    folder: Path
    report: JobReport

    @property
    def facts(self) -> ClientFacts:
        """What the requests themselves do not show."""
        return ClientFacts.model_validate(self.report.facts, strict=False)


def look_at(contract: Contract) -> CapturedServer:
    """The server as it stands."""
    engine, model = engine_of(contract), contract.workload.model
    assert isinstance(model, ServedModel)
    address = Address(engine.url, engine.ca_file, engine.verify_tls, api_key_headers(engine))
    return capture_server(address, model=model.name, launch=engine.launch, kserve=isinstance(engine, KserveEngine))


def engine_of(contract: Contract) -> ServedEngine:
    """The contract's engine, known to be a server."""
    assert isinstance(contract.engine, ServedEngine)
    return contract.engine


def saturation_of(asked: ClientAttempt) -> SaturationRecord:
    """What a search found."""
    return SaturationRecord.model_validate_json((asked.folder / SATURATION_FILE).read_bytes())


def conclude(
    run: RunFolder,
    asked: Sequence[ClientAttempt],
    host: Executor,
    before: CapturedServer,
    preflight: PreFlight,
    declaration: Declaration | None,
    measuring_s: float,
) -> Finished:
    """Capture the server again, measure what the clients kept, judge it, and seal the result."""
    registration, contract = run.registration, run.registration.contract
    telemetry = read_telemetry(run.path / TELEMETRY_FILE)
    after = look_at(contract)
    executor = with_server(host, after)
    drift = _drift(with_server(host, before), with_server(capture_host(declaration), after))
    counters = counted_between(before.counters, after.counters)
    told = ServerTold(counters, {**_told(counters), **_triton(contract, before, after)}, before.is_local)
    one, processes = conclude_served(run, asked, preflight, telemetry, told)
    whole = [*judge_drift(drift), *_restarted(before, after)]
    validity = combine_validity(whole, {one.precision.value: one.validity})
    if validity.verdict is ValidityVerdict.VOID:
        one = void_served(one)
    result = Result(
        lynxbench_version=__version__,
        run_id=registration.run_id,
        started_at=registration.registered_at,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        measuring_s=round(measuring_s, 3),
        contract_id=contract.contract_id,
        executor_id=executor.executor_id,
        instance_id=executor.instance_id,
        contract=contract,
        executor=executor,
        executor_drift=drift,
        conditions=conditions_of(contract, registration.threads),
        per_precision=(one,),
        attribution=one.attribution,
        validity=validity,
        assumptions=served_assumptions(contract),
        samples=write_samples(run.path / SAMPLES_FILE, processes),
        rules=RULES,
    ).sealed()
    write_result(run.path / RESULT_FILE, result)
    write_manifest(run.path)
    return Finished(result, run.path, processes, telemetry)


def void_served(one: PrecisionResult) -> PrecisionResult:
    """A void run's figures are nobody's; what was sent and how the client fared stays."""
    emptied = without_figures(one)
    if emptied.load is None:
        return emptied
    return emptied.model_copy(update={"load": emptied.load.without_figures()})


def kept_asked(run: RunFolder) -> list[ClientAttempt]:
    """What a finished run concluded from: each client that finished, else the last one's failure."""
    asked = []
    for slot in run.registration.plan:
        folders = run.attempts(slot)
        reports = [(folder, _report(folder)) for folder in folders]
        done = next(((folder, one) for folder, one in reports if one.status is JobStatus.DONE), None)
        chosen = done or (reports[-1] if reports else None)
        if chosen is not None:
            asked.append(ClientAttempt(slot, *chosen))
    return asked


def _report(folder: Path) -> JobReport:
    file = folder / REPORT_FILE
    if not file.exists():
        return JobReport(status=JobStatus.FAILED, error=NO_REPORT)
    return JobReport.model_validate_json(file.read_bytes())


def conclude_served(
    run: RunFolder, asked: Sequence[ClientAttempt], preflight: PreFlight, telemetry: Telemetry | None, told: ServerTold
) -> tuple[PrecisionResult, tuple[CountedProcess, ...]]:
    """Everything that the clients' records say, beside what the server told of itself."""
    contract = run.registration.contract
    done = [one for one in asked if one.report.status is JobStatus.DONE]
    failures = [one.report.error for one in asked if one.report.error]
    searches = isinstance(contract.workload.arrival, SaturatingArrival)
    records = {one.slot.index: read_record(one.folder / RECORD_FILE) for one in done}
    runs = [one for one in done if not (searches and one.slot.index == 0)]
    everything = merge(list(records.values()))
    saturation = saturation_of(done[0]) if searches else None
    bounds, clients = engine_of(contract).instrument, run.registration.threads
    facts = (runs or done)[0].facts
    instrument = describe_instrument(list(records.values()), bounds, preflight, clients, each=bool(facts.hosts))
    measured = _measured(contract, runs, records)
    load = LoadFigures(
        load=_load_words(contract, saturation),
        budget=tuple(
            f"p{slo.percentile:g} {slo.metric.value} ≤ {slo.at_most_s * 1e3:g} ms" for slo in contract.objective.slo
        ),
        accounting=account(everything),
        offered_per_s=measured.offered_per_s if measured else None,
        requests_per_s=measured.requests_per_s if measured else None,
        goodput_per_s=measured.goodput_per_s if measured else None,
        in_flight_mean=measured.in_flight_mean if measured else None,
        tokens=describe_tokens(everything, facts.tokens, facts.asked_output_mean, facts.shorter_share),
        cache=describe_cache(everything, CacheState(engine_of(contract).cache), facts.distinct_prompts, told.counters),
        instrument=instrument,
        saturation=saturation,
        server_counters=dict(told.where_time_went),
        records=tuple(_record_file(run.path, one.folder / RECORD_FILE, records[one.slot.index]) for one in done),
    )
    findings = [Doubt(f"a client failed: {failure}") for failure in failures]
    findings += [Doubt(f"the client was the limit: {reason}", void=True) for reason in instrument.reasons]
    findings += [Doubt(line, void=True) for one in done for line in doubtful_clocks(one.facts)]
    findings += [Doubt(line) for line in judge_requests(contract, load)]
    precision = contract.workload.precisions[0]
    executed = ExecutedAs(native=Native.UNKNOWN, how="as the server runs it; the contract declares the precision")
    if measured is None:
        findings.append(Doubt(saturation.note if saturation is not None else "nothing was measured"))
        return PrecisionResult(
            precision=precision,
            executed=executed,
            validity=validity_of(findings),
            load=load,
            attribution_missing=f"engine {contract.engine.name} is not profiled from outside",
        ), ()
    attributed = attribute_requests(
        [requests_of(records[one.slot.index]) for one in runs],
        told.where_time_went,
        telemetry if told.shares_host else None,
        engine=contract.engine.name,
        owner=contract.owner,
    )
    processes = measured.measured.processes
    spans = [counted_span_ns(process) for process in processes]
    conditions = judge_conditions(telemetry, spans, contract.protocol) if telemetry is not None else []
    findings += [*judge_precision(measured.measured, contract.protocol, ()), *(Doubt(line) for line in conditions)]
    return PrecisionResult(
        precision=precision,
        throughput=measured.measured.throughput,
        latency_ms=measured.measured.latency_ms,
        peak=measured.measured.peak,
        sustained=measured.measured.sustained,
        governed_by=find_governor(telemetry, spans) if told.shares_host else None,
        steady=measured.measured.steady,
        executed=executed,
        energy_j_per_unit=energy_per_unit(telemetry, processes, measured.unit) if told.shares_host else None,
        slo=measured.measured.slo,
        validity=validity_of(findings),
        restarts=len(runs),
        run_means=measured.measured.run_means,
        attribution=None if isinstance(attributed, str) else attributed,
        attribution_missing=attributed if isinstance(attributed, str) else None,
        load=load,
    ), processes


def doubtful_clocks(facts: ClientFacts) -> list[str]:
    """Clients of a fleet whose clock is not known well enough to be merged with the others'."""
    return [
        f"the clock of client {host.process} on {host.node} is known to ±{host.clock_bound_ns / 1e6:.2f} ms only "
        f"(bound {LARGEST_CLOCK_BOUND_NS / 1e6:g} ms)"
        for host in facts.hosts
        if not host.lost and host.clock_bound_ns > LARGEST_CLOCK_BOUND_NS
    ]


def _measured(
    contract: Contract, runs: Sequence[ClientAttempt], records: Mapping[int, LoadRecord]
) -> MeasuredLoad | None:
    served = []
    for one in runs:
        requests = requests_of(records[one.slot.index])
        if requests.ok.any() and requests.load_end_ns > requests.start_ns and one.report.setup_ns is not None:
            served.append(ServedRun(one.slot.index, one.report.setup_ns, requests))
    if not served:
        return None
    most = engine_of(contract).instrument.coalesced
    coalesced = any(records[run.process].coalesced_share > most for run in served)
    return measure_load(contract, served, coalesced=coalesced, has_tokens=runs[0].facts.has_tokens)


def _load_words(contract: Contract, saturation: SaturationRecord | None) -> str:
    if saturation is not None and saturation.passed_per_s is not None:
        return f"open loop, poisson {saturation.passed_per_s:.4g} /s, the largest rate that held the objective"
    return conditions_of(contract, 1).load


def _record_file(run: Path, path: Path, record: LoadRecord) -> RecordFile:
    return RecordFile(file=str(path.relative_to(run)), sha256=hash_file(path), rows=len(record))


TOLD_PARTS = (
    *("queue", "prefill", "decode", "prompt", "predicted", "inference", "first_token", "compute", "deferred"),
    *("e2e_request", "tgi_request_duration", "tgi_request_validation"),
)
"""Counters of a server that say where requests spent their time."""


def _told(counters: Mapping[str, float]) -> dict[str, float]:
    return {
        name: round(value, 6)
        for name, value in sorted(counters.items())
        if any(part in name for part in TOLD_PARTS)
        and name.partition("{")[0].endswith(("_sum", "_total", "_us", "_count"))
    }


def _triton(contract: Contract, before: CapturedServer, after: CapturedServer) -> dict[str, float]:
    """Triton's own account of the run: where inferences spent their time, in seconds."""
    model = contract.workload.model
    if before.statistics is None or after.statistics is None or not isinstance(model, ServedModel):
        return {}
    version = getattr(contract.engine, "version", None)
    try:
        ends = [parse_triton_stats(look.statistics or b"", model.name, version) for look in (before, after)]
        moved = ends[1].since(ends[0])
    except BadResult:
        return {}
    seconds = {
        name: getattr(moved, f"{name}_ns") / 1e9
        for name in ("total", "queue", "compute_input", "compute_infer", "compute_output")
    }
    return {
        "triton_requests": float(moved.succeeded),
        "triton_inferences": float(moved.inferences),
        "triton_executions": float(moved.executions),
        "triton_cache_hits": float(moved.cache_hits),
        **{f"triton_{name}_s": value for name, value in seconds.items()},
    }


def _drift(before: Executor, after: Executor) -> tuple[FieldChange, ...]:
    """What changed while the server was measured. Libraries loaded on first use are no change; replaced ones are."""
    changes = []
    for change in difference(before, after, (Tier.CONFIGURATION,)):
        old, new = change.before, change.after
        libraries = change.name.endswith("libraries") and isinstance(old, dict) and isinstance(new, dict)
        if not libraries or any(new.get(name) != value for name, value in old.items()):  # type: ignore[union-attr]
            changes.append(change)
    return tuple(changes)


def _restarted(before: CapturedServer, after: CapturedServer) -> list[Doubt]:
    one, two = before.process, after.process
    if one is not None and (two is None or (one.pid, one.started) != (two.pid, two.started)):
        return [Doubt(RESTARTED, void=True)]
    return []
