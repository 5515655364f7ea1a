"""The commit that made it slower, in repositories of a known truth: found, passed over, resumed, never guessed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from committed import CONTRACT, JOBS, SPEED, CommittedProject, PlantedMeasuring, imported_here
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadInput, CannotRun, Interrupted
from lynxbench.model.branch_check import Bisection, CommitVerdict
from lynxbench.watch import commit_pairs
from lynxbench.watch.bisecting import CommitHunt, open_bisection
from lynxbench.watch.checkouts import Repository

AGREED = parse_contract(CONTRACT)


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> PlantedMeasuring:
    planted = PlantedMeasuring(np.random.default_rng(11))
    monkeypatch.setattr(commit_pairs, "run_paired", planted)
    monkeypatch.setattr(commit_pairs, "loaded_files", imported_here)
    return planted


def _project(tmp_path: Path, speeds: list[str]) -> CommittedProject:
    project = CommittedProject.begin(tmp_path / "project")
    for number, speed in enumerate(speeds):
        project.commit(f"commit {number}", {"jobs.py": JOBS, SPEED: speed, "n.txt": str(number)})
    return project


def _hunt(project: CommittedProject, measuring: PlantedMeasuring, *, resume: bool = False) -> Bisection:
    repository = Repository.around(project.top)
    many = int(project.git("rev-list", "--count", "HEAD"))
    good, bad = repository.commit(f"HEAD~{many - 1}"), repository.commit("HEAD")
    asked = Bisection(
        contract="score.yaml",
        contract_id=AGREED.contract_id,
        good=good,
        bad=bad,
        commits=repository.between(good, bad),
    )
    out = project.top.parent / "results"
    folder = open_bisection(out, asked, AGREED.name, resume=resume)
    return CommitHunt(folder, AGREED, repository, measuring.pairs(out, [])).carry_out()


def _suspects(found: Bisection) -> list[str]:
    return [commit.subject for commit in found.suspects]


@pytest.mark.parametrize("culprit", range(1, 9))
def test_the_planted_commit_is_found_wherever_it_is(culprit: int, tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, ["100"] * culprit + ["80"] * (9 - culprit))
    found = _hunt(project, measuring)
    assert _suspects(found) == [f"commit {culprit}"], found.ended
    assert found.confirmed
    assert found.exit_code == 0
    assert len(measuring.asked) <= 5, "the bad one, three midpoints, the confirmation"
    assert found.threshold == pytest.approx(1 - 0.8**0.5, abs=0.01)


def test_a_small_loss_is_found_under_a_noise_that_its_budget_could_not_settle(
    tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    """Lost: 6 %. Against the budget of 3 % an equal commit under 1.5 % noise is often in doubt; half way settles it."""
    found = _hunt(_project(tmp_path, ["100 noise=0.01"] * 4 + ["90 noise=0.01"] * 5), measuring)
    assert _suspects(found) == ["commit 4"]


def test_what_does_not_run_is_passed_over_and_the_range_is_named(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    speeds = ["100", "100", "100", "broken", "broken", "70", "70", "70"]
    found = _hunt(_project(tmp_path, speeds), measuring)
    assert _suspects(found) == ["commit 3", "commit 4", "commit 5"]
    assert found.ended.startswith("one of these 3: ")
    assert found.confirmed
    assert found.exit_code == 6
    broken = [outcome for outcome in found.outcomes if outcome.verdict is CommitVerdict.BROKEN]
    assert len(broken) == 2


def test_doubt_is_measured_with_more_restarts_then_passed_over(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    speeds = ["100", "100", "100", "80 doubtful", "80", "80"]
    found = _hunt(_project(tmp_path, speeds), measuring)
    assert _suspects(found) == ["commit 3", "commit 4"]
    undecided = next(outcome for outcome in found.outcomes if outcome.verdict is CommitVerdict.UNDECIDED)
    assert [pairs for _, commit, pairs in measuring.asked if commit == undecided.sha] == [5, 10, 20]
    assert found.exit_code == 6


def test_more_restarts_settle_what_fewer_did_not(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    measuring.sittings = {1: "90 noise=0.3"}
    found = _hunt(_project(tmp_path, ["100", "100", "100", "80", "80"]), measuring)
    assert _suspects(found) == ["commit 3"]
    assert [pairs for *_, pairs in measuring.asked][:3] == [5, 5, 10]


@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [("100", 1, "there is nothing to find"), ("50 doubtful", 6, "not proven slower"), ("broken", 6, "does not run")],
)
def test_a_bad_commit_that_is_not_bad_is_said_first(
    bad: str, code: int, words: str, tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    found = _hunt(_project(tmp_path, ["100"] * 4 + [bad]), measuring)
    assert words in found.ended
    assert found.suspects == ()
    assert found.exit_code == code
    assert len(found.outcomes) == 1


def test_a_commit_that_is_not_confirmed_is_not_convicted(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    """The last sitting is the confirmation; it finds nothing, as after a wrong turn on the way."""
    measuring.sittings = {3: "100"}
    found = _hunt(_project(tmp_path, ["100", "100", "80", "80", "80"]), measuring)
    assert len(measuring.asked) == 4
    assert found.confirmed is False
    assert "not confirmed" in found.ended
    assert found.exit_code == 6


def test_a_good_commit_that_does_not_run_stops_it(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    with pytest.raises(CannotRun, match="does not run"):
        _hunt(_project(tmp_path, ["broken", "80"]), measuring)


def test_it_goes_on_where_it_was_stopped_and_asks_nothing_twice(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, ["100"] * 6 + ["80"] * 3)
    measuring.raises = {2: Interrupted("interrupted")}
    with pytest.raises(Interrupted, match="--resume"):
        _hunt(project, measuring)
    before = [commit for _, commit, _ in measuring.asked[:2]]
    measuring.raises = {}
    found = _hunt(project, measuring, resume=True)
    assert _suspects(found) == ["commit 6"]
    assert not set(before) & {commit for _, commit, _ in measuring.asked[3:-1]}
    with pytest.raises(BadInput, match="no unfinished bisection"):
        _hunt(project, measuring, resume=True)
