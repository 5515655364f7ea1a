"""Two agents, one schedule, a planted slowdown on one: it is measured again before anybody is told, then the page names
the regression, the layer and the owner, and the owner is told exactly once. Real agents (the two that work side by side
in processes of their own), a real server, a real webhook; the nights between are written into the book."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from command_line import QUICK_CONTRACT, lynxbench_here
from hosted import Caller, World, hosted, make_world
from lynxbench.contract.loader import parse_contract
from lynxbench.model.contract import Contract
from lynxbench.server.rights import API, AccessScope
from lynxbench.server.server_state import Server
from lynxbench.watch.store_tables import watched
from recording_teams import TEAM

CONTRACT = (
    QUICK_CONTRACT.replace("name: spin", "name: spin-nightly")
    .replace("restarts: 2", "restarts: 3")
    .replace("window: 20 ms", "window: 250 ms")
    .replace("min_duration: 400 ms", "min_duration: 1500 ms")
    .replace("limit: 600 ms", "limit: 20 s")
)
STEADY = """\
import time

def spin():
    time.sleep(0.03)
    return 1
"""
SLOW = STEADY.replace("0.03", "0.12")
PLACE = "agent rack-2"
USUAL_NIGHTS = 20


class Hook:
    """A webhook that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []


@contextmanager
def webhook() -> Iterator[tuple[Hook, str]]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            hook.headers.append(dict(self.headers))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hook, f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        thread.join(timeout=5)
        server.server_close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[World]:
    with hosted(make_world(tmp_path, shapes=(), decisions=False), looking=True) as world:
        yield world


def agent_of(world: World, name: str, folder: Path, token: str) -> tuple[list[str], dict[str, str]]:
    """The command of an agent that carries out one run, and its environment."""
    environment = {
        **world.team.environment,
        "LYNXBENCH_LEDGER": str(folder / "ledger"),
        "LYNXBENCH_SERVER": f"http://127.0.0.1:{world.port}",
        "LYNXBENCH_TOKEN": token,
    }
    command = ["schedule", "agent", "--name", name, "--poll", "0.3", "--callable", "spinning:spin", "--runs", "1"]
    return command, environment


def work_side_by_side(world: World, token: str, *folders: Path) -> None:
    agents = []
    for folder in folders:
        command, environment = agent_of(world, folder.name, folder, token)
        started = [sys.executable, "-m", "lynxbench", *command]
        agents.append(
            subprocess.Popen(started, cwd=folder, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
        )
    for agent in agents:
        _, said = agent.communicate(timeout=600)
        assert agent.returncode == 0, said


def work_alone(world: World, token: str, folder: Path) -> None:
    command, environment = agent_of(world, folder.name, folder, token)
    done = lynxbench_here(*command, cwd=folder, **environment)
    assert done.code == 0, done.err


def story(caller: Caller, contract: Contract) -> str:
    """What every pair of results of the contract says, for whoever reads a failure."""
    names = [one["result_id"] for one in caller.get(f"{API}/results?contract={contract.contract_id}").json()["results"]]
    pairs = [caller.get(f"{API}/compare?a={names[-1]}&b={name}").json() for name in names[:-1]]
    return str([(one["comparability"], one["verdict"], one["effect"], one["rules"]) for one in pairs])


def expect_sound(caller: Caller, contract: Contract) -> None:
    """On a machine that stands still again and again no night counts: nobody is told, and more cannot be shown."""
    listed = caller.get(f"{API}/results?contract={contract.contract_id}").json()["results"]
    doubts = {one["result_id"][:12]: one["validity"] for one in listed if one["validity"] != "valid"}
    if doubts:
        assert caller.get(f"{API}/notices").json()["notices"] == []
        pytest.skip(f"this machine is too unsteady for a planted slowdown to be proven on it: {doubts}")


def wait_for(question: Any, seconds: float = 300, story: Any = lambda: "") -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = question()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"it did not happen: {story()}")


def night_before(nights: float) -> str:
    return (datetime.now(UTC) - timedelta(days=nights)).isoformat(timespec="seconds")


def watched_rows(server: Server) -> list[Any]:
    return list(server.store.rows(select(watched).where(watched.c.place == PLACE).order_by(watched.c.started_at)))


def move_back(server: Server, names: list[str], nights: float) -> None:
    """As if results had been measured some nights ago."""
    mine = watched.c.result_id.in_(names)
    server.store.change(update(watched).where(mine).values(started_at=night_before(nights)))


def write_nights(server: Server, like: Any, nights: list[float], values: list[float]) -> None:
    """Nights that nobody waits for: like a real one, with other figures."""
    rows = [
        {**like._mapping, "result_id": f"night {night}", "started_at": night_before(night), "value": value}
        for night, value in zip(nights, values, strict=True)
    ]
    with server.store.writing() as connection:
        connection.execute(insert(watched), rows)


@pytest.mark.slow
def test_a_planted_slowdown_is_found_named_and_told_once(running: World, tmp_path: Path) -> None:
    world, server = running, running.server
    token = server.access.make_token("administrator", "agents", frozenset(AccessScope)).text
    caller = Caller(world.port, token)
    first, second = tmp_path / "rack-1", tmp_path / "rack-2"
    for folder in (first, second):
        folder.mkdir()
        (folder / "spinning.py").write_text(STEADY)
    contract = parse_contract(CONTRACT)
    with webhook() as (hook, address):
        contact = {"owner": "the spinners", "channel": "webhook", "address": address, "secret": "a shared secret"}
        assert caller.json("PUT", f"{API}/contacts", contact).status == 200
        schedule = {"timetable": "every 2 s", "contract": contract.canonical(), "agents": ["rack-1", "rack-2"]}
        seldom = {**schedule, "timetable": "every 365 d"}
        assert caller.json("PUT", f"{API}/schedules/nightly", schedule).status == 200
        work_side_by_side(world, token, first, second)
        expect_sound(caller, contract)
        (usual,) = wait_for(lambda: watched_rows(server))
        move_back(server, [usual.result_id], 5)
        around = [usual.value + 0.0004 * (1 - 2 * (place % 2)) * (place // 2 + 1) for place in range(USUAL_NIGHTS)]
        write_nights(server, usual, [6.0 + place for place in range(USUAL_NIGHTS)], around)
        assert caller.get(f"{API}/notices").json()["notices"] == []

        (second / "spinning.py").write_text(SLOW)  # planted, on one of the two
        for nights_ago in (2.0, 0.0):
            assert caller.json("PUT", f"{API}/schedules/nightly", schedule).status == 200
            work_alone(world, token, second)
            expect_sound(caller, contract)
            assert caller.json("PUT", f"{API}/schedules/nightly", seldom).status == 200
            for _ in range(2 if nights_ago else 1):  # one slow night alone is measured again twice, and told to nobody
                asked = wait_for(lambda: [run for run in server.scheduler.runs() if run.state == "asked"])
                assert caller.get(f"{API}/notices").json()["notices"] == [], "nobody is told before that"
                assert "a loss is suspected" in caller.get("/runs").text
                work_alone(world, token, second)
                expect_sound(caller, contract)
                wait_for(lambda: server.scheduler.run(asked[0].run).result_id)  # noqa: B023
                wait_for(lambda: not server.watch.pending())
            slow = [row for row in watched_rows(server) if row.started_at > night_before(0.5)]
            assert {row.result_id for row in slow} >= {asked[0].confirms, server.scheduler.run(asked[0].run).result_id}
            if nights_ago:
                move_back(server, [row.result_id for row in slow], nights_ago)
                write_nights(server, slow[0], [nights_ago - 1], [slow[0].value])
        notices = wait_for(lambda: caller.get(f"{API}/notices").json()["notices"], 300, lambda: story(caller, contract))
        wait_for(lambda: hook.told)
        time.sleep(1.0)  # a second message would have come by now
        assert len(hook.told) == 1
        assert len(notices) == 1

    (notice,) = caller.get(f"{API}/notices").json()["notices"]
    assert notice["place"] == PLACE
    assert notice["since"] < night_before(1.5)
    assert notice["confirmed_by"] == notice["result_id"]
    assert "measured again at once" in notice["sentence"]
    assert notice["layer"] == "application"
    assert notice["owner"] == "the spinners"
    assert notice["estimate"] < 0.5
    assert notice["told"][0]["state"] == "sent"
    assert hook.told[0]["evidence"]["compare"].endswith(f"a={notice['baseline_id']}&b={notice['result_id']}")
    assert hook.headers[0]["X-Lynxbench-Signature"].startswith("sha256=")
    wait_for(lambda: "Owner told by webhook" in caller.get("/").text)
    page = caller.get("/").text
    assert "the spinners" in page
    assert "layer-application" in page
    assert "Owner told by webhook" in page
    assert "Regressed" in caller.get(f"/contracts/{contract.contract_id}").text
    states = {one["state"] for one in caller.get(f"{API}/runs").json()["runs"] if one["schedule"] == "nightly"}
    assert "done" in states
    assert TEAM in caller.get("/runs").text


def test_what_is_missed_and_what_would_overlap_is_written_down(running: World) -> None:
    scheduler = running.server.scheduler
    contract = parse_contract(CONTRACT)
    scheduler.put("often", TEAM, "every 1 s", contract, "test", ["slow", "absent"])
    time.sleep(1.2)
    claimed = scheduler.poll("slow", TEAM, "x")
    assert claimed is not None
    assert scheduler.poll("slow", TEAM, "x") is None, "one run at a time"
    time.sleep(2.2)
    assert scheduler.poll("slow", TEAM, "x") is None
    scheduler.sweep()
    states = {(run.agent, run.state) for run in scheduler.runs() if run.schedule == "often"}
    assert ("slow", "overlap") in states
    assert ("absent", "missed") in states
    assert "absent did not come" in running.caller("reader").get("/runs").text
