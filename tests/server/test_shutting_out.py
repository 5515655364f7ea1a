"""Attempts to keep others out: connections that are held, headers that never end, names that are guessed for."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select

from hosted import PASSWORD, Caller, World, hidden, hosted
from lynxbench.ledger.ledger_tables import checkpoints
from lynxbench.server import connections
from lynxbench.server.access import Access
from lynxbench.server.limits import SIGN_INS_PER_MIN, SignInLimits
from lynxbench.server.rights import API, AccessScope
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings, dangers_of
from lynxbench.watch.store import Store, store_url
from recording_teams import make_team

HERE, THERE = "127.0.0.1", "127.0.0.2"
SOON_S = 60.0


@contextmanager
def small(tmp_path: Path, **settings: object) -> Iterator[World]:
    """A server with an empty ledger; somebody is registered where it is open to a network."""
    team = make_team("small", tmp_path)
    if "host" in settings:
        store = Store(store_url(None, team.location))
        Access(store).add_user("admin", "small", list(AccessScope))
        store.close()
    given = {"upload_folder": tmp_path / "uploads", "environment": team.environment, **settings}
    server = Server(ServerSettings(**given), team.location, store_url(None, team.location))  # type: ignore[arg-type]
    with hosted(World(server, team, team, {}, [], [])) as made:
        yield made


def connect(world: World, source: str = HERE) -> socket.socket:
    return socket.create_connection((HERE, world.port), timeout=SOON_S, source_address=(source, 0))


def ended(held: socket.socket, seconds: float = SOON_S) -> bool:
    """Whether the server ended a connection by then."""
    held.settimeout(seconds)
    try:
        while held.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def cut_off(held: socket.socket, data: bytes, times: int) -> bool:
    """Whether the server ended a connection on which something is sent again and again."""
    held.settimeout(SOON_S)
    try:
        for _ in range(times):
            held.sendall(data)
            time.sleep(0.005)
    except ConnectionError:
        return True
    return False


# --- what is drawn out ---


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"x"),
        (b"", b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"G"),
        (b"POST /signin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"x"),
    ],
    ids=["silence", "a header", "empty lines", "empty lines after a request", "a second request", "a body"],
)
def test_nobody_draws_a_request_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes) -> None:
    """A byte now and then, so that no silence is long: the time for the whole ends it."""
    monkeypatch.setattr(connections, "HEADERS_S", 1.0)
    monkeypatch.setattr(connections, "BODY_S", 1.0)
    with small(tmp_path) as world, connect(world) as held:
        held.sendall(first)
        until = time.monotonic() + SOON_S
        while time.monotonic() < until:
            if ended(held, 0.2):
                return
            try:
                held.sendall(then)
            except ConnectionError:
                return
        raise AssertionError("it is still open")


def test_endless_headers_end(tmp_path: Path) -> None:
    with small(tmp_path) as world, connect(world) as held:
        held.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        assert cut_off(held, b"X-Long: " + b"x" * (64 << 10), 200)
        assert Caller(world.port).get("/healthz").status == 200


def test_an_answer_that_nobody_reads_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_S", 0.5)
    with small(tmp_path) as world, connect(world) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        style = re.search(r"/static/[^\"]+\.css", Caller(world.port).get("/").text)
        assert style is not None
        ask = f"GET {style[0]} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        assert cut_off(held, ask, 2000), "answers pile up until the system holds no more of them"
        assert Caller(world.port).get("/healthz").status == 200


# --- what is held ---


def test_thirteen_hundred_idle_connections_shut_nobody_out(tmp_path: Path) -> None:
    with small(tmp_path) as world, ExitStack() as stack:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        many = min(1300, soft - 600)
        held = []
        for _ in range(many):
            try:
                held.append(stack.enter_context(connect(world, THERE)))
            except OSError:
                break
        began = time.monotonic()
        assert Caller(world.port).get("/healthz").status == 200
        assert time.monotonic() - began < SOON_S
        kept = sum(not ended(one, 0.0005) for one in held)
        assert kept <= connections.MOST_AN_ADDRESS


def test_many_addresses_together_leave_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_AN_ADDRESS", 10)
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 30)
    with small(tmp_path) as world, ExitStack() as stack:
        held = [stack.enter_context(connect(world, f"127.0.1.{number % 8 + 1}")) for number in range(80)]
        for _ in range(5):
            assert Caller(world.port).get("/healthz").status == 200
        assert sum(not ended(one, 0.001) for one in held) <= 30


def test_behind_a_proxy_its_one_address_is_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_AN_ADDRESS", 10)
    with small(tmp_path, proxies=1) as world, ExitStack() as stack:
        held = [stack.enter_context(connect(world)) for _ in range(40)]
        assert Caller(world.port).get("/healthz").status == 200
        assert sum(not ended(one, 0.001) for one in held) == 40


# --- names and passwords ---


def tried(world: World, source: str, password: str, name: str = "victim") -> int:
    caller = Caller(world.port, source=source)
    page = caller.get("/signin")
    return caller.form("/signin", {"csrf": hidden(page.text), "name": name, "password": password, "next": "/"}).status


def test_guessing_at_one_address_locks_the_user_out_at_no_other(tmp_path: Path) -> None:
    with small(tmp_path) as world:
        world.server.access.add_user("victim", "small", [AccessScope.READ], PASSWORD)
        guesses = [tried(world, THERE, f"guess number {number}") for number in range(SIGN_INS_PER_MIN + 3)]
        assert guesses[0] == 403
        assert guesses[-1] == 429
        assert tried(world, THERE, PASSWORD) == 429, "nor is the right one taken there now"
        assert tried(world, HERE, PASSWORD) == 303
        assert tried(world, "127.0.0.3", PASSWORD) == 303


def test_a_forged_address_does_not_escape_the_limit(tmp_path: Path) -> None:
    """Each guess says that it comes from elsewhere; without a proxy nobody is believed, behind one its own word is."""
    for proxies, lines in ((0, "{0}"), (1, "{0}, 192.0.2.77")):
        folder = tmp_path / str(proxies)
        folder.mkdir()
        with small(folder, proxies=proxies) as world:
            world.server.sign_ins = SignInLimits()
            statuses = []
            for number in range(SIGN_INS_PER_MIN + 3):
                caller = Caller(world.port)
                page = caller.get("/signin")
                fields = {"csrf": hidden(page.text), "name": "victim", "password": "guess", "next": "/"}
                forwarded = {"X-Forwarded-For": lines.format(f"198.51.100.{number}")}
                statuses.append(caller.form("/signin", fields, **forwarded).status)
            assert statuses[-1] == 429, proxies


# --- what reading leaves behind ---


def test_taking_bundles_away_stores_nothing(world: World) -> None:
    log = world.server.ledger.log
    count = select(func.count()).select_from(checkpoints)
    before, head = log.database.row(count), log.head()
    reader = world.caller("reader")
    for _ in range(3):
        assert reader.get(f"{API}/results/{world.results[0].result_id}/bundle").status == 200
        assert reader.get(f"{API}/analyses/{world.analyses['fleet']}/bundle").status == 200
    assert log.database.row(count) == before
    assert log.head() == head


# --- whoever keeps it running ---


def test_the_containers_own_health_check_is_answered(tmp_path: Path) -> None:
    """The command in the container file, against a server that is told to run as the container's is."""
    text = (Path(__file__).resolve().parents[2] / "deploy" / "Containerfile").read_text()
    found = re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", text, re.MULTILINE)
    assert found is not None
    program, flag, code = json.loads(found[1])
    assert (program, flag) == ("python", "-c")
    with small(tmp_path, host="0.0.0.0", origin="https://bench.example") as world:
        checked = subprocess.run(
            [sys.executable, "-c", code.replace("8420", str(world.port))], capture_output=True, timeout=600, check=False
        )
        assert checked.returncode == 0, checked.stderr.decode()
        for host in ("localhost", "10.1.2.3:8420", "evil.example", ""):
            assert Caller(world.port).get("/healthz", Host=host).status == 200, host
            assert Caller(world.port).get("/readyz", Host=host).status == 200, host
            assert Caller(world.port).get("/signin", Host=host).status in (400, 421), host
            assert Caller(world.port).get("/healthz/", Host=host).status in (400, 421), host
        assert Caller(world.port).get("/signin", Host="bench.example").status == 200


@pytest.mark.parametrize(
    ("settings", "tls", "is_root", "words"),
    [
        ({}, False, False, []),
        ({"host": "::1"}, False, False, []),
        ({"host": "0.0.0.0"}, False, False, ["plain http"]),
        ({"host": "::"}, False, False, ["plain http"]),
        ({"host": "192.0.2.1", "origin": "http://bench.example"}, False, False, ["plain http"]),
        ({"host": "0.0.0.0"}, True, False, []),
        ({"host": "0.0.0.0", "origin": "https://bench.example"}, False, False, []),
        ({}, False, True, ["root"]),
        ({"host": "0.0.0.0"}, False, True, ["plain http", "root"]),
    ],
)
def test_what_is_dangerous_is_said(settings: dict[str, str], tls: bool, is_root: bool, words: list[str]) -> None:
    dangers = dangers_of(ServerSettings(**settings), tls=tls, is_root=is_root)  # type: ignore[arg-type]
    assert len(dangers) == len(words)
    assert all(word in danger for word, danger in zip(words, dangers, strict=True))


def test_it_is_said_where_people_look(tmp_path: Path) -> None:
    """The real command on every address of this machine, over plain http."""
    environment = {**os.environ, "LYNXBENCH_HOME": str(tmp_path), "LYNXBENCH_PASSWORD": PASSWORD}
    call = [sys.executable, "-m", "lynxbench", "serve"]
    added = [*call, "user", "add", "ada", "--team", "ml", "--scopes", "read,administer"]
    subprocess.run(added, env=environment, check=True, capture_output=True, timeout=600)
    command = [*call, "--host", "0.0.0.0", "--port", "0", "--quiet"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        lines = []
        for line in child.stderr:
            lines.append(line)
            if line.startswith("lynxbench: http"):
                break
        child.terminate()
        child.wait(timeout=600)
    warned = [line for line in lines if line.startswith("lynxbench: WARNING: ")]
    assert "plain http" in warned[0]
    assert len(warned) == 1 + (os.geteuid() == 0)
