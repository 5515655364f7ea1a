"""Options of every command that works on a fleet, and the way to its cluster."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import typer

from lynxbench.errors import BadInput
from lynxbench.fleet.cluster import Fleet, connected, wait_for
from lynxbench.fleet.fleet_jobs import JobOptions
from lynxbench.fleet.fleet_run import environment_of

WAIT_S = 600.0
RAY = typer.Option(
    None, "--ray", envvar="RAY_ADDRESS", help="Address of a Ray cluster; without it one is started on this machine."
)
NODES = typer.Option(
    None, "--nodes", help="How many nodes, or their names or addresses with commas between; all if left out."
)
SHIP = typer.Option(None, "--ship", help="Folder with your own code, sent to every node and run there.")
ENV = typer.Option(None, "--env", help="NAME=VALUE for the runs, or a NAME that is set here; may be repeated.")
TOGETHER = typer.Option(False, "--together", help="Let nodes and GPUs of one host run at the same time.")
WAIT_FOR = typer.Option(0, "--wait-for", min=0, help="Wait until the cluster has so many nodes; at most 10 min.")
# Elsewhere a fleet is one way among others: a cluster's address in the environment must not choose it.
TO_RAY = typer.Option(None, "--ray", help="Dispatch to the nodes of the Ray cluster at this address.")
TO_NODES = typer.Option(
    None, "--nodes", help="How many nodes of it, or their names or addresses; without --ray so many on this machine."
)


@contextmanager
def joined(ray: str | None, nodes: str | None, ship: Path | None = None, *, wait: int = 0) -> Iterator[Fleet]:
    """The cluster, when so many nodes are there.

    What Ray prints goes where messages go, so that standard output holds the document alone.
    """
    with redirect_stdout(sys.stderr), connected(ray, local_nodes=_local(ray, nodes), ship=ship) as fleet:
        wait_for(fleet, wait, WAIT_S)
        yield fleet


def _local(ray: str | None, nodes: str | None) -> int:
    """How many nodes a cluster of this machine has."""
    if ray or nodes is None:
        return 1
    if not nodes.isdigit() or int(nodes) < 1:
        raise BadInput(f"--nodes {nodes!r}: without --ray give the number of nodes to start on this machine")
    return int(nodes)


def asked_nodes(ray: str | None, nodes: str | None) -> str | None:
    """Which nodes of a cluster are meant; of one that is started for the command, all."""
    return nodes if ray else None


def job_options(together: bool, ship: Path | None, env: list[str] | None) -> JobOptions:
    """How jobs are carried out, from what was said on the command line."""
    return JobOptions(
        together=together, cwd=Path.cwd() if ship is None else None, environment=environment_of(env or ())
    )


def refuse_fleet_options(together: bool, wait: int, ship: Path | None, env: list[str] | None) -> None:
    """Options that mean nothing on one machine."""
    given = {"--together": together, "--wait-for": wait, "--ship": ship, "--env": env}
    named = next((name for name, value in given.items() if value), None)
    if named is not None:
        raise BadInput(f"{named} is for a fleet; give --ray or --nodes with it")
