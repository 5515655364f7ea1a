"""What an agent refuses to run, whoever put it on a timetable."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from command_line import QUICK_CONTRACT
from compared import make_contract
from lynxbench.contract.loader import parse_contract
from lynxbench.record.remote import Remote
from lynxbench.watch.agent import LEAST_EXACT, AgentClient, AgentSettings
from served import served_contract

SPIN = parse_contract(QUICK_CONTRACT)
SHELL = parse_contract(QUICK_CONTRACT.replace("spinning:spin", "os:getcwd"))
ID = SPIN.contract_id


class Server(Remote):
    """Has one run that is due, and keeps what it is told about it."""

    def __init__(self, contract: Any) -> None:
        super().__init__("http://127.0.0.1:1", "token")
        self._due = [contract]
        self.told: list[dict[str, Any]] = []

    def ask(self, method: str, path: str, document: Any = None, **_: Any) -> dict[str, Any]:  # type: ignore[override]
        if path.endswith("/poll"):
            if not self._due:
                return {"run": None}
            run = {"run": "r1", "schedule": "nightly", "due_at": "now"}
            return {"run": run, "contract": self._due.pop().canonical(), "last_node": None}
        self.told.append(document)
        return {}


def claimed(contract: Any, tmp_path: Path, **settings: Any) -> tuple[bool, str]:
    server = Server(contract)
    client = AgentClient(AgentSettings("a", tmp_path, None, 1.0, **settings), server, {}, logging.getLogger("agent"))
    run = client.claim()
    return run is not None, " ".join(str(document.get("said", "")) for document in server.told)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"callables": ("spinning:other",)},
        {"callables": ("spinning",)},
        {"callables": ("spinning:spin.__call__",)},
        {"only": (ID[: LEAST_EXACT - 1],)},
        {"only": (ID[:4],)},
        {"only": ("",)},
    ],
    ids=str,
)
def test_a_function_that_nobody_here_named_is_not_run(tmp_path: Path, settings: dict[str, Any]) -> None:
    """A short beginning is no name: whoever writes contracts can try until an id begins so."""
    runs, said = claimed(SPIN, tmp_path, **settings)
    assert not runs
    assert "spinning:spin of this machine" in said
    assert "--callable spinning:spin" in said


@pytest.mark.parametrize(
    "settings", [{"callables": ("spinning:spin",)}, {"only": (ID[:LEAST_EXACT],)}, {"only": ("ab", ID)}], ids=str
)
def test_a_function_that_was_named_here_is_run(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert claimed(SPIN, tmp_path, **settings) == (True, "")
    assert not claimed(SHELL, tmp_path, **settings)[0], "and no other"


def test_what_names_no_function_needs_no_leave(tmp_path: Path) -> None:
    assert claimed(make_contract(), tmp_path) == (True, "")
    assert not claimed(make_contract(), tmp_path, only=("ffff",))[0]


LAUNCHED = served_contract("http://127.0.0.1:0/v1", engine="serve: {server: llama, arguments: {ARGUMENT}}")


def launched(argument: str) -> Any:
    return parse_contract(LAUNCHED.replace("ARGUMENT", argument))


def test_a_server_of_this_machine_is_only_tuned_by_what_another_server_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".config" / "lynxbench"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "write into it what 'llama' is" in claimed(launched("parallel: 4"), tmp_path)[1]
    home.mkdir(parents=True)
    (home / "servers.yaml").write_text(
        "lynxbench_servers: 1\nservers:\n  llama: {command: [llama-server, --port, '{port}'], kind: llamacpp}\n"
    )
    assert claimed(launched("parallel: 4"), tmp_path) == (True, "")
    runs, said = claimed(launched("path: /etc"), tmp_path)
    assert (runs, "--path /etc, which a document may not set" in said) == (False, True)
    named = launched("path: /etc").contract_id
    assert claimed(launched("path: /etc"), tmp_path, only=(named[:LEAST_EXACT],)) == (True, "")
