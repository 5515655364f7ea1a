"""One run over several nodes: ranks as torchrun numbers them, rank 0 measured, the others in step with it.

Rank 0 runs the contract as any node does; its processes decide when a run is steady. On every other rank the same
session is opened and stepped. gloo carries the collectives on CPUs, NCCL where the nodes have GPUs: that is the
contract's own code to choose; the variables it finds are those of torchrun.
"""

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from lynxbench.errors import BadInput, CannotRun
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.capture import capture_host
from lynxbench.executor.confinement import PEERS_VARIABLE
from lynxbench.fleet.actors import Actor, call_all
from lynxbench.fleet.cluster import Fleet, FleetNode, choose
from lynxbench.fleet.dispatch import FleetTask
from lynxbench.fleet.fleet_book import FleetBook, FleetProgress, FleetState
from lynxbench.fleet.fleet_jobs import carry_out, new_state
from lynxbench.fleet.fleet_run import FleetOptions
from lynxbench.fleet.node_process import NodeRequest
from lynxbench.fleet.node_work import Caller, NodeTask, Parcel, clean_environment, measure_here
from lynxbench.load.fresh_process import ERRORS_FILE, end_group, last_words
from lynxbench.load.journal import read_journal
from lynxbench.model.contract import Contract
from lynxbench.model.fleet import FleetUnit
from lynxbench.model.serving import ServedEngine
from lynxbench.run.fresh_job import JOB_FILE
from lynxbench.run.run_outcome import Recorders
from lynxbench.run.worker import FOLLOW

RANKS_FILE = "ranks.json"
ANSWER_S = 120.0
SERVER_S = 300.0
"""A server over several nodes loads its weights first; one that is not up by then will not be."""
GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Seat:
    """One rank: its number, its place on its node, and the variables it finds."""

    rank: int
    node: str
    environment: Mapping[str, str]


def seats_of(nodes: Sequence[FleetNode], master_port: int, run_id: str) -> list[Seat]:
    """One rank a GPU, or one a node without; numbered node by node, as torchrun does."""
    local = [max(1, int(node.gpus)) for node in nodes]
    world = sum(local)
    seats: list[Seat] = []
    for group, node in enumerate(nodes):
        for place in range(local[group]):
            rank = len(seats)
            seats.append(
                Seat(
                    rank,
                    node.name,
                    {
                        "RANK": str(rank),
                        "WORLD_SIZE": str(world),
                        "LOCAL_RANK": str(place),
                        "LOCAL_WORLD_SIZE": str(local[group]),
                        "GROUP_RANK": str(group),
                        "GROUP_WORLD_SIZE": str(len(nodes)),
                        "MASTER_ADDR": nodes[0].address,
                        "MASTER_PORT": str(master_port),
                        "TORCHELASTIC_RUN_ID": run_id,
                        "TORCHELASTIC_RESTART_COUNT": "0",
                        "TORCHELASTIC_MAX_RESTARTS": "0",
                    },
                )
            )
    return seats


class RankHost:
    """Lives on a node and starts its ranks: followers of a measured rank, or a server's command."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd if cwd and Path(cwd).is_dir() else str(Path.cwd())
        self._folder = tempfile.TemporaryDirectory(prefix="lynxbench-ranks-")
        self._open: list[tuple[int, Path, subprocess.Popen[bytes]]] = []
        self._count = 0

    def executor_id(self) -> str:
        """What this node is."""
        return capture_host().executor_id

    def free_port(self, address: str) -> int:
        """A port that nothing uses at this moment."""
        with socket.socket() as probe:
            probe.bind((address, 0))
            return int(probe.getsockname()[1])

    def follow(self, seats: Sequence[Seat], job: str) -> None:
        """Start a follower for each seat."""
        worker = [sys.executable, "-P", "-m", "lynxbench.run.worker"]
        self._start(seats, lambda folder: [*worker, str(folder), FOLLOW], job)

    def serve(self, seats: Sequence[Seat], command: str) -> None:
        """Start a server's command for each seat."""
        self._start(seats, lambda folder: shlex.split(command), None)

    def stop(self) -> list[dict[str, Any]]:
        """End every rank; what each stamped."""
        stamped = []
        for rank, folder, process in self._open:
            end_group(process, leaving_s=GRACE_S / 5, grace_s=GRACE_S)
            stamped.append({"rank": rank, **_stamped(folder), "ended": process.returncode})
        self._open.clear()
        return stamped

    def trouble(self) -> str:
        """The last words of a rank that has ended by itself; empty where all are at work."""
        for rank, folder, process in self._open:
            if process.poll() is not None:
                return f"rank {rank} ended with code {process.returncode}: {last_words(folder / ERRORS_FILE)}"
        return ""

    def close(self) -> None:
        """End everything and its files."""
        self.stop()
        self._folder.cleanup()

    def _start(self, seats: Sequence[Seat], command: Callable[[Path], list[str]], job: str | None) -> None:
        self._count += 1
        for seat in seats:
            folder = Path(self._folder.name) / f"{self._count}-{seat.rank}"
            folder.mkdir()
            if job is not None:
                write_text(folder / JOB_FILE, job)
            with (folder / ERRORS_FILE).open("wb") as err:
                process = subprocess.Popen(
                    command(folder),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=err,
                    cwd=self._cwd,
                    env=clean_environment(os.environ, seat.environment),
                    start_new_session=True,
                )
            self._open.append((seat.rank, folder, process))


@dataclass(frozen=True, slots=True)
class RankTask:
    """Rank 0's run, and those who follow it."""

    node: NodeTask
    hosts: tuple[Any, ...]
    """Handles of the actors that start the other ranks."""
    seats: tuple[tuple[Seat, ...], ...]
    """By host."""


def measure_ranked(task: object, caller: Caller) -> Parcel:
    """The task that Ray runs for rank 0: as for any node, with the other ranks started and stopped beside it."""
    assert isinstance(task, RankTask)

    def follow(message: Mapping[str, Any]) -> None:
        if "start" in message:
            call_all(task.hosts, "follow", [(seats, message["start"]) for seats in task.seats], ANSWER_S)
            return
        stopped = call_all(task.hosts, "stop", [() for _ in task.seats], ANSWER_S)
        caller.tell({"followed": {"process": message["stop"], "ranks": [rank for ranks in stopped for rank in ranks]}})

    return measure_here(task.node, caller, follow)


def run_ranks(
    fleet: Fleet,
    contract: Contract,
    out: Path,
    *,
    server: str | None = None,
    nodes: str | None = None,
    options: FleetOptions | None = None,
    progress: FleetProgress | None = None,
    recorders: Recorders | None = None,
) -> tuple[FleetState, Path]:
    """One contract over all chosen nodes; `server` starts a command as every rank, which the contract then asks."""
    options = options or FleetOptions()
    if (server is not None) != isinstance(contract.engine, ServedEngine):
        raise BadInput(
            f"{contract.name}: --ranks runs the contract itself as ranks, or with --server a command that serves; "
            f"engine {contract.engine.name} needs {'no ' if server else 'a '}--server"
        )
    chosen, _ = choose(fleet.nodes(), nodes)
    first, name = chosen[0], f"{len(chosen)}-nodes"
    state = new_state(contract.name, contract, [FleetUnit(name=name, node=first.name)])
    book = _RankBook(state, out / state.fleet_id, progress, recorders)
    # Rank 0's own node keeps its CPUs for rank 0; the host of its other ranks takes none.
    taken = {node.name: (node.cpus, node.gpus) for node in chosen} | {first.name: (0.0, 0.0)}
    cwd = "" if options.cwd is None else str(options.cwd)
    hosts = [Actor(fleet, node, RankHost, (cwd,), *taken[node.name]) for node in chosen]
    try:
        ids = [str(host.call("executor_id", timeout_s=ANSWER_S)) for host in hosts]
        port = int(hosts[0].call("free_port", first.address, timeout_s=ANSWER_S))
        seats = seats_of(chosen, port, state.fleet_id)
        book.begin()
        book.seat(seats, dict(zip((node.name for node in chosen), ids, strict=True)))
        request = NodeRequest(
            contract=contract,
            declaration=options.declaration,
            recorded=recorders is not None,
            ranked=server is None,
        )
        # A client of ranked servers knows how many there are, and nothing that would make it one of them.
        names = seats[0].environment if server is None else ("WORLD_SIZE", "LOCAL_WORLD_SIZE")
        seat = {name: seats[0].environment[name] for name in names}
        variables = {**options.environment, PEERS_VARIABLE: json.dumps(ids[1:]), **seat}
        payload = NodeTask.of(state.fleet_id, name, request, options.cwd, variables)
        if server is None:
            others = [tuple(seat for seat in seats[1:] if seat.node == node.name) for node in chosen]
            ranked = RankTask(payload, tuple(host.handle for host in hosts), tuple(others))
            task = FleetTask(name, ranked, first, first.gpus)
            carry_out(fleet, book, [task], work=measure_ranked)
        else:
            for host in hosts:
                own = tuple(seat for seat in seats if seat.node == host.node.name)
                host.call("serve", own, server, timeout_s=ANSWER_S)
            _wait_for(contract, hosts)
            carry_out(fleet, book, [FleetTask(name, payload, first, 0.0)])
    finally:
        for host in hosts:
            _close(host)
    return book.state, book.folder


class _RankBook(FleetBook[FleetState]):
    """Keeps also what every rank was and stamped."""

    _ranks: dict[str, Any]

    def seat(self, seats: Sequence[Seat], executors: Mapping[str, str]) -> None:
        self._ranks = {
            "world_size": len(seats),
            "ranks": [{"rank": s.rank, "node": s.node, "executor_id": executors[s.node]} for s in seats],
            "processes": [],
        }
        self._keep_ranks()

    def hear(self, message: Any, desk: Any) -> None:
        if "followed" in message.body:
            self._ranks["processes"].append(message.body["followed"])
            self._keep_ranks()
            return
        super().hear(message, desk)

    def _keep_ranks(self) -> None:
        write_text(self.folder / RANKS_FILE, json.dumps(self._ranks, indent=1))


def _wait_for(contract: Contract, hosts: Sequence[Actor]) -> None:
    """Until the server answers; a rank that ends first is the reason."""
    assert isinstance(contract.engine, ServedEngine)
    parts = urlsplit(contract.engine.url)
    until = time.monotonic() + SERVER_S
    while time.monotonic() < until:
        for host in hosts:
            trouble = str(host.call("trouble", timeout_s=ANSWER_S))
            if trouble:
                raise CannotRun(f"--server: {trouble}")
        try:
            socket.create_connection((parts.hostname or "", parts.port or 80), timeout=2.0).close()
            return
        except OSError:
            time.sleep(0.5)
    raise CannotRun(f"--server: {contract.engine.url} does not answer after {SERVER_S:.0f} s")


def _close(host: Actor) -> None:
    with contextlib.suppress(CannotRun):  # it may be gone with its node, and its ranks with it
        host.call("close", timeout_s=GRACE_S + ANSWER_S)
    host.end()


def _stamped(folder: Path) -> dict[str, Any]:
    try:
        seconds = read_journal(folder)[0].seconds
    except (OSError, ValueError):
        return {"steps": 0, "median_step_ms": None}
    median = float(np.median(seconds)) * 1e3 if len(seconds) else None
    return {"steps": len(seconds), "median_step_ms": median}
