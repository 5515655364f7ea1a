"""A Ray cluster seen from lynxbench: its nodes by name, what they have, which of them share a host."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lynxbench.errors import BadInput, CannotRun
from lynxbench.fleet.local import LocalCluster, import_ray

READY_S = 60.0
"""A local node that has not joined by then will not."""
PROBE_S = 60.0
CONNECT_S = 10.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One machine, container or set of processes that Ray places work on."""

    node_id: str
    name: str
    address: str
    cpus: float
    gpus: float


class Fleet(AbstractContextManager["Fleet"]):
    """A connection to a cluster. Closing it leaves somebody else's running and ends a local one."""

    def __init__(self, ray: Any, address: str, local: LocalCluster | None) -> None:
        self.ray = ray
        self.address = address
        self.local = local

    def nodes(self) -> tuple[FleetNode, ...]:
        """The nodes that are alive, by name."""
        alive = [listed for listed in self.ray.nodes() if listed["Alive"]]
        return tuple(sorted(_named(alive), key=lambda node: node.name))

    def alive(self, node_id: str) -> bool:
        """Whether a node is still there."""
        return any(listed["NodeID"] == node_id and listed["Alive"] for listed in self.ray.nodes())

    def death_of(self, node_id: str) -> str:
        """What Ray says of a node's end."""
        reasons = [node.get("DeathReasonMessage") for node in self.ray.nodes() if node["NodeID"] == node_id]
        return one_line(reasons[0]) if reasons and reasons[0] else "the node no longer answers"

    def hosts(self, nodes: Sequence[FleetNode]) -> dict[str, str]:
        """By node id: the machine it is on. Nodes of one machine disturb each other, whatever their addresses."""
        there = {node.node_id for node in self.nodes()}
        calls = {node.node_id: self.call_on(node, _machine) for node in nodes if node.node_id in there}
        machines = {}
        for node_id, reference in calls.items():
            try:
                machines[node_id] = str(self.ray.get(reference, timeout=PROBE_S))
            except self.ray.exceptions.RayError:
                machines[node_id] = node_id  # it cannot be asked: the run on it will say why
        return machines

    def call_on(self, node: FleetNode, function: Callable[..., Any], *arguments: object) -> Any:
        """Start a small function on a node, beside whatever runs there; the reference of its answer."""
        remote = self.ray.remote(num_cpus=0, max_retries=0)(function)
        return remote.options(scheduling_strategy=self.pinned(node.node_id)).remote(*arguments)

    def pinned(self, node_id: str, *, soft: bool = False) -> Any:
        """On this node and no other; where that is `soft`, on another one when it is gone."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node_id, soft=soft)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; a local one ends with it."""
        self.ray.shutdown()
        if self.local is not None:
            self.local.close()
            self.local = None


def connected(
    address: str | None, *, local_nodes: int = 1, local_cpus: int | None = None, ship: Path | None = None
) -> Fleet:
    """The cluster at an address, or one of this machine alone; `ship` sends a folder of code to every node."""
    if address:
        return join(address, ship=ship)
    local = LocalCluster(1, cpus=local_cpus)
    fleet = join(local.address, local=local, ship=ship)  # to the first node, before there are others
    try:
        for _ in range(local_nodes - 1):
            local.add()
        wait_for(fleet, local_nodes, READY_S, "local nodes")
    except BaseException:
        fleet.close()
        raise
    return fleet


def join(address: str, *, local: LocalCluster | None = None, ship: Path | None = None) -> Fleet:
    """Connect to a cluster that runs; `local` is ended with the connection."""
    _refuse_unreachable(address)
    try:
        ray = import_ray()
        runtime = {"working_dir": str(ship)} if ship is not None else None
        ray.init(
            address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False, runtime_env=runtime
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        if local is not None:
            local.close()
        raise CannotRun(
            f"--ray {address}: {one_line(error)}; is the cluster up, and is this machine one of its nodes?"
        ) from None
    return Fleet(ray, address, local)


def _refuse_unreachable(address: str) -> None:
    """A word in seconds where Ray itself would wait for minutes; names such as `auto` are Ray's to resolve."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except OSError as error:
        raise CannotRun(f"--ray {address}: {error.strerror or error}; is the cluster up?") from None


def choose(nodes: Sequence[FleetNode], selection: str | None) -> tuple[tuple[FleetNode, ...], tuple[FleetNode, ...]]:
    """The nodes to measure, and the spare ones that may stand in for a lost one.

    `selection` is a number of nodes, or names and addresses with commas between; None takes all.
    """
    nodes = [node for node in nodes if node.cpus > 0]  # a head that was given no CPU runs the driver, nothing else
    if not nodes:
        raise CannotRun("the cluster has no node that is alive and has CPUs")
    if selection is None:
        return tuple(nodes), ()
    if selection.strip().isdigit():
        count = int(selection)
        if not 1 <= count <= len(nodes):
            raise BadInput(f"--nodes {count}: the cluster has {len(nodes)} nodes that are alive")
        return tuple(nodes[:count]), tuple(nodes[count:])
    chosen = []
    for wanted in (part.strip() for part in selection.split(",")):
        named = [node for node in nodes if wanted in (node.name, node.address, node.node_id)]
        if len(named) != 1:
            known = ", ".join(node.name for node in nodes[:12])
            several = f"names {len(named)} nodes" if named else "is no node of the cluster"
            raise BadInput(f"--nodes {wanted!r} {several}; it has {known}")
        chosen.append(named[0])
    return tuple(dict.fromkeys(chosen)), ()


def wait_for(fleet: Fleet, nodes: int, within_s: float, what: str = "--wait-for") -> None:
    """Until so many nodes with CPUs are there: those of a batch system come up one after another."""
    until = time.monotonic() + within_s
    while (there := sum(node.cpus > 0 for node in fleet.nodes())) < nodes:
        if time.monotonic() > until:
            raise CannotRun(f"{what} {nodes}: {there} nodes are there after {within_s:.0f} s")
        time.sleep(POLL_S)


def one_line(words: object) -> str:
    """What Ray says over many lines, in one."""
    return " ".join(str(words).split())[:400]


def _named(listed: Sequence[Any]) -> list[FleetNode]:
    """Names people know: the node's own, its host's or its address, whichever tells them all apart."""
    forms: tuple[Callable[[Any], str], ...] = (
        lambda node: str(node.get("NodeName") or ""),
        lambda node: str(node["NodeManagerHostname"]),
        lambda node: str(node["NodeManagerAddress"]),
        lambda node: f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
    )
    for form in forms:
        names = [form(node) for node in listed]
        if all(names) and max(Counter(names).values(), default=1) == 1:
            break
    return [
        FleetNode(
            node_id=str(node["NodeID"]),
            name=name,
            address=str(node["NodeManagerAddress"]),
            cpus=float(node["Resources"].get("CPU", 0.0)),
            gpus=float(node["Resources"].get("GPU", 0.0)),
        )
        for node, name in zip(listed, names, strict=True)
    ]


def _machine() -> str:
    """The running kernel's own id: containers and Ray nodes of one host share it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        import platform

        return platform.node()
