"""Ranks without a cluster: numbered as torchrun does, started and ended with nothing left."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from fleet_tasks import WAITING, WAITING_CONTRACT
from lynxbench.contract.loader import read_contract
from lynxbench.fleet.cluster import FleetNode
from lynxbench.fleet.rank_run import RankHost, seats_of
from lynxbench.load.journal import count_journal
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision


def nodes(*gpus: int) -> list[FleetNode]:
    return [FleetNode(f"id{i}", f"n{i}", f"10.0.0.{i}", 8.0, float(count)) for i, count in enumerate(gpus)]


def test_one_rank_a_gpu_numbered_node_by_node() -> None:
    seats = seats_of(nodes(2, 2), 29500, "run")
    assert [(s.rank, s.node, s.environment["LOCAL_RANK"], s.environment["GROUP_RANK"]) for s in seats] == [
        (0, "n0", "0", "0"),
        (1, "n0", "1", "0"),
        (2, "n1", "0", "1"),
        (3, "n1", "1", "1"),
    ]
    assert {s.environment["WORLD_SIZE"] for s in seats} == {"4"}
    assert {(s.environment["MASTER_ADDR"], s.environment["MASTER_PORT"]) for s in seats} == {("10.0.0.0", "29500")}


def test_one_rank_a_node_without_gpus() -> None:
    seats = seats_of(nodes(0, 0, 0), 1, "run")
    assert [s.rank for s in seats] == [0, 1, 2]
    assert {s.environment["LOCAL_WORLD_SIZE"] for s in seats} == {"1"}


def test_a_follower_steps_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    (tmp_path / "waiting.yaml").write_text(WAITING_CONTRACT)
    contract = read_contract(str(tmp_path / "waiting.yaml"))
    job = Job(index=0, restart=0, contract=contract, precision=Precision.FP32, threads=2)
    others = set(psutil.Process().children())  # servers of other tests
    host = RankHost(str(tmp_path))
    try:
        host.follow(seats_of(nodes(0, 0), 1, "run")[1:], job.model_dump_json(by_alias=True))
        (child,) = set(psutil.Process().children()) - others
        until = time.monotonic() + 300
        while count_journal(Path(host._folder.name) / "1-1") < 20 and time.monotonic() < until:
            assert host.trouble() == ""
            time.sleep(0.1)
        (told,) = host.stop()
    finally:
        host.close()
    assert told["rank"] == 1
    assert told["steps"] >= 20
    assert told["median_step_ms"] == pytest.approx(40, rel=0.6)
    assert not child.is_running()


def test_a_server_command_sees_its_rank_and_its_end_is_told(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit('rank ' + os.environ['RANK'] + ' of ' + os.environ['WORLD_SIZE'])"
    host = RankHost(str(tmp_path))
    try:
        host.serve(seats_of(nodes(0, 0), 1, "run")[1:], f'{sys.executable} -c "{code}"')
        until = time.monotonic() + 300
        while not host.trouble() and time.monotonic() < until:
            time.sleep(0.05)
        assert host.trouble() == "rank 1 ended with code 1: rank 1 of 2"
        assert host.free_port("127.0.0.1") > 0
    finally:
        host.close()
