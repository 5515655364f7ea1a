"""One fresh client: ask a server what the contract says until steady, or search for its saturation.

Started as `python -m lynxbench.run.client_work FOLDER`. Beside what every fresh process leaves, its folder holds

    record.npz       every request, as numpy columns           ceiling.npz    the closed loop that bounds a search
    saturation.json  the search, where there was one
"""

import os
import signal
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns, sleep
from typing import Protocol

import numpy as np

from lynxbench.engines.exchanging import exchange_of
from lynxbench.engines.openai import count_tokens
from lynxbench.engines.served import Exchange
from lynxbench.load.load_record import LoadRecord, RequestEnd, write_record
from lynxbench.load.plan import LoadPlan
from lynxbench.load.processes import RunningProbe
from lynxbench.load.record_parts import requests_so_far
from lynxbench.load.said_answers import first_share
from lynxbench.load.send_schedule import load_of
from lynxbench.measure.load_phases import find_load_phases, is_stationary
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.samples import Int64
from lynxbench.model.workload import PoissonArrival, ReplayArrival
from lynxbench.run.asked_facts import CacheResets, answers_alike, checked_answers, expected_cache, without_texts
from lynxbench.run.client_job import RECORD_FILE, ClientFacts, ClientHost, ClientJob, plan_of, read_trace, seed_of
from lynxbench.run.fresh_job import FINISHED_FILE, JOB_FILE, leave_report, say_stage
from lynxbench.run.saturation_client import search
from lynxbench.workload.request_log import RequestLog

POLL_S = 0.25
LOOK_SHARE = 0.05
"""Whether the run is steady is looked at anew when it has grown by this share: each look costs a moment of a core."""


class LoadProbe(Protocol):
    """A probe under way, on processes of this machine or on clients elsewhere."""

    start_ns: int

    @property
    def running(self) -> bool:
        """Whether any client is still at work."""

    @property
    def finished(self) -> int:
        """How many requests have ended."""

    def rows(self) -> Int64:
        """The rows finished so far, one line each."""

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish."""

    def finish(self) -> LoadRecord:
        """Wait for the end and gather the whole record."""


class ProbeStarter(Protocol):
    """Starts a plan's clients; those on other hosts are listed in `hosts` when they have ended."""

    def __call__(self, job: ClientJob, plan: LoadPlan, hosts: list[ClientHost]) -> AbstractContextManager[LoadProbe]:
        """The probe of a plan."""


def probe_here(job: ClientJob, plan: LoadPlan, hosts: list[ClientHost]) -> AbstractContextManager[LoadProbe]:
    """The load on processes of this machine."""
    return RunningProbe(plan)


def work(folder: Path, start_probe: ProbeStarter = probe_here) -> JobReport:
    """Do the job in the folder."""
    job = ClientJob.model_validate_json((folder / JOB_FILE).read_bytes())
    contract = job.contract
    say_stage(folder, "setup")
    started_ns = perf_counter_ns()
    trace = read_trace(contract)
    exchange = exchange_of(contract, run=job.salt + job.index, trace=trace, calibration=job.calibration)
    setup_ns = (started_ns, perf_counter_ns())
    hosts: list[ClientHost] = []
    resets = CacheResets(contract)
    resets.reset()
    if job.search:
        say_stage(folder, "search")
        record, saturated = search(job, exchange, folder, resets)
    else:
        say_stage(folder, "measure")
        record, saturated = _measure(job, exchange, trace, folder, hosts, start_probe), ""
    say_stage(folder, "count")
    record, source = _count(record, exchange)
    facts = _facts(record, exchange, source, job.clients, saturated)
    told = {"alike": answers_alike(record, exchange, contract), "first_share": first_share(record.said)}
    facts = facts.model_copy(update={"hosts": tuple(hosts), "reset": resets.words, **told})
    write_record(without_texts(record, contract), folder / RECORD_FILE)
    return JobReport(
        status=JobStatus.DONE,
        setup_ns=setup_ns,
        unit=exchange.unit,
        facts=facts.model_dump(mode="json"),
        stop_reason=record.stop_reason,
    )


def _measure(
    job: ClientJob,
    exchange: Exchange,
    trace: RequestLog | None,
    folder: Path,
    hosts: list[ClientHost],
    start_probe: ProbeStarter,
) -> LoadRecord:
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
    with start_probe(job, plan, hosts) as probe:
        while probe.running:
            sleep(POLL_S)
            elapsed_s = (perf_counter_ns() - probe.start_ns) / 1e9
            (folder / FINISHED_FILE).write_text(str(probe.finished))
            if elapsed_s < next_look_s or isinstance(arrival, ReplayArrival):
                continue
            if elapsed_s >= protocol.limit_s:
                break
            next_look_s = max(elapsed_s * (1 + LOOK_SHARE), elapsed_s + 1.0)
            requests = requests_so_far(probe.rows(), probe.start_ns)
            if len(requests) and find_load_phases(requests, protocol, stationary_open_loop=stationary).steady:
                probe.close_load()
                break
        return probe.finish()


def _count(record: LoadRecord, exchange: Exchange) -> tuple[LoadRecord, str]:
    """Output tokens by usage, else by the tokenizer over the kept text; never by events."""
    if not exchange.has_tokens:
        return record, "none"
    ok = record.kind == RequestEnd.OK
    if not ok.any() or (record.output_tokens[ok] >= 0).all():
        return record, "usage"
    texts = record.texts if exchange.check is None else ()  # answers that are checked are kept in another form
    counted = count_tokens(record.output_tokens.tolist(), texts, exchange.count)
    record = replace(record, output_tokens=np.array(counted, dtype=np.int64))
    return record, "tokenizer" if (record.output_tokens[ok] >= 0).all() else "unknown"


def _facts(record: LoadRecord, exchange: Exchange, source: str, clients: int, saturated: str) -> ClientFacts:
    lengths = np.array(exchange.asked_output, dtype=np.int64)
    mean = shorter = longer = None
    rows = (record.kind == RequestEnd.OK) & (record.output_tokens >= 0)
    if len(lengths) and rows.any():
        wanted = lengths[exchange.place_of(record.number[rows], record.turn[rows])]
        asked = wanted > 0  # others end where the model ends them
        if asked.any():
            mean = float(wanted[asked].mean())
            shorter = float((record.output_tokens[rows][asked] < wanted[asked]).mean())
            longer = float((record.output_tokens[rows][asked] > wanted[asked]).mean())
    return ClientFacts(
        unit=exchange.unit,
        has_tokens=exchange.has_tokens,
        tokens=source,
        asked_output_mean=mean,
        shorter_share=shorter,
        longer_share=longer,
        distinct_prompts=exchange.distinct_prompts,
        clients=clients,
        saturated=saturated,
        size=exchange.size,
        sources=exchange.sources,
        expected=expected_cache(record, exchange),
        session_calls=tuple(np.diff(exchange.calls_before).tolist()),
        answers=checked_answers(record, exchange),
    )


def ask(start_probe: ProbeStarter = probe_here) -> None:
    """The whole life of a client's process; when whoever started it is gone, so are its own processes."""
    leave_report(lambda folder: work(folder, start_probe), lambda: os.killpg(0, signal.SIGTERM))


if __name__ == "__main__":
    ask()
