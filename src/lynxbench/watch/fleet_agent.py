"""An agent that works for a fleet: what is due goes to its nodes, each run alone on one, several side by side.

A schedule goes on at the node where it was last measured, because its results are held against each other: another node
would be another place. Only a schedule that has none yet, or whose node is gone, goes to the node with the least to do.
"""

import queue
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from lynxbench.errors import Interrupted, LynxbenchError
from lynxbench.executor.declaration import Declaration
from lynxbench.fleet.cluster import Fleet, FleetNode, choose
from lynxbench.fleet.dispatch import MOST_ATTEMPTS
from lynxbench.fleet.fleet_book import FleetProgress
from lynxbench.fleet.fleet_jobs import FleetJob, JobDone, JobOptions, new_fleet_id, serve_jobs
from lynxbench.fleet.node_work import clear_scratch
from lynxbench.watch.agent import AgentClient, ClaimedRun, LiveProgress

PLACES_A_NODE = 4
"""One run at work, and a few that wait for the node their schedule belongs to."""
LONGEST_NAME = 48


@dataclass(frozen=True, slots=True)
class _Going:
    """A run that was claimed and has no end yet."""

    claimed: ClaimedRun
    live: LiveProgress
    node: FleetNode | None = None
    tries: int = 0


def pick_node(names: Sequence[str], last: str | None, load: Mapping[str, int]) -> str:
    """The node a schedule was last measured on, as the server knows it; else the one with the least to do."""
    again = [name for name in names if last is not None and server_name(name) == last]
    return again[0] if again else min(names, key=lambda name: (load.get(name, 0), name))


def server_name(node: str) -> str:
    """A node's name as the server takes it; the end of a long one tells it from its neighbours."""
    return re.sub(r"[^A-Za-z0-9._:-]", "_", node)[-LONGEST_NAME:].lstrip("._:-") or "node"


class FleetAgent(FleetProgress):
    """One agent, and the nodes it dispatches to."""

    def __init__(
        self,
        client: AgentClient,
        fleet: Fleet,
        *,
        nodes: str | None = None,
        options: JobOptions | None = None,
        declaration: Declaration | None = None,
    ) -> None:
        client.recorder()  # without a ledger nothing is asked for
        chosen, _ = choose(fleet.nodes(), nodes)
        self._named = None if nodes is None or nodes.strip().isdigit() else frozenset(node.name for node in chosen)
        self._most = len(chosen) if nodes is not None and self._named is None else None
        self._client, self._fleet, self._declaration = client, fleet, declaration
        self._options = options or JobOptions()
        self._fleet_id = new_fleet_id(f"agent-{client.settings.name}", datetime.now(UTC))
        self._places = len(chosen)
        self._due: queue.Queue[ClaimedRun] = queue.Queue()
        self._going: dict[str, _Going] = {}
        self._waiting: list[_Going] = []
        self._gone: set[str] = set()
        self._stop = threading.Event()
        self._asking = True
        self._problem: LynxbenchError | None = None
        self._claimed = 0
        self._messenger = ThreadPoolExecutor(max_workers=1, thread_name_prefix="messenger")

    def work(self, stop: threading.Event, runs: int | None = None, *, once: bool = False) -> int:
        """Ask and dispatch until told to stop, until so many runs were claimed, or `once` until nothing is due.

        How many runs were claimed; each of them has its end on the server.
        """
        self._stop = stop
        asker = threading.Thread(target=self._ask, args=(runs, once), daemon=True)
        asker.start()
        try:
            serve_jobs(
                self._fleet,
                self,
                self._client.settings.out,
                fleet_id=self._fleet_id,
                options=self._options,
                progress=self,
                recorders=self._client.recorder,
            )
        except KeyboardInterrupt:
            raise Interrupted("interrupted; runs that had begun are failed on the server") from None
        finally:
            stop.set()
            for going in [*self._going.values(), *self._waiting]:
                self._messenger.submit(self._fail, going, "the agent was interrupted")
            self._messenger.shutdown(wait=True)
            asker.join()
        if self._problem is not None:
            raise self._problem
        return self._claimed

    # --- a source of jobs ---

    def more(self) -> Sequence[FleetJob] | None:
        """What was claimed since, each for a node of its own choice."""
        asking = self._asking  # before the queue is looked at: what was put there first is not missed
        while not self._due.empty():
            claimed = self._due.get()
            self._waiting.append(_Going(claimed, self._client.live(claimed).__enter__()))
        if not self._waiting:
            return [] if asking or self._going else None
        nodes = self._nodes()
        self._places = max(1, len(nodes))
        waiting, self._waiting = self._waiting, []
        return [job for going in waiting if (job := self._dispatched(going, nodes)) is not None]

    def ended(self, done: JobDone) -> None:
        """Deliver what came of a run; one whose node was lost goes to another."""
        going = self._going.pop(done.unit.name)
        assert going.node is not None
        if done.node_lost:
            self._gone.add(going.node.node_id)
            if going.tries < MOST_ATTEMPTS:
                schedule = going.claimed.schedule
                self._client.log.warning("%s: %s; it is tried on another node", schedule, done.unit.why)
                going.live.say("lost", f"{going.node.name} was lost: tried on another node")
                self._waiting.append(going)
                return
        if done.folder is not None and done.unit.recorded:
            self._messenger.submit(self._deliver, going, str(done.unit.result_id))
            return
        place = "" if done.folder is None else f"the result was not recorded, it is kept in {done.folder}: "
        if not done.node_lost:  # what a failed run left there is of no use to anybody
            self._fleet.call_on(going.node, clear_scratch, f"{self._fleet_id}/{done.unit.name}")
        self._messenger.submit(self._fail, going, place + done.unit.why)

    # --- what nodes say ---

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        """A run starts, or starts again."""
        going = self._going[unit]
        going.live.on(server_name(node))
        going.live.say("starting", f"on {node}")
        self._client.log.info("%s: starts on %s", going.claimed.schedule, node)

    def unit_said(self, unit: str, message: Mapping[str, Any]) -> None:
        """A node says how far its run is."""
        going = self._going.get(unit)
        if going is None:
            return
        if "begin" in message:
            going.live.say("registered", f"{message['begin']['processes']} processes")
        elif "stage" in message:
            stage = message["stage"]
            going.live.say(stage["stage"], f"{stage['precision']}, process {stage['process'] + 1}")
        elif "end" in message:
            end = message["end"]
            going.live.say("ended", f"process {end['process'] + 1}: {end['status']}")
        elif "note" in message:
            going.live.say("concluding", message["note"])

    # --- inside ---

    def _ask(self, runs: int | None, once: bool) -> None:
        """In a thread of its own: a server that does not answer must not keep nodes waiting for an answer of ours."""
        try:
            places = lambda: self._places * PLACES_A_NODE  # noqa: E731
            for claimed in self._client.claims(self._stop, runs, places, once=once):
                self._claimed += 1
                self._due.put(claimed)
        except LynxbenchError as error:
            self._problem = error
        finally:
            self._asking = False

    def _nodes(self) -> list[FleetNode]:
        there = [node for node in self._fleet.nodes() if node.cpus > 0 and node.node_id not in self._gone]
        if self._named is not None:
            there = [node for node in there if node.name in self._named]
        return there[: self._most]

    def _dispatched(self, going: _Going, nodes: Sequence[FleetNode]) -> FleetJob | None:
        if not nodes:
            self._messenger.submit(self._fail, going, "no node of the fleet is there to run it")
            return None
        names: list[str] = [other.node.name for other in self._going.values() if other.node is not None]
        load = {name: names.count(name) for name in names}
        chosen = pick_node([node.name for node in nodes], going.claimed.last_node, load)
        node = next(node for node in nodes if node.name == chosen)
        tries = going.tries + 1
        name = f"{going.claimed.run}-{tries}"  # a new try never goes on with what a lost node had begun
        self._going[name] = replace(going, node=node, tries=tries)
        return FleetJob(name, going.claimed.contract, self._declaration, node=node)

    def _deliver(self, going: _Going, result_id: str) -> None:
        going.live.__exit__()
        self._client.deliver(going.claimed, result_id)

    def _fail(self, going: _Going, why: str) -> None:
        going.live.__exit__()
        self._client.fail(going.claimed.run, going.claimed.schedule, why)
