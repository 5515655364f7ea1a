"""A server of ours comes up, says why it does not, and is gone afterwards with all that it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

import tiny_server
from lynxbench.errors import CannotRun
from lynxbench.https import request
from lynxbench.run.started_server import TAIL_BYTES, StartedServer, free_port, refuse_taken

TINY = tiny_server.__file__
PATIENCE_S = 60.0
"""Until something is so that must become so: long on a crowded machine, and never waited for on a quiet one."""


@contextmanager
def tiny(*options: str, port: int | None = None, **environment: str) -> Iterator[tuple[StartedServer, int]]:
    chosen = port or free_port()
    command = [sys.executable, "-S", TINY, "--port", str(chosen), *options]
    server = StartedServer("tiny", command, environment, grace_s=0.3)
    try:
        yield server, chosen
    finally:
        server.stop()


def answers(port: int) -> bool:
    try:
        return request("GET", f"http://127.0.0.1:{port}/health", timeout_s=2.0).is_good
    except OSError:
        return False


def until(true: object, what: str) -> None:
    assert callable(true)
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def all_below(keeper: int) -> list[psutil.Process]:
    return [one for one in psutil.Process(keeper).children(recursive=True) if not gone([one])]


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none lives: one that nobody has reaped yet is dead."""
    try:
        return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)
    except psutil.NoSuchProcess:
        return gone([one for one in processes if psutil.pid_exists(one.pid)])


def test_it_answers_inside_and_is_gone_after() -> None:
    with tiny() as (server, port):
        server.await_ready(lambda: answers(port), PATIENCE_S)
        server.refuse_foreign(port)
        assert server.ended == ""
        below = all_below(server.pid)
        assert below
    assert gone(below)
    assert not answers(port)
    refuse_taken("127.0.0.1", port)


@pytest.mark.parametrize("fault", ["deaf", "children"])
def test_what_ignores_the_signal_or_left_its_parents_is_ended_too(fault: str) -> None:
    with tiny("--fault", fault) as (server, port):
        server.await_ready(lambda: answers(port), PATIENCE_S)
        below = all_below(server.pid)
        if fault == "children":  # both are in sessions of their own, and their parents have ended
            until(lambda: len(all_below(server.pid)) == 3, "the daemons were not found below the keeper")
            below = all_below(server.pid)
    assert gone(below)


def test_it_says_the_code_and_the_last_line_of_a_start_that_fails() -> None:
    with tiny("--fault", "code") as (server, port), pytest.raises(CannotRun) as told:
        server.await_ready(lambda: answers(port), PATIENCE_S)
    assert str(told.value) == "server tiny ended with code 1: no such model"


def test_one_that_never_listens_is_not_waited_for_longer() -> None:
    with tiny("--fault", "never", "--say", "loading shards") as (server, port):
        until(lambda: server.tail() != "", "it said nothing")
        with pytest.raises(CannotRun, match=r"tiny did not come up within 0\.2 s; its last line: loading shards"):
            server.await_ready(lambda: answers(port), 0.2)


def test_a_server_that_is_killed_is_said_to_be() -> None:
    with tiny() as (server, port):
        server.await_ready(lambda: answers(port), PATIENCE_S)
        all_below(server.pid)[0].kill()
        until(lambda: server.ended != "", "its end was not seen")
        assert "ended with signal SIGKILL" in server.ended


def test_no_such_program_is_said_at_once() -> None:
    with pytest.raises(CannotRun, match="no-such-program: no such program"):
        StartedServer("tiny", ["no-such-program"], {})


def test_secrets_are_in_no_log() -> None:
    key, token = "hunter2-hunter2", "hf_abcdefghijklmnop"
    with tiny("--say", f"key {key} token {token} done", SERVER_API_KEY=key) as (server, port):
        server.await_ready(lambda: answers(port), PATIENCE_S)
        assert server.last_line == "key <withheld> token <withheld> done"
    assert key not in server.tail()


def test_a_line_that_is_cut_is_left_out_whole() -> None:
    long, key = "x" * TAIL_BYTES, "secret-of-some-length"
    with tiny("--say", f"{long}{key}\nthe end", SERVER_API_KEY=key) as (server, port):
        server.await_ready(lambda: answers(port), PATIENCE_S)
        assert server.tail() == "the end\n"


def test_a_taken_port_is_said_with_who_has_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])
        with pytest.raises(CannotRun, match=rf"port {port} of 127\.0\.0\.1 is taken already.*port 0 into engine\.url"):
            refuse_taken("127.0.0.1", port)


def test_another_server_on_the_port_is_not_taken_for_ours() -> None:
    with tiny() as (ours, port):
        ours.await_ready(lambda: answers(port), PATIENCE_S)
        with tiny(port=port) as (second, _):  # as a run that chose the same port a moment later
            second.await_ready(lambda: answers(port), PATIENCE_S)
            with pytest.raises(CannotRun, match=r"which is not its own, answers on port|Address already in use"):
                second.refuse_foreign(port)
        assert answers(port)


STARTER = """\
import sys, time
from lynxbench.run.started_server import StartedServer
server = StartedServer("tiny", sys.argv[1:], {}, grace_s=0.3)
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_killed_lynxbench_leaves_no_server(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-S", TINY, "--port", str(port), "--fault", "children"]
    with subprocess.Popen([sys.executable, "-c", STARTER, *command], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        keeper = psutil.Process(int(program.stdout.readline()))
        until(lambda: len(all_below(keeper.pid)) == 3, "the server and its daemons did not come up")
        below = [keeper, *all_below(keeper.pid)]
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    until(lambda: gone(below), "something outlived the program that was killed")
