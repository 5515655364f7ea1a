"""What a validator objects to, turned into one line that names file, line and key and says what would be right."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from lynxbench.model.file_nodes import WORDS, FileNode, shown
from lynxbench.model.quantities import format_duration, format_rate, format_ratio

Schema = dict[str, Any]
Detail = Mapping[str, Any]
"""One objection as the validator gives it."""

PATTERN_WORDS: dict[str, str] = WORDS["patterns"]
_UNITS: dict[str, Callable[[float], str]] = {
    "%$": format_ratio,
    "/(s|min|h)$": format_rate,
    "|s|min|h)$": format_duration,
}


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One objection, at its place in the file."""

    key: str
    line: int | None
    says: str
    is_missing: bool = False
    is_general: bool = False
    """Says of a union that none of its members fits; what a member itself objects to says more."""
    meant: str = ""
    """The full key that an unknown one was probably meant to be."""


@dataclass(slots=True)
class _Place:
    """Where a validator's location leads in the file and in the schema."""

    node: FileNode
    schema: Schema
    line: int | None
    path: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return ".".join(shown(part) for part in self.path)


def list_problems(error: ValidationError, root: FileNode, schema: Schema) -> list[FileProblem]:
    """All problems in the order of the file; missing keys come last, because a misspelt one often explains them."""
    return _Explainer(root, schema).problems(error)


def resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The schema behind references and `or null`; other unions stay as they are."""
    while True:
        if "$ref" in schema:
            schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
            continue
        members = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
        if len(members) != 1:
            return schema
        schema = members[0]


@dataclass(frozen=True, slots=True)
class _Explainer:
    root: FileNode
    schema: Schema

    def problems(self, error: ValidationError) -> list[FileProblem]:
        by_key: dict[str, FileProblem] = {}
        for detail in error.errors(include_url=False):
            if self._follows_from_entries(detail):
                continue
            problem = self._explain(detail)
            if problem.key not in by_key or by_key[problem.key].is_general:  # a union objects once for every member
                by_key[problem.key] = problem
        meant = {problem.meant for problem in by_key.values() if problem.meant}
        problems = [
            problem
            for problem in by_key.values()
            if not (problem.is_missing and problem.key in meant)
            and not (problem.is_general and any(key.startswith(f"{problem.key}.") for key in by_key))
        ]
        return sorted(problems, key=lambda problem: (problem.is_missing, problem.line or 0))

    def _resolved(self, schema: Schema) -> Schema:
        return resolved(schema, self.schema.get("$defs", {}))

    def _follows_from_entries(self, detail: Detail) -> bool:
        # The validator counts only entries that are right, so one wrong entry also makes the list too short.
        items = self._locate(detail["loc"]).node.items
        return detail["type"] == "too_short" and items is not None and len(items) >= detail["ctx"]["min_length"]

    def _explain(self, detail: Detail) -> FileProblem:
        kind, context = detail["type"], detail.get("ctx", {})
        location = list(detail["loc"])
        if kind == "refused":
            location += [int(part) if part.isdigit() else part for part in context["key"].split(".")]
        elif kind in ("union_tag_not_found", "union_tag_invalid"):
            location.append(context["discriminator"].strip("'"))
        is_key = bool(location) and location[-1] == "[key]"
        place = self._locate(location[:-1] if is_key else location)
        if kind == "extra_forbidden":
            return self._unknown_key(location, place)
        if is_key and kind == "enum":
            return self._unknown_name(location[:-2], place, _options(context["expected"]))
        if kind == "missing":
            return FileProblem(place.key, place.line, self._missing(place), is_missing=True)
        if kind == "union_tag_not_found":
            says = f"is missing; write {_choice(self._tags(detail))}"
            return FileProblem(place.key, place.line, says, is_missing=True)
        if kind == "string_pattern_mismatch" and is_key:
            return FileProblem(place.key, place.line, _pattern_words(context["pattern"]))
        says = self._objection(kind, context, detail, place)
        return FileProblem(place.key, place.line, says or self._union(place), is_general=not says)

    def _objection(self, kind: str, context: Detail, detail: Detail, place: _Place) -> str:
        """What is wrong with a value; empty where it is of none of the kinds that a union takes."""
        if kind in ("refused", "value_error"):
            return str(context.get("problem") or context["error"])
        written = _written(place.node)
        if kind == "union_tag_invalid":
            return f"{written} is not known here; use {_choice(self._tags(detail))}"
        if kind in ("enum", "literal_error"):
            return _not_one_of(written, str(place.node.value), context["expected"])
        if kind == "string_pattern_mismatch":
            return f"{written}: {_pattern_words(context['pattern'])}"
        schema = self._resolved(place.schema)
        if says := _out_of_bounds(kind, context, schema, written):
            return says
        if len(schema.get("anyOf", ())) > 1:
            return ""
        return _wrong_type(kind, place.node, written) or str(detail["msg"])

    def _union(self, place: _Place) -> str:
        members = [self._resolved(member).get("type", "object") for member in self._resolved(place.schema)["anyOf"]]
        words = list(dict.fromkeys(WORDS["members"][kind] for kind in members if kind != "null"))
        return f"must be {_choice(words)}, not {_written(place.node)}"

    def _missing(self, place: _Place) -> str:
        schema = self._resolved(place.schema)
        if "const" in schema:
            return f"is missing; write `{place.path[-1]}: {schema['const']}`"
        return f"is missing: {place.schema.get('description') or schema.get('description', 'a required key')}"

    def _locate(self, location: Iterable[str | int]) -> _Place:
        place = _Place(self.root, self.schema, self.root.line)
        for part in location:
            node = place.node
            schema = self._member(place.schema, node)
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
                return _Place(node, known.get(part, {}), place.line, (*place.path, str(part)))
            # else: the name of a union's member, which is no place in the file
        return place

    def _member(self, schema: Schema, node: FileNode) -> Schema:
        """The schema that holds for a node: of a union, the member for mappings or the one for lists."""
        schema = self._resolved(schema)
        kind = "object" if node.entries is not None else "array"
        members = [self._resolved(member) for member in schema.get("anyOf", ())]
        return next((member for member in members if member.get("type") == kind), schema)

    def _unknown_key(self, location: list[str | int], place: _Place) -> FileProblem:
        parent = self._locate(location[:-1])
        known = list(self._member(parent.schema, parent.node).get("properties", {}))
        missing = [name for name in known if parent.node.entries is None or name not in parent.node.entries]
        close = _close(str(location[-1]), missing) or _close(str(location[-1]), known)
        if close:
            meant = ".".join((*parent.path, close))
            return FileProblem(place.key, place.line, f"unknown key; did you mean {close}?", meant=meant)
        return FileProblem(place.key, place.line, f"unknown key; known here: {', '.join(known)}")

    def _unknown_name(self, above: list[str | int], place: _Place, names: list[str]) -> FileProblem:
        parent = self._locate(above)
        kind = self._member(parent.schema, parent.node).get("propertyNames", {}).get("$ref", "name").rpartition("/")[2]
        close = _close(place.path[-1], names)
        hint = f"did you mean {close}?" if close else f"use one of {', '.join(names)}"
        return FileProblem(place.key, place.line, f"unknown {kind.lower()}; {hint}")

    def _tags(self, detail: Detail) -> list[str]:
        schema = self._resolved(self._locate(detail["loc"]).schema)
        by_reference = {target: str(tag) for tag, target in schema["discriminator"]["mapping"].items()}
        return [by_reference[part["$ref"]] for part in schema["oneOf"]]


def _out_of_bounds(kind: str, context: Detail, schema: Schema, written: str) -> str:
    if kind in WORDS["bounds"]:
        word, name = WORDS["bounds"][kind]
        return f"must be {word} {_in_unit(context[name], schema)}, not {written}"
    if kind in WORDS["sizes"]:
        word, name = WORDS["sizes"][kind]
        singular, plural = ("character", "characters") if kind.startswith("string") else ("entry", "entries")
        return f"must have {word} {context[name]} {singular if context[name] == 1 else plural}"
    return ""


def _wrong_type(kind: str, node: FileNode, written: str) -> str:
    wanted = next((word for prefix, word in WORDS["wanted"].items() if kind.startswith(prefix)), "")
    if not wanted:
        return ""
    hint = "; put it in quotes" if wanted == "a text" and node.value is not None else ""
    return f"must be {wanted}, not {written}{hint}"


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


def _not_one_of(written: str, value: str, expected: str) -> str:
    options = _options(expected)
    if len(options) == 1:
        return f"must be {options[0]}, not {written}"
    close = _close(value.lower(), options)
    hint = f"; did you mean {close}?" if close else ""
    return f"{written} is not one of {', '.join(options)}{hint}"


def _options(expected: str) -> list[str]:
    return expected.replace("'", "").replace(" or ", ", ").split(", ")


def _close(word: str, names: list[str]) -> str:
    return next(iter(difflib.get_close_matches(word, names, n=1)), "")


def _written(node: FileNode) -> str:
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


def _pattern_words(pattern: str) -> str:
    return PATTERN_WORDS.get(pattern, "does not have the right form")


def _choice(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
