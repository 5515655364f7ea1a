"""What the clients of a served run come to: figures from their records, doubts, and whose time a request is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lynxbench.attribute.attributing import attribute_requests
from lynxbench.attribute.tile.other_clients import find_others, open_requests
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.sample_file import hash_file
from lynxbench.load.load_record import LoadRecord, merge, read_record, requests_of
from lynxbench.load.load_summary import account, describe_cache, describe_instrument, describe_tokens
from lynxbench.load.record_parts import unpaced_rows, unpaced_share
from lynxbench.load.response_reading import UNKNOWN_TOKENS
from lynxbench.measure.context import conditions_of
from lynxbench.measure.device_activity import EXPORTED, SOURCE
from lynxbench.measure.energy import counted_span_ns, energy_beside, energy_per_unit, find_governor
from lynxbench.measure.load_context import judge_requests
from lynxbench.measure.mlperf_figures import mlperf_figures
from lynxbench.measure.node_telemetry import NodeTelemetry, in_order, node_doubts
from lynxbench.measure.run_conditions import Span, judge_devices, judge_host
from lynxbench.measure.served_load import MeasuredLoad, ServedRun, measure_load
from lynxbench.measure.validity import Doubt, judge_evidence, validity_of
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor
from lynxbench.model.job import ExecutedAs
from lynxbench.model.load_figures import LoadFigures, PreFlight, RecordFile, SaturationRecord
from lynxbench.model.precision import Native
from lynxbench.model.result import RULES, PrecisionResult, SloOutcome
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.model.serving import CacheState, ServedEngine
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.alike_answers import judge_alike
from lynxbench.run.asked_results import changed_sources, least_alike, mean_expected, mean_share, with_asked_work
from lynxbench.run.attempts import Attempt
from lynxbench.run.client_job import RECORD_FILE, SATURATION_FILE, ClientFacts
from lynxbench.run.listed_models import judge_names
from lynxbench.run.node_watch import node_in
from lynxbench.run.process_results import with_figures
from lynxbench.run.profile_pass import conclude_profile, kernel_line
from lynxbench.run.served_accuracy import conclude_answers
from lynxbench.run.served_precision import check_precision
from lynxbench.run.server_watch import watched_of

PREFLIGHT_FILE = "preflight.json"
PACED = 11
"""The edition of the rules since which a time per token is known only where its tokens were seen to come, and answers
that end early are counted in all runs."""
SHARED = 11
"""… since which requests of others at the same server are a doubt."""
LOOKED_AT = 12
"""… and since which what a few answers said is looked at: whether they are alike, and what their first event held."""
LARGEST_CLOCK_BOUND_NS = 1_000_000
"""A client's clock must be known to a millisecond: its share of the schedule may be off against others' by as much."""


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What a server counted over the run."""

    counters: Mapping[str, float]
    where_time_went: Mapping[str, float]
    shares_host: bool
    """Whether it ran on the host whose telemetry was taken."""


def engine_of(contract: Contract) -> ServedEngine:
    """The contract's engine, known to be a server."""
    assert isinstance(contract.engine, ServedEngine)
    return contract.engine


def saturation_of(attempt: Attempt) -> SaturationRecord:
    """What a search found."""
    return read_document(attempt.folder / SATURATION_FILE, SaturationRecord, "the search left no record")


def conclude_clients(
    run: RunFolder,
    attempts: Sequence[Attempt],
    telemetry: Telemetry | None,
    server: ServerCounts,
    executor: Executor,
    rules: int = RULES,
) -> tuple[PrecisionResult, tuple[CountedProcess, ...]]:
    """Everything that the clients' records say, beside what the server counted."""
    contract, precision = run.registration.contract, run.registration.contract.workload.precisions[0]
    done = [attempt for attempt in attempts if attempt.done]
    searches = isinstance(contract.workload.arrival, SaturatingArrival)
    records = {attempt.slot.index: read_record(attempt.folder / RECORD_FILE) for attempt in done}
    runs = [attempt for attempt in done if not (searches and attempt.slot.index == 0)]
    measured = _measured(contract, runs, records, rules)
    outcomes = measured.measured.slo if measured is not None else ()
    saturation = held_by_runs(saturation_of(done[0]), outcomes) if searches else None
    load = _load_figures(run, done, runs, records, measured, saturation, server, rules)
    facts = [_facts(attempt) for attempt in runs or done]
    load = with_asked_work(load, contract, facts, records, measured.measured.processes if measured is not None else ())
    findings = [Doubt(f"a client failed: {attempt.report.error}") for attempt in attempts if attempt.report.error]
    findings += [Doubt(f"the client was the limit: {reason}", void=True) for reason in load.instrument.reasons]
    findings += [Doubt(line, void=True) for attempt in done for line in doubtful_clocks(_facts(attempt))]
    findings += [Doubt(line, void=True) for line in changed_sources(facts)]
    findings += [Doubt(line) for line in judge_requests(contract, load, rules)]
    accuracy, unscored = conclude_answers(run, rules)
    findings += unscored
    formats = check_precision(contract, run.registration.executor)
    findings += [*formats.doubts, *judge_names(contract, run.registration.executor, rules)]
    findings += judge_alike(load, run.registration.executor)
    executed = ExecutedAs(native=Native.UNKNOWN, how=formats.how)
    if measured is None:
        findings.append(Doubt(saturation.note if saturation is not None else "nothing was measured"))
        return PrecisionResult(
            precision=precision,
            executed=executed,
            accuracy=accuracy,
            validity=validity_of(findings),
            load=load,
            attribution_missing=f"engine {contract.engine.name} is not profiled from outside",
        ), ()
    requests = [requests_of(records[attempt.slot.index]) for attempt in runs]
    if not _facts(runs[0]).has_tokens:  # documents and seconds of sound are no tokens to blame a decode step for
        requests = [replace(part, output_tokens=np.full(len(part), UNKNOWN_TOKENS)) for part in requests]
    processes = measured.measured.processes
    spans = [counted_span_ns(process) for process in processes]
    # From the load's end on the queue drains: what stands in it then is nobody's limit.
    ends_ns = [requests_of(records[process.samples.process]).load_end_ns for process in processes]
    asked = [(start, min(end, end_ns)) for (start, end), end_ns in zip(spans, ends_ns, strict=True)]
    node = node_in(run.path, spans)
    findings += [Doubt(line) for line in judge_node(contract, node, spans)]
    devices, here = seen_devices(telemetry, node, shares_host=server.shares_host)
    source = EXPORTED if node is not None and devices is node.devices else SOURCE
    watched = watched_of(run.path, executor, devices, asked, source)
    others = find_others(watched.tiled, open_requests(requests, asked)) if watched and rules >= SHARED else ""
    findings += [Doubt(others)] if others else []
    attribution = attribute_requests(
        requests,
        server.where_time_went,
        here,
        engine=contract.engine.name,
        owner=contract.owner,
        watched=watched,
        others=others,
    )
    kernels = conclude_profile(run, rules)
    if kernels is not None and not isinstance(attribution, str):
        attribution = attribution.model_copy(update={"evidence": (*attribution.evidence, kernel_line(kernels))})
    findings += judge_evidence(measured.measured, telemetry, contract, (), overlapping=True, rules=rules)
    result = PrecisionResult(
        precision=precision,
        governed_by=find_governor(devices, spans),
        executed=executed,
        accuracy=accuracy,
        energy_j_per_unit=energy_per_unit(here, processes, measured.unit),
        energy_beside=energy_beside(here, processes, measured.unit),
        activity=None if watched is None else watched.activity,
        validity=validity_of(findings),
        restarts=len(runs),
        attribution=None if isinstance(attribution, str) else attribution,
        attribution_missing=attribution if isinstance(attribution, str) else None,
        load=load.model_copy(
            update={
                "speculation": None if watched is None else watched.tiled.speculation,
                "node": None if node is None else node.record,
                "kernels": kernels,
            }
        ),
    )
    return with_figures(result, measured.measured), processes


def judge_node(contract: Contract, node: NodeTelemetry | None, spans: Sequence[Span]) -> list[str]:
    """What the readings of the server's node give reason to doubt, and what of them is missing."""
    if node is None:
        named = engine_of(contract).node is not None
        return ["the contract names who watches the server's node, and nothing was kept of it"] if named else []
    lines = [*judge_devices(node.devices, node.spans(spans), contract.owner), *judge_host(node.host, spans)]
    return [*node_doubts(node.record), *(f"the server's node: {line}" for line in lines)]


def seen_devices(
    telemetry: Telemetry | None, node: NodeTelemetry | None, *, shares_host: bool
) -> tuple[Telemetry | None, Telemetry | None]:
    """The readings of the devices that serve, and all of their host's: this machine's own, else its exporters'."""
    own = telemetry if shares_host else None
    if node is None or (own is not None and any(name.startswith("gpu") for name in own.columns)):
        return own, own
    if own is None:
        return (node.devices, node.whole) if len(node.whole.at_ns) else (None, None)
    # This machine without NVML's word: its own readings of the host, the exporter's of the devices.
    return (node.devices if len(node.devices.at_ns) else own), in_order([own, node.devices])


def doubtful_clocks(facts: ClientFacts) -> list[str]:
    """Clients of a fleet whose clock is not known well enough to be merged with the others'."""
    return [
        f"the clock of client {host.process} on {host.node} is known to ±{host.clock_bound_ns / 1e6:.2f} ms only "
        f"(bound {LARGEST_CLOCK_BOUND_NS / 1e6:g} ms)"
        for host in facts.hosts
        if not host.lost and host.clock_bound_ns > LARGEST_CLOCK_BOUND_NS
    ]


def _facts(attempt: Attempt) -> ClientFacts:
    """What the requests themselves do not show."""
    return ClientFacts.model_validate(attempt.report.facts, strict=False)


def _measured(
    contract: Contract, runs: Sequence[Attempt], records: Mapping[int, LoadRecord], rules: int
) -> MeasuredLoad | None:
    served = _served(runs, records, rules)
    if not served:
        return None
    most = engine_of(contract).instrument.coalesced
    coalesced = any(records[run.process].coalesced_share > most for run in served)
    facts = _facts(runs[0])
    return measure_load(
        contract, served, coalesced=coalesced, has_tokens=facts.has_tokens, counted=facts.unit, rules=rules
    )


def _served(runs: Sequence[Attempt], records: Mapping[int, LoadRecord], rules: int) -> list[ServedRun]:
    """The runs in which something was answered."""
    served = []
    for attempt in runs:
        record = records[attempt.slot.index]
        requests = requests_of(record)
        if rules >= PACED:
            requests = replace(requests, unpaced=unpaced_rows(record))
        if rules >= LOOKED_AT:
            requests = replace(requests, first_share=mean_share([_facts(run) for run in runs], "first_share") or 0.0)
        if requests.ok.any() and requests.load_end_ns > requests.start_ns and attempt.report.setup_ns is not None:
            served.append(ServedRun(attempt.slot.index, attempt.report.setup_ns, requests))
    return served


def held_by_runs(search: SaturationRecord, outcomes: Sequence[SloOutcome]) -> SaturationRecord:
    """A claim stays confirmed only where the runs at its rate, after the search, met every bound too."""
    missed = [
        f"p{slo.percentile:g} {slo.metric}"
        for slo in outcomes
        if slo.measured.estimate is None or slo.measured.estimate > slo.at_most_ms
    ]
    if not missed or not search.confirmed or search.watched_s is None:  # earlier versions did not ask for it
        return search
    note = f"the runs at the claimed rate missed {', '.join(missed)}"
    undone = {"confirmed": False, "at_least_per_s": None}  # it is that rate which the runs speak against
    return search.model_copy(update={**undone, "note": "; ".join(filter(None, (note, search.note)))})


def _load_figures(
    run: RunFolder,
    done: Sequence[Attempt],
    runs: Sequence[Attempt],
    records: Mapping[int, LoadRecord],
    measured: MeasuredLoad | None,
    saturation: SaturationRecord | None,
    server: ServerCounts,
    rules: int,
) -> LoadFigures:
    contract, clients = run.registration.contract, run.registration.clients
    assert clients is not None
    engine, everything = engine_of(contract), merge(list(records.values()))
    told = [_facts(attempt) for attempt in runs or done]
    facts = told[0]
    preflight = read_document(run.path / PREFLIGHT_FILE, PreFlight, "the client was not tried first")
    return LoadFigures(
        load=_load_words(contract, saturation),
        budget=tuple(
            f"p{slo.percentile:g} {slo.metric.value} ≤ {slo.at_most_s * 1e3:g} ms" for slo in contract.objective.slo
        ),
        accounting=account(everything),
        offered_per_s=measured.offered_per_s if measured else None,
        requests_per_s=measured.requests_per_s if measured else None,
        goodput_per_s=measured.goodput_per_s if measured else None,
        in_flight_mean=measured.in_flight_mean if measured else None,
        tokens=describe_tokens(
            everything,
            facts.tokens,
            facts.asked_output_mean,
            facts.shorter_share if rules < PACED else mean_share(told, "shorter_share"),
            mean_share(told, "longer_share"),
            unpaced_share(everything) if rules >= PACED and getattr(engine, "stream", False) else None,
            least_alike(told) if rules >= LOOKED_AT else None,
            mean_share(told, "first_share") if rules >= LOOKED_AT else None,
        ),
        cache=describe_cache(
            everything,
            CacheState(engine.cache),
            facts.distinct_prompts,
            server.counters,
            expected=mean_expected([_facts(attempt) for attempt in done]),
            reset=facts.reset,
        ),
        instrument=describe_instrument(
            list(records.values()), engine.instrument, preflight, clients, each=bool(facts.hosts)
        ),
        saturation=saturation,
        server_counters=dict(server.where_time_went),
        mlperf=mlperf_figures(contract, [r.requests for r in _served(runs, records, rules)], measured)
        if measured
        else None,
        records=tuple(_record_file(run.path, a.folder / RECORD_FILE, records[a.slot.index]) for a in done),
    )


def _load_words(contract: Contract, saturation: SaturationRecord | None) -> str:
    if saturation is not None and saturation.passed_per_s is not None:
        if not saturation.confirmed and saturation.at_least_per_s is not None:
            held = f"holds at least {saturation.at_least_per_s:.4g} /s, not shown beyond"
            return f"open loop, poisson {saturation.passed_per_s:.4g} /s; the search {held}"
        return f"open loop, poisson {saturation.passed_per_s:.4g} /s, the largest rate that held the objective"
    return conditions_of(contract, 1).load


def _record_file(run: Path, path: Path, record: LoadRecord) -> RecordFile:
    return RecordFile(file=str(path.relative_to(run)), sha256=hash_file(path), rows=len(record))
