"""A node's process without a cluster: its messages, its parcel, an interrupt and the way on from there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput, CannotRun, EvidenceInvalid
from lynxbench.evidence.documents import read_result
from lynxbench.fleet_book import flat
from lynxbench.fleet_node import NodeRequest
from lynxbench.fleet_running import environment_of
from lynxbench.fleet_work import (
    SCRATCH_VARIABLE,
    NodeTask,
    Parcel,
    clean_environment,
    clear_scratch,
    measure_here,
    request_text,
    scratch_folder,
    unpack,
)


class Heard:
    """Whoever asked: keeps what is said, and may do something at the first word of a kind."""

    def __init__(self, at: str = "", act: Any = None) -> None:
        self.said: list[dict[str, Any]] = []
        self._at, self._act = at, act

    def tell(self, body: dict[str, Any]) -> None:
        self.said.append(body)
        if self._at in body and self._act is not None:
            act, self._act = self._act, None
            act()

    def ask(self, body: dict[str, Any]) -> Any:
        self.tell(body)
        return True

    def words(self) -> list[str]:
        return [next(iter(body)) for body in self.said]


@pytest.fixture
def task(spin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeTask:
    monkeypatch.setenv(SCRATCH_VARIABLE, str(tmp_path / "scratch"))
    contract = read_contract(str(spin_folder / "spin.yaml"))
    return NodeTask(
        "fleet-1", "node-1", request_text(NodeRequest(contract=contract, recorded=True)), str(spin_folder), {}
    )


def test_a_run_is_announced_before_its_first_process_and_comes_back_whole(task: NodeTask, tmp_path: Path) -> None:
    heard = Heard()
    parcel = measure_here(task, heard)
    words = heard.words()
    assert words.index("register") < words.index("begin") < words.index("stage") < words.index("end")
    assert words.count("end") == 2
    folder = unpack(parcel, tmp_path / "arrived")
    assert read_result(folder).result_id == parcel.result_id
    assert not (scratch_folder("fleet-1") / "node-1").exists()


def test_an_interrupted_run_goes_on_where_it_was(task: NodeTask) -> None:
    heard = Heard("end", lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        measure_here(task, heard)
    (run,) = [one for one in (scratch_folder("fleet-1") / "node-1").iterdir() if one.is_dir()]
    again = Heard()
    parcel = measure_here(task, again)
    assert parcel.run_id == run.name
    assert again.words().count("end") == 1, "the first process was measured already"
    clear_scratch("fleet-1")
    assert not scratch_folder("fleet-1").exists()


def test_what_the_run_says_no_to_is_the_same_error_here(task: NodeTask, spin_folder: Path) -> None:
    text = (spin_folder / "spin.yaml").read_text().replace("spinning:spin", "spinning:nothing")
    (spin_folder / "wrong.yaml").write_text(text)
    request = NodeRequest(contract=read_contract(str(spin_folder / "wrong.yaml")))
    wrong = NodeTask("fleet-2", "node-1", request_text(request), str(spin_folder), {})
    with pytest.raises(CannotRun, match="has no 'nothing'"):
        measure_here(wrong, Heard())


def test_a_parcel_that_changed_on_its_way_is_refused(task: NodeTask, tmp_path: Path) -> None:
    parcel = measure_here(task, Heard())
    unit = b"calls/s"
    assert unit in parcel.archive
    bent = Parcel(parcel.run_id, parcel.result_id, parcel.archive.replace(unit, b"calls/h", 1))
    with pytest.raises(EvidenceInvalid, match="changed on the way"):
        unpack(bent, tmp_path / "bent")
    assert not (tmp_path / "bent" / parcel.run_id).exists()


def test_the_measured_process_sees_nothing_of_the_cluster() -> None:
    cluster = {"RAY_JOB_ID": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "3", "HOME": "/h"}
    seen = clean_environment(cluster, {"MINE": "x"})
    assert {"RAY_JOB_ID", "OMP_NUM_THREADS"}.isdisjoint(seen)
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["MINE"]) == ("3", "x")


def test_names_and_variables_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_HERE", "7")
    assert environment_of(["A=b=c", "SET_HERE"]) == {"A": "b=c", "SET_HERE": "7"}
    with pytest.raises(BadInput, match="NOT_SET_HERE"):
        environment_of(["NOT_SET_HERE"])
    assert flat("../10.0.0.1/gpu0") == "_10.0.0.1_gpu0"
