"""One fresh client: ask a server what the contract says until steady, or search for its saturation.

Started by the order of a served run as `python -m lynxbench.client FOLDER`. Like a worker it talks through files in
that folder alone, and leaves when whoever started it is gone:

    client.json     what to do                       record.npz        every request, as numpy columns
    stage           where it is, for progress        finished          how many requests have ended, for progress
    saturation.json the search, where there was one  ceiling.npz       the closed loop that bounds it from above
    report.json     how it ended, written once
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns, sleep

import numpy as np
import psutil

from lynxbench.engines.openai import count_tokens
from lynxbench.engines.served import Exchange, build_exchange
from lynxbench.errors import CannotRun, ExitCode, LynxbenchError
from lynxbench.evidence.documents import write_text
from lynxbench.executor.server_process import find_server_process
from lynxbench.load import schedule
from lynxbench.load.arrivals import load_of
from lynxbench.load.plan import ClosedLoop, OpenLoop, Plan, parse_target
from lynxbench.load.probe_stream import ProbeStream
from lynxbench.load.processes import RunningProbe, drive
from lynxbench.load.record import Kind, LoadRecord, merge, requests_so_far, write_record
from lynxbench.load.saturation import Bound, SearchRule, find_saturation
from lynxbench.load.wire import Timeouts
from lynxbench.measure.load_phases import find_load_phases, is_stationary
from lynxbench.model.contract import Contract, PoissonArrival, ReplayArrival, SaturatingArrival, SloMetric
from lynxbench.model.document import Document
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.load_figures import CurvePoint, SaturationRecord
from lynxbench.model.serving import ServedEngine
from lynxbench.workload.request_log import RequestLog, read_log

CLIENT_FILE = "client.json"
RECORD_FILE = "record.npz"
SATURATION_FILE = "saturation.json"
CEILING_FILE = "ceiling.npz"
REPORT_FILE = "report.json"
STAGE_FILE = "stage"
FINISHED_FILE = "finished"
TRACEBACK_FILE = "traceback.txt"

POLL_S = 0.25
LOOK_SHARE = 0.05
"""Whether the run is steady is looked at anew when it has grown by this share: each look costs a moment of a core."""
CEILING_SHARE = 0.02
CEILING_S = (2.0, 15.0)
"""The completion-rate ceiling takes this share of the budget, within these bounds; its first third is warm-up."""
FIRST_PROBE = 1000
"""Probes of a search are numbered from here, so that none asks what a run asks."""
BUSY = 0.9
"""A resource this busy is at its limit (the client is held to the same)."""


class ClientJob(Document):
    """What one fresh client does."""

    index: int
    restart: int
    contract: Contract
    clients: int
    salt: int = 0
    """Makes this run's prompts other than those of every run before, which a server's cache may still hold."""
    rate_per_s: float | None = None
    """The rate a search has claimed: the run is a Poisson one at this rate."""
    search: bool = False


class ClientFacts(Document):
    """What the requests themselves do not show."""

    unit: str
    has_tokens: bool
    tokens: str
    asked_output_mean: float | None
    shorter_share: float | None
    distinct_prompts: int | None
    clients: int
    saturated: str = ""


def work(folder: Path) -> JobReport:
    """Do the job in the folder."""
    job = ClientJob.model_validate_json((folder / CLIENT_FILE).read_bytes())
    contract = job.contract
    _say(folder, "setup")
    started_ns = perf_counter_ns()
    trace = read_trace(contract)
    exchange = build_exchange(contract, run=job.salt + job.index, trace=trace)
    setup_ns = (started_ns, perf_counter_ns())
    if job.search:
        _say(folder, "search")
        record, saturated = _search(job, exchange, folder)
    else:
        _say(folder, "measure")
        record, saturated = _measure(job, exchange, trace, folder), ""
    _say(folder, "count")
    record, source = _count(record, exchange)
    write_record(replace(record, texts=()), folder / RECORD_FILE)
    facts = _facts(record, exchange, source, job.clients, saturated)
    return JobReport(
        status=JobStatus.DONE,
        setup_ns=setup_ns,
        unit=exchange.unit,
        facts=facts.model_dump(mode="json"),
        stop_reason=record.stop_reason,
    )


def read_trace(contract: Contract) -> RequestLog | None:
    """The trace a contract replays, if it replays one."""
    arrival = contract.workload.arrival
    return read_log(Path(arrival.path)) if isinstance(arrival, ReplayArrival) else None


def plan_of(
    contract: Contract, exchange: Exchange, load: ClosedLoop | OpenLoop, duration_s: float, clients: int
) -> Plan:
    """One probe of a contract."""
    engine = contract.engine
    assert isinstance(engine, ServedEngine)
    waits = engine.timeouts
    most = load.concurrency if isinstance(load, ClosedLoop) else clients
    return Plan(
        target=parse_target(engine.url, ca_file=engine.ca_file, verify=engine.verify_tls),
        script=exchange.script,
        language=exchange.language,
        load=load,
        duration_s=duration_s,
        drain_s=waits.drain_s,
        timeouts=Timeouts(waits.connect_s, waits.first_byte_s, waits.idle_s, waits.total_s),
        processes=min(clients, most),
        keep_text=exchange.keep_text,
        think_s=getattr(engine, "think_s", 0.0),
    )


def seed_of(contract: Contract, run: int) -> int:
    """A schedule seed of its own for every run of a contract."""
    return int(np.random.SeedSequence((contract.workload.seed, run)).generate_state(1)[0])


# --- one run ---------------------------------------------------------------------------------------------------------


def _measure(job: ClientJob, exchange: Exchange, trace: RequestLog | None, folder: Path) -> LoadRecord:
    contract, protocol = job.contract, job.contract.protocol
    arrival = contract.workload.arrival
    if job.rate_per_s is not None:
        arrival = PoissonArrival.model_validate({"process": "poisson", "rate": f"{job.rate_per_s!r} /s"})
    load = load_of(
        arrival,
        duration_s=protocol.limit_s,
        shortest_s=protocol.min_duration_s,
        seed=seed_of(contract, job.index),
        trace_s=None if trace is None else trace.arrival_s,
    )
    stationary = is_stationary(arrival)
    plan = plan_of(contract, exchange, load, protocol.limit_s, job.clients)
    next_look_s = protocol.min_duration_s
    with RunningProbe(plan) as probe:
        while probe.running:
            sleep(POLL_S)
            elapsed_s = (perf_counter_ns() - probe.start_ns) / 1e9
            (folder / FINISHED_FILE).write_text(str(probe.finished))
            if elapsed_s < next_look_s or isinstance(arrival, ReplayArrival):
                continue
            if elapsed_s >= protocol.limit_s:
                break
            next_look_s = max(elapsed_s * (1 + LOOK_SHARE), elapsed_s + 1.0)
            seen = requests_so_far(probe.rows(), probe.start_ns)
            if len(seen) and find_load_phases(seen, protocol, stationary_open_loop=stationary).steady:
                probe.close_load()
                break
        return probe.finish()


def _count(record: LoadRecord, exchange: Exchange) -> tuple[LoadRecord, str]:
    """Output tokens by usage, else by the tokenizer over the kept text; never by events."""
    if not exchange.has_tokens:
        return record, "none"
    ok = record.kind == Kind.OK
    if not ok.any() or (record.output_tokens[ok] >= 0).all():
        return record, "usage"
    counted = count_tokens(record.output_tokens.tolist(), record.texts, exchange.count)
    record = replace(record, output_tokens=np.array(counted, dtype=np.int64))
    return record, "tokenizer" if (record.output_tokens[ok] >= 0).all() else "unknown"


def _facts(record: LoadRecord, exchange: Exchange, source: str, clients: int, saturated: str) -> ClientFacts:
    asked = np.array(exchange.asked_output, dtype=np.int64)
    mean = shorter = None
    rows = (record.kind == Kind.OK) & (record.output_tokens >= 0)
    if len(asked) and rows.any():
        wanted = asked[record.number[rows] % len(asked)]
        mean = float(wanted.mean())
        shorter = float((record.output_tokens[rows] < wanted).mean())
    return ClientFacts(
        unit=exchange.unit,
        has_tokens=exchange.has_tokens,
        tokens=source,
        asked_output_mean=mean,
        shorter_share=shorter,
        distinct_prompts=exchange.distinct_prompts,
        clients=clients,
        saturated=saturated,
    )


# --- the search ------------------------------------------------------------------------------------------------------


def _search(job: ClientJob, exchange: Exchange, folder: Path) -> tuple[LoadRecord, str]:
    contract, arrival = job.contract, job.contract.workload.arrival
    assert isinstance(arrival, SaturatingArrival)
    engine = contract.engine
    assert isinstance(engine, ServedEngine)
    bounds = [Bound(slo.at_most_s, 1 - slo.percentile / 100, slo.metric.value) for slo in contract.objective.slo]
    metrics = [slo.metric for slo in contract.objective.slo]
    only_latency = all(metric is SloMetric.LATENCY for metric in metrics)
    slowest_s = max(slo.at_most_s for slo in contract.objective.slo)
    # A request that is not answered within twice the bound is late, whatever becomes of it; a token's time is not known
    # before the answer ends, so there the client's own patience is the bound.
    patience_s = 2 * slowest_s + 1.0 if only_latency else engine.timeouts.total_s
    records: list[LoadRecord] = []
    ceiling_per_s = _ceiling(job, exchange, arrival, folder)
    watch = _Watch(parse_target(engine.url).port)
    streams: list[ProbeStream] = []

    def start(rate_per_s: float) -> ProbeStream:
        (folder / FINISHED_FILE).write_text(str(sum(len(record) for record in records)))
        if streams and streams[-1].record is not None:
            records.append(streams[-1].record)
        span_s = 1.2 * arrival.budget_s + 5.0
        offsets = schedule.poisson(rate_per_s, span_s, seed_of(contract, FIRST_PROBE + len(streams)))
        plan = plan_of(contract, exchange, OpenLoop(offsets), span_s, job.clients)
        plan = replace(plan, script=exchange.script_of(job.salt + FIRST_PROBE + len(streams)))
        streams.append(ProbeStream(plan, metrics, patience_s))
        watch.begin(rate_per_s)
        return streams[-1]

    rule = SearchRule(
        tolerance=arrival.tolerance, max_seconds=arrival.budget_s, min_seconds=min(1.0, arrival.budget_s / 100)
    )
    found = find_saturation(start, ceiling_per_s, bounds, rule)
    if streams and streams[-1].record is not None:
        records.append(streams[-1].record)
    saturated = watch.say(found.failed_per_s)
    document = SaturationRecord(
        passed_per_s=found.passed_per_s,
        failed_per_s=found.failed_per_s,
        failed_outcome=None if found.failed_outcome is None else found.failed_outcome.value,
        confirmed=found.confirmed,
        goodput_per_s=found.goodput_per_s(),
        knee_per_s=None if (knee := found.knee()) is None else knee.rate_per_s,
        ceiling_per_s=ceiling_per_s,
        probe_s=found.seconds,
        note=found.note,
        saturated=saturated,
        curve=tuple(
            CurvePoint(
                rate_per_s=p.rate_per_s,
                outcome=p.outcome.value,
                why=p.why,
                scout=p.scout,
                requests=p.requests,
                seconds=p.seconds,
                p50_s=_known(p.p50_s),
                p99_s=_known(p.p99_s),
                goodput_per_s=p.goodput_per_s,
            )
            for p in found.curve()
        ),
    )
    write_text(folder / SATURATION_FILE, document.model_dump_json(indent=1))
    return merge(records), saturated


def _ceiling(job: ClientJob, exchange: Exchange, arrival: SaturatingArrival, folder: Path) -> float:
    """Completions a second with many requests in flight: more than any sustainable rate."""
    shortest, longest = CEILING_S
    span_s = min(max(CEILING_SHARE * arrival.budget_s, shortest), longest)
    load = ClosedLoop(arrival.concurrency, ramp_up_s=0.1)
    record = drive(plan_of(job.contract, exchange, load, span_s, job.clients))
    write_record(replace(record, texts=()), folder / CEILING_FILE)
    ok = record.kind == Kind.OK
    first_ns, last_ns = record.start_ns + int(span_s / 3 * 1e9), record.start_ns + int(span_s * 1e9)
    done = int(np.count_nonzero(ok & (record.last_ns > first_ns) & (record.last_ns <= last_ns)))
    if done == 0:
        said = "; ".join(list(record.notes)[:2]) or "no answer in time"
        raise CannotRun(f"no request was completed in {span_s:.0f} s at {arrival.concurrency} in flight ({said})")
    return done / (span_s * 2 / 3)


class _Watch:
    """How busy the server's processes are during probes, where they run on this host."""

    def __init__(self, port: int) -> None:
        found = find_server_process(port)
        self._tree = found.tree if found is not None else ()
        self._open: tuple[float, int, float, dict[int, float]] | None = None
        self._seen: list[tuple[float, float, float]] = []

    def begin(self, rate_per_s: float) -> None:
        """A probe at that rate starts; the one before has ended."""
        self._close()
        if self._tree:
            cpu_s, threads = self._spent()
            self._open = (rate_per_s, perf_counter_ns(), cpu_s, threads)

    def say(self, failed_per_s: float | None) -> str:
        """What was at its limit at the highest rates, in words."""
        self._close()
        if not self._tree:
            return "unknown: the server's processes cannot be seen from here"
        high = [seen for seen in self._seen if failed_per_s is None or seen[0] >= 0.9 * failed_per_s]
        if not high:
            return "unknown: no probe came near the limit"
        cores = max(seen[1] for seen in high)
        thread = max(seen[2] for seen in high)
        here = len(os.sched_getaffinity(0))
        if cores >= BUSY * here:
            return f"the CPUs: the server used {cores:.1f} of {here} cores"
        if thread >= BUSY:
            return (
                f"one thread of the server, busy {min(thread, 1):.0%} of the time ({cores:.1f} of {here} cores in all)"
            )
        return (
            f"not the CPUs ({cores:.1f} of {here} cores, its busiest thread {min(thread, 1):.0%}): "
            "requests wait inside the server, for slots, a batch or a device"
        )

    def _close(self) -> None:
        if self._open is None:
            return
        rate, began_ns, cpu_s, threads = self._open
        span_s = (perf_counter_ns() - began_ns) / 1e9
        now_s, now = self._spent()
        if span_s > 0:
            busiest = max((now[t] - threads.get(t, 0.0) for t in now), default=0.0)
            self._seen.append((rate, (now_s - cpu_s) / span_s, busiest / span_s))
        self._open = None

    def _spent(self) -> tuple[float, dict[int, float]]:
        total, threads = 0.0, {}
        for pid in self._tree:
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                total += times.user + times.system
                threads.update({t.id: t.user_time + t.system_time for t in process.threads()})
            except psutil.Error:
                continue
        return total, threads


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


# --- the process -----------------------------------------------------------------------------------------------------


def _leave_with_parent() -> None:
    """The parent holds the other end of standard input; when it is gone, nobody waits for this process."""
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGTERM)  # the client's own processes are in its group


def _say(folder: Path, stage: str) -> None:
    (folder / STAGE_FILE).write_text(stage)


def main() -> None:
    """Run the job; every end leaves a report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the order's to handle: it ends this process
    folder = Path(sys.argv[1])
    if os.getpgid(0) == os.getpid():
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        report = work(folder)
    except LynxbenchError as error:
        report = JobReport(status=JobStatus.FAILED, error=str(error))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        line = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
        report = JobReport(status=JobStatus.FAILED, error=f"{type(error).__name__} at {where}: {line}")
        (folder / TRACEBACK_FILE).write_text(traceback.format_exc())
    write_text(folder / REPORT_FILE, report.model_dump_json())
    os._exit(int(ExitCode.DONE))  # the thread above waits for ever


if __name__ == "__main__":
    main()
