"""The order of a run against a server: capture it, prove the instrument, load it from fresh clients, capture it again.

The sibling of pipeline.py, for engines that are asked over HTTP. A restart is a fresh client with a schedule of its
own; the server goes on, and is captured before and after.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from lynxbench import __version__
from lynxbench.client import (
    CLIENT_FILE,
    FINISHED_FILE,
    RECORD_FILE,
    REPORT_FILE,
    SATURATION_FILE,
    STAGE_FILE,
    ClientFacts,
    ClientJob,
    read_trace,
    seed_of,
)
from lynxbench.engines.kserve import parse_triton_stats
from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.engines.served import api_key_headers
from lynxbench.errors import BadResult, CannotRun, Interrupted
from lynxbench.evidence.documents import RESULT_FILE, write_result, write_text
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.evidence.samples import hash_file, write_samples
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.server import Address, CapturedServer, capture_server, counted_between, with_server
from lynxbench.load.arrivals import load_of
from lynxbench.load.fresh_process import last_words, run_fresh
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.preflight import fly
from lynxbench.load.record import LoadRecord, merge, read_record, requests_of
from lynxbench.load.summary import account, describe_cache, describe_instrument, describe_tokens
from lynxbench.measure.conditions import judge_conditions
from lynxbench.measure.context import conditions_of
from lynxbench.measure.load_context import judge_requests, served_assumptions
from lynxbench.measure.power import counted_span_ns, energy_per_unit, find_governor
from lynxbench.measure.serving import MeasuredLoad, ServedRun, measure_load
from lynxbench.measure.telemetry import TelemetrySampler, read_telemetry
from lynxbench.measure.validity import (
    Finding,
    combine_validity,
    judge_drift,
    judge_precision,
    validity_of,
    without_figures,
)
from lynxbench.model.contract import CacheState, Contract, KserveEngine, SaturatingArrival, ServedEngine, ServedModel
from lynxbench.model.executor import Executor, FieldChange, Tier, difference
from lynxbench.model.job import ExecutedAs, JobReport, JobStatus
from lynxbench.model.load_figures import LoadFigures, PreFlight, RecordFile, SaturationRecord
from lynxbench.model.precision import Native
from lynxbench.model.result import PrecisionResult, Result, ValidityVerdict
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.running import SAMPLES_FILE, TELEMETRY_FILE, Finished, Progress

PREFLIGHT_FILE = "preflight.json"
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What one fresh client left behind."""

    slot: Slot
    folder: Path
    report: JobReport

    @property
    def facts(self) -> ClientFacts:
        """What the requests themselves do not show."""
        return ClientFacts.model_validate(self.report.facts)


def run_served(contract: Contract, out: Path, declaration: Declaration | None, progress: Progress) -> Finished:
    """Run a served contract from the beginning."""
    _refuse_unreachable(contract)
    read_trace(contract)  # a trace that cannot be read is said before anything is registered
    host, server = capture_host(declaration), look_at(contract)
    clients = clients_of(contract)
    now = datetime.now(UTC)
    run = RunFolder.create(out, contract, with_server(host, server), clients, slots_of(contract), now)
    return _carry_out(run, host, server, declaration, progress)


def resume_served(run: RunFolder, declaration: Declaration | None, progress: Progress) -> Finished:
    """Go on with an unfinished run; the server is captured anew, and must be the one it was."""
    contract = run.registration.contract
    _refuse_unreachable(contract)
    return _carry_out(run, capture_host(declaration), look_at(contract), declaration, progress)


def slots_of(contract: Contract) -> tuple[Slot, ...]:
    """One fresh client a restart; a search for saturation comes first as one more."""
    precision = contract.workload.precisions[0]
    first = 1 if isinstance(contract.workload.arrival, SaturatingArrival) else 0
    return tuple(
        Slot(index=index, restart=max(0, index - first), precision=precision)
        for index in range(contract.protocol.restarts + first)
    )


def clients_of(contract: Contract) -> int:
    """Client processes: the contract's, else half the cores of this machine and at most four."""
    engine = _engine(contract)
    return engine.processes or max(1, min(4, len(os.sched_getaffinity(0)) // 2))


def look_at(contract: Contract) -> CapturedServer:
    """The server as it stands."""
    engine, model = _engine(contract), contract.workload.model
    assert isinstance(model, ServedModel)
    address = Address(engine.url, engine.ca_file, engine.verify_tls, api_key_headers(engine))
    return capture_server(address, model=model.name, launch=engine.launch, kserve=isinstance(engine, KserveEngine))


def _engine(contract: Contract) -> ServedEngine:
    assert isinstance(contract.engine, ServedEngine)
    return contract.engine


def _refuse_unreachable(contract: Contract) -> None:
    parts = urlsplit(_engine(contract).url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S).close()
    except OSError as error:
        raise CannotRun(f"{_engine(contract).url}: {error.strerror or error}; is the server running?") from None


def _carry_out(
    run: RunFolder, host: Executor, server: CapturedServer, declaration: Declaration | None, progress: Progress
) -> Finished:
    started = perf_counter()
    progress.begin(run)
    progress.note("proving the instrument against the bundled server")
    preflight = _preflight(run)
    with TelemetrySampler(run.path / TELEMETRY_FILE) as sampler:
        try:
            asked = _ask_all(run, server, sampler, progress)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; finished clients are kept in {run.path}. Go on with the same command and --resume"
            ) from None
    progress.note("capturing the server again and concluding")
    return _conclude(run, asked, host, server, preflight, declaration, perf_counter() - started)


def _preflight(run: RunFolder) -> PreFlight:
    """The instrument at this contract's load; kept with the run, so that a resumed one has the same."""
    file = run.path / PREFLIGHT_FILE
    if file.exists():
        return PreFlight.model_validate_json(file.read_bytes())
    contract = run.registration.contract
    arrival, protocol = contract.workload.arrival, contract.protocol
    if isinstance(arrival, SaturatingArrival):
        load: ClosedLoop | OpenLoop = ClosedLoop(arrival.concurrency)
    else:
        trace = read_trace(contract)
        load = load_of(
            arrival,
            duration_s=protocol.min_duration_s,
            shortest_s=protocol.min_duration_s,
            seed=seed_of(contract, 0),
            trace_s=None if trace is None else trace.arrival_s,
        )

    def build(url: str, tokens: int) -> bytes:
        service = Service(url=url, model="ground-truth")
        return build_request(service, build_body(service, "How fast is the instrument itself?", tokens))

    flown = fly(OpenAiLanguage(), build, load, protocol.min_duration_s)
    write_text(file, flown.model_dump_json(indent=1))
    return flown


# --- asking ----------------------------------------------------------------------------------------------------------


def _ask_all(run: RunFolder, server: CapturedServer, sampler: TelemetrySampler, progress: Progress) -> list[Asked]:
    contract = run.registration.contract
    searches = isinstance(contract.workload.arrival, SaturatingArrival)
    asked: list[Asked] = []
    rate_per_s: float | None = None
    for slot in run.registration.plan:
        search = searches and slot.index == 0
        job = ClientJob(
            index=slot.index,
            restart=slot.restart,
            contract=contract,
            clients=run.registration.threads,
            salt=int(run.registration.nonce[:8], 16),
            rate_per_s=rate_per_s,
            search=search,
        )
        one = _earlier(run, slot) or _ask(run, slot, job, server, sampler, progress)
        asked.append(one)
        if one.report.status is not JobStatus.DONE and slot.restart == 0:
            raise CannotRun(f"{contract.name}: {one.report.error}")
        if search:
            rate_per_s = _saturation(one).passed_per_s
            if rate_per_s is None:
                break  # nothing holds the objective: there is no rate to run at
    return asked


def _earlier(run: RunFolder, slot: Slot) -> Asked | None:
    for folder in run.attempts(slot):
        file = folder / REPORT_FILE
        if file.exists():
            report = JobReport.model_validate_json(file.read_bytes())
            if report.status is JobStatus.DONE:
                return Asked(slot, folder, report)
    return None


def _ask(
    run: RunFolder, slot: Slot, job: ClientJob, server: CapturedServer, sampler: TelemetrySampler, progress: Progress
) -> Asked:
    folder = run.new_attempt(slot)
    write_text(folder / CLIENT_FILE, job.model_dump_json(by_alias=True))
    started = perf_counter()
    also = () if server.process is None else (server.process.pid,)

    def watch(pid: int) -> None:
        sampler.watch(pid, also)
        stage = (folder / STAGE_FILE).read_text() if (folder / STAGE_FILE).exists() else "start"
        ended = (folder / FINISHED_FILE).read_text() if (folder / FINISHED_FILE).exists() else ""
        progress.watch(slot, stage, int(ended) if ended.isdigit() else 0, perf_counter() - started)

    code = run_fresh("lynxbench.client", folder, 1, watch)
    file = folder / REPORT_FILE
    if file.exists():
        report = JobReport.model_validate_json(file.read_bytes())
    else:
        died = f"the client ended with code {code} and left no report: {last_words(folder)}"
        report = JobReport(status=JobStatus.FAILED, error=died)
    progress.end_slot(slot, report, perf_counter() - started)
    return Asked(slot, folder, report)


def _saturation(asked: Asked) -> SaturationRecord:
    return SaturationRecord.model_validate_json((asked.folder / SATURATION_FILE).read_bytes())


# --- concluding ------------------------------------------------------------------------------------------------------


def _conclude(
    run: RunFolder,
    asked: Sequence[Asked],
    host: Executor,
    before: CapturedServer,
    preflight: PreFlight,
    declaration: Declaration | None,
    measuring_s: float,
) -> Finished:
    registration, contract = run.registration, run.registration.contract
    telemetry = read_telemetry(run.path / TELEMETRY_FILE)
    after = look_at(contract)
    executor = with_server(host, after)
    drift = _drift(with_server(host, before), with_server(capture_host(declaration), after))
    one, processes = _conclude_precision(contract, run, asked, preflight, telemetry, before, after)
    whole = [*judge_drift(drift), *_restarted(before, after)]
    validity = combine_validity(whole, {one.precision.value: one.validity})
    if validity.verdict is ValidityVerdict.VOID:
        one = without_figures(one)
        if one.load is not None:
            one = one.model_copy(update={"load": one.load.without_figures()})
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
        attribution=None,
        validity=validity,
        assumptions=served_assumptions(contract),
        samples=write_samples(run.path / SAMPLES_FILE, processes),
    ).sealed()
    write_result(run.path / RESULT_FILE, result)
    return Finished(result, run.path, processes, telemetry)


def _conclude_precision(
    contract: Contract,
    run: RunFolder,
    asked: Sequence[Asked],
    preflight: PreFlight,
    telemetry: Telemetry | None,
    before: CapturedServer,
    after: CapturedServer,
) -> tuple[PrecisionResult, tuple[CountedProcess, ...]]:
    done = [one for one in asked if one.report.status is JobStatus.DONE]
    failures = [one.report.error for one in asked if one.report.error]
    searches = isinstance(contract.workload.arrival, SaturatingArrival)
    records = {one.slot.index: read_record(one.folder / RECORD_FILE) for one in done}
    runs = [one for one in done if not (searches and one.slot.index == 0)]
    everything = merge(list(records.values()))
    saturation = _saturation(done[0]) if searches else None
    bounds, clients = _engine(contract).instrument, run.registration.threads
    instrument = describe_instrument(list(records.values()), bounds, preflight, clients)
    facts = (runs or done)[0].facts
    counters = counted_between(before.counters, after.counters)
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
        cache=describe_cache(everything, CacheState(_engine(contract).cache), facts.distinct_prompts, counters),
        instrument=instrument,
        saturation=saturation,
        server_counters={**_told(counters), **_triton(contract, before, after)},
        records=tuple(_record_file(run.path, one.folder / RECORD_FILE, records[one.slot.index]) for one in done),
    )
    findings = [Finding(f"a client failed: {failure}") for failure in failures]
    findings += [Finding(f"the client was the limit: {reason}", void=True) for reason in instrument.reasons]
    findings += [Finding(line) for line in judge_requests(contract, load)]
    precision = contract.workload.precisions[0]
    executed = ExecutedAs(native=Native.UNKNOWN, how="as the server runs it; the contract declares the precision")
    if measured is None:
        findings.append(Finding(saturation.note if saturation is not None else "nothing was measured"))
        return PrecisionResult(
            precision=precision,
            executed=executed,
            validity=validity_of(findings),
            load=load,
            attribution_missing=f"engine {contract.engine.name} is not profiled from outside",
        ), ()
    processes = measured.measured.processes
    spans = [counted_span_ns(process) for process in processes]
    conditions = judge_conditions(telemetry, spans, contract.protocol) if telemetry is not None else []
    findings += [*judge_precision(measured.measured, contract.protocol, ()), *(Finding(line) for line in conditions)]
    shares_host = before.is_local
    return PrecisionResult(
        precision=precision,
        throughput=measured.measured.throughput,
        latency_ms=measured.measured.latency_ms,
        peak=measured.measured.peak,
        sustained=measured.measured.sustained,
        governed_by=find_governor(telemetry, spans) if shares_host else None,
        steady=measured.measured.steady,
        executed=executed,
        energy_j_per_unit=energy_per_unit(telemetry, processes, measured.unit) if shares_host else None,
        slo=measured.measured.slo,
        validity=validity_of(findings),
        restarts=len(runs),
        run_means=measured.measured.run_means,
        attribution_missing=f"engine {contract.engine.name} is not profiled from outside",
        load=load,
    ), processes


def _measured(contract: Contract, runs: Sequence[Asked], records: Mapping[int, LoadRecord]) -> MeasuredLoad | None:
    served = []
    for one in runs:
        requests = requests_of(records[one.slot.index])
        if requests.ok.any() and requests.load_end_ns > requests.start_ns and one.report.setup_ns is not None:
            served.append(ServedRun(one.slot.index, one.report.setup_ns, requests))
    if not served:
        return None
    most = _engine(contract).instrument.coalesced
    coalesced = any(records[run.process].coalesced_share > most for run in served)
    return measure_load(contract, served, coalesced=coalesced, has_tokens=runs[0].facts.has_tokens)


def _load_words(contract: Contract, saturation: SaturationRecord | None) -> str:
    if saturation is not None and saturation.passed_per_s is not None:
        return f"open loop, poisson {saturation.passed_per_s:.4g} /s, the largest rate that held the objective"
    return conditions_of(contract, 1).load


def _record_file(run: Path, path: Path, record: LoadRecord) -> RecordFile:
    return RecordFile(file=str(path.relative_to(run)), sha256=hash_file(path), rows=len(record))


TOLD_PARTS = ("queue", "prefill", "decode", "prompt", "predicted", "inference", "first_token", "compute", "deferred")
"""Counters of a server that say where requests spent their time."""


def _told(counters: Mapping[str, float]) -> dict[str, float]:
    return {
        name: round(value, 6)
        for name, value in sorted(counters.items())
        if any(part in name for part in TOLD_PARTS) and name.endswith(("_sum", "_total", "_us", "_count"))
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
        for name in ("queue", "compute_input", "compute_infer", "compute_output")
    }
    return {
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


def _restarted(before: CapturedServer, after: CapturedServer) -> list[Finding]:
    one, two = before.process, after.process
    if one is not None and (two is None or (one.pid, one.started) != (two.pid, two.started)):
        return [Finding("the server was restarted during the run", void=True)]
    return []
