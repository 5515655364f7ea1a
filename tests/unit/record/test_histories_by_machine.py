"""A contract measured on several machines: each is judged by itself, and a changed layer of one stays in its series."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from compared import make_executor, make_result
from lynxbench.compare.machine_series import MOST_MACHINES, tell_machines_apart
from lynxbench.errors import NotFound
from lynxbench.evidence.documents import write_result
from lynxbench.evidence.trust import TrustList
from lynxbench.model.history import History, HistoryPoint, Motion
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.record.histories import Past, history_of
from lynxbench.report.documents.history_document import compose_history
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal
from lynxbench.server.pages.overview_page import verdict_words
from recording_teams import make_team, record

Run = tuple[str, float, dict[str, object]]
"""Machine, level, what differs in its executor."""


def results_of(runs: Sequence[Run], seed: int = 3) -> list[Result]:
    rng = np.random.default_rng(seed)
    made = []
    for day, (machine, level, changed) in enumerate(runs):
        means = tuple(float(level * np.exp(rng.normal(0, 0.004))) for _ in range(5))
        stamp = f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T00:00:00+00:00"
        result = make_result(executor=make_executor(changed, machine=machine), run_means=means, started_at=stamp)
        made.append(result.model_copy(update={"run_id": f"run-{day}", "result_id": ""}).sealed())
    return made


def read(folder: Path, runs: Sequence[Run], named: str = "compared") -> History:
    for number, result in enumerate(results_of(runs)):
        (folder / str(number)).mkdir(parents=True)
        write_result(folder / str(number) / "result.json", result)
    return history_of(Past(None, TrustList(), [folder]), named, None)


def found_in(history: History) -> dict[str, list[int]]:
    return {
        each.machine.rpartition(" ")[2]: [change.index for change in each.changes if change.found]
        for each in history.each_machine
    }


@pytest.mark.parametrize("levels", [(80.0, 100.0), (100.0, 80.0), (100.0, 99.0, 37.0)])
def test_machines_that_take_turns_are_told_apart(tmp_path: Path, levels: tuple[float, ...]) -> None:
    """Found: 80 and 100 in turn, of two machines, was one series that did not change."""
    many = len(levels)
    history = read(tmp_path, [("xyz"[i % many], levels[i % many], {}) for i in range(18 * many)])
    assert found_in(history) == {"abc"[i]: [] for i in range(many)}
    for each in history.each_machine:
        assert len(each.points) == 18
        assert len({point.instance_id for point in each.points}) == 1
        assert max(p.estimate for p in each.points) / min(p.estimate for p in each.points) < 1.05
    text = render_terminal(compose_history(history), width=200)
    assert f"{many} machines or kinds of them, each judged by itself" in text
    assert "Neoverse-N1" in text
    assert "no change of level on any of" in str(verdict_words(history, None, ""))


@pytest.mark.parametrize("moved_at", [10, 20, 33])
def test_a_move_to_another_machine_is_no_step(tmp_path: Path, moved_at: int) -> None:
    runs = [("old", 100.0, {}) if i < moved_at else ("new", 70.0, {}) for i in range(44)]
    history = read(tmp_path, runs)
    assert found_in(history) == {"a": [], "b": []}
    assert [each.motion for each in history.each_machine] == [Motion.LEVELS] * 2
    assert not any(each.changes for each in history.each_machine)
    assert len(history.points) == max(moved_at, 44 - moved_at), "the longest series leads"


def test_a_step_on_one_machine_is_that_machines(tmp_path: Path) -> None:
    runs: list[Run] = []
    for i in range(24):
        runs += [("still", 50.0, {}), ("slower", 100.0 if i < 12 else 88.0, {})]
    history = read(tmp_path, runs)
    assert found_in(history) == {"a": [], "b": [12]}
    shown = str(verdict_words(history, None, ""))
    assert "machine b: level moved" in shown
    assert "more" not in shown


def test_a_changed_layer_of_one_machine_stays_one_series(tmp_path: Path) -> None:
    changed: dict[str, object] = {"system.nvidia_driver": "570.00"}
    history = read(tmp_path, [("x", 100.0 if i < 12 else 90.0, {} if i < 12 else changed) for i in range(24)])
    assert (history.machine, history.machines) == ("", ())
    (change,) = history.changes
    assert (change.found, change.index, change.layers_changed) == (True, 12, (Layer.SYSTEM,))
    assert change.cause.owner == "infrastructure SRE"
    dumped = history.model_dump()
    assert "machine" not in dumped
    assert "machines" not in dumped


def test_an_upgrade_of_both_machines_is_found_on_each(tmp_path: Path) -> None:
    runs: list[Run] = []
    for i in range(24):
        torch: dict[str, object] = {} if i < 12 else {"framework.torch": "2.6.0"}
        runs += [("x", 100.0 * (1 if i < 12 else 1.1), torch), ("y", 60.0 * (1 if i < 12 else 1.1), torch)]
    history = read(tmp_path, runs)
    assert found_in(history) == {"a": [12], "b": [12]}
    assert "and 1 more" in str(verdict_words(history, None, ""))
    for each in history.each_machine:
        assert [change.layers_changed for change in each.changes] == [(Layer.FRAMEWORK,)]


def test_machines_with_one_result_each_are_one_series_of_their_kind(tmp_path: Path) -> None:
    changed: dict[str, object] = {"system.nvidia_driver": "570.00"}
    runs: list[Run] = [(f"pod-{i}", 100.0 if i < 12 else 85.0, {} if i < 12 else changed) for i in range(24)]
    history = read(tmp_path / "one", runs)
    assert history.machine.endswith("24 machines with one result each")
    assert [change.index for change in history.changes if change.found] == [12]
    two_kinds = [
        (f"pod-{i}", 80.0 if i % 2 else 100.0, {"accelerator.cpu_model": "Xeon" if i % 2 else "EPYC"})
        for i in range(40)
    ]
    apart = read(tmp_path / "two", two_kinds)
    assert [len(each.points) for each in apart.each_machine] == [20, 20]
    assert not any(change.found for each in apart.each_machine for change in each.changes)


def test_the_order_in_which_results_come_does_not_matter() -> None:
    points = [make_point(i, "xyz"[i % 3]) for i in range(12)]
    forwards, backwards = tell_machines_apart(points), tell_machines_apart(points[::-1])
    ids = [[{point.result_id for point in one.points} for one in each] for each in (forwards, backwards)]
    assert ids[0] == ids[1]
    assert forwards[0].newest.result_id == f"{11:064d}", "of as many the newest leads"


def make_point(number: int, machine: str) -> HistoryPoint:
    return HistoryPoint.model_construct(
        result_id=f"{number:064d}", started_at=f"2026-01-{number + 1:02d}", instance_id=machine, layer_ids={}
    )


def test_one_machine_is_named_after_the_contract(tmp_path: Path) -> None:
    runs: list[Run] = [("x" if i % 3 else "y", 100.0, {}) for i in range(9)]
    whole = read(tmp_path, runs)
    assert [len(each.points) for each in whole.each_machine] == [6, 3]
    past = Past(None, TrustList(), [tmp_path])
    for asked in ("b", "B", whole.points[0].instance_id[:8]):
        one = history_of(past, f"compared@{asked}", None)
        assert (len(one.points), one.machines) == (6, ())
        assert one.machine.endswith("machine b")
    assert len(history_of(past, "compared", None, machine="a").points) == 3
    with pytest.raises(NotFound, match="these have: a, b"):
        history_of(past, "compared@c", None)


def test_letters_are_those_of_the_ledger(tmp_path: Path) -> None:
    """Another contract's machine came first: it has the letter a, here as in the list of results."""
    team = make_team("ml-platform", tmp_path)
    ledger = team.open()
    record(ledger, make_result(executor=make_executor(machine="other")), team.key)
    known = results_of([("x", 100.0, {}), ("y", 90.0, {}), ("x", 101.0, {}), ("y", 91.0, {}), ("y", 90.5, {})])
    for result in known:
        record(ledger, result, team.key)
    past = Past(ledger, team.keyring.trust)
    history = history_of(past, known[0].contract_id, None)
    last = history_of(past, "last@b", None)
    ledger.log.close()
    assert [each.machine.rpartition(" ")[2] for each in history.each_machine] == ["c", "b", "a"]
    assert [len(each.points) for each in history.each_machine] == [3, 2, 1]
    assert (len(last.points), last.machine.endswith("machine b")) == (2, True)


def test_many_machines_are_counted_where_they_are_not_shown(tmp_path: Path) -> None:
    many = MOST_MACHINES + 3
    history = read(tmp_path, [(f"m{i % many}", 100.0, {}) for i in range(2 * many)])
    assert len(history.each_machine) == MOST_MACHINES
    assert "6 results of further machines: compared@MACHINE shows one" in history.left_out
    page = render_html(compose_history(history))
    assert page.count('<section id="changes') == MOST_MACHINES
