"""What the validator objects to, turned into one line that names file, line and key and says what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from lynxbench.contract.nodes import FileNode, shown
from lynxbench.contract.schema import Schema, contract_schema, resolved
from lynxbench.errors import BadContract
from lynxbench.model.units import format_duration, format_rate, format_ratio

PATTERN_WORDS: dict[str, str] = {
    r"^[a-z0-9][a-z0-9._-]{0,62}$": "use lower-case letters, digits, '.', '_' and '-', at most 63 of them",
    r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$": "control characters are not allowed",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$": "write the day as YYYY-MM-DD",
    r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$": "write it as module:function",
    r"^(auto|cpu|cuda(:\d+)?)$": "use auto, cpu, cuda or cuda:N",
}
"""What a pattern asks for, in words; a test holds that every pattern of the schema has its words."""

_UNITS: dict[str, Callable[[float], str]] = {
    "%$": format_ratio,
    "/(s|min|h)$": format_rate,
    "|s|min|h)$": format_duration,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One objection, at its place in the file."""

    key: str
    line: int | None
    says: str
    is_missing: bool = False
    meant: str = ""
    """The full key that an unknown one was probably meant to be."""


@dataclass(slots=True)
class _Place:
    """Where a validator's location leads in the file and in the schema."""

    node: FileNode
    schema: Schema
    line: int | None
    path: tuple[str, ...] = ()
    present: bool = True

    @property
    def key(self) -> str:
        return ".".join(shown(part) for part in self.path)


def refuse_contract(error: ValidationError, root: FileNode, file: str, prefix: str = "") -> BadContract:
    """The first problem of a contract as an error, with the number of the others."""
    problems = list_problems(error, root)
    first, others = problems[0], len(problems) - 1
    more = f" (and {others} more)" if others else ""
    key = ".".join(part for part in (prefix, first.key) if part)
    return BadContract(first.says + more, file=file, line=first.line, key=key)


def list_problems(error: ValidationError, root: FileNode) -> list[Problem]:
    """All problems in the order of the file; missing keys come last, because a misspelt one often explains them."""
    by_key: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        if _follows_from_entries(detail, root):
            continue
        problem = _explain(detail, root)
        by_key.setdefault(problem.key, problem)  # a union objects once for every member
    meant = {problem.meant for problem in by_key.values() if problem.meant}
    kept = [problem for problem in by_key.values() if not (problem.is_missing and problem.key in meant)]
    return sorted(kept, key=lambda problem: (problem.is_missing, problem.line or 0))


def _follows_from_entries(detail: Mapping[str, Any], root: FileNode) -> bool:
    # The validator counts only entries that are right, so one wrong entry also makes the list too short.
    items = _locate(detail["loc"], root).node.items
    return detail["type"] == "too_short" and items is not None and len(items) >= detail["ctx"]["min_length"]


def _explain(detail: Mapping[str, Any], root: FileNode) -> Problem:
    kind, context = detail["type"], detail.get("ctx", {})
    location = list(detail["loc"])
    if kind == "refused":
        location += [int(part) if part.isdigit() else part for part in context["key"].split(".")]
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        location.append(context["discriminator"].strip("'"))
    is_key = bool(location) and location[-1] == "[key]"
    place = _locate(location[:-1] if is_key else location, root)
    if kind == "extra_forbidden":
        return _unknown_key(location, place, root)
    if is_key and kind == "enum":
        layers = context["expected"].replace("'", "").replace(" or ", ", ")
        return Problem(place.key, place.line, f"unknown layer; the nine are {layers}")
    if kind == "missing":
        says = f"is missing: {place.schema.get('description', 'a required key')}"
        return Problem(place.key, place.line, says, is_missing=True)
    if kind == "union_tag_not_found":
        return Problem(place.key, place.line, f"is missing; write {_choice(_tags(detail, root))}", is_missing=True)
    return Problem(place.key, place.line, _objection(kind, context, detail, place, root))


def _objection(kind: str, context: Mapping[str, Any], detail: Mapping[str, Any], place: _Place, root: FileNode) -> str:
    if kind in ("refused", "value_error"):
        return str(context.get("problem") or context["error"])
    said = _said(place.node)
    if kind == "union_tag_invalid":
        return f"{said} is not known here; use {_choice(_tags(detail, root))}"
    if kind in ("enum", "literal_error"):
        return _not_one_of(said, str(place.node.value), context["expected"])
    schema = resolved(place.schema)
    if len(schema.get("anyOf", ())) > 1:
        return f"must be true, false, a number or a text, not {said}"
    if kind == "string_pattern_mismatch":
        return f"{said}: {PATTERN_WORDS.get(context['pattern'], 'does not have the right form')}"
    return _out_of_bounds(kind, context, schema, said) or _wrong_type(kind, place.node, said) or str(detail["msg"])


def _out_of_bounds(kind: str, context: Mapping[str, Any], schema: Schema, said: str) -> str:
    if kind in _BOUNDS:
        word, name = _BOUNDS[kind]
        return f"must be {word} {_in_unit(context[name], schema)}, not {said}"
    if kind in _SIZES:
        word, name = _SIZES[kind]
        unit = "characters" if kind.startswith("string") else "entries"
        return f"must have {word} {context[name]} {unit}"
    return ""


def _wrong_type(kind: str, node: FileNode, said: str) -> str:
    wanted = next((word for prefix, word in _WANTED.items() if kind.startswith(prefix)), "")
    if not wanted:
        return ""
    hint = "; put it in quotes" if wanted == "a text" and node.value is not None else ""
    return f"must be {wanted}, not {said}{hint}"


_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_SIZES = {
    "string_too_short": ("at least", "min_length"),
    "string_too_long": ("at most", "max_length"),
    "too_short": ("at least", "min_length"),
    "too_long": ("at most", "max_length"),
}
_WANTED = {
    "int_": "a whole number",
    "float_": "a number",
    "string_type": "a text",
    "bool_": "true or false",
    "model_": "a mapping of keys",
    "dict_": "a mapping of keys",
    "tuple_": "a list",
    "list_": "a list",
}


def _locate(location: Iterable[str | int], root: FileNode) -> _Place:
    place = _Place(root, contract_schema(), root.line)
    for part in location:
        schema, node = resolved(place.schema), place.node
        tagged = schema.get("discriminator")
        if tagged is not None:
            tag = _tag_of(node, tagged["propertyName"])
            if part == tag:  # a discriminated union adds its tag to the location
                place.schema = {"$ref": tagged["mapping"][tag]}
                continue
        known = schema.get("properties", {})
        if node.entries is not None and isinstance(part, str) and part in node.entries:
            entry = node.entries[part]
            inner = known.get(part) or _any_property(schema)
            place = _Place(entry.node, inner, entry.line, (*place.path, part))
        elif node.items is not None and isinstance(part, int) and part < len(node.items):
            item = node.items[part]
            place = _Place(item, schema.get("items", {}), item.line, (*place.path, str(part)))
        elif part in known or (tagged is not None and part == tagged["propertyName"]):
            return _Place(node, known.get(part, {}), place.line, (*place.path, str(part)), present=False)
        # else: the name of a union's member, which is no place in the file
    return place


def _any_property(schema: Schema) -> Schema:
    patterned = schema.get("patternProperties")
    if patterned:
        return dict(next(iter(patterned.values())))
    inner = schema.get("additionalProperties")
    return inner if isinstance(inner, dict) else {}


def _tag_of(node: FileNode, name: str) -> object:
    if node.entries is None or name not in node.entries:
        return None
    return node.entries[name].node.value


def _unknown_key(location: list[str | int], place: _Place, root: FileNode) -> Problem:
    parent = _locate(location[:-1], root)
    known = list(resolved(parent.schema).get("properties", {}))
    missing = [name for name in known if parent.node.entries is None or name not in parent.node.entries]
    close = difflib.get_close_matches(str(location[-1]), missing, n=1) or difflib.get_close_matches(
        str(location[-1]), known, n=1
    )
    if close:
        return Problem(
            place.key, place.line, f"unknown key; did you mean {close[0]}?", meant=".".join((*parent.path, close[0]))
        )
    return Problem(place.key, place.line, f"unknown key; known here: {', '.join(known)}")


def _tags(detail: Mapping[str, Any], root: FileNode) -> list[str]:
    schema = resolved(_locate(detail["loc"], root).schema)
    by_reference = {target: str(tag) for tag, target in schema["discriminator"]["mapping"].items()}
    return [by_reference[part["$ref"]] for part in schema["oneOf"]]


def _not_one_of(said: str, written: str, expected: str) -> str:
    options = expected.replace("'", "").replace(" or ", ", ").split(", ")
    if len(options) == 1:
        return f"must be {options[0]}, not {said}"
    close = difflib.get_close_matches(written.lower(), options, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{said} is not one of {', '.join(options)}{hint}"


def _said(node: FileNode) -> str:
    if node.entries is not None or node.items is not None:
        return node.kind
    if isinstance(node.value, bool):
        return str(node.value).lower()
    if node.value is None:
        return "nothing"
    if isinstance(node.value, str):
        word = shown(node.value)
        return word if word.startswith(("'", '"')) else f"'{word}'"
    return shown(node.value)


def _in_unit(bound: float, schema: Schema) -> str:
    for ending, write in _UNITS.items():
        if str(schema.get("pattern", "")).endswith(ending):
            return write(bound)
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _choice(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
