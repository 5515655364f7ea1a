"""Scorers of the house and of users; whatever is wrong with one is said before a run, in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadFile, OwnCodeFailed
from lynxbench.model.accuracy_asked import LabelledTask
from lynxbench.run.task_scoring import check_asked, score_task
from lynxbench.workload.task_files import LabelledPrompt, read_task
from served import served_contract

ROWS = [{"prompt": "a", "answer": "1", "weight": 3}, {"prompt": "b", "answer": "2", "weight": 5}]
SCORERS = """\
def by_weight(answer, row):
    return answer == str(row["weight"])

def graded(answer, row):
    return 0.5

def broken(answer, row):
    raise KeyError("nothing")
"""


class Parrot:
    """Answers with what it was given."""

    def __init__(self, texts: list[str | None]) -> None:
        self.said = texts

    def texts(self, prompts: list[LabelledPrompt], tokens: int) -> list[str | None]:
        return self.said

    def choose(self, prompts: list[LabelledPrompt], tokens: int) -> tuple[str, list[int | None]]:
        return "guessing", [None if text is None else int(text) for text in self.said]


@pytest.fixture
def task_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_scorers_of_a_test.py").write_text(SCORERS)
    file = tmp_path / "task.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return str(file)


def marks(path: str, scorer: str, texts: list[str | None]) -> list[int]:
    task = LabelledTask(file=path, scorer=scorer)
    return [int(mark) for mark in score_task(task, read_task(task), Parrot(texts)).marks]


def test_scorers_of_the_house(task_path: str) -> None:
    assert marks(task_path, "exact", [" 1.", "1"]) == [1, 0]
    assert marks(task_path, "numeric", ["it is 1.0", None]) == [1, -1]


def test_an_own_scorer_sees_the_whole_line(task_path: str) -> None:
    assert marks(task_path, "own_scorers_of_a_test:by_weight", ["3", "3"]) == [1, 0]


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        ("own_scorers_of_a_test:graded", "returned float; a scorer says True"),
        ("own_scorers_of_a_test:broken", "KeyError"),
        ("own_scorers_of_a_test:missing", "has no 'missing'"),
        ("no_such_module_here:f", "no_such_module_here"),
    ],
)
def test_a_wrong_scorer_is_said(task_path: str, scorer: str, says: str) -> None:
    with pytest.raises(OwnCodeFailed, match=says) as raised:
        marks(task_path, scorer, ["1", "2"])
    assert "\n" not in str(raised.value)


def test_a_contract_with_a_wrong_task_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    def asked(task: str) -> None:
        text = served_contract("http://127.0.0.1:1/v1") + f"accuracy: {{task: {task}}}\n"
        check_asked(parse_contract(text, "served.yaml"))

    with pytest.raises(BadFile, match="no such file"):
        asked(f"{{file: {tmp_path}/none.jsonl}}")
    (tmp_path / "task.jsonl").write_text('{"prompt": "a", "answer": 1}\n')
    with pytest.raises(BadFile, match="needs 2 to 26 choices"):
        asked(f"{{file: {tmp_path}/task.jsonl, scorer: choice}}")
    with pytest.raises(OwnCodeFailed):
        asked(f"{{file: {tmp_path}/task.jsonl, scorer: 'no_such_module_here:f'}}")
    with pytest.raises(BadFile, match="tolerance"):
        asked(f"{{file: {tmp_path}/task.jsonl, scorer: exact, tolerance: 5 %}}")
