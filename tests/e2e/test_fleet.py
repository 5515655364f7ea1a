"""A real Ray cluster of four nodes on loopback: a run on all, one killed in the middle, one that is slow, and why."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brief_runs import write_brief
from command_line import lynxbench, lynxbench_here
from fleet_cluster import listening, loopback_fleet, scratch_left
from fleet_tasks import GATHERING, GATHERING_CONTRACT, WAITING, WAITING_CONTRACT, answer, write_rank_trace
from lynxbench.attribute.attributing import TraceSettings
from lynxbench.attribute.rank_traces import analyse_ranks, find_traces
from lynxbench.contract.loader import read_contract
from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.errors import BadInput, CannotRun, Interrupted
from lynxbench.fleet.cluster import Fleet, FleetNode
from lynxbench.fleet.dispatch import Dispatch, End, FleetTask, TaskOutcome
from lynxbench.fleet.fleet_book import FleetProgress
from lynxbench.fleet.fleet_jobs import FleetJob, JobOptions, run_jobs
from lynxbench.fleet.fleet_load import FleetProbe
from lynxbench.fleet.fleet_report import report_fleet
from lynxbench.fleet.fleet_run import FleetOptions, run_fleet
from lynxbench.fleet.fleet_traces import analyse_fleet, list_traces
from lynxbench.fleet.local import LocalCluster
from lynxbench.fleet.rank_run import RANKS_FILE, run_ranks
from lynxbench.load import send_schedule as schedule
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.ground_truth import ServedOutcome as Answered
from lynxbench.load.plan import LoadPlan, OpenLoop, parse_target
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server
from lynxbench.model.fleet import FleetUnit, InstanceStanding, UnitState
from lynxbench.model.layers import Layer
from served import served_contract

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

SLOW = "node-3"
DOOMED = "node-2"


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """A driver on the first node; three more, one of them confined to a single CPU; nothing of it left afterwards."""
    with loopback_fleet(4, confined=True) as joined:
        yield joined


@pytest.fixture(scope="module")
def cluster(fleet: Fleet) -> LocalCluster:
    """The cluster itself, to kill parts of it."""
    assert fleet.local is not None
    return fleet.local


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Contracts, and the functions that they name."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "waiting.py").write_text(WAITING)
    (folder / "waiting.yaml").write_text(WAITING_CONTRACT)
    (folder / "gathering.py").write_text(GATHERING)
    (folder / "gathering.yaml").write_text(GATHERING_CONTRACT)
    return write_brief(folder, restarts=1)


def test_nothing_listens_beyond_loopback(fleet: Fleet, cluster: LocalCluster) -> None:
    assert {"node-1", SLOW, "node-4"} <= {node.name for node in fleet.nodes()} <= {"node-1", DOOMED, SLOW, "node-4"}
    found = listening()
    assert len(found) > 8
    assert set(found) == {"127.0.0.1"}


def test_tasks_end_in_every_way_and_none_is_missing(fleet: Fleet, tmp_path: Path) -> None:
    first, other = fleet.nodes()[0], fleet.nodes()[3]
    marker = tmp_path / "died"
    tasks = [
        FleetTask("good", ("value", 7), first),
        FleetTask("anywhere", ("value", 8)),
        FleetTask("refused", ("refuse", "no such device"), first),
        FleetTask("broken", ("raise", "in user code"), first),
        FleetTask("once", ("die-once", str(marker)), other),
        FleetTask("always", ("die", ""), other),
        FleetTask("early", ("alone", 0.3), first),
        FleetTask("late", ("alone", 0.3), other),
    ]
    ends: dict[str, TaskOutcome] = {one.task.key: one for one in Dispatch(fleet, answer, pool=(first,)).run(tasks)}
    assert set(ends) == {task.key for task in tasks}
    assert (ends["good"].value, ends["anywhere"].value) == (7, 8)
    assert isinstance(ends["refused"].error, CannotRun)
    assert (ends["refused"].end, ends["refused"].why) == (End.FAILED, "no such device")
    assert ends["broken"].why == "ZeroDivisionError: in user code"
    assert (ends["once"].end, ends["once"].value) == (End.DONE, "second time")
    assert [a.ended for a in ends["once"].attempts] == [End.CRASHED, End.DONE]
    assert (ends["always"].end, len(ends["always"].attempts)) == (End.CRASHED, 3)
    (a, b), (c, d) = ends["early"].value, ends["late"].value  # type: ignore[misc]
    assert b <= c or d <= a, "two nodes of one host ran at the same time"


class Killing(FleetProgress):
    """Kills a node as soon as its run has measured something."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.killed = threading.Event()
        self.began: list[tuple[str, str, int]] = []

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        self.began.append((unit, node, attempt))

    def unit_said(self, unit: str, message: Mapping[str, Any]) -> None:
        if unit == DOOMED and "end" in message and not self.killed.is_set():
            self.killed.set()
            self._cluster.kill(DOOMED)


def test_a_killed_node_is_replaced_and_the_slow_one_named_with_its_cause(
    fleet: Fleet, cluster: LocalCluster, code: Path, tmp_path: Path
) -> None:
    contract = read_contract(str(code / "waiting.yaml"))
    progress = Killing(cluster)
    options = FleetOptions(together=True, cwd=code)
    state, folder = run_fleet(fleet, contract, tmp_path, nodes="3", options=options, progress=progress)
    assert progress.killed.is_set()
    units = {unit.name: unit for unit in state.units}
    assert set(units) == {"node-1", DOOMED, SLOW}
    assert all(unit.state is UnitState.DONE for unit in units.values()), units
    replaced = units[DOOMED]
    assert [a.ended for a in replaced.attempts] == ["node lost", "done"]
    assert (replaced.node, replaced.stands_in_for) == ("node-4", DOOMED)
    assert (DOOMED, "node-4", 2) in progress.began

    report = report_fleet(state, folder)
    assert report.complete
    (compared,) = report.per_precision
    rows = {row.unit: row for row in compared.instances}
    # On a shared machine some may be doubtful: a doubtful one is not placed, and nobody is held against one.
    beside = sum(row.validity == "valid" for unit, row in rows.items() if unit != SLOW)
    places = (InstanceStanding.UNKNOWN, InstanceStanding.DIFFERS, InstanceStanding.OUTLIER)
    expected = places[beside] if rows[SLOW].validity == "valid" else InstanceStanding.UNKNOWN
    sound = expected is InstanceStanding.OUTLIER
    assert rows[SLOW].standing is expected, report.verdict
    # Of the others nobody is blamed; on a shared machine their intervals may be too wide for a word of their own.
    others = {rows["node-1"].standing, rows[DOOMED].standing}
    assert others <= {InstanceStanding.TYPICAL, InstanceStanding.DIFFERS, InstanceStanding.UNKNOWN}
    assert rows[SLOW].against_rest.high < 0.8 or not beside
    if sound:
        assert rows[SLOW].layers[0].layer is Layer.SYSTEM
        assert "affinity" in rows[SLOW].layers[0].fields[0].name
    assert (f"{SLOW} stands apart" in report.verdict) is sound
    assert ("affinity" in report.verdict) is sound
    assert not scratch_left(state.fleet_id), "scratch folders are left on a node"


def test_a_node_that_is_gone_is_reported_not_missing(fleet: Fleet, code: Path, tmp_path: Path) -> None:
    """DOOMED is dead by now: a task pinned to it ends as lost, with the reason."""
    gone = FleetNode("f" * 56, DOOMED, "127.0.0.1", 2.0, 0.0)
    (lost,) = Dispatch(fleet, answer).run([FleetTask("unit", ("value", 1), gone)])
    assert lost.end is End.NODE_LOST
    assert DOOMED in lost.why


def test_the_command_line_records_every_node_and_shows_it_again(
    fleet: Fleet, cluster: LocalCluster, code: Path, tmp_path: Path
) -> None:
    home = {"LYNXBENCH_HOME": str(tmp_path / "home")}
    done = lynxbench(
        "fleet", "run", "spin.yaml", "--ray", cluster.address, "--nodes", "node-1,node-4", "--together", "--json",
        "--out", str(tmp_path / "out"), cwd=code, **home,
    )  # fmt: skip
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["asked"], said["measured"]) == (2, 2)
    assert all(unit["recorded"] for unit in said["units"])
    assert "node-1 done" in done.err
    (folder,) = (tmp_path / "out").iterdir()
    assert "node-4" in (folder / "report.html").read_text()
    again = lynxbench_here("fleet", "show", str(folder), "--json", cwd=tmp_path, **home)
    assert json.loads(again.out)["per_precision"] == said["per_precision"]
    verified = lynxbench_here("verify", said["units"][1]["result_id"], cwd=tmp_path, **home)
    assert verified.code == 0, verified.out + verified.err
    whole = lynxbench_here("verify", said["fleet_id"], "--all", cwd=tmp_path, **home)
    assert whole.code == 0, whole.out + whole.err
    assert "✓ units: holds: 2 results, each of this contract" in whole.out
    assert "✓ per precision: holds" in whole.out
    forged = json.loads((folder / "report.json").read_text())
    forged["verdict"] = "all alike"
    (folder / "report.json").write_text(json.dumps(forged))
    doubted = lynxbench_here("verify", str(folder), "--ledger", "none", cwd=tmp_path, **home)
    assert doubted.code == 5
    assert "verdict: does not hold: stated 'all alike'" in doubted.out


class Impatient(FleetProgress):
    """Presses Ctrl-C once, as soon as a unit is done."""

    def __init__(self) -> None:
        self.pressed = False
        self.began: list[str] = []

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        self.began.append(unit)

    def unit_ended(self, unit: FleetUnit, left: int) -> None:
        if not self.pressed:
            self.pressed = True
            raise KeyboardInterrupt


def test_an_interrupted_fleet_goes_on_with_what_is_left(fleet: Fleet, code: Path, tmp_path: Path) -> None:
    contract = read_contract(str(code / "spin.yaml"))
    options = FleetOptions(cwd=code)  # the two nodes are one host: they take turns
    with pytest.raises(Interrupted, match=r"1 of 2 units are kept.*--resume"):
        run_fleet(fleet, contract, tmp_path, nodes="node-1,node-4", options=options, progress=Impatient())
    again = Impatient()
    again.pressed = True
    state, folder = run_fleet(fleet, contract, tmp_path, options=options, progress=again, resume=True)
    assert again.began == ["node-4"]
    assert [unit.state for unit in state.units] == [UnitState.DONE, UnitState.DONE]
    assert state.finished_at is not None
    assert len(list(folder.glob("units/*/*/result.json"))) == 2
    with pytest.raises(BadInput, match="no unfinished fleet run"):
        run_fleet(fleet, contract, tmp_path, options=options, resume=True)


def test_independent_jobs_run_anywhere_and_each_has_its_end(fleet: Fleet, code: Path, tmp_path: Path) -> None:
    contract = read_contract(str(code / "spin.yaml"))
    wrong = contract.model_copy(
        update={
            "workload": contract.workload.model_copy(
                update={"model": contract.workload.model.model_copy(update={"target": "nowhere:nothing"})}
            )
        }
    )
    jobs = [FleetJob("cell-1", contract), FleetJob("cell-2", wrong)]
    one, two = run_jobs(fleet, jobs, tmp_path, nodes="node-1,node-4", options=JobOptions(together=True, cwd=code))
    assert one.folder is not None
    assert (one.folder / "result.json").is_file()
    assert two.folder is None
    assert isinstance(two.error, CannotRun)
    assert "nowhere" in str(two.error)


def make_plan(url: str, offsets: Any, duration_s: float, clients: int) -> LoadPlan:
    service = Service(url=url, model="m")
    script = PlainRotation((build_request(service, build_body(service, "hello", 3)),))
    return LoadPlan(
        parse_target(url), script, OpenAiLanguage(), OpenLoop(offsets), duration_s, processes=clients, drain_s=5
    )


def test_planted_clock_offsets_are_corrected_and_samples_merged_exactly(fleet: Fleet) -> None:
    offsets = schedule.poisson(240, 2.0, seed=11)
    planted = (50_000_000, -50_000_000, 0)
    with running_server(Behaviour(ttft_ms=4, itl_ms=1)) as server:
        with FleetProbe(make_plan(server.url, offsets, 2.0, 3), fleet, fleet.nodes(), planted) as probe:
            while probe.running:
                time.sleep(0.1)
            merged = probe.finish()
            clients = probe.clients()
        truth = server.stop()
    # One machine has one clock, so the planted error is the whole truth.
    for client, by_ns in zip(clients, planted, strict=True):
        assert abs(client.clock_offset_ns - by_ns) <= client.clock_bound_ns, client
    bound_ns = max(client.clock_bound_ns for client in clients)
    assert bound_ns < 25_000_000, "half of the planted error at the most: what was planted is seen"
    assert merged.counts()["ok"] == len(merged) == len(offsets) == truth.count(Answered.OK)
    assert np.array_equal(np.sort(merged.number), np.arange(len(offsets)))
    assert sorted(set(merged.process.tolist())) == [0, 1, 2]
    every = np.sort(np.concatenate([part.latency_s() for part in probe.parts]))
    assert np.array_equal(np.sort(merged.latency_s()), every)
    for percentile in (50, 90, 99, 99.9):
        assert np.percentile(merged.latency_s(), percentile) == np.percentile(every, percentile)
    # Each client's share lies where the one schedule has it, to within what is known of its clock.
    due = merged.scheduled_ns - probe.start_ns
    assert np.abs(due - offsets[merged.number]).max() <= bound_ns


def test_load_from_many_clients_is_one_result_that_verifies(
    fleet: Fleet, cluster: LocalCluster, tmp_path: Path
) -> None:
    home = {"LYNXBENCH_HOME": str(tmp_path / "home")}
    with running_server(Behaviour(ttft_ms=5, itl_ms=1)) as server:
        (tmp_path / "served.yaml").write_text(served_contract(server.url, restarts=1))
        done = lynxbench(
            "fleet", "load", "served.yaml", "--ray", cluster.address, "--clients", "3", "--json", cwd=tmp_path, **home
        )
        assert done.code in (0, 1), done.err
        assert done.out, done.err
        said = json.loads(done.out)
    (one,) = said["per_precision"]
    assert said["conditions"]["clients"] == 3
    assert one["load"]["accounting"]["ok"] > 100
    (run,) = (tmp_path / "results").iterdir()
    facts = json.loads((run / "attempts" / "000-01" / "report.json").read_text())["facts"]
    assert [host["process"] for host in facts["hosts"]] == [0, 1, 2]
    assert len({host["node"] for host in facts["hosts"]}) == 3
    verified = lynxbench_here("verify", str(run), cwd=tmp_path, **home)
    assert verified.code == 0, verified.out + verified.err


def test_rank_traces_give_the_single_process_result(fleet: Fleet, tmp_path: Path) -> None:
    for rank in range(8):
        own = 900 if rank == 5 else 600
        write_rank_trace(tmp_path / f"rank{rank}.json", rank, own_us=own, wait_us=1000 - own)
    (tmp_path / "rank8.json").write_text("not a trace")
    alone = analyse_ranks(find_traces([tmp_path]), TraceSettings())
    many = analyse_fleet(fleet, list_traces([str(tmp_path)]), TraceSettings(), workers=2)
    assert many.report == alone
    assert many.report.straggler == 5
    assert 0 < many.peak_rss_bytes < 1 << 30
    far = analyse_fleet(fleet, list_traces([f"file://{tmp_path}"]), TraceSettings(), workers=2)
    assert far.report.lines[0] == alone.lines[0]
    assert far.report.straggler == 5
    assert not list(Path("/tmp").glob("lynxbench-trace-*"))


def test_ranks_step_together_over_nodes(fleet: Fleet, code: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    contract = read_contract(str(code / "gathering.yaml"))
    options = FleetOptions(cwd=code, environment={"GLOO_SOCKET_IFNAME": "lo"})
    state, folder = run_ranks(fleet, contract, tmp_path, nodes="node-1,node-4", options=options)
    (unit,) = state.units
    assert unit.state is UnitState.DONE, unit.why
    assert unit.folder is not None
    result = json.loads((folder / unit.folder / "result.json").read_text())
    system = result["executor"]["layers"]["system"]
    assert system["world_size"]["value"] == 2
    assert len(system["peer_executors"]["value"]) == 1
    ranks = json.loads((folder / RANKS_FILE).read_text())
    assert [one["node"] for one in ranks["ranks"]] == ["node-1", "node-4"]
    assert len(ranks["processes"]) == 1
    assert all(one["steps"] > 10 for process in ranks["processes"] for one in process["ranks"])
