"""`lynxbench schedule`: contracts on a timetable, and the agents that carry them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from lynxbench.cli.fleet_options import ENV, SHIP, TO_NODES, TO_RAY, TOGETHER, WAIT_FOR, WAIT_S
from lynxbench.cli.push_command import SERVER, TOKEN
from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import BadInput

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("add")
def add(
    name: str = typer.Argument(help="A name for the schedule."),
    contract: str = typer.Argument(help="A contract file, or the name of a bundled one."),
    every: str | None = typer.Option(None, help="A distance: 30 min, 6 h, 1 d."),
    cron: str | None = typer.Option(None, help="Five fields of cron, in UTC: '0 3 * * *'."),
    agents: list[str] = typer.Option([], "--agent", help="Agents that run it; all of your team if left out."),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    as_json: bool = AS_JSON,
) -> None:
    """Put a contract on a timetable, or change one that is there."""
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.contract.loader import read_contract
    from lynxbench.record.remote import remote_from

    if (every is None) == (cron is None):
        raise BadInput("give --every or --cron")
    agreed = read_contract(contract)
    body = {"timetable": cron or f"every {every}", "contract": agreed.canonical(), "agents": agents}
    found = remote_from(server, token, os.environ).ask("PUT", f"/api/v1/schedules/{name}", body)
    if as_json:
        print_document(found)
    else:
        print(f"{found['name']}: {agreed.name} ({found['contract_id'][:12]}), {found['timetable']}, by {found['team']}")


@app.command("list")
def list_(server: str | None = SERVER, token: str | None = TOKEN, as_json: bool = AS_JSON) -> None:
    """Schedules, agents, and what came of the newest runs."""
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.record.remote import remote_from

    remote = remote_from(server, token, os.environ)
    found = {**remote.ask("GET", "/api/v1/schedules"), **remote.ask("GET", "/api/v1/runs", query={"limit": "20"})}
    if as_json:
        print_document(found)
        return
    print(_text(found), end="")


def _text(found: dict[str, Any]) -> str:
    lines = ["schedule              timetable           contract      agents"]
    for one in found["schedules"]:
        paused = "  paused" if one["paused_at"] else ""
        who = ", ".join(one["agents"]) or f"all of {one['team']}"
        lines.append(f"{one['name']:<21} {one['timetable']:<19} {one['contract_id'][:12]}  {who}{paused}")
    lines += ["", "agent                 last seen"]
    lines += [f"{one['name']:<21} {one['last_seen_at'][:19]}" for one in found["agents"]]
    lines += ["", "due                  schedule              agent                 state     result"]
    for one in found["runs"]:
        told = f"{(one['result_id'] or '')[:12]}  {one['said'][:60]}"
        lines.append(
            f"{one['due_at'][:19]}  {one['schedule']:<21} {one['agent']:<21} {one['state']:<9} {told}".rstrip()
        )
    return "\n".join(lines) + "\n"


@app.command("remove")
def remove(
    name: str = typer.Argument(help="The schedule."), server: str | None = SERVER, token: str | None = TOKEN
) -> None:
    """Take a schedule away; what came of it stays in the book."""
    import os

    from lynxbench.record.remote import remote_from

    remote_from(server, token, os.environ).ask("DELETE", f"/api/v1/schedules/{name}")
    print(f"{name} is removed")


@app.command("agent")
def agent(
    name: str = typer.Option(..., help="What this machine is called on the server."),
    out: Path = typer.Option(Path("results"), help="Folder that receives one folder a run."),
    poll: float = typer.Option(10.0, min=0.1, max=3600, help="Seconds between two questions."),
    runs: int | None = typer.Option(None, min=1, help="Stop after so many runs."),
    once: bool = typer.Option(False, "--once", help="Ask once, carry out what is due, and end: for cron and CronJobs."),
    only: list[str] = typer.Option([], "--only", help="Run these contracts alone (ids or their beginnings)."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    ray: str | None = TO_RAY,
    nodes: str | None = TO_NODES,
    together: bool = TOGETHER,
    wait: int = WAIT_FOR,
    ship: Path | None = SHIP,
    env: list[str] | None = ENV,
    server: str | None = SERVER,
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
) -> None:
    """Ask a server what is due, run it here, say how it goes, and push the result.

    With --ray or --nodes what is due goes to the nodes of a fleet, each run alone on one, several side by side.
    """
    import logging
    import os
    import signal
    import threading

    from lynxbench.cli.fleet_options import asked_nodes, job_options, joined, refuse_fleet_options
    from lynxbench.executor.declaration import read_declaration
    from lynxbench.record.remote import remote_from
    from lynxbench.watch.agent import AgentClient, AgentSettings, SchedulingAgent
    from lynxbench.watch.json_log import make_log

    log = logging.LoggerAdapter(make_log("lynxbench.agent"), {"agent": name})
    remote = remote_from(server, token, os.environ)
    settings = AgentSettings(name, out, ledger, poll, tuple(one.lower() for one in only))
    client = AgentClient(settings, remote, os.environ, log)
    declaration = read_declaration(declare) if declare else None
    stop = threading.Event()
    asking = "once" if once else f"every {poll:g} s"
    if ray or nodes:
        from lynxbench.fleet.cluster import wait_for
        from lynxbench.watch.fleet_agent import FleetAgent

        options = job_options(together, ship, env)
        with joined(ray, nodes, ship) as fleet:
            wait_for(fleet, wait, WAIT_S)
            chief = FleetAgent(client, fleet, nodes=asked_nodes(ray, nodes), options=options, declaration=declaration)
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            log.info("asking %s %s for the fleet at %s", remote.url, asking, fleet.address)
            if not chief.work(stop, runs, once=once) and once:
                log.info("nothing is due")
        return
    refuse_fleet_options(together, wait, ship, env)
    worker = SchedulingAgent(client, declaration)
    if once:
        if not worker.poll():
            log.info("nothing is due")
        return
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    log.info("asking %s %s", remote.url, asking)
    worker.work(stop, runs)
