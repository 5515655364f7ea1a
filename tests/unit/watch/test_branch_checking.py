"""A branch of a known truth held against its base: what convicts, what does not, and what is left out and said."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from committed import CONTRACT, JOBS, SPEED, CommittedProject, PlantedMeasuring, imported_here
from lynxbench.contract.loader import parse_contract, read_bundled_text
from lynxbench.errors import BadFile, BadInput, Refused
from lynxbench.experiment.code_places import CodePlace
from lynxbench.model.branch_check import BranchCheck, CheckVerdict, FailOn, is_disturbed
from lynxbench.report import words
from lynxbench.watch import branch_checking, commit_pairs
from lynxbench.watch.branch_checking import NamedContract, check_branch
from lynxbench.watch.checkouts import Repository
from lynxbench.watch.commit_pairs import FunctionPlace

BASE = {"jobs.py": JOBS, "score.yaml": CONTRACT, SPEED: "100"}
SERVED = read_bundled_text("chat-demo")


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> PlantedMeasuring:
    planted = PlantedMeasuring(np.random.default_rng(7))
    monkeypatch.setattr(commit_pairs, "run_paired", planted)
    monkeypatch.setattr(commit_pairs, "loaded_files", imported_here)
    return planted


def _project(tmp_path: Path, head: dict[str, str], base: dict[str, str] = BASE) -> CommittedProject:
    project = CommittedProject.begin(tmp_path / "project")
    project.commit("base", base)
    project.git("checkout", "--quiet", "-b", "feature")
    project.commit("head", head)
    return project


def _check(
    project: CommittedProject, measuring: PlantedMeasuring, *named: str, fail_on: FailOn = FailOn.REGRESSION
) -> BranchCheck:
    repository = Repository.around(project.top)
    head = repository.commit("HEAD")
    pairs = measuring.pairs(project.top.parent / "runs", [])
    return check_branch(repository, repository.base_of(head), head, named, pairs, fail_on)


@pytest.mark.parametrize(
    ("head", "verdict", "codes", "sittings"),
    [
        ("100", CheckVerdict.PASSED, (0, 0, 0), 1),
        ("130", CheckVerdict.PASSED, (0, 0, 0), 1),
        ("90", CheckVerdict.REGRESSED, (1, 1, 0), 2),
        ("97 noise=0.02", CheckVerdict.DOUBT, (0, 6, 0), 3),
        ("50 doubtful", CheckVerdict.DOUBT, (0, 6, 0), 1),
        ("broken", CheckVerdict.BROKEN, (2, 2, 0), 1),
    ],
)
def test_the_verdict_is_the_truth_and_the_exit_code_the_policy(
    head: str, verdict: CheckVerdict, codes: tuple[int, ...], sittings: int, tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    project = _project(tmp_path, {SPEED: head})
    check = _check(project, measuring)
    (one,) = check.checks
    assert one.verdict is verdict, one.said
    assert (one.contract, one.file, one.line) == ("score.yaml", "jobs.py", 1)
    assert len(measuring.asked) == sittings
    ends = [check.model_copy(update={"fail_on": policy}).exit_code for policy in FailOn]
    assert tuple(ends) == codes
    assert BranchCheck.model_validate_json(check.model_dump_json()) == check


def _held(project: CommittedProject, measuring: PlantedMeasuring, base: str, head: str) -> BranchCheck:
    repository = Repository.around(project.top)
    pairs = measuring.pairs(project.top.parent / "runs", [])
    return check_branch(repository, repository.commit(base), repository.commit(head), (), pairs, FailOn.REGRESSION)


def test_a_base_that_comes_after_the_head_blames_nobody(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    """Found: the later commit is faster, and the earlier one was said to have regressed."""
    check = _held(_project(tmp_path, {SPEED: "130"}), measuring, "feature", "main")
    (one,) = check.checks
    assert one.verdict is CheckVerdict.DOUBT
    assert one.said.startswith("slower than the base, which does not precede it")
    assert check.exit_code == 0
    assert "does not precede the head (main" in check.notes[0]
    assert "it comes after it; name the earlier commit with --base" in check.notes[0]
    right = _held(_project(tmp_path / "other", {SPEED: "130"}), measuring, "main", "feature")
    assert (right.checks[0].verdict, right.notes) == (CheckVerdict.PASSED, ())


@pytest.mark.parametrize("commits", [1, 3])
def test_a_base_that_went_on_is_told_with_where_they_parted(
    commits: int, tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    """The main branch became faster after the branch left it: the branch did nothing."""
    project = _project(tmp_path, {"readme.txt": "a word"})
    fork = project.git("rev-parse", "main").strip()
    project.git("checkout", "--quiet", "main")
    for number in range(commits):
        project.commit(f"faster {number}", {SPEED: f"{120 + number}"})
    check = _held(project, measuring, "main", "feature")
    assert check.checks[0].verdict is CheckVerdict.DOUBT
    assert f"it has {commits} commit{'s' if commits > 1 else ''} that the head lacks" in check.notes[0]
    assert f"--base {fork[:10]}" in check.notes[0]
    parted = _held(project, measuring, fork, "feature")
    assert (parted.checks[0].verdict, parted.notes) == (CheckVerdict.PASSED, ())


def test_a_base_without_a_shared_commit_is_told(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, {SPEED: "90"})
    project.git("checkout", "--quiet", "--orphan", "elsewhere")
    project.commit("another beginning", {SPEED: "100"})
    check = _held(project, measuring, "elsewhere", "feature")
    assert check.checks[0].verdict is CheckVerdict.DOUBT
    assert "they share no commit that is here" in check.notes[0]
    merged = _project(tmp_path / "merged", {SPEED: "90"})
    merged.git("checkout", "--quiet", "main")
    merged.commit("elsewhere", {"readme.txt": "more"})
    merged.git("checkout", "--quiet", "feature")
    merged.git("merge", "--quiet", "-m", "merge", "main")
    through = _held(merged, measuring, "main", "feature")
    assert (through.checks[0].verdict, through.notes) == (CheckVerdict.REGRESSED, ())


@pytest.mark.parametrize("again", ["100", "50 doubtful", "99 noise=0.05"])
def test_nobody_is_convicted_by_one_sitting(again: str, tmp_path: Path, measuring: PlantedMeasuring) -> None:
    measuring.sittings = {0: "80", 1: again}
    (one,) = _check(_project(tmp_path, {SPEED: "100"}), measuring).checks
    assert one.verdict is CheckVerdict.DOUBT
    assert "measured again" in one.said
    assert one.confirmation is not None


@pytest.mark.parametrize("word", ["unsteady", "short"])
@pytest.mark.parametrize(
    ("sittings", "verdict", "asked"),
    [
        ({0: "80 {}"}, CheckVerdict.REGRESSED, 3),
        ({1: "80 {}"}, CheckVerdict.REGRESSED, 3),
        ({0: "80 {}", 2: "80 {}", 3: "80 {}"}, CheckVerdict.REGRESSED, 5),
        ({0: "50 {}", 1: "100", 2: "100"}, CheckVerdict.PASSED, 2),
        ({1: "80 {}", 2: "100"}, CheckVerdict.DOUBT, 3),
        ({1: "80 {}", 2: "80 {}", 3: "80 {}"}, CheckVerdict.DOUBT, 4),
        ({0: "80 {}", 1: "80 {}", 2: "80 {}"}, CheckVerdict.DOUBT, 3),
    ],
)
def test_a_disturbed_sitting_says_nothing_and_is_measured_again_a_few_times(
    word: str,
    sittings: dict[int, str],
    verdict: CheckVerdict,
    asked: int,
    tmp_path: Path,
    measuring: PlantedMeasuring,
) -> None:
    """The head is slower by a fifth: what counts is the first sitting that is steady, whatever the others said."""
    measuring.sittings = {number: planted.format(word) for number, planted in sittings.items()}
    check = _check(_project(tmp_path, {SPEED: "80"}), measuring)
    (one,) = check.checks
    assert one.verdict is verdict, one.said
    assert len(measuring.asked) == asked
    disturbed = sum(word in planted for planted in measuring.sittings.values())
    last = is_disturbed(one.confirmation or one.comparison)
    assert len(one.set_aside) == disturbed - last
    assert f"{words.count(len(one.set_aside), 'disturbed sitting')} set aside" in one.said
    assert BranchCheck.model_validate_json(check.model_dump_json()) == check


def test_on_a_machine_that_stalls_equal_branches_pass_and_slower_ones_are_found(
    tmp_path: Path, measuring: PlantedMeasuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sittings of five are disturbed: each process that was says a speed of its own, off by a fifth or more."""
    contract = NamedContract("score.yaml", parse_contract(CONTRACT, "score.yaml"))
    base, head = (CodePlace(commit, tmp_path, "", tmp_path) for commit in ("a" * 40, "b" * 40))
    monkeypatch.setattr(branch_checking, "find_function", lambda *_: FunctionPlace())
    speeds: dict[str, float] = {}

    def planted(place: CodePlace) -> str:
        if measuring.rng.random() > 0.225:  # of each of the two sides
            return str(speeds[place.commit])
        return f"{speeds[place.commit]} unsteady noise={measuring.rng.uniform(0.2, 0.5)}"

    measuring.speed_of = planted
    for truth, wanted, least in ((1.0, CheckVerdict.PASSED, 75), (0.92, CheckVerdict.REGRESSED, 75)):
        speeds.update({base.commit: 100.0, head.commit: 100.0 * truth})
        pairs = measuring.pairs(tmp_path, [])
        checks = [branch_checking._check(contract, base, head, frozenset(), pairs) for _ in range(100)]
        verdicts = Counter(check.verdict for check in checks)
        wrong = {CheckVerdict.REGRESSED, CheckVerdict.PASSED} - {wanted}
        assert verdicts[wrong.pop()] == 0, verdicts
        assert verdicts[wanted] >= least, verdicts
        assert any(check.set_aside for check in checks)


def test_what_is_doubtful_for_another_reason_too_is_not_measured_again(
    tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    """A foreign load, a clock that was set back: a further sitting is somebody's to ask for."""
    for number, head in enumerate(("80 doubtful", "80 loaded", "50 doubtful noise=0.2", "80 unsteady doubtful")):
        (one,) = _check(_project(tmp_path / str(number), {SPEED: head}), measuring).checks
        assert one.verdict is CheckVerdict.DOUBT
        assert not one.set_aside
        assert "set_aside" not in one.model_dump_json()
    assert len(measuring.asked) == 4


@pytest.mark.parametrize(("times", "asked"), [(1, [5]), (2, [5, 10]), (3, [5, 10]), (4, [5, 10, 20])])
def test_what_stays_inconclusive_is_measured_with_more_pairs_as_far_as_it_may_be(
    times: int, asked: list[int], tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    """A loss of exactly the budget: no number of pairs decides it."""
    project = _project(tmp_path, {SPEED: "97 noise=0.02"})
    repository = Repository.around(project.top)
    head = repository.commit("HEAD")
    pairs = measuring.pairs(tmp_path / "runs", [])
    check = check_branch(repository, repository.base_of(head), head, (), pairs, FailOn.DOUBT, times=times)
    (one,) = check.checks
    assert [number for *_, number in measuring.asked] == asked
    assert one.verdict is CheckVerdict.DOUBT
    assert len(one.undecided) == len(asked) - 1
    assert ("times the restarts" in one.said) is (len(asked) > 1)
    assert BranchCheck.model_validate_json(check.model_dump_json()) == check


def test_a_contract_of_fewer_restarts_than_a_verdict_needs_is_not_made_longer(
    tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    few = CONTRACT.replace("restarts: 5", "restarts: 3")
    assert few != CONTRACT
    (one,) = _check(_project(tmp_path, {SPEED: "97", "score.yaml": few}), measuring).checks
    assert one.verdict is CheckVerdict.DOUBT
    assert [number for *_, number in measuring.asked] == [3]


def test_the_confirmation_begins_with_as_many_pairs_as_convicted(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    measuring.sittings = {0: "97 noise=0.02", 1: "90", 2: "90"}
    (one,) = _check(_project(tmp_path, {SPEED: "90"}), measuring).checks
    assert one.verdict is CheckVerdict.REGRESSED
    assert [number for *_, number in measuring.asked] == [5, 10, 10]


def test_more_pairs_find_what_few_do_not_and_accuse_nobody(
    tmp_path: Path, measuring: PlantedMeasuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted noise of 2 % a process, budget 3 %: 6 % lost, nothing lost, and a loss of just the budget, which each of
    up to three sittings calls more with a chance of a fortieth, and the confirmation again."""
    contract = NamedContract("score.yaml", parse_contract(CONTRACT, "score.yaml"))
    base, head = (CodePlace(commit, tmp_path, "", tmp_path) for commit in ("a" * 40, "b" * 40))
    monkeypatch.setattr(branch_checking, "find_function", lambda *_: FunctionPlace())
    speeds: dict[str, float] = {base.commit: 100.0}
    measuring.speed_of = lambda place: f"{speeds[place.commit]} noise=0.02"

    def verdicts(lost: float, times: int, many: int) -> Counter[CheckVerdict]:
        speeds[head.commit] = 100.0 * (1 - lost)
        pairs = measuring.pairs(tmp_path, [])
        checks = (branch_checking._check(contract, base, head, frozenset(), pairs, times) for _ in range(many))
        return Counter(check.verdict for check in checks)

    few, more = (verdicts(0.06, times, 60)[CheckVerdict.REGRESSED] for times in (1, 4))
    assert more >= few + 15, (few, more)
    assert verdicts(0.0, 4, 100)[CheckVerdict.REGRESSED] == 0
    assert verdicts(0.03, 4, 200)[CheckVerdict.REGRESSED] <= 5


def test_doubt_on_the_side_of_the_base_convicts_nobody_either(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, {SPEED: "60"}, {**BASE, SPEED: "100 doubtful"})
    (one,) = _check(project, measuring).checks
    assert one.verdict is CheckVerdict.DOUBT


def test_equal_branches_are_seldom_accused_and_slower_ones_seldom_missed(
    tmp_path: Path, measuring: PlantedMeasuring
) -> None:
    """Planted: five pairs of 0.5 % noise, budget 3 %: 8 % lost is seen, nothing lost never is."""
    project = _project(tmp_path, {SPEED: "100"})
    equal = [_check(project, measuring).checks[0].verdict for _ in range(10)]
    assert CheckVerdict.REGRESSED not in equal
    project.commit("slower", {SPEED: "92"})
    slower = [_check(project, measuring).checks[0].verdict for _ in range(5)]
    assert slower.count(CheckVerdict.REGRESSED) >= 4


def test_the_base_that_lacks_it_has_nothing_to_hold_against(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, {**BASE, SPEED: "1"}, {"readme.md": "nothing yet"})
    check = _check(project, measuring, fail_on=FailOn.DOUBT)
    (one,) = check.checks
    assert one.verdict is CheckVerdict.NEW
    assert "no module 'jobs'" in one.said
    assert check.exit_code == 0
    assert measuring.asked == []


def test_a_head_that_cannot_import_it_is_broken(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, {"other.py": ""})
    project.git("rm", "-q", "jobs.py")
    project.commit("gone", {})
    check = _check(project, measuring)
    assert check.checks[0].verdict is CheckVerdict.BROKEN
    assert check.exit_code == 2


def test_contracts_are_found_and_what_is_not_measured_is_said(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    head = {
        "bench/more.yaml": CONTRACT.replace("name: score", "name: more"),
        "score.yaml": CONTRACT.replace("3 %", "50 %"),
        "site.yaml": "lynxbench: 1\nfacility: {cooling: air}\n",
        "ci.yml": "jobs:\n  workload: 1\n",
        "chat.yaml": SERVED,
    }
    project = _project(tmp_path, head, {**BASE, "old.yaml": CONTRACT.replace("name: score", "name: old")})
    project.git("rm", "-q", "old.yaml")
    project.commit("old one gone", {})
    check = _check(project, measuring)
    assert [(one.contract, one.name) for one in check.checks] == [("bench/more.yaml", "more"), ("score.yaml", "score")]
    assert sorted(note.partition(":")[0] for note in check.notes) == ["chat.yaml", "old.yaml", "score.yaml"]
    assert any("the head changes what is agreed" in note for note in check.notes)


def test_a_contract_that_is_none_stops_before_anything_is_measured(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, {"bad.yaml": CONTRACT.replace("restarts", "restart")})
    with pytest.raises(BadFile, match=r"bad\.yaml:\d+"):
        _check(project, measuring)
    assert measuring.asked == []


def test_named_contracts_are_those_of_the_head(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = _project(tmp_path, {SPEED: "100"})
    assert [one.contract for one in _check(project, measuring, "score.yaml").checks] == ["score.yaml"]
    (project.top / "new.yaml").write_text(CONTRACT)
    with pytest.raises(BadInput, match="not in the commit that is measured; commit it"):
        _check(project, measuring, "new.yaml")
    with pytest.raises(BadInput, match="no such file in the commit"):
        _check(project, measuring, "nothing.yaml")
    project.commit("served", {"chat.yaml": SERVED})
    with pytest.raises(BadInput, match="asks a server"):
        _check(project, measuring, "chat.yaml")


def test_nothing_to_measure_and_nothing_to_compare_are_one_line(tmp_path: Path, measuring: PlantedMeasuring) -> None:
    project = CommittedProject.begin(tmp_path / "project")
    project.commit("base", {"a.md": ""})
    with pytest.raises(BadInput, match=r"HEAD is its own base .*--base"):
        _check(project, measuring)
    project.git("checkout", "--quiet", "-b", "feature")
    project.commit("head", {"b.md": ""})
    with pytest.raises(BadInput, match="no contract that measures code"):
        _check(project, measuring)


def test_code_from_elsewhere_is_refused_before_it_is_measured_twice(
    tmp_path: Path, measuring: PlantedMeasuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed copy of the repository's package would be both sides: nothing could ever regress."""
    project = _project(tmp_path, {"lib/scoring/__init__.py": ""})
    installed = tmp_path / "site-packages" / "scoring" / "__init__.py"
    places = {"scoring": installed, "helper": project.top / "helper.py", "numpy": tmp_path / "numpy.py"}
    for module in ("scoring", "helper"):
        foreign = {module: places[module]}
        monkeypatch.setattr(commit_pairs, "loaded_files", lambda target, f=foreign: {**imported_here(target), **f})
        with pytest.raises(Refused, match=rf"{module} is imported from .*not from the commit"):
            _check(project, measuring)
    fine = {"numpy": places["numpy"]}
    monkeypatch.setattr(commit_pairs, "loaded_files", lambda target: {**imported_here(target), **fine})
    assert _check(project, measuring).checks[0].verdict is CheckVerdict.PASSED
