"""Whether answers are what was asked for: JSON, JSON of a schema, calls of known tools. Counted, never quoted.

The schema is looked at for types, required keys, listed values, and both inside objects and arrays; other words of
JSON Schema are the server's business, which may enforce them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lynxbench.errors import BadInput
from lynxbench.model.asked_work import CheckedAnswers
from lynxbench.model.load_figures import AnswerFigures, SourceFile
from lynxbench.workload.prompt_files import read_source

DEEPEST = 32
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "integer": (int,), "number": (int, float),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """What an answer must be, and how a request asks for it."""

    form: str
    schema: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()

    def request_fields(self) -> dict[str, object]:
        """What is added to every request."""
        if self.form == "tools":
            return {"tools": list(self.tools)}
        if self.schema is None:
            return {"response_format": {"type": "json_object"}}
        named = {"name": "answer", "schema": self.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def problem(self, answer: str) -> str:
        """Why an answer (as `structured.py` keeps it) is not of the form; empty where it is."""
        said = json.loads(answer)
        if self.form == "tools":
            return self._problem_of_calls(said["calls"])
        return _problem_of_text(said["content"], self.schema)

    def figures(self, answers: Iterable[str]) -> AnswerFigures:
        """How many are of the form."""
        problems = Counter(self.problem(answer) for answer in answers)
        valid = problems.pop("", 0)
        return AnswerFigures(
            form=self.form, checked=valid + problems.total(), valid=valid, problems=dict(sorted(problems.items()))
        )

    def _problem_of_calls(self, calls: list[list[str]]) -> str:
        if not calls:
            return "no tool called"
        for name, arguments in calls:
            tool = next((tool["function"] for tool in self.tools if tool["function"]["name"] == name), None)
            if tool is None:
                return "a tool that was not offered"
            problem = _problem_of_text(arguments, tool.get("parameters"))
            if problem:
                return f"arguments: {problem}"
        return ""


def read_check(answers: CheckedAnswers) -> tuple[AnswerCheck, SourceFile | None]:
    """What a contract asks of answers, with the file that says it."""
    if answers.file is None:
        return AnswerCheck(answers.form), None
    data, source = read_source(answers.file, "answers", answers.sha256)
    try:
        written = json.loads(data)
    except ValueError:
        raise BadInput(f"{answers.file}: is not JSON") from None
    if answers.form == "json":
        if not isinstance(written, dict):
            raise BadInput(f"{answers.file}: a JSON Schema is an object")
        return AnswerCheck("json", schema=written), source.model_copy(update={"rows": 1})
    functions = (
        [tool.get("function") if isinstance(tool, dict) else None for tool in written]
        if isinstance(written, list)
        else []
    )
    if not functions or not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in functions):
        raise BadInput(
            f"{answers.file}: tools are an array of {{type: function, function: {{name: …}}}}, as requests have"
        )
    return AnswerCheck("tools", tools=tuple(written)), source.model_copy(update={"rows": len(written)})


def _problem_of_text(text: str, schema: Mapping[str, Any] | None) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "no JSON"
    return "" if schema is None else _problem(value, schema, 0)


def _problem(value: object, schema: Mapping[str, Any], depth: int) -> str:
    """The first thing that a value lacks of a schema."""
    if depth > DEEPEST:
        return ""
    wanted = schema.get("type")
    kinds = wanted if isinstance(wanted, list) else [wanted] if isinstance(wanted, str) else []
    if kinds and not any(_is_of(value, kind) for kind in kinds):
        return "a value of another type"
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        return "a value that is not listed"
    if isinstance(value, dict):
        if any(key not in value for key in schema.get("required", ())):
            return "a required key is missing"
        known = schema.get("properties", {})
        inside = [(value[key], part) for key, part in known.items() if key in value and isinstance(part, dict)]
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        inside = [(item, schema["items"]) for item in value]
    else:
        return ""
    return next((problem for item, part in inside if (problem := _problem(item, part, depth + 1))), "")


def _is_of(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    whole = isinstance(value, float) and value.is_integer()
    return isinstance(value, _TYPES.get(kind, (object,))) or (kind == "integer" and whole)
