"""`lynxbench schedule`: contracts on a timetable, and the agents that carry them out."""

import os
from typing import Any

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import COMMANDS, command_group
from lynxbench.cli.options import AS_JSON, CONTRACT_FILE, SERVER, TOKEN
from lynxbench.cli.terminal import as_lines
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput
from lynxbench.record.remote import NOT_OURS, remote_from

app = command_group("Contracts on a timetable, and the agents that run them.", COMMANDS["schedule"])


def add(
    name: str = typer.Argument(help="A name for the schedule."),
    contract: str = CONTRACT_FILE,
    every: str | None = typer.Option(None, help="A distance: 30 min, 6 h, 1 d."),
    cron: str | None = typer.Option(None, help="Five fields of cron, in UTC: '0 3 * * *'."),
    agents: list[str] = typer.Option([], "--agent", help="Agents that run it; all of your team if left out."),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    as_json: bool = AS_JSON,
) -> None:
    """Put a contract on a timetable, or change one that is there."""
    if (every is None) == (cron is None):
        raise BadInput("give --every or --cron")
    agreed = read_contract(contract)
    body = {"timetable": cron or f"every {every}", "contract": agreed.canonical(), "agents": agents}
    remote = remote_from(server, token, os.environ)
    schedule = remote.ask("PUT", f"/api/v1/schedules/{name}", body)
    try:
        contract_id = schedule["contract_id"][:12]
        line = f"{schedule['name']}: {agreed.name} ({contract_id}), {schedule['timetable']}, by {schedule['team']}"
    except (KeyError, TypeError):
        raise BadInput(f"{remote.url}: {NOT_OURS}") from None
    answer(as_json, lambda: schedule, lambda: as_lines([line]))


def list_(server: str | None = SERVER, token: str | None = TOKEN, as_json: bool = AS_JSON) -> None:
    """Schedules, agents, and what came of the newest runs."""
    remote = remote_from(server, token, os.environ)
    book = {**remote.ask("GET", "/api/v1/schedules"), **remote.ask("GET", "/api/v1/runs", query={"limit": "20"})}
    try:
        text = _text(book)
    except (KeyError, TypeError):
        raise BadInput(f"{remote.url}: {NOT_OURS}") from None
    answer(as_json, lambda: book, lambda: text)


def _text(book: dict[str, Any]) -> str:
    lines = ["schedule              timetable           contract      agents"]
    for schedule in book["schedules"]:
        paused = "  paused" if schedule["paused_at"] else ""
        who = ", ".join(schedule["agents"]) or f"all of {schedule['team']}"
        contract_id = schedule["contract_id"][:12]
        lines.append(f"{schedule['name']:<21} {schedule['timetable']:<19} {contract_id}  {who}{paused}")
    lines += ["", "agent                 last seen"]
    lines += [f"{agent['name']:<21} {agent['last_seen_at'][:19]}" for agent in book["agents"]]
    lines += ["", "due                  schedule              agent                 state     result"]
    for run in book["runs"]:
        outcome = f"{(run['result_id'] or '')[:12]}  {run['said'][:60]}"
        row = f"{run['due_at'][:19]}  {run['schedule']:<21} {run['agent']:<21} {run['state']:<9} {outcome}"
        lines.append(row.rstrip())
    return as_lines(lines)


def remove(
    name: str = typer.Argument(help="The schedule."),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    as_json: bool = AS_JSON,
) -> None:
    """Take a schedule away; what came of it stays in the book."""
    remote_from(server, token, os.environ).ask("DELETE", f"/api/v1/schedules/{name}")
    answer(as_json, lambda: {"name": name, "removed": True}, lambda: f"{name} is removed\n")
