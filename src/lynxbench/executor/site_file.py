"""Strict YAML with line numbers: no duplicate keys, no anchors, no tags, no surprises in how a scalar is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from lynxbench.errors import BadInput

LARGEST_FILE_BYTES = 256 * 1024
DEEPEST = 16

_STRING_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp")


@dataclass(frozen=True, slots=True)
class LinedYaml:
    """Plain values, and the line each key path was written on."""

    value: JsonValue
    lines: dict[tuple[str | int, ...], int]

    def line_of(self, path: tuple[str | int, ...]) -> int | None:
        """The line of a path, or of the nearest part of it that was written."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def parse_lined_yaml(text: str, file: str) -> LinedYaml:
    """The document's values; BadInput with file and line where it is not plain, strict YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(text.encode("utf-8", errors="replace")) > LARGEST_FILE_BYTES:
        raise BadInput(f"{file}: larger than {LARGEST_FILE_BYTES // 1024} KiB; a site file is a page at most")
    reader = YAML(typ="safe", pure=True)
    try:
        events = list(reader.parse(text))
        for event in events:
            if getattr(event, "anchor", None) is not None:
                raise BadInput(
                    f"{file}:{event.start_mark.line + 1}: anchors and aliases are not allowed; write the value out"
                )
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        raise BadInput(f"{where}: not YAML: {' '.join(str(problem.problem or problem.context).split())}") from None
    except (YAMLError, RecursionError, ValueError) as problem:
        raise BadInput(f"{file}: not YAML: {' '.join(str(problem).split())}") from None
    if node is None:
        raise BadInput(f"{file}:1: the file is empty; begin it with `lynxbench: 1`")
    lines: dict[tuple[str | int, ...], int] = {(): node.start_mark.line + 1}
    return LinedYaml(_plain(node, (), lines, file), lines)


def _plain(node: Any, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int], file: str) -> JsonValue:
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if len(path) > DEEPEST:
        raise BadInput(f"{file}:{node.start_mark.line + 1}: nested more than {DEEPEST} deep")
    if isinstance(node, ScalarNode):
        return _scalar(node, file)
    if isinstance(node, SequenceNode):
        items: list[JsonValue] = []
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            items.append(_plain(item, (*path, index), lines, file))
        return items
    assert isinstance(node, MappingNode)
    values: dict[str, JsonValue] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, ScalarNode) else None
        if not isinstance(key, str):
            raise BadInput(f"{file}:{line}: a key must be a plain word")
        if key in values:
            raise BadInput(f"{file}:{line}: {_dotted((*path, key))}: written twice; keep one")
        lines[(*path, key)] = line
        values[key] = _plain(value_node, (*path, key), lines, file)
    return values


def _scalar(node: Any, file: str) -> JsonValue:
    tag = str(node.tag)
    if tag in _STRING_TAGS:
        return str(node.value)
    where = f"{file}:{node.start_mark.line + 1}"
    kind = tag.rpartition(":")[2]
    if kind not in ("int", "float", "bool", "null"):
        raise BadInput(f"{where}: tag {tag} is not allowed; write a plain value")
    if kind == "null":
        return None
    if kind == "bool":
        return bool(str(node.value).lower() == "true")
    digits = str(node.value).replace("_", "")
    try:
        number = int(digits, 0) if kind == "int" else float(digits)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(
            f"{where}: {node.value!r} cannot be recorded as a number; write plain digits, or quote it as text"
        )
    return number


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in path)
