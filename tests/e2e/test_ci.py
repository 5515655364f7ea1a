"""Commits measured for real: each side runs its own code, and everything that a pipeline reads is there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from ruamel.yaml import YAML

from command_line import CommandRun, lynxbench_here
from committed import CONTRACT, CommittedProject, PlantedMeasuring
from lynxbench.contract.loader import read_contract
from lynxbench.experiment.code_places import CodePlace
from lynxbench.watch import commit_pairs

RAN = "ran.txt"
JOBS = """\
from pathlib import Path
from time import sleep

from pausing.core import PAUSE_S


def score():
    with open(RAN, "a") as ran:
        ran.write(f"{Path.cwd().name} {PAUSE_S}\\n")
    sleep(PAUSE_S)
    return 1
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "branch-check"
SHORT = CONTRACT.replace("restarts: 5", "restarts: 1").replace("limit: 600 ms", "limit: 500 ms")


@pytest.fixture
def project(tmp_path: Path) -> CommittedProject:
    project = CommittedProject.begin(tmp_path / "project")
    jobs = JOBS.replace("RAN", repr(str(tmp_path / RAN)))
    base = {"jobs.py": jobs, "score.yaml": SHORT, "pausing/__init__.py": "", "pausing/core.py": "PAUSE_S = 0.01\n"}
    project.commit("base", base)
    project.git("checkout", "--quiet", "-b", "feature")
    project.commit("slower", {"pausing/core.py": "PAUSE_S = 0.04\n"})
    return project


def _call(project: CommittedProject, *words: str, **environment: str) -> CommandRun:
    home = str(project.top.parent / "home")
    return lynxbench_here(*words, cwd=project.top, LYNXBENCH_HOME=home, LYNXBENCH_LEDGER="", **environment)


@pytest.mark.slow
def test_each_side_runs_its_own_code_and_the_pipeline_finds_its_files(project: CommittedProject) -> None:
    """One restart carries no verdict: what each side wrote tells whose code ran, and the doubt what the policy does."""
    summary = project.top.parent / "summary.md"
    summary.write_text("before\n")
    out = ("--out", str(project.top.parent / "results"), "--ledger", "none")
    done = _call(project, "ci", "--fail-on", "doubt", "--json", *out, GITHUB_STEP_SUMMARY=str(summary))
    assert done.code == 6, done.err
    check = json.loads(done.out)
    (one,) = check["checks"]
    assert one["verdict"] == "doubt"
    assert "1 restarts; a verdict needs 5" in one["said"]
    ran = {tuple(line.split()) for line in (project.top.parent / RAN).read_text().splitlines()}
    assert ran == {("base", "0.01"), ("head", "0.04")}, "each tree, and the code that ran in it"
    layers = {layer["layer"]: [field["name"] for field in layer["fields"]] for layer in one["comparison"]["layers"]}
    assert any("commit" in name for name in layers["application"]), "nothing else in the record tells them apart"
    reports = project.top / "lynxbench-ci"
    assert json.loads((reports / "check.json").read_text())["head"]["subject"] == "slower"
    assert json.loads((reports / "results.sarif").read_text())["version"] == "2.1.0"
    assert ElementTree.parse(reports / "junit.xml").getroot().find("testsuite/testcase/failure") is not None
    comment = (reports / "comment.md").read_text()
    assert summary.read_text() == f"before\n{comment}"
    assert "pair 1/1" in done.err
    assert len(project.git("worktree", "list").splitlines()) == 1
    assert Path.cwd() != project.top
    assert str(project.top) not in os.environ.get("PYTHONPATH", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ci", "--base", "nothing"), "'nothing': no commit of this repository"),
        (("ci", "--head", "HEAD~9"), "'HEAD~9': no commit"),
        (("ci", "--base", "HEAD"), "HEAD is its own base"),
        (("ci", "nothing.yaml"), "nothing.yaml: no such file in the commit"),
        (("ci", "--reports", "jobs.py/x"), "cannot be written"),
        (("bisect", "HEAD", "HEAD", "score.yaml"), "are one commit"),
        (("bisect", "HEAD", "main", "score.yaml"), "HEAD is no ancestor of main"),
        (("bisect", "main", "HEAD", "chat-demo"), "asks a server"),
        (("bisect", "main", "HEAD", "score.yaml", "--resume"), "no unfinished bisection"),
        (("bisect", "main", "HEAD", "nothing.yaml"), "nothing.yaml: no such file"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_measured(
    words: tuple[str, ...], says: str, project: CommittedProject
) -> None:
    done = _call(project, *words)
    assert done.code == 2, done.out + done.err
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert not (project.top / "results").exists()


def test_uncommitted_changes_stop_it_and_another_head_is_not_asked(project: CommittedProject) -> None:
    (project.top / "jobs.py").write_text("x")
    done = _call(project, "ci")
    assert done.code == 2
    assert re.search(r"not committed would not be measured: jobs\.py", done.err)


def _planted_speed(place: CodePlace) -> str:
    """Of the sample project: what its round trips cost."""
    trips = re.search(r"ROUND_TRIPS = (\d+)", (place.tree / "src" / "scoring" / "features.py").read_text())
    assert trips is not None
    return str(200 / int(trips[1]))


@pytest.mark.parametrize(
    ("before", "after", "code", "word"),
    [("ROUND_TRIPS = 20", "ROUND_TRIPS = 21", 1, "regressed"), ("everything that", "all that", 0, "passed")],
)
def test_the_sample_project_is_stopped_by_a_planted_loss_alone(
    before: str, after: str, code: int, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured for real by benchmarks/ci_example.py; here figures are planted, and all else is the command's."""
    planted = PlantedMeasuring(np.random.default_rng(3), speed_of=_planted_speed)
    monkeypatch.setattr(commit_pairs, "run_paired", planted)
    project = CommittedProject.begin(tmp_path / "project")
    files = {file.relative_to(EXAMPLE).as_posix(): file.read_text() for file in _files(EXAMPLE)}
    # A protocol of a pipeline is noisier than the planted pairs; the budget has to leave them room.
    files["bench/lookup.yaml"] = files["bench/lookup.yaml"].replace("regression: 1 %", "regression: 2 %")
    project.commit("base", files)
    project.git("checkout", "--quiet", "-b", "feature")
    changed = files["src/scoring/features.py"].replace(before, after)
    assert changed != files["src/scoring/features.py"]
    project.commit("change", {"src/scoring/features.py": changed})
    done = _call(project, "ci", "bench/lookup.yaml", PYTHONPATH=f"bench{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert done.code == code, done.out + done.err
    assert f"**{word}**" in (project.top / "lynxbench-ci" / "comment.md").read_text()


def test_the_sample_project_is_whole() -> None:
    """Its contracts are contracts, and its pipeline uses the plug-in and the action with inputs that the action has."""
    for contract in EXAMPLE.glob("bench/*.yaml"):
        assert read_contract(contract).name == contract.stem
    workflow = YAML(typ="safe").load((EXAMPLE / ".github" / "workflows" / "speed.yml").read_text())
    steps = workflow["jobs"]["speed"]["steps"]
    assert any("pytest tests" in step.get("run", "") for step in steps)
    assert "lynxbench(rank_batch)" in (EXAMPLE / "tests" / "test_ranking.py").read_text()
    (action,) = [step for step in steps if "actions/ci@" in step.get("uses", "")]
    known = YAML(typ="safe").load((EXAMPLE.parents[1] / ".github" / "actions" / "ci" / "action.yml").read_text())
    assert set(action["with"]) <= set(known["inputs"])


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
