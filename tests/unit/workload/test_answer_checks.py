"""Forms of answers: every way to miss one is counted under its own words, and no answer is quoted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.model.asked_work import CheckedAnswers
from lynxbench.workload.answer_checks import AnswerCheck, read_check

SCHEMA = {
    "type": "object",
    "required": ["city", "days"],
    "properties": {
        "city": {"type": "string"},
        "days": {
            "type": "array",
            "items": {"type": "object", "required": ["t"], "properties": {"t": {"type": "integer"}}},
        },
        "unit": {"enum": ["C", "F"]},
        "note": {"type": ["string", "null"]},
    },
}
TOOLS = ({"type": "function", "function": {"name": "look", "parameters": SCHEMA}},)


def said(content: str = "", *calls: tuple[str, str]) -> str:
    return json.dumps({"content": content, "calls": calls})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"city": "Oslo", "days": [{"t": 3}, {"t": -1.0}], "unit": "C", "note": None, "more": 1}, ""),
        ({"city": "Oslo"}, "a required key is missing"),
        ({"city": 3, "days": []}, "a value of another type"),
        ({"city": "Oslo", "days": [{"t": True}]}, "a value of another type"),
        ({"city": "Oslo", "days": [{"t": 1.5}]}, "a value of another type"),
        ({"city": "Oslo", "days": [{}]}, "a required key is missing"),
        ({"city": "Oslo", "days": [], "unit": "K"}, "a value that is not listed"),
        ([], "a value of another type"),
    ],
)
def test_a_schema_is_held_against_the_answer(answer, problem):
    assert AnswerCheck("json", SCHEMA).problem(said(json.dumps(answer))) == problem
    wanted = f"arguments: {problem}" if problem else ""
    assert AnswerCheck("tools", tools=TOOLS).problem(said("", ("look", json.dumps(answer)))) == wanted


def test_calls_are_of_tools_that_were_offered():
    check = AnswerCheck("tools", tools=TOOLS)
    good = json.dumps({"city": "Oslo", "days": []})
    assert check.problem(said("I would rather talk.")) == "no tool called"
    assert check.problem(said("", ("look", good), ("jump", good))) == "a tool that was not offered"
    assert check.problem(said("", ("look", '{"city": '))) == "arguments: no JSON"


def test_figures_add_up():
    figures = AnswerCheck("json").figures([said("{}"), said("{"), said("no"), said("[1]")])
    assert (figures.checked, figures.valid, figures.problems) == (4, 2, {"no JSON": 2})


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        ("json", "[]", "is an object"),
        ("json", "{", "is not JSON"),
        ("tools", "[]", "tools are an array"),
        ("tools", '[{"function": {}}]', "tools are an array"),
        ("tools", "{}", "tools are an array"),
    ],
)
def test_a_file_that_tells_no_form_is_refused(tmp_path: Path, form: str, text: str, says: str):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(BadInput, match=says):
        read_check(CheckedAnswers.model_validate({"form": form, "file": str(tmp_path / "f.json")}))


def test_tools_need_their_file():
    with pytest.raises(ValueError, match="by name"):
        CheckedAnswers.model_validate({"form": "tools"})
