"""A node's process without a cluster: its messages, its parcel, an interrupt and the way on from there."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brief_runs import write_brief
from lynxbench.contract.loader import parse_contract, read_contract
from lynxbench.errors import BadInput, CannotRun, EvidenceInvalid
from lynxbench.evidence.documents import read_result
from lynxbench.experiment.definition import ServerCommand
from lynxbench.fleet.arrivals import unpack
from lynxbench.fleet.fleet_book import flat
from lynxbench.fleet.fleet_run import environment_of
from lynxbench.fleet.node_process import Given, NodeRequest
from lynxbench.fleet.node_work import (
    SCRATCH_VARIABLE,
    NodeTask,
    Parcel,
    clean_environment,
    clear_scratch,
    measure_here,
    scratch_folder,
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


def make_task(brief_folder: Path, fleet_id: str) -> NodeTask:
    request = NodeRequest(contract=read_contract(str(brief_folder / "spin.yaml")), recorded=True)
    return NodeTask(fleet_id, "node-1", request.model_dump_json(by_alias=True), str(brief_folder), {})


@pytest.fixture(scope="module")
def brief_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a brief contract and the function it names."""
    return write_brief(tmp_path_factory.mktemp("brief"))


@pytest.fixture(scope="module", autouse=True)
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SCRATCH_VARIABLE, str(tmp_path_factory.mktemp("scratch")))
        yield


@pytest.fixture(scope="module")
def measured(brief_folder: Path) -> tuple[Parcel, Heard]:
    """One run, and what was heard of it."""
    heard = Heard()
    return measure_here(make_task(brief_folder, "fleet-1"), heard), heard


def test_a_run_is_announced_before_its_first_process_and_comes_back_whole(
    measured: tuple[Parcel, Heard], tmp_path: Path
) -> None:
    parcel, heard = measured
    words = heard.words()
    assert words.index("register") < words.index("begin") < words.index("stage") < words.index("end")
    assert words.count("end") == 2
    folder = unpack(parcel, tmp_path / "arrived")
    assert read_result(folder).result_id == parcel.result_id
    assert not (scratch_folder("fleet-1") / "node-1").exists()


ASKING = """\
import os
import urllib.request

def ask():
    with urllib.request.urlopen(os.environ["ASKED_AT"], timeout=600) as said:
        assert said.status == 200
    return 1
"""


def test_a_server_of_its_own_is_up_for_the_run_and_gone_after_it(brief_folder: Path) -> None:
    (brief_folder / "asking.py").write_text(ASKING)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = (brief_folder / "spin.yaml").read_text().replace("spinning:spin", "asking:ask")
    address = f"http://127.0.0.1:{port}/"
    command = ("{python}", "-m", "http.server", "{port}", "--bind", "127.0.0.1")
    request = NodeRequest(
        contract=parse_contract(text.replace("restarts: 2", "restarts: 1")),
        given=Given(
            environment={"ASKED_AT": address},
            server=ServerCommand(command=command, ready=address),
            server_values={"port": port},
        ),
    )
    parcel = measure_here(
        NodeTask("fleet-4", "u", request.model_dump_json(by_alias=True), str(brief_folder), {}), Heard()
    )
    assert parcel.result_id
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    clear_scratch("fleet-4")


def test_an_interrupted_run_goes_on_where_it_was(brief_folder: Path) -> None:
    task = make_task(brief_folder, "fleet-3")
    heard = Heard("end", lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        measure_here(task, heard)
    (run,) = [one for one in (scratch_folder("fleet-3") / "node-1").iterdir() if one.is_dir()]
    again = Heard()
    parcel = measure_here(task, again)
    assert parcel.run_id == run.name
    assert again.words().count("end") == 1, "the first process was measured already"
    clear_scratch("fleet-3")
    assert not scratch_folder("fleet-3").exists()


def test_a_run_that_was_sealed_and_not_sent_is_sent_not_repeated(brief_folder: Path) -> None:
    task, place = make_task(brief_folder, "fleet-5"), scratch_folder("fleet-5") / "node-1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lynxbench.fleet.node_work.pack", lambda folder: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            measure_here(task, Heard())
    (run,) = [one.parent for one in place.glob("*/result.json")]
    again = Heard()
    parcel = measure_here(task, again)
    assert (parcel.run_id, again.said) == (run.name, [])
    clear_scratch("fleet-5")


def test_what_the_run_says_no_to_is_the_same_error_here(brief_folder: Path) -> None:
    text = (brief_folder / "spin.yaml").read_text().replace("spinning:spin", "spinning:nothing")
    (brief_folder / "wrong.yaml").write_text(text)
    request = NodeRequest(contract=read_contract(str(brief_folder / "wrong.yaml")))
    wrong = NodeTask("fleet-2", "node-1", request.model_dump_json(by_alias=True), str(brief_folder), {})
    with pytest.raises(CannotRun, match="has no 'nothing'"):
        measure_here(wrong, Heard())


def test_a_parcel_that_changed_on_its_way_is_refused(measured: tuple[Parcel, Heard], tmp_path: Path) -> None:
    parcel, _ = measured
    unit = b"calls/s"
    assert unit in parcel.archive
    bent = Parcel(parcel.run_id, parcel.result_id, parcel.archive.replace(unit, b"calls/h", 1))
    with pytest.raises(EvidenceInvalid, match="changed on the way"):
        unpack(bent, tmp_path / "bent")
    assert not (tmp_path / "bent" / parcel.run_id).exists()
    with pytest.raises(EvidenceInvalid, match="no name of a run"):
        unpack(Parcel("../elsewhere", parcel.result_id, parcel.archive), tmp_path / "bent")


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
