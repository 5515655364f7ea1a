"""The order of a run against a server: capture it, prove the instrument, load it from fresh clients, capture it again.

The sibling of pipeline.py, for engines that are asked over HTTP. A restart is a fresh client with a schedule of its
own; the server goes on, and is captured before and after.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.errors import CannotRun, Interrupted
from lynxbench.evidence.documents import write_text
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.server import CapturedServer, with_server
from lynxbench.load.arrivals import load_of
from lynxbench.load.fresh_process import last_words, run_fresh
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.preflight import fly
from lynxbench.measure.telemetry import TelemetrySampler
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.load_figures import PreFlight
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.client.client_job import (
    CLIENT_FILE,
    FINISHED_FILE,
    REPORT_FILE,
    STAGE_FILE,
    ClientFleet,
    ClientJob,
    read_trace,
    seed_of,
)
from lynxbench.run.greeting import Greeting, greet
from lynxbench.run.run_outcome import TELEMETRY_FILE, Finished, Progress, Recorder, kept
from lynxbench.run.served_concluding import ClientAttempt, conclude, engine_of, look_at, saturation_of

PREFLIGHT_FILE = "preflight.json"
CLIENT_PROGRAM = "lynxbench.run.client"


@dataclass(frozen=True, slots=True)
class RemoteClients:
    """Clients that are not processes of this machine: which program starts them, where, and how many."""

    program: str
    where: ClientFleet
    clients: int


def run_served(
    contract: Contract,
    out: Path,
    declaration: Declaration | None,
    progress: Progress,
    recorder: Recorder | None = None,
    greeting: Greeting | None = None,
    remote: RemoteClients | None = None,
) -> Finished:
    """Run a served contract from the beginning; its server is greeted, unless it was already.

    `remote` says where the clients are, when they are not processes of this machine.
    """
    greeting = greeting or greet(contract)
    assert greeting is not None
    host, server = capture_host(declaration), look_at(contract)
    clients = clients_of(contract) if remote is None else remote.clients
    now = datetime.now(UTC)
    run = RunFolder.create(out, contract, with_server(host, server), clients, slots_of(contract), now)
    with kept(run, recorder):
        return _carry_out(run, host, server, greeting.calibration, declaration, progress, remote)


def resume_served(
    run: RunFolder,
    declaration: Declaration | None,
    progress: Progress,
    recorder: Recorder | None = None,
    remote: RemoteClients | None = None,
) -> Finished:
    """Go on with an unfinished run; the server is captured anew, and must be the one it was."""
    contract = run.registration.contract
    greeting = greet(contract)
    assert greeting is not None
    with kept(run, recorder):
        server = look_at(contract)
        return _carry_out(run, capture_host(declaration), server, greeting.calibration, declaration, progress, remote)


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
    engine = engine_of(contract)
    return engine.processes or max(1, min(4, len(os.sched_getaffinity(0)) // 2))


def _carry_out(
    run: RunFolder,
    host: Executor,
    server: CapturedServer,
    calibration: TokenCalibration | None,
    declaration: Declaration | None,
    progress: Progress,
    remote: RemoteClients | None,
) -> Finished:
    started = perf_counter()
    progress.begin(run)
    progress.note("proving the instrument against the bundled server")
    preflight = _preflight(run, 1 if remote is None else run.registration.threads)
    with TelemetrySampler(run.path / TELEMETRY_FILE) as sampler:
        try:
            asked = _ask_all(run, server, calibration, sampler, progress, remote)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; finished clients are kept in {run.path}. Go on with the same command and --resume"
            ) from None
    progress.note("capturing the server again and concluding")
    return conclude(run, asked, host, server, preflight, declaration, perf_counter() - started)


def _preflight(run: RunFolder, hosts: int) -> PreFlight:
    """The instrument at this contract's load, or at one host's share of it; kept for a resumed run."""
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

    if hosts > 1:
        load = OpenLoop(load.offsets_ns[::hosts]) if isinstance(load, OpenLoop) else _shared(load, hosts)

    def build(url: str, tokens: int) -> bytes:
        service = Service(url=url, model="ground-truth")
        return build_request(service, build_body(service, "How fast is the instrument itself?", tokens))

    flown = fly(OpenAiLanguage(), build, load, protocol.min_duration_s)
    write_text(file, flown.model_dump_json(indent=1))
    return flown


def _shared(load: ClosedLoop, hosts: int) -> ClosedLoop:
    return ClosedLoop(max(1, load.concurrency // hosts), ramp_up_s=load.ramp_up_s)


# --- asking ----------------------------------------------------------------------------------------------------------


def _ask_all(
    run: RunFolder,
    server: CapturedServer,
    calibration: TokenCalibration | None,
    sampler: TelemetrySampler,
    progress: Progress,
    remote: RemoteClients | None,
) -> list[ClientAttempt]:
    contract = run.registration.contract
    searches = isinstance(contract.workload.arrival, SaturatingArrival)
    asked: list[ClientAttempt] = []
    rate_per_s: float | None = None
    program = CLIENT_PROGRAM if remote is None else remote.program
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
            calibration=calibration,
            fleet=None if remote is None else remote.where,
        )
        one = _earlier(run, slot) or _ask(run, slot, job, program, server, sampler, progress)
        asked.append(one)
        if one.report.status is not JobStatus.DONE and slot.restart == 0:
            raise CannotRun(f"{contract.name}: {one.report.error}")
        if search:
            rate_per_s = saturation_of(one).passed_per_s
            if rate_per_s is None:
                break  # nothing holds the objective: there is no rate to run at
    return asked


def _earlier(run: RunFolder, slot: Slot) -> ClientAttempt | None:
    for folder in run.attempts(slot):
        file = folder / REPORT_FILE
        if file.exists():
            report = JobReport.model_validate_json(file.read_bytes())
            if report.status is JobStatus.DONE:
                return ClientAttempt(slot, folder, report)
    return None


def _ask(
    run: RunFolder,
    slot: Slot,
    job: ClientJob,
    program: str,
    server: CapturedServer,
    sampler: TelemetrySampler,
    progress: Progress,
) -> ClientAttempt:
    folder = run.new_attempt(slot)
    write_text(folder / CLIENT_FILE, job.model_dump_json(by_alias=True))
    started = perf_counter()
    also = () if server.process is None else (server.process.pid,)

    def watch(pid: int) -> None:
        sampler.watch(pid, also)
        stage = (folder / STAGE_FILE).read_text() if (folder / STAGE_FILE).exists() else "start"
        ended = (folder / FINISHED_FILE).read_text() if (folder / FINISHED_FILE).exists() else ""
        progress.watch(slot, stage, int(ended) if ended.isdigit() else 0, perf_counter() - started)

    code = run_fresh(program, folder, 1, watch)
    file = folder / REPORT_FILE
    if file.exists():
        report = JobReport.model_validate_json(file.read_bytes())
    else:
        died = f"the client ended with code {code} and left no report: {last_words(folder)}"
        report = JobReport(status=JobStatus.FAILED, error=died)
    progress.end_slot(slot, report, perf_counter() - started)
    return ClientAttempt(slot, folder, report)
