"""Renders the few forms of Helm's templates that our chart uses. It is not Helm: it finds templates that do not close,
values that are not there and YAML that does not parse, and refuses every form that it does not know."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ACTION = re.compile(r"(?:\s*\{\{-|\{\{)\s*([^{}]*?)\s*(?:-\}\}\s*|\}\})")
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
Block = list[Any]


def read_yaml(text: str) -> Any:
    return YAML(typ="safe").load(text)


class Chart:
    """A chart's folder, and what a release of it would be."""

    def __init__(self, folder: Path, values: dict[str, Any]) -> None:
        self.about = read_yaml((folder / "Chart.yaml").read_text())
        self.given = {"Values": values, "Release": {"Name": "bench"}, "Chart": {"AppVersion": self.about["appVersion"]}}
        self.defined: dict[str, Block] = {}
        self.files = {path.name: parse(path.read_text()) for path in sorted((folder / "templates").iterdir())}
        for block in self.files.values():
            self.defined |= {part[1]: part[2] for part in block if isinstance(part, tuple) and part[0] == "define"}

    def render(self, name: str) -> str:
        return self._text(self.files[name], self.given)

    def documents(self) -> dict[str, Any]:
        """What each template comes to, by its kind; those that come to nothing are left out."""
        made = (read_yaml(self.render(name)) for name in self.files if name.endswith(".yaml"))
        return {document["kind"]: document for document in made if document is not None}

    def _text(self, block: Block, dot: Any) -> str:
        return "".join(self._part(part, dot) for part in block)

    def _part(self, part: Any, dot: Any) -> str:
        if isinstance(part, str):
            return part
        kind, said, inner, *other = part
        if kind == "define":
            return ""
        value = self._value(said, dot)
        if kind == "show":
            return str(value).lower() if isinstance(value, bool) else str(value)
        if kind == "range":
            return "".join(self._text(inner, each) for each in value)
        if value:
            return self._text(inner, value if kind == "with" else dot)
        return self._text(other[0], dot) if other else ""

    def _value(self, said: str, dot: Any) -> Any:
        first, *pipes = [WORD.findall(part) for part in re.split(r"\s+\|\s+", said)]
        value = self._call(first, dot, ())
        for pipe in pipes:
            value = self._call(pipe, dot, (value,))
        return value

    def _call(self, words: list[str], dot: Any, piped: tuple[Any, ...]) -> Any:
        name, *rest = words
        if name.startswith((".", '"')) or name.isdigit():
            assert not rest, words
            assert not piped, words
            return self._term(name, dot)
        given = [*(self._term(word, dot) for word in rest), *piped]
        match name, given:
            case "include", [text, _]:
                return self._text(self.defined[text], dot)
            case "not", [value]:
                return not value
            case "quote", [value]:
                return json.dumps(str(value))
            case "default", [other, value]:
                return value or other
            case "trunc", [many, value]:
                return value[:many]
            case "trimSuffix", [end, value]:
                return value.removesuffix(end)
            case "nindent", [many, value]:
                return "".join(f"\n{' ' * many}{line}" for line in value.splitlines())
            case "toYaml", [value]:
                stream = io.StringIO()
                YAML(typ="safe", pure=True).dump(value, stream)
                return stream.getvalue().removesuffix("...\n").rstrip("\n")
        raise AssertionError(f"no form that is known here: {words}")

    def _term(self, word: str, dot: Any) -> Any:
        if word == ".":
            return dot
        if word.startswith('"'):
            return json.loads(word)
        if word.isdigit():
            return int(word)
        value: Any = self.given
        for name in word.removeprefix(".").split("."):
            value = value[name]  # a value that is not in values.yaml is a mistake here
        return value


def parse(text: str) -> Block:
    """Text and actions, nested as they open and close."""
    block, rest = _block(_pieces(text))
    assert rest == "", "an `end` too many, or an `else` without its `if`"
    return block


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    for found in ACTION.finditer(text):
        yield "text", text[at : found.start()]
        yield "action", found[1]
        at = found.end()
    yield "text", text[at:]


def _block(pieces: Iterator[tuple[str, str]]) -> tuple[Block, str]:
    block: Block = []
    for kind, said in pieces:
        if kind == "text":
            assert "{{" not in said, said
            block.append(said)
            continue
        word, _, about = said.partition(" ")
        if word in ("end", "else"):
            return block, word
        if word not in ("if", "with", "range", "define"):
            block.append(("show", said, []))
            continue
        inner, ended = _block(pieces)
        parts = [inner]
        if ended == "else":
            other, ended = _block(pieces)
            parts.append(other)
        assert ended == "end", f"{said}: not closed"
        block.append((word, json.loads(about) if word == "define" else about, *parts))
    return block, ""
