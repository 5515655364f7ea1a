from __future__ import annotations

import json
import socket
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from lynxbench.errors import BadInput, CannotRun
from lynxbench.experiment.definition import ServerCommand
from lynxbench.experiment.launched_server import command_of, served


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def process(command: tuple[str, ...], port: int = 1, within: str = "20 s") -> ServerCommand:
    document = {"command": command, "ready": f"http://127.0.0.1:{port}/", "ready_within": within}
    return ServerCommand.model_validate_json(json.dumps(document))


def test_flags_fill_the_command_and_empty_parts_go() -> None:
    server = process(("{python}", "-m", "serve", "--slots={slots}", "{verbose}"))
    assert command_of(server, {"slots": 4, "verbose": ""}) == [sys.executable, "-m", "serve", "--slots=4"]
    assert command_of(server, {"slots": 4, "verbose": "-v"}, "/other/python")[0] == "/other/python"
    with pytest.raises(BadInput, match=r"server\.command.*verbose"):
        command_of(server, {"slots": 4})


def test_a_server_is_ready_inside_and_gone_after(tmp_path: Path) -> None:
    port = free_port()
    server = process(("{python}", "-m", "http.server", str(port), "--bind", "127.0.0.1"), port)
    with served(server, command_of(server, {}), {}, tmp_path / "log.txt") as child:
        with urllib.request.urlopen(server.ready) as answer:
            assert answer.status == 200
        assert psutil.pid_exists(child.pid)
    assert child.ended != ""
    assert "GET / HTTP" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("{python}", "-c", "raise SystemExit('no such model')"), "ended with code 1: no such model"),
        (("{python}", "-c", "import time; time.sleep(60)"), "did not come up within 1 s"),
        (("no-such-program",), "no such program"),
    ],
)
def test_a_server_that_does_not_come_up_says_why(tmp_path: Path, command: tuple[str, ...], says: str) -> None:
    server = process(command, free_port(), "1 s" if "sleep" in str(command) else "20 s")
    with pytest.raises(CannotRun, match=says), served(server, command_of(server, {}), {}, tmp_path / "log.txt"):
        pass
