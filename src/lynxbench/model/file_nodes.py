"""YAML 1.2 text to plain nodes that know their lines. Safe on hostile text: bounded in size, depth and aliases.

Built from parser events rather than from constructed objects, so that no tag is ever acted on, an alias is counted by
what it expands to before it expands, and a duplicate key is seen before the second one wins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)
from ruamel.yaml.reader import ReaderError

from lynxbench.errors import BadFile
from lynxbench.model.canonical import EXACT_INTEGER
from lynxbench.tables import read_table

WORDS = read_table("model/file_words.toml")
LARGEST_FILE_BYTES = 1 << 20
"""A person writes far less; a recorded length list of 100 000 entries still fits."""
MOST_NODES = 150_000
"""After aliases are expanded; above the 100 000 lengths an empirical distribution may list."""
DEEPEST = 24
"""An experiment with a contract in it needs 10."""
LONGEST_WORD = 60
"""Characters of somebody's text repeated in an error line."""

LONGEST_REASON = 160
"""Characters of the YAML parser's own words."""

Plain = None | bool | int | float | str

# The YAML 1.2 core schema (section 10.3.2), without octal and hexadecimal integers: nobody means them here.
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_ODD_NUMBER = re.compile(r"0[xob][0-9a-fA-F]+|[-+]?[0-9]+(_[0-9]+)+")
_CORE = "tag:yaml.org,2002:"
_QUOTE = "or quote it as text"
_QUOTE_IT = "quote what is meant as text"
_TOO_LARGE = f"is too large a number; the largest is {EXACT_INTEGER}, {_QUOTE}"


@dataclass(slots=True)
class FileNode:
    """A value of the file with the line it stands on; `line` is None where the source has no lines."""

    line: int | None
    value: Plain = None
    items: list[FileNode] | None = None
    entries: dict[str, KeyedNode] | None = None
    size: int = 1
    height: int = 1

    @property
    def kind(self) -> str:
        """What it is, in a word that fits into an error line."""
        if self.entries is not None:
            return "a mapping"
        if self.items is not None:
            return "a list"
        names: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        return "nothing" if self.value is None else names[type(self.value)]

    def plain(self) -> object:
        """The bare value, as JSON would carry it."""
        if self.entries is not None:
            return {key: entry.node.plain() for key, entry in self.entries.items()}
        if self.items is not None:
            return [item.plain() for item in self.items]
        return self.value


@dataclass(slots=True)
class KeyedNode:
    """A key's value and the line of the key."""

    line: int | None
    node: FileNode


def shown(text: object) -> str:
    """Somebody's text made safe for one error line: quoted, escaped and cut."""
    word = str(text)
    cut = word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"
    return cut if cut.isprintable() and cut == cut.strip() and cut else ascii(cut)


def parse_nodes(text: str, file: str, noun: str, begin: str) -> FileNode:
    """The keys of a YAML text's one document; BadFile on anything that such a file (`noun`) has no use for.

    `begin` says how a person starts one that is still empty.
    """
    if len(text) > LARGEST_FILE_BYTES:
        raise BadFile(f"is larger than {LARGEST_FILE_BYTES >> 20} MiB; {noun} is not", file=file, line=1)
    root = _Builder(_parse_events(text.removeprefix("\ufeff"), file), file, noun).build()
    if root is None:
        raise BadFile(f"is empty; {begin}", file=file, line=1)
    if root.entries is None:
        raise BadFile(f"{noun} is a mapping of keys, not {root.kind}; {begin}", file=file, line=root.line)
    return root


def nodes_from_json(value: object, file: str, line: int | None = None, depth: int = 1) -> FileNode:
    """The same nodes from an already parsed JSON value; all of them stand on the given line."""
    problem = f"is nested deeper than {DEEPEST} levels" if depth > DEEPEST else _wrong_with(value)
    if problem:
        raise BadFile(problem, file=file, line=line)
    if isinstance(value, list):
        return FileNode(line, items=[nodes_from_json(item, file, line, depth + 1) for item in value])
    if isinstance(value, dict):
        entries = {key: KeyedNode(line, nodes_from_json(item, file, line, depth + 1)) for key, item in value.items()}
        return FileNode(line, entries=entries)
    assert value is None or isinstance(value, bool | int | float | str)  # JSON has nothing else
    return FileNode(line, value=value)


def _parse_events(text: str, file: str) -> Iterator[Event]:
    yaml = YAML(typ="safe", pure=True)
    line = 1
    try:
        for event in yaml.parse(text):
            line = event.start_mark.line + 1
            yield event
    except ReaderError as error:
        at = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise BadFile(f"character U+{code:04X} is not allowed in YAML", file=file, line=at) from None
    except MarkedYAMLError as error:
        # What was never closed is found at the end of the file, but is to be mended where it was opened.
        is_open = error.context_mark is not None and re.search("end of stream|<stream end>", str(error.problem))
        mark = error.context_mark if is_open else error.problem_mark or error.context_mark
        at = mark.line + 1 if mark is not None else line
        raise BadFile(_syntax_problem(error, text, at), file=file, line=at) from None
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError, RecursionError) as error:
        # The parser itself stumbles over some malformed escapes and directives.
        raise BadFile(
            f"is not YAML: {_one_line(str(error))}; mend the escape or directive here", file=file, line=line
        ) from None


def _syntax_problem(error: MarkedYAMLError, text: str, line: int) -> str:
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())] or "'\\t'" in str(error.problem):
        return "a tab is used to indent; YAML wants spaces"
    words = _one_line(" ".join(str(part) for part in (error.context, error.problem) if part))
    remedy = next((remedy for part, remedy in WORDS["remedies"].items() if part in words), _QUOTE_IT)
    return f"is not YAML: {words}; {remedy}"


def _one_line(text: str) -> str:
    words = " ".join(text.split())[:LONGEST_REASON]
    return words if words.isprintable() else ascii(words)


class _Builder:
    """Turns events into nodes, refusing as early as the offence is visible."""

    def __init__(self, events: Iterator[Event], file: str, noun: str) -> None:
        self.events, self.file, self.noun = events, file, noun
        self.anchors: dict[str, FileNode | None] = {}
        self.path: list[str] = []
        self.total = 0

    def build(self) -> FileNode | None:
        """The one document; None where there is none."""
        root = None
        documents = 0
        for event in self.events:
            line = event.start_mark.line + 1
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(f"a second document starts here; {self.noun} is one document", line)
                if event.version is not None and tuple(event.version) != (1, 2):
                    self._refuse(f"{self.noun} is YAML 1.2; remove the %YAML line", 1)
            elif isinstance(event, NodeEvent):
                root = self._node(event)
        return root

    def _node(self, event: Event) -> FileNode:
        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent):
            return self._aliased(event.anchor, line)
        if isinstance(event, ScalarEvent):
            node = FileNode(line, value=self._resolve(event, line), size=_weight(event.value))
            self._count(node.size, line)
        else:
            assert isinstance(event, CollectionStartEvent)  # nothing else begins a node
            node = self._collection(event, line)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _collection(self, event: CollectionStartEvent, line: int) -> FileNode:
        is_mapping = isinstance(event, MappingStartEvent)
        if event.tag is not None and event.tag != f"{_CORE}{'map' if is_mapping else 'seq'}":
            self._refuse(f"the tag {shown(event.tag)} has no meaning in {self.noun}; remove it", line)
        if len(self.path) >= DEEPEST:
            self._refuse(f"is nested deeper than {DEEPEST} levels", line, self.path[:1])
        self._count(1, line)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        entries: dict[str, KeyedNode] = {}
        items: list[FileNode] = []
        size = height = 1
        while not isinstance(inner := next(self.events), MappingEndEvent | SequenceEndEvent):
            key_line = inner.start_mark.line + 1
            key = self._key(inner, key_line, entries) if is_mapping else str(len(items))
            self.path.append(key)
            if is_mapping:
                node = self._node(next(self.events))
                entries[key] = KeyedNode(key_line, node)
                size += _weight(key)
            else:
                node = self._node(inner)
                items.append(node)
            self.path.pop()
            size += node.size
            height = max(height, node.height + 1)
        if is_mapping:
            return FileNode(line, entries=entries, size=size, height=height)
        return FileNode(line, items=items, size=size, height=height)

    def _key(self, event: Event, line: int, before: Mapping[str, KeyedNode]) -> str:
        if isinstance(event, AliasEvent):
            self._refuse("an alias cannot be a key; write the key out", line)
        if not isinstance(event, ScalarEvent):
            self._refuse("a key must be a plain word, not a list or mapping", line)
        key: str = event.value
        if problem := _wrong_with(key):
            self._refuse(problem, line)
        if event.tag is not None and event.tag != f"{_CORE}str":
            tag = shown(event.tag)
            self._refuse(f"key {shown(key)} carries the tag {tag}; tags have no meaning in {self.noun}", line)
        if key == "<<" and event.style is None:
            self._refuse("merge keys (<<) are not part of YAML 1.2; write the keys out", line, [*self.path, key])
        if key in before:
            says = f"key is written twice; the first is on line {before[key].line}; keep one"
            self._refuse(says, line, [*self.path, key])
        if event.anchor is not None:
            self.anchors[event.anchor] = FileNode(line, value=key, size=_weight(key))
        self._count(_weight(key), line)
        return key

    def _aliased(self, name: str, line: int) -> FileNode:
        if name not in self.anchors:
            self._refuse(f"alias *{shown(name)} names no anchor above it", line)
        target = self.anchors[name]
        if target is None:
            self._refuse(f"alias *{shown(name)} stands inside what it names, which has no end", line)
        if len(self.path) + target.height > DEEPEST:
            self._refuse(f"alias *{shown(name)} nests deeper than {DEEPEST} levels", line)
        self._count(target.size, line)
        return target

    def _resolve(self, event: ScalarEvent, line: int) -> Plain:
        tag, text = event.tag, event.value
        is_string = event.style is not None
        if tag is not None:
            if tag not in (f"{_CORE}str", "!"):
                self._refuse(f"the tag {shown(tag)} has no meaning in {self.noun}; remove it", line)
            is_string = True
        value = text if is_string else self._core(text, line)
        if problem := _wrong_with(value):
            self._refuse(problem, line)
        return value

    def _core(self, text: str, line: int) -> Plain:
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if _NOT_FINITE.fullmatch(text):
            self._refuse(f"{text} is not a finite number", line)
        if _ODD_NUMBER.fullmatch(text):
            self._refuse(f"{shown(text)} is an unusual spelling of a number; write plain digits, {_QUOTE}", line)
        if _INTEGER.fullmatch(text):
            digits = text.lstrip("+-").lstrip("0") or "0"
            if len(digits) > len(str(EXACT_INTEGER)):
                self._refuse(f"{shown(text)} {_TOO_LARGE}", line)
            if len(digits) < len(text.lstrip("+-")):
                self._refuse(f"{shown(text)} has leading zeros; write {int(text)}, {_QUOTE}", line)
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        return text

    def _count(self, more: int, line: int) -> None:
        self.total += more
        if self.total > MOST_NODES:
            self._refuse(f"expands to more than {MOST_NODES} values; {self.noun} needs far fewer", line)

    def _refuse(self, problem: str, line: int, path: Sequence[str] | None = None) -> NoReturn:
        key = ".".join(map(shown, self.path if path is None else path))
        raise BadFile(problem, file=self.file, line=line, key=key)


def _weight(text: str) -> int:
    # A long text that is aliased many times weighs like many values.
    return 1 + len(text) // 100


def _wrong_with(value: object) -> str:
    """What makes a value one that no file can hold; empty where nothing does."""
    if isinstance(value, dict):
        value = "".join(value)
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        return "half of a character (a lone surrogate) is no text"
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if isinstance(value, int) and abs(value) > EXACT_INTEGER:
        return _TOO_LARGE
    return ""
