"""Experiments and schedules on a real Ray cluster: blocks stay on their node, a killed one costs nothing but time."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from command_line import PAUSING, QUICK_CONTRACT, lynxbench, lynxbench_here
from experiments import EXPERIMENT, UPGRADING, VERSIONS, WORK
from fleet_cluster import listening, loopback_fleet, scratch_left
from hosted import Caller, World, hosted, make_world
from lynxbench.cli.analysis_records import AnalysisRecords
from lynxbench.cli.experiment_progress import VisitProgress
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadInput, Interrupted
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.experiment.analysing import analyse
from lynxbench.experiment.cells import CellPlan
from lynxbench.experiment.defining import read_definition
from lynxbench.experiment.experiment_run import run_experiment
from lynxbench.fleet.cluster import Fleet
from lynxbench.fleet.fleet_experiment import run_dispatched
from lynxbench.fleet.fleet_jobs import JobDone, JobOptions
from lynxbench.fleet.local import LocalCluster
from lynxbench.record.remote import Remote
from lynxbench.server.rights import API, AccessScope
from lynxbench.watch.agent import AgentClient, AgentSettings
from lynxbench.watch.fleet_agent import FleetAgent
from lynxbench.watch.json_log import make_log
from recording_teams import TEAM
from wheels import tiny_lock

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

DOOMED = "node-2"
LATE_DOOMED = "node-4"


THREE_LEVELS = """\
factors:
  - name: how
    layer: application
    levels:
      - {name: plain}
      - {name: wide, sets: {environment.WORK_WIDE: "1"}}
      - {name: both, sets: {environment.WORK_WIDE: "1", environment.WORK_SLOW: "3"}}
"""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with loopback_fleet(4) as joined:
        yield joined


@pytest.fixture(scope="module")
def cluster(fleet: Fleet) -> LocalCluster:
    """The cluster itself, to kill parts of it."""
    assert fleet.local is not None
    return fleet.local


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "working.py").write_text(WORK)
    (folder / "cells.yaml").write_text(f"{EXPERIMENT.partition('factors:')[0]}{THREE_LEVELS}")
    return folder


class Acting(VisitProgress):
    """Does something once, when a visit is about to begin."""

    def __init__(self, when: Any, act: Any) -> None:
        super().__init__()
        self._when, self._act = when, act
        self.visits: list[tuple[int, int, str]] = []

    def visit(self, block: int, place: int, cell: CellPlan, node: str = "") -> None:
        self.visits.append((block, cell.number, node))
        if self._act is not None and self._when(self.visits):
            act, self._act = self._act, None
            act()


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_experiment_goes_on_and_a_lost_nodes_block_begins_anew(
    fleet: Fleet, cluster: LocalCluster, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYNXBENCH_HOME", str(tmp_path / "home"))
    defined, out, records = (
        read_definition(str(bench / "cells.yaml")),
        tmp_path / "out",
        AnalysisRecords(str(tmp_path / "ledger")),
    )
    options = JobOptions(together=True, cwd=bench)
    first = Acting(lambda visits: sum(node == DOOMED for _, _, node in visits) == 2, interrupt)
    with pytest.raises(Interrupted, match="--resume"):
        run_dispatched(fleet, defined, out, None, first, records, nodes="2", options=options)
    with pytest.raises(BadInput, match="begun on a fleet"):
        run_experiment(defined, out, None, VisitProgress(), lambda: None, resume=True)
    before = {run for runs in _runs(next(out.iterdir())).values() for run in runs.items()}
    progress = Acting(lambda visits: visits[-1][2] == DOOMED, lambda: cluster.kill(DOOMED))
    done = run_dispatched(fleet, defined, out, None, progress, records, nodes="2", options=options, resume=True)
    assert {run for run in before if run[0] == "0"} <= {r for runs in _runs(done.folder).values() for r in runs.items()}
    document, folder = done.document, done.folder
    assert document.nodes == ("node-1", "node-3")
    assert document.lanes == "each block on one node: node-1, node-3"
    assert [cell.status.value for cell in document.cells] == ["measured", "measured", "infeasible"]
    assert "wide and slow do not fit" in document.cells[2].reason
    (said,) = [note for note in document.notes if "begins anew" in note]
    assert f"block 2 left {DOOMED} ({DOOMED} was lost" in said
    aside = len([block for block, _ in before if block == "1"])
    assert (f"; {aside} of its results stay in the record" in said) == bool(aside)
    # Every block is one node's, in the order that was registered before the first sample.
    for block, node in enumerate(document.nodes):
        visits = [*first.visits, *progress.visits]
        cells = [cell for one, cell, where in visits if (one, where) == (block, node)]
        assert list(dict.fromkeys(cells)) == list(document.order[block])  # one may have begun twice
    # The analysis is the one that the same values give on one machine, but for what a block is called.
    values = {
        (cell, block): value
        for cell, shown in zip(defined.definition.plan().cells, document.cells, strict=True)
        for block, value in enumerate(shown.values)
        if value is not None
    }
    assert len(values) == 4
    assert analyse(defined.definition, values, block="block of time and node") == document.analysis
    # What a cell is given is part of its registration, as it is on one machine.
    (run,) = [path for path in folder.glob("runs/*") if path.name == _runs(folder)["1"]["0"]]
    around = RunFolder.open(run).registration.surroundings
    assert around is not None
    assert around.environment == {"WORK_WIDE": "1"}
    listed = json.loads(
        lynxbench_here("results", "list", "--json", "--ledger", str(tmp_path / "ledger"), cwd=tmp_path).out
    )
    assert {one for cell in document.cells for one in cell.result_ids} <= {
        one["result_id"] for one in listed["results"]
    }
    assert listed["unfinished"] == []
    named = document.cells[0].result_ids[1]
    verified = lynxbench_here("verify", named, "--ledger", str(tmp_path / "ledger"), cwd=tmp_path)
    assert verified.code == 0, verified.out + verified.err
    # What the results of both nodes say together is evidence too, and is made again from them.
    assert "lynxbench verify" in records.conclude(folder)
    for what in (str(folder), document.experiment_id):
        again = lynxbench_here("verify", what, "--ledger", str(tmp_path / "ledger"), cwd=tmp_path)
        assert again.code == 0, again.out + again.err
    assert not scratch_left(f"fleet-{document.experiment_id}")


def _runs(folder: Path) -> dict[str, dict[str, str]]:
    cells = json.loads((folder / "state.json").read_text())["cells"]
    return {number: cell["runs"] for number, cell in cells.items()}


def test_versions_are_factors_on_nodes_too(cluster: LocalCluster, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "upgrading.py").write_text(UPGRADING)
    for version in ("1.0", "2.0"):
        tiny_lock(tmp_path, version)
    (tmp_path / "upgrade.yaml").write_text(VERSIONS.replace("restarts: 2", "restarts: 1"))
    done = lynxbench(
        "experiment", "run", "upgrade.yaml", "--ray", cluster.address, "--nodes", "node-3", "--json",
        "--ledger", "none", cwd=tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert [cell["packages"]["packages"]["tinylayer"] for cell in said["cells"]] == ["1.0", "2.0"]
    assert said["cells"][1]["values"][0] > 1.4 * said["cells"][0]["values"][0]  # four times, with room
    assert said["nodes"] == ["node-3"]
    assert "on node-3: tinylayer" in done.err
    assert not scratch_left(f"fleet-{said['experiment_id']}")


SPIN = QUICK_CONTRACT.replace("name: spin", "name: spin-fleet").replace("restarts: 2", "restarts: 1")


@dataclass
class Seen:
    """What happened to runs, and when."""

    began: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    ports: set[str] = field(default_factory=set)


HELD = """\
import pathlib, time

while pathlib.Path({hold!r}).exists():
    time.sleep(0.01)
"""
"""A run goes no further than its set-up while this file is there: none can end before its node is killed."""


class Watched(FleetAgent):
    """Kills a node as soon as a run is at work there, then lets go of what is held."""

    def __init__(self, cluster: LocalCluster, seen: Seen, hold: Path, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cluster, self._seen, self._hold = cluster, seen, hold

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        super().unit_began(unit, node, attempt)
        self._seen.began.setdefault(unit, []).append((time.monotonic(), node))

    def unit_said(self, unit: str, message: Mapping[str, Any]) -> None:
        super().unit_said(unit, message)
        on = self._seen.began[unit][-1][1]
        if "stage" in message and on == LATE_DOOMED in self._cluster.names:
            self._seen.ports = set(listening())
            self._cluster.kill(LATE_DOOMED)
            self._hold.unlink()

    def ended(self, done: JobDone) -> None:
        self._seen.ended[done.unit.name] = time.monotonic()
        super().ended(done)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with hosted(make_world(tmp_path, shapes=(), decisions=False)) as made:
        yield made


def test_due_runs_go_side_by_side_and_a_lost_nodes_run_to_another(
    fleet: Fleet, cluster: LocalCluster, world: World, tmp_path: Path
) -> None:
    before = set(scratch_left("fleet-agent-chief"))  # of tests that were killed: the name is the agent's
    token = world.server.access.make_token("administrator", "agents", frozenset(AccessScope)).text
    caller = Caller(world.port, token)
    folder = tmp_path / "chief"
    folder.mkdir()
    hold = folder / "hold"
    hold.touch()
    (folder / "spinning.py").write_text(HELD.format(hold=str(hold)) + PAUSING)
    contract = parse_contract(SPIN)
    for name in ("first", "second"):
        body = {"timetable": "every 1 s", "contract": contract.canonical(), "agents": ["chief"]}
        assert caller.json("PUT", f"{API}/schedules/{name}", body).status == 200
    time.sleep(1.1)
    environment = {**world.team.environment, "LYNXBENCH_LEDGER": str(folder / "ledger")}
    seen = Seen()
    settings = AgentSettings("chief", folder / "results", None, 0.2, callables=("spinning:spin",))
    remote, lines = Remote(f"http://127.0.0.1:{world.port}", token), io.StringIO()
    client = AgentClient(settings, remote, environment, make_log("chief", lines))
    agent = Watched(
        cluster, seen, hold, client, fleet,
        nodes=f"node-3,{LATE_DOOMED}", options=JobOptions(together=True, cwd=folder),
    )  # fmt: skip
    assert agent.work(threading.Event(), runs=2) == 2

    done = {one["schedule"]: one for one in caller.get(f"{API}/runs").json()["runs"] if one["state"] == "done"}
    assert set(done) == {"first", "second"}, lines.getvalue()
    assert {one["node"] for one in done.values()} == {"node-3"}
    first_tries = [unit for unit in seen.began if unit.endswith("-1")]
    assert len(first_tries) == 2
    assert max(seen.began[unit][0][0] for unit in first_tries) < min(seen.ended.values()), "one after another"
    assert sorted(seen.began[unit][0][1] for unit in first_tries) == ["node-3", LATE_DOOMED]
    assert [node for unit, starts in seen.began.items() if unit.endswith("-2") for _, node in starts] == ["node-3"]
    assert any(
        f"{LATE_DOOMED} was lost" in line and "tried on another node" in line for line in lines.getvalue().splitlines()
    )
    assert seen.ports == {"127.0.0.1"}
    results = caller.get(f"{API}/results?contract={contract.contract_id}").json()["results"]
    assert {one["result_id"] for one in results} == {one["result_id"] for one in done.values()}
    assert "chief/node-3" in caller.get("/runs").text

    world.server.scheduler.remove("first", TEAM)
    again = lynxbench(
        "schedule", "agent", "--name", "chief", "--once", "--ray", cluster.address, "--nodes", "node-1,node-3",
        "--only", contract.contract_id,
        "--out", str(folder / "results"), "--server", f"http://127.0.0.1:{world.port}",
        cwd=folder, LYNXBENCH_TOKEN=token, **environment,
    )  # fmt: skip
    assert again.code == 0, again.err
    assert "second: starts on node-3" in again.err, "a schedule goes on where it was measured"
    assert again.err.count("pushed") == 1
    assert set(scratch_left("fleet-agent-chief")) <= before


REFUSED = {
    "lanes are parts of one machine": ("lanes: [{cpus: [0]}, {cpus: [1]}]\nfactors:", ()),
    "leave out --together": (
        "factors:\n  - {name: tiny, layer: framework, sets: packages, levels: [a, b]}", ("--together",),
    ),
    "--env is for a fleet": ("factors:", ("--env", "A=b")),
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_dispatched_is_one_line_before_anything_starts(tmp_path: Path, line: str) -> None:
    more, options = REFUSED[line]
    (tmp_path / "cells.yaml").write_text(EXPERIMENT.replace("factors:", more))
    fleet_asked = () if "--env" in options else ("--nodes", "2")
    done = lynxbench_here("experiment", "run", "cells.yaml", *fleet_asked, *options, cwd=tmp_path)
    assert done.code == 2
    assert line in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "experiments").exists()
