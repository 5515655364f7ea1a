"""Runs against a server: a fresh client with a schedule of its own for every repetition.

The server goes on meanwhile; it is captured before and after. The instrument is proven before the first client.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lynxbench.engines.kserve import parse_triton_stats, triton_between
from lynxbench.engines.kserve_grpc import GrpcLanguage, build_grpc_probe
from lynxbench.engines.openai import OpenAiLanguage, build_probe
from lynxbench.engines.served import api_key_headers
from lynxbench.errors import BadResult
from lynxbench.evidence.run_folder import CLIENT_THREADS, RunFolder, Slot
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.server import Address, CapturedServer, capture_server, counted_between, with_server
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.selfcheck import measure_preflight
from lynxbench.load.send_schedule import load_of
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, FieldChange, Tier, difference
from lynxbench.model.result import PrecisionResult
from lynxbench.model.serving import KserveEngine
from lynxbench.model.surroundings import Surroundings
from lynxbench.model.workload import SaturatingArrival, ServedModel
from lynxbench.run.attempts import Attempt, FreshProcess
from lynxbench.run.client_job import ClientFleet, ClientJob, read_trace, seed_of
from lynxbench.run.client_results import PREFLIGHT_FILE, ServerCounts, engine_of, saturation_of
from lynxbench.run.concluding import Conclusion, LiveEvidence
from lynxbench.run.greeting import Greeting, greet
from lynxbench.run.grpc_server import tell_over_grpc
from lynxbench.run.node_watch import watched_node
from lynxbench.run.profile_pass import profile_server
from lynxbench.run.run_outcome import Progress
from lynxbench.run.served_precision import with_formats
from lynxbench.run.server_watch import watched_server

CLIENT_PROGRAM = "lynxbench.run.client_work"
COUNTED_PARTS = (
    *("queue", "prefill", "decode", "prompt", "predicted", "inference", "first_token", "compute", "deferred"),
    *("e2e_request", "tgi_request_duration", "tgi_request_validation"),
)
"""Counters of a server that say where requests spent their time."""
FOUND_AT_START = ("server_info",)
"""What a server finds out at every start, such as how many blocks of cache it has room for."""


@dataclass(frozen=True, slots=True)
class RemoteClients:
    """Clients that are not processes of this machine: which program starts them, where, and how many."""

    program: str
    where: ClientFleet
    clients: int


class ServedStrategy:
    """One server, asked by clients of this machine or by remote ones."""

    repeats_failures = True
    """A server that failed once may answer the next time."""

    _host: Executor
    _server: CapturedServer
    _around: Surroundings | None = None
    """What a server is given that is started for the run."""

    def __init__(
        self,
        declaration: Declaration | None,
        greeting: Greeting | None = None,
        remote: RemoteClients | None = None,
    ) -> None:
        self._declaration, self._greeting, self._remote = declaration, greeting, remote

    def register(self, contract: Contract, out: Path) -> RunFolder:
        """Greet and capture the server and fix the plan: a client a restart, before them one that searches."""
        self._capture(contract)
        remote, processes = self._remote, engine_of(contract).processes
        # Without a word from the contract: half the cores of this machine, and at most four.
        here = processes or max(1, min(4, len(os.sched_getaffinity(0)) // 2))
        return RunFolder.create(
            out,
            contract,
            with_server(self._host, self._server),
            CLIENT_THREADS,
            slots_of(contract),
            datetime.now(UTC),
            self._around,
            clients=here if remote is None else remote.clients,
        )

    def resume(self, run: RunFolder) -> None:
        """The server is greeted and captured anew."""
        self._capture(run.registration.contract)

    def prepare(self, run: RunFolder, progress: Progress) -> None:
        """Prove the instrument at this contract's load; once, also for a run that is resumed."""
        progress.note("proving the instrument against the bundled server")
        if not (run.path / PREFLIGHT_FILE).exists():
            _fly(run, 1 if self._remote is None else self._remote.clients)

    def watching(self, run: RunFolder) -> AbstractContextManager[None]:
        """The server is watched for as long as clients ask it."""
        contract = self._asked(run.registration.contract)
        return _watched(run.path, contract, self._server)

    def process(self, run: RunFolder, slot: Slot, attempts: Sequence[Attempt]) -> FreshProcess | None:
        """The client of a slot; None where a search found no rate to run at."""
        registration, rate_per_s = run.registration, None
        assert registration.clients is not None
        searches = isinstance(registration.contract.workload.arrival, SaturatingArrival)
        if searches and attempts:
            rate_per_s = saturation_of(attempts[0]).passed_per_s
            if rate_per_s is None:
                return None
        job = ClientJob(
            index=slot.index,
            restart=slot.restart,
            contract=self._asked(registration.contract),
            clients=registration.clients,
            salt=int(registration.nonce[:8], 16),
            rate_per_s=rate_per_s,
            search=searches and slot.index == 0,
            calibration=None if self._greeting is None else self._greeting.calibration,
            fleet=None if self._remote is None else self._remote.where,
        )
        program = CLIENT_PROGRAM if self._remote is None else self._remote.program
        server = self._server.process
        return FreshProcess(program, job, registration.threads, beside=lambda: () if server is None else (server.pid,))

    def observe(self, run: RunFolder) -> LiveEvidence:
        """Capture the server and this machine again: what was counted, and whether they are still what was registered.

        A run that was resumed may have met another server than the one that it began with.
        """
        contract, host, before = run.registration.contract, self._host, self._server
        after = self._look(contract)
        first, last = before.process, after.process
        restarted = first is not None and (last is None or (first.pid, first.started) != (last.pid, last.started))
        now = with_server(capture_host(self._declaration), after)
        since = (
            *server_drift(run.registration.executor, now, started_again=True),
            *server_drift(with_server(host, before), now),
        )
        return LiveEvidence(
            executor=with_server(host, after),
            drift=tuple({(change.layer, change.name): change for change in since}.values()),
            restarted=restarted,
            server=counts_between(contract, before, after),
        )

    def profile(self, run: RunFolder, attempts: Sequence[Attempt], progress: Progress) -> None:
        """Have the server profile a short load by itself, where the contract asks for it; the figures stand already."""
        contract = run.registration.contract
        if getattr(contract.engine, "profile", None) is None:
            return
        progress.note("a short load with the server's own profiler on; no figure is taken from it")
        searched = isinstance(contract.workload.arrival, SaturatingArrival) and attempts and attempts[0].done
        rate_per_s = saturation_of(attempts[0]).passed_per_s if searched else None
        calibration = None if self._greeting is None else self._greeting.calibration
        profile_server(run, self._asked(contract), self._server, calibration, rate_per_s)

    def refine(self, run: RunFolder, conclusion: Conclusion, progress: Progress) -> tuple[PrecisionResult, ...]:
        """A server is not changed from outside."""
        return conclusion.per_precision

    def _capture(self, contract: Contract) -> None:
        self._greet(contract)
        self._host, self._server = capture_host(self._declaration), self._look(contract)

    def _greet(self, contract: Contract) -> None:
        self._greeting = self._greeting or greet(contract)

    def _asked(self, contract: Contract) -> Contract:
        """The contract with the address at which its server is really asked."""
        return contract

    def _look(self, contract: Contract) -> CapturedServer:
        return _look_at(self._asked(contract))


@contextmanager
def _watched(folder: Path, contract: Contract, server: CapturedServer) -> Iterator[None]:
    """The server itself, and the node it runs on where the contract says who watches that."""
    engine = engine_of(contract)
    address = None if getattr(engine, "protocol", "") == "grpc" else _address_of(contract)
    with watched_node(folder, engine.node), watched_server(folder, address, server):
        yield


def slots_of(contract: Contract) -> tuple[Slot, ...]:
    """One fresh client a restart; a search for saturation comes first as one more."""
    precision = contract.workload.precisions[0]
    first = 1 if isinstance(contract.workload.arrival, SaturatingArrival) else 0
    return tuple(
        Slot(index=index, restart=max(0, index - first), precision=precision)
        for index in range(contract.protocol.restarts + first)
    )


def _fly(run: RunFolder, hosts: int) -> None:
    """The instrument at this contract's load, or at one host's share of it."""
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
    if isinstance(load, OpenLoop):
        load = OpenLoop(load.offsets_ns[::hosts])
    else:
        load = replace(load, concurrency=max(1, load.concurrency // hosts))
    engine = contract.engine
    over_grpc = isinstance(engine, KserveEngine) and engine.protocol == "grpc"
    language, build = (GrpcLanguage(streamed=True), build_grpc_probe) if over_grpc else (OpenAiLanguage(), build_probe)
    flown = measure_preflight(language, build, load, protocol.min_duration_s)
    write_text(run.path / PREFLIGHT_FILE, flown.model_dump_json(indent=1))


# --- what a server says of itself -------------------------------------------------------------------------------------


def _look_at(contract: Contract) -> CapturedServer:
    """The server as it stands."""
    engine, model = engine_of(contract), contract.workload.model
    assert isinstance(model, ServedModel)
    address, name, launch = _address_of(contract), model.name, engine.launch
    if isinstance(engine, KserveEngine) and engine.protocol == "grpc":
        told = partial(tell_over_grpc, engine, name)
        return with_formats(capture_server(address, model=name, launch=launch, told=told))
    kserve = isinstance(engine, KserveEngine)
    return with_formats(capture_server(address, model=name, launch=launch, kserve=kserve))


def _address_of(contract: Contract) -> Address:
    engine = engine_of(contract)
    return Address(engine.url, engine.ca_file, engine.verify_tls, api_key_headers(engine))


def counts_between(contract: Contract, before: CapturedServer, after: CapturedServer) -> ServerCounts:
    """What a server counted between two looks at it."""
    counters = counted_between(before.counters, after.counters)
    spent = {**_spent(counters), **_triton(contract, before, after)}
    return ServerCounts(counters, spent, shares_host=before.is_local)


def _spent(counters: Mapping[str, float]) -> dict[str, float]:
    return {
        name: round(value, 6)
        for name, value in sorted(counters.items())
        if any(part in name for part in COUNTED_PARTS)
        and name.partition("{")[0].endswith(("_sum", "_total", "_us", "_count"))
    }


def _triton(contract: Contract, before: CapturedServer, after: CapturedServer) -> dict[str, float]:
    """Triton's own account of the run: where inferences spent their time, in seconds."""
    model = contract.workload.model
    if before.statistics is None or after.statistics is None or not isinstance(model, ServedModel):
        return {}
    version = getattr(contract.engine, "version", None)
    try:
        first, last = (parse_triton_stats(data, model.name, version) for data in (before.statistics, after.statistics))
        spent = triton_between(first, last)
    except BadResult:
        return {}
    seconds = {f"triton_{name.removesuffix('_ns')}_s": ns / 1e9 for name, ns in spent.items() if name.endswith("_ns")}
    return {f"triton_{name}": float(count) for name, count in spent.items() if not name.endswith("_ns")} | seconds


def server_drift(before: Executor, after: Executor, *, started_again: bool = False) -> tuple[FieldChange, ...]:
    """What changed while the server was measured. Libraries loaded on first use are no change; replaced ones are.

    One that was started again meanwhile, by the run or by its owner, has found out some things anew.
    """
    changes = []
    for change in difference(before, after, (Tier.CONFIGURATION,)):
        if started_again and change.name in FOUND_AT_START:
            continue
        old, new = change.before, change.after
        libraries = change.name.endswith("libraries") and isinstance(old, dict) and isinstance(new, dict)
        if not libraries or any(new.get(name) != value for name, value in old.items()):  # type: ignore[union-attr]
            changes.append(change)
    return tuple(changes)
