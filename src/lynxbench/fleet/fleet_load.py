"""A served contract whose load comes from clients on many hosts: the order of every served run, with other clients.

One schedule is split as among local processes, started together and merged by sample. Every client stamps with its own
clock. How far that clock is from ours is measured before and after the load, with its bound; moments are moved by one
constant a client, so that latencies stay exactly what the client saw.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from lynxbench.errors import BadInput, CannotRun
from lynxbench.executor.declaration import Declaration
from lynxbench.fleet.actors import Actor, ActorLost
from lynxbench.fleet.clocks import Offset, joined, measure_offset
from lynxbench.fleet.cluster import Fleet, FleetNode, choose
from lynxbench.fleet.load_part import LoadPart
from lynxbench.load.load_record import COLUMNS, LoadRecord
from lynxbench.load.plan import LoadPlan
from lynxbench.load.processes import GRACE_S, gather
from lynxbench.load.record_parts import moved, moved_rows
from lynxbench.model.contract import Contract
from lynxbench.model.samples import Int64
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.client_job import ClientFleet, ClientHost
from lynxbench.run.pipeline import run_contract
from lynxbench.run.run_outcome import Finished, Progress, Recorder
from lynxbench.run.served_run import RemoteClients

CLIENT_PROGRAM = "lynxbench.fleet.load_client_process"
HEAD_START_NS = 400_000_000
"""From the last client being ready to the common start: every one has been told the moment by then."""
START_S, ANSWER_S = 180.0, 30.0
"""Within so many seconds a client is there, on a node that others may keep busy, and then answers."""


def run_load(
    fleet: Fleet,
    address: str,
    contract: Contract,
    out: Path,
    *,
    nodes: str | None,
    clients: int | None,
    declaration: Declaration | None,
    progress: Progress,
    recorder: Recorder | None,
    resume: bool = False,
) -> Finished:
    """Run a served contract with one schedule split over clients of a fleet; one client a node by default."""
    if not isinstance(contract.engine, ServedEngine):
        raise BadInput(f"{contract.name}: engine {contract.engine.name} is no server; use lynxbench fleet run")
    if isinstance(contract.workload.arrival, SaturatingArrival):
        raise BadInput(
            f"{contract.name}: a search for saturation chooses its own rates; fleet load splits a fixed schedule. "
            "Give the arrival a process and a rate"
        )
    chosen, _ = choose(fleet.nodes(), nodes)
    remote = RemoteClients(CLIENT_PROGRAM, ClientFleet(address=address, nodes=nodes), clients or len(chosen))
    return run_contract(contract, out, declaration, progress, recorder=recorder, remote=remote, resume=resume)


class FleetProbe(AbstractContextManager["FleetProbe"]):
    """A probe under way on clients of many hosts; the same to its caller as one on local processes."""

    def __init__(
        self, plan: LoadPlan, fleet: Fleet, nodes: Sequence[FleetNode], planted_ns: Sequence[int] = ()
    ) -> None:
        self.plan = plan
        parts, room = range(plan.processes), sum(int(node.cpus) for node in nodes)
        if plan.processes > room:
            raise CannotRun(
                f"{plan.processes} clients need a core each, and the {len(nodes)} nodes have {room}; "
                "ask for fewer clients"
            )
        planted = [*planted_ns, *([0] * plan.processes)]
        self._actors = [
            Actor(fleet, nodes[part % len(nodes)], LoadPart, (planted[part],), cpus=1.0, gpus=0.0) for part in parts
        ]
        self.parts: list[LoadRecord | None] = []
        """Once finished: each client's own record, on our clock; None of one that was lost."""
        self._lost: dict[int, str] = {}
        self._rows = [np.zeros((0, len(COLUMNS)), dtype=np.int64)]
        self._after: dict[int, Offset] = {}
        try:
            within_s = plan.timeouts.connect_ns / 1e9 + START_S
            self._all([("prepare", plan, part) for part in parts], within_s)
            self._before = {part: _offset(actor) for part, actor in enumerate(self._actors)}
            self.start_ns = perf_counter_ns() + HEAD_START_NS
            self._all([("begin", self._before[part].theirs(self.start_ns)) for part in parts], ANSWER_S)
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def clients(self) -> tuple[ClientHost, ...]:
        """Where the clients were, and what is known of their clocks."""
        offsets = [self._offset_of(part) for part in range(len(self._actors))]
        return tuple(
            ClientHost(
                process=part,
                node=self._actors[part].node.name,
                clock_offset_ns=offset.offset_ns,
                clock_bound_ns=offset.bound_ns,
                lost=self._lost.get(part, ""),
            )
            for part, offset in enumerate(offsets)
        )

    @property
    def running(self) -> bool:
        """Whether any client is still at work; their finished rows are fetched by the way."""
        return any(self._look())

    @property
    def finished(self) -> int:
        """How many requests have ended, as far as the last look."""
        return sum(len(rows) for rows in self._rows)

    def rows(self) -> Int64:
        """The rows finished so far, on our clock, one line each in the order of COLUMNS."""
        self._look()
        self._rows = [np.concatenate(self._rows)]
        return self._rows[0]

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish within the drain bound."""
        self._each("close_load")

    def finish(self) -> LoadRecord:
        """Wait for the end, which the plan bounds, and gather the whole record on our clock."""
        left_s = self.plan.duration_s + self.plan.drain_s - (perf_counter_ns() - self.start_ns) / 1e9
        within_s = max(0.1, left_s) + GRACE_S
        records = self._each("finish", within_s, timeout_s=within_s + ANSWER_S)
        for part, actor in enumerate(self._actors):
            if part not in self._lost:
                self._after[part] = _offset(actor)
            if records.get(part) is None:
                self._lost.setdefault(part, "its process died")
        self.parts = [
            None if part in self._lost else moved(records[part], -self._offset_of(part).offset_ns)
            for part in range(len(self._actors))
        ]
        return gather(self.plan, self.parts, self.start_ns)

    def close(self) -> None:
        """End every client and remove its files."""
        self._each("close")
        for actor in self._actors:
            actor.end()

    def _offset_of(self, part: int) -> Offset:
        before = self._before[part]
        return joined(before, self._after[part]) if part in self._after else before

    def _look(self) -> list[bool]:
        running = []
        for part, (at_work, rows) in self._each("look").items():
            running.append(at_work)
            self._rows.append(moved_rows(rows, -self._before[part].offset_ns))
        return running

    def _all(self, calls: Sequence[tuple[Any, ...]], timeout_s: float) -> None:
        """Call every client, each with arguments of its own; one that cannot fails the whole."""
        begun = [actor.begin(*call) for actor, call in zip(self._actors, calls, strict=True)]
        for actor, reference in zip(self._actors, begun, strict=True):
            actor.wait(reference, timeout_s)

    def _each(self, method: str, *arguments: object, timeout_s: float = ANSWER_S) -> dict[int, Any]:
        """Call every client that is there, at the same time; one that is gone is noted as lost."""
        here = [(part, actor) for part, actor in enumerate(self._actors) if part not in self._lost]
        begun = [(part, actor, actor.begin(method, *arguments)) for part, actor in here]
        answers = {}
        for part, actor, reference in begun:
            try:
                answers[part] = actor.wait(reference, timeout_s)
            except ActorLost as error:
                self._lost[part] = str(error)
        return answers


def _offset(actor: Actor) -> Offset:
    return measure_offset(lambda: int(actor.call("clock", timeout_s=ANSWER_S)))
