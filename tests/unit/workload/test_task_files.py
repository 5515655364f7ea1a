"""Task files of users: read strictly, wrong lines said by their number."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lynxbench.errors import BadFile
from lynxbench.model.accuracy_asked import LabelledTask
from lynxbench.workload.task_files import parse_task, read_task

GOOD = """\
{"prompt": "2 + 2 =", "answer": 4}

{"messages": [{"role": "user", "content": "Is snow white?"}], "answer": ["yes", "it is"], "id": "q7"}
"""
CHOICES = """\
{"prompt": "Which is a mammal?", "choices": ["trout", "lynx"], "answer": 1}
{"prompt": "Which is a mammal?", "choices": ["trout", "lynx"], "answer": "lynx"}
{"prompt": "Which is a mammal?", "choices": ["trout", "lynx"], "answer": "b"}
"""


def test_prompts_and_chats_with_their_answers() -> None:
    first, second = parse_task(GOOD, "task.jsonl", needs_choices=False)
    assert (first.prompt, first.answers, first.messages) == ("2 + 2 =", ("4",), ())
    assert second.answers == ("yes", "it is")
    assert second.messages == ({"role": "user", "content": "Is snow white?"},)
    assert second.row["id"] == "q7"


def test_a_choice_is_named_by_place_text_or_letter() -> None:
    assert [prompt.right for prompt in parse_task(CHOICES, "task.jsonl", needs_choices=True)] == [1, 1, 1]


def test_letters_stand_below_the_question() -> None:
    (prompt, *_) = parse_task(CHOICES, "task.jsonl", needs_choices=True)
    assert prompt.lettered().prompt.splitlines()[:3] == ["Which is a mammal?", "A. trout", "B. lynx"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "is not an object"),
        ('{"answer": "4"}', "needs either prompt"),
        ('{"prompt": "a", "messages": [], "answer": "4"}', "not both"),
        ('{"prompt": " ", "answer": "4"}', "not empty"),
        ('{"prompt": "a"}', "answer must be a text"),
        ('{"prompt": "a", "answer": []}', "answer must be a text"),
        ('{"prompt": "a", "answer": true}', "answer must be a text"),
        ('{"messages": ["hi"], "answer": "4"}', "messages must be a list"),
        ('{"prompt": "a", "prompt": "b", "answer": "4"}', "written twice"),
    ],
)
def test_a_wrong_line_is_said_by_its_number(line: str, says: str) -> None:
    with pytest.raises(BadFile, match=says) as raised:
        parse_task(f'{{"prompt": "a", "answer": "b"}}\n{line}\n', "task.jsonl", needs_choices=False)
    assert raised.value.line == 2
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"prompt": "a", "choices": ["x"], "answer": 0}', "needs 2 to 26 choices"),
        ('{"prompt": "a", "choices": ["x", "y"], "answer": 2}', "no place among 2"),
        ('{"prompt": "a", "choices": ["x", "y"], "answer": "z"}', "must name one of the choices"),
        ('{"prompt": "a", "answer": 0}', "needs 2 to 26 choices"),
    ],
)
def test_a_wrong_choice_is_said(line: str, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        parse_task(line, "task.jsonl", needs_choices=True)


def test_a_pinned_file_that_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    file.write_text(GOOD)
    sha256 = hashlib.sha256(GOOD.encode()).hexdigest()
    assert read_task(LabelledTask(file=str(file), sha256=sha256)).sha256 == sha256
    assert len(read_task(LabelledTask(file=str(file), most=1)).prompts) == 1
    file.write_text(GOOD.replace("4", "5"))
    with pytest.raises(BadFile, match="the contract pins"):
        read_task(LabelledTask(file=str(file), sha256=sha256))
    with pytest.raises(BadFile, match="no such file"):
        read_task(LabelledTask(file=str(tmp_path / "none.jsonl")))
    file.write_text("\n\n")
    with pytest.raises(BadFile, match="holds no question"):
        read_task(LabelledTask(file=str(file)))
