"""The GitHub Action and the GitLab template: whole by their schemas, and carried out step by step as runners do."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from committed import CommittedProject

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "run_pipeline.py"
ACTION = ROOT / ".github" / "actions" / "ci" / "action.yml"
TEMPLATE = ROOT / "deploy" / "gitlab-ci.yml"
SCHEMAS = ROOT / "tests" / "data" / "pipelines"
PULL = {
    "github.event_name": "pull_request",
    "github.event.pull_request.number": "7",
    "github.event.pull_request.base.sha": "abc123",
    "github.repository": "o/r",
}
PYTHON = """\
#!/bin/bash
printf '%s\\n' "$@" > words
mkdir -p lynxbench-ci && echo '<!-- lynxbench ci -->' > lynxbench-ci/comment.md
exit ${ENDS:-0}
"""
"""Stands in for the Python that lynxbench is in: notes what it is asked and ends as it is told."""
GH = """\
#!/bin/bash
printf '%s ' "$@" >> asked; echo >> asked
case "$*" in
  *--paginate*) echo "$KNOWN" ;;
  *) exit "${REFUSES:-0}" ;;
esac
"""


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_pipeline", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOLBOX: Any = _load()


def _yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("python", PYTHON), ("gh", GH)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def _act(here: Path, **given: str) -> tuple[int, list[str]]:
    own = {"inputs.install": "", "inputs.python": str(here / "python"), **given}
    code = TOOLBOX.run_action(_yaml(ACTION), ACTION.parent, own, os.environ)
    return code, (here / "words").read_text().splitlines()


@pytest.mark.parametrize(("file", "schema"), [(ACTION, "action-metadata.json"), (TEMPLATE, "gitlab-job.json")])
def test_the_files_are_whole_by_their_schemas(file: Path, schema: str) -> None:
    """The action's schema also refuses an expression inside of a script: a branch's name must not become a command."""
    validator = jsonschema.Draft7Validator(json.loads((SCHEMAS / schema).read_text()))
    document = _yaml(file)
    validator.validate(document)
    part = document["runs"]["steps"][1] if file is ACTION else document["lynxbench"]
    part["run" if file is ACTION else "scirpt"] = "echo ${{ github.head_ref }}"
    assert list(validator.iter_errors(document))


def test_every_input_is_used_and_every_name_is_one(here: Path) -> None:
    text = ACTION.read_text()
    action = _yaml(ACTION)
    asked = set(re.findall(r"inputs\.([a-z-]+)", text))
    assert asked == set(action["inputs"])
    for step in action["runs"]["steps"]:
        subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)
        used = set(re.findall(r"\$\{?([A-Z_]+)", step["run"])) - {"GITHUB_OUTPUT"}
        assert used <= set(step["env"])


@pytest.mark.parametrize("ends", [0, 1, 2, 6])
def test_the_action_ends_as_the_command_does(ends: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDS", str(ends))
    code, words = _act(here, **PULL)
    assert code == ends
    assert words[:3] == ["-m", "lynxbench", "ci"]
    assert words[3:] == ["--fail-on", "regression", "--reports", "lynxbench-ci", "--base", "abc123", "--"]


def test_inputs_reach_the_command_as_words(here: Path) -> None:
    hostile = '$(touch owned) "; touch owned'
    given = {
        "inputs.contracts": "a.yaml b.yaml",
        "inputs.base": "v1",
        "inputs.prepare": hostile,
        "inputs.fail-on": "doubt",
    }
    code, words = _act(here, **given)
    assert code == 0
    assert words[3:9] == ["--fail-on", "doubt", "--reports", "lynxbench-ci", "--base", "v1"]
    assert words[9:] == ["--prepare", hostile, "--", "a.yaml", "b.yaml"]
    assert not (here / "owned").exists()


def test_the_base_of_a_push_is_what_it_replaced_and_none_where_that_is_nothing(here: Path) -> None:
    assert "--base" in _act(here, **{"github.event.before": "abc"})[1]
    assert "--base" not in _act(here, **{"github.event.before": "0" * 40})[1]
    assert not (here / "asked").exists(), "only a pull request is commented"


def test_a_comment_is_made_once_and_then_written_over(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _act(here, **PULL)
    assert "--method POST repos/o/r/issues/7/comments" in (here / "asked").read_text().splitlines()[-1]
    monkeypatch.setenv("KNOWN", "4711")
    _act(here, **PULL)
    assert "--method PATCH repos/o/r/issues/comments/4711" in (here / "asked").read_text().splitlines()[-1]
    (here / "asked").unlink()
    _act(here, **PULL, **{"inputs.comment": "false"})
    assert not (here / "asked").exists()


def test_a_comment_that_is_refused_changes_no_verdict(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSES", "1")
    assert _act(here, **PULL)[0] == 0
    monkeypatch.setenv("ENDS", "1")
    assert _act(here, **PULL)[0] == 1


@pytest.mark.parametrize("ends", [0, 1, 6])
def test_the_template_ends_as_the_command_does(ends: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDS", str(ends))
    given = {"LYNXBENCH_PYTHON": str(here / "python"), "CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc"}
    job = _yaml(TEMPLATE)["lynxbench"]
    assert TOOLBOX.run_job(job, {**given, "LYNXBENCH_CONTRACTS": "a.yaml b.yaml"}, os.environ) == ends
    words = (here / "words").read_text().splitlines()
    assert words[3:9] == ["--fail-on", "regression", "--reports", "lynxbench-ci", "--base", "abc"]
    assert words[9:] == ["--", "a.yaml", "b.yaml"]
    assert TOOLBOX.run_job(job, given, os.environ) == ends
    assert (here / "words").read_text().splitlines()[-1] == "--"


def test_the_real_command_is_reached_through_the_action(tmp_path: Path) -> None:
    project = CommittedProject.begin(tmp_path / "project")
    project.commit("base", {"a.md": ""})
    given = ["--set", f"inputs.python={sys.executable}", "--set", "inputs.install=", "--set", "inputs.base=HEAD"]
    done = subprocess.run(
        [sys.executable, str(TOOL), str(ACTION), *given], cwd=project.top, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "HEAD is its own base" in done.stderr


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a.b", "1"),
        ("a.none || 'x'", "x"),
        ("a.b || 'x'", "1"),
        ("a.b && 'x'", "x"),
        ("a.none && 'x'", ""),
        ("a.b == '1' && a.none != '1'", "true"),
        ("(a.b == '2' || a.b == '1') && 'it''s'", "it's"),
    ],
)
def test_expressions_mean_what_they_mean_on_github(expression: str, value: str) -> None:
    assert TOOLBOX.evaluated(expression, {"a.b": "1"}) == value


@pytest.mark.parametrize("expression", ["always()", "a ==", "(a", "a b", "1 + 2", ""])
def test_what_the_runner_does_not_know_is_refused(expression: str) -> None:
    with pytest.raises(TOOLBOX.Unknown):
        TOOLBOX.evaluated(expression, {})
