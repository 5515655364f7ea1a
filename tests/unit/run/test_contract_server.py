"""The server of a contract: up when it has answered a whole request, renewed with other arguments, its log kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import tiny_server
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadInput, CannotRun
from lynxbench.https import request
from lynxbench.model.contract import Contract
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.surroundings import Surroundings
from lynxbench.run import machine_servers
from lynxbench.run.contract_server import ContractServer, serving
from lynxbench.run.run_outcome import LineProgress
from served import served_contract

ANY_PORT = "http://127.0.0.1:0/v1"


def contract(arguments: str = "", url: str = ANY_PORT) -> Contract:
    engine = f"stream: false\nserve: {{server: tiny, arguments: {{{arguments}}}}}"
    return parse_contract(served_contract(url, engine=engine))


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose one server takes what a contract adds."""
    (tmp_path / "servers.yaml").write_text(
        "lynxbench_servers: 1\nservers:\n  tiny:\n"
        f"    command: ['{{python}}', -S, {tiny_server.__file__}, --port, '{{port}}']\n    within: 60 s\n"
    )
    monkeypatch.setenv("LYNXBENCH_HOME", str(tmp_path))


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def tiny(tmp_path: Path, notes: list[str]) -> Iterator[ContractServer]:
    around = Surroundings(environment={"A": "b"})
    with serving(contract("slots: 4"), around, LineProgress(notes.append), tmp_path) as one:
        assert one is not None
        yield one


def started(asked: Contract, out: Path, work: Callable[[ContractServer], object] = lambda server: None) -> None:
    with serving(asked, None, LineProgress(), out) as server:
        assert server is not None
        server.start()
        work(server)


def arguments_of(server: ContractServer) -> list[str]:
    engine = server.reached(contract()).engine
    assert isinstance(engine, OpenAiEngine)
    body: dict[str, Any] = json.loads(request("GET", engine.url, timeout_s=600).body)
    return [str(word) for word in body["argv"]]


def test_it_is_up_when_it_has_answered_a_request_and_can_be_started_anew(
    tiny: ContractServer, notes: list[str], tmp_path: Path
) -> None:
    greeting = tiny.start()
    assert greeting is not None
    assert greeting.calibration is not None
    assert arguments_of(tiny)[-2:] == ["--slots", "4"]
    first = tiny.running.pid
    tiny.start({"slots": 8, "eager": True})
    assert arguments_of(tiny)[-3:] == ["--eager", "--slots", "8"]
    assert not psutil.pid_exists(first)
    tiny.keep_log(tmp_path)
    assert (tmp_path / "server.txt").read_text() == "--- server 1 of 2\ntiny server\n--- server 2 of 2\ntiny server\n"
    assert notes == ["starting server tiny"] * 2


def test_it_is_gone_whatever_happens_inside(tmp_path: Path) -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with serving(contract(), None, LineProgress(), tmp_path) as server:
            assert server is not None
            server.start()
            server.folder = tmp_path / "run"
            server.folder.mkdir()
            below = psutil.Process(server.running.pid).children(recursive=True)
            pids.extend((server.running.pid, *(one.pid for one in below)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert "tiny server" in (tmp_path / "run" / "server.txt").read_text()  # there is no result: what it said is kept


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("fault: code", r"server tiny ended with code 1: no such model \(the end of its log is in .*-failed\.txt\)"),
        ("fault: first", r"server tiny ended with code 9: illegal memory access \(at its first request\)"),
    ],
)
def test_a_start_that_fails_is_one_line_and_a_log(arguments: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=says) as told:
        started(contract(arguments), tmp_path)
    assert "\n" not in str(told.value)
    assert "tiny server" in (tmp_path / "server-tiny-failed.txt").read_text()


def test_a_server_that_says_it_loads_is_waited_for(tmp_path: Path) -> None:
    with serving(contract("fault: loading"), None, LineProgress(), tmp_path) as server:
        assert server is not None
        assert server.start() is not None


def test_a_server_that_dies_under_the_work_is_the_reason(tmp_path: Path) -> None:
    def killed(server: ContractServer) -> None:
        (process,) = psutil.Process(server.running.pid).children()
        process.kill()
        raise CannotRun("nothing was answered")

    with pytest.raises(CannotRun, match="served: server tiny ended with signal SIGKILL"):
        started(contract(), tmp_path, killed)


def test_a_free_port_must_be_told_and_a_server_started_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="is not this machine"):
        started(contract(url="http://192.0.2.1:8000/v1"), tmp_path)
    fixed = machine_servers.MachineServer(command=("serve",))
    monkeypatch.setattr("lynxbench.run.contract_server.read_server", lambda name: fixed)
    with pytest.raises(BadInput, match=r"say with \{port\} in servers\.yaml"):
        started(contract(), tmp_path)


def test_nothing_is_started_for_contracts_that_start_nothing(tmp_path: Path) -> None:
    with serving(parse_contract(served_contract("http://127.0.0.1:1/v1")), None, LineProgress(), tmp_path) as none:
        assert none is None
