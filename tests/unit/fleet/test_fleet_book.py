"""The record of runs whose nodes do not say how they ended, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lynxbench.contract.loader import read_contract
from lynxbench.errors import CannotRun
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.fleet import fleet_jobs
from lynxbench.fleet.actors import NodeMessage
from lynxbench.fleet.cluster import FleetNode
from lynxbench.fleet.dispatch import End, FleetTask, TaskOutcome
from lynxbench.fleet.fleet_book import FleetBook, FleetUnits
from lynxbench.fleet.fleet_jobs import carry_out
from lynxbench.model.fleet import AttemptNote, FleetUnit
from lynxbench.run.pipeline import begin_contract

TASK = FleetTask("unit", None, FleetNode(node_id="n" * 56, name="node-1", address="", cpus=1.0, gpus=0.0))
LOST = TaskOutcome(
    TASK,
    End.NODE_LOST,
    None,
    "node-1 was lost",
    (AttemptNote(node="node-1", ended=End.NODE_LOST.value, why="node-1 was lost", seconds=1.0),),
)
Scene = Callable[[Callable[[], None]], Any]
"""What happens on the fleet, given how the node announces its run: yields outcomes as a dispatch does."""


class Ledger:
    """Keeps what became of every run."""

    def __init__(self) -> None:
        self.ends: dict[str, str | None] = {}

    def register(self, run: RunFolder) -> None:
        self.ends[run.registration.run_id] = None

    def abandon(self, run: RunFolder, reason: str) -> None:
        assert self.ends[run.registration.run_id] is None, "its end is said once"
        self.ends[run.registration.run_id] = reason

    def record(self, folder: Path) -> None:
        raise AssertionError("no run has a result here")


def interrupted_without_a_word(announce: Callable[[], None]) -> Any:
    announce()
    yield from ()
    raise KeyboardInterrupt


def announced_as_its_last_word(announce: Callable[[], None]) -> Any:
    yield LOST
    announce()


def lost_after_its_announcement(announce: Callable[[], None]) -> Any:
    announce()
    yield LOST


def refused_elsewhere(announce: Callable[[], None]) -> Any:
    announce()
    yield from ()
    raise CannotRun("no node is left")


@pytest.mark.parametrize(
    ("scene", "reason"),
    [
        (interrupted_without_a_word, "said no more of it"),
        (announced_as_its_last_word, "said no more of it"),
        (refused_elsewhere, "said no more of it"),
        (lost_after_its_announcement, "node-1 was lost"),
    ],
)
def test_no_run_stays_open_when_nothing_is_under_way_any_more(
    scene: Scene, reason: str, spin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin_contract(read_contract(str(spin_folder / "spin.yaml")), tmp_path / "node", None)
    announced = {
        "run_id": run.registration.run_id,
        "text": (run.path / REGISTRATION_FILE).read_text(encoding="utf-8"),
    }
    ledger = Ledger()
    book = FleetBook(FleetUnits(fleet_id="f", started_at="now"), tmp_path, None, lambda: ledger, runs=tmp_path / "runs")
    book.begin()
    book.add(FleetUnit(name="unit", node="node-1"))
    desk: Any = SimpleNamespace(answer=lambda message, value: None)

    def announce() -> None:
        book.hear(NodeMessage("unit", {"register": announced}), desk)
        assert ledger.ends == {run.registration.run_id: None}

    monkeypatch.setattr(fleet_jobs, "Dispatch", lambda *_, **__: SimpleNamespace(run=lambda tasks: scene(announce)))
    fleet: Any = SimpleNamespace(nodes=tuple)
    try:
        carry_out(fleet, book, [TASK])
    except (KeyboardInterrupt, CannotRun):
        assert scene in (interrupted_without_a_word, refused_elsewhere)
    (end,) = ledger.ends.values()
    assert end is not None
    assert reason in end
