"""`lynxbench schedule agent`: asks a server what is due, and carries it out here or on a fleet's nodes."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import typer

from lynxbench.cli import fleet_options as on_fleet
from lynxbench.cli.options import DECLARE, LEDGER, OUT, SERVER, TOKEN
from lynxbench.executor.declaration import read_declaration
from lynxbench.record.remote import remote_from
from lynxbench.watch.agent import AgentClient, AgentSettings, SchedulingAgent
from lynxbench.watch.fleet_agent import FleetAgent
from lynxbench.watch.json_log import make_log


def agent(
    name: str = typer.Option(..., help="What this machine is called on the server."),
    out: Path = OUT,
    poll: float = typer.Option(10.0, min=0.1, max=3600, help="Seconds between two questions."),
    runs: int | None = typer.Option(None, min=1, help="Stop after so many runs."),
    once: bool = typer.Option(False, "--once", help="Ask once, carry out what is due, and end: for cron and CronJobs."),
    only: list[str] = typer.Option([], "--only", help="Run these contracts alone (ids or their beginnings)."),
    callables: list[str] = typer.Option(
        [], "--callable", help="Function of this machine, MODULE:FUNCTION, that contracts may run; may be repeated."
    ),
    declare: Path | None = DECLARE,
    ray: str | None = on_fleet.TO_RAY,
    nodes: str | None = on_fleet.TO_NODES,
    together: bool = on_fleet.TOGETHER,
    wait: int = on_fleet.WAIT_FOR,
    ship: Path | None = on_fleet.SHIP,
    env: list[str] | None = on_fleet.ENV,
    server: str | None = SERVER,
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
) -> None:
    """Ask a server what is due, run it here, say how it goes, and push the result.

    With --ray or --nodes what is due goes to the nodes of a fleet, each run alone on one, several side by side.
    """
    log = logging.LoggerAdapter(make_log("lynxbench.agent"), {"agent": name})
    remote = remote_from(server, token, os.environ)
    beginnings = tuple(beginning.removeprefix("sha256:").lower() for beginning in only)
    settings = AgentSettings(name, out, ledger, poll, beginnings, tuple(callables))
    client = AgentClient(settings, remote, os.environ, log)
    declaration = read_declaration(declare) if declare else None
    stop = threading.Event()
    asking = "once" if once else f"every {poll:g} s"
    if ray or nodes:
        options = on_fleet.job_options(together, ship, env)
        with on_fleet.joined(ray, nodes, ship, wait=wait) as fleet:
            dispatcher = FleetAgent(
                client, fleet, nodes=on_fleet.asked_nodes(ray, nodes), options=options, declaration=declaration
            )
            log.info("asking %s %s for the fleet at %s", remote.url, asking, fleet.address)
            with _stopped_by_sigterm(stop):
                is_done = dispatcher.work(stop, runs, once=once)
            if not is_done and once:
                log.info("nothing is due")
        return
    on_fleet.refuse_fleet_options(together, wait, ship, env)
    worker = SchedulingAgent(client, declaration)
    if once:
        if not worker.poll():
            log.info("nothing is due")
        return
    log.info("asking %s %s", remote.url, asking)
    with _stopped_by_sigterm(stop):
        worker.work(stop, runs)


@contextlib.contextmanager
def _stopped_by_sigterm(stop: threading.Event) -> Iterator[None]:
    """The signal ends the work in order; whoever calls the command from Python has their own handler back."""
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # None where it was not set from Python
