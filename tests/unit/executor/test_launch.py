"""Ranks are a part of the executor; a process that is alone has none of their fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.executor.capture import capture_host
from lynxbench.executor.host import Host
from lynxbench.executor.launch import PEERS_VARIABLE, read_ranks
from lynxbench.model.executor import Status
from lynxbench.model.layers import Layer


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": "1"}, {"WORLD_SIZE": "many"}])
def test_a_process_that_is_alone_has_no_ranks(environ: dict[str, str], tmp_path: Path) -> None:
    assert read_ranks(Host(root=tmp_path, environ=environ)) == {}


def test_the_world_and_the_other_machines_are_fields(tmp_path: Path) -> None:
    environ = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", PEERS_VARIABLE: json.dumps(["bb", "aa"])}
    found = read_ranks(Host(root=tmp_path, environ=environ))
    assert {name: field.value for name, field in found.items()} == {
        "world_size": 16,
        "local_world_size": 8,
        "peer_executors": ["aa", "bb"],
    }
    assert read_ranks(Host(root=tmp_path, environ={"WORLD_SIZE": "2"}))["local_world_size"].status is Status.UNREADABLE


def test_another_world_is_another_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = capture_host()
    monkeypatch.setenv("WORLD_SIZE", "2")
    ranked = capture_host()
    assert ranked.get(Layer.SYSTEM, "world_size") == 2
    assert ranked.executor_id != alone.executor_id
