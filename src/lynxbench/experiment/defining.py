"""From an experiment file to a Definition, or to one line that says the file, the line, the key and what is right."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lynxbench.contract.loader import bundled_names, parse_contract, read_bundled, read_contract
from lynxbench.contract.nodes import LARGEST_FILE_BYTES, FileNode, KeyedNode, nodes_from_json, parse_nodes, shown
from lynxbench.contract.problems import refuse_contract
from lynxbench.errors import BadContract
from lynxbench.experiment.definition import Definition
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document

_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


@dataclass(frozen=True, slots=True)
class Defined:
    """A definition, and the folder that the files it names are relative to."""

    definition: Definition
    folder: Path


def read_definition(name_or_path: str | Path) -> Defined:
    """An experiment by bundled name, or from a YAML file."""
    name = str(name_or_path)
    if name in bundled_experiments():
        return Defined(parse_definition(read_bundled_experiment(name), f"{name}.yaml", Path()), Path())
    path = Path(name)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        known = ", ".join(bundled_experiments())
        raise BadContract(
            f"no such file, and no bundled experiment of this name; bundled are {known}", file=name
        ) from None
    except (OSError, ValueError) as error:
        raise BadContract(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=shown(name)) from None
    if len(data) > LARGEST_FILE_BYTES:
        raise BadContract(f"is larger than {LARGEST_FILE_BYTES >> 20} MiB; no experiment is", file=name, line=1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadContract("is not UTF-8 text; save it as UTF-8", file=name, line=1) from None
    return Defined(parse_definition(text, name, path.parent), path.parent)


def bundled_experiments() -> tuple[str, ...]:
    """The experiments that come with lynxbench."""
    folder = resources.files("lynxbench.experiment") / "bundled"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def read_bundled_experiment(name: str) -> str:
    """A bundled experiment as it was written, comments included."""
    return (resources.files("lynxbench.experiment") / "bundled" / f"{name}.yaml").read_text(encoding="utf-8")


def parse_definition(text: str, file: str, folder: Path) -> Definition:
    """A definition from YAML text; its contract is written inside it, or named."""
    root = parse_nodes(text, file)
    if root.entries is None:
        raise BadContract(f"an experiment is a mapping of keys, not {root.kind}", file=file, line=root.line)
    entry = root.entries.get("contract")
    if entry is None:
        raise BadContract(
            "is missing: a contract's name, its file, or the contract itself", file=file, line=1, key="contract"
        )
    contract = _contract(entry, file, folder)
    plain = root.plain()
    assert isinstance(plain, dict)
    inside = {**plain, "contract": contract.canonical()}
    try:
        return Definition.model_validate_json(json.dumps(inside))
    except ValidationError as error:
        raise refuse_document(error, root, file, Definition) from None


def _contract(entry: KeyedNode, file: str, folder: Path) -> Contract:
    if entry.node.entries is not None:
        try:
            return Contract.model_validate_json(json.dumps(entry.node.plain()))
        except ValidationError as error:
            raise refuse_contract(error, entry.node, file, "contract") from None
    name = entry.node.value
    if not isinstance(name, str):
        raise BadContract(
            f"must be a name, a file or a mapping, not {entry.node.kind}", file=file, line=entry.line, key="contract"
        )
    if name in bundled_names():
        return read_bundled(name)
    path = folder / name
    if not path.is_file():
        known = ", ".join(bundled_names())
        said = f"{shown(name)} is no file beside the experiment and no bundled contract; bundled are {known}"
        raise BadContract(said, file=file, line=entry.line, key="contract")
    return (
        read_contract(path) if path.suffix == ".json" else parse_contract(path.read_text(encoding="utf-8"), str(path))
    )


def refuse_document(error: ValidationError, root: FileNode, file: str, kind: type[Document]) -> BadContract:
    """The first objection of a validator, at the line and key where it stands; misspelt keys come first."""
    problems = [_problem(detail, root, kind) for detail in error.errors(include_url=False)]
    problems.sort(key=lambda one: (one.rank, one.line or 0))
    first = problems[0]
    keys = {problem.key for problem in problems}
    more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
    return BadContract(first.says + more, file=file, line=first.line, key=first.key)


@dataclass(frozen=True, slots=True)
class _Problem:
    key: str
    line: int | None
    says: str
    rank: int


def _problem(detail: Mapping[str, Any], root: FileNode, kind: type[Document]) -> _Problem:
    type_, context = str(detail["type"]), detail.get("ctx", {})
    location = list(detail["loc"])
    if type_ == "refused":
        location += [int(part) if part.isdigit() else part for part in context["key"].split(".")]
        path, line, _ = _locate(location, root)
        return _Problem(path, line, str(context["problem"]), 0)
    path, line, node = _locate(location, root)
    if type_ == "missing":
        return _Problem(".".join(map(str, location)), line, "is missing", 2)
    if type_ == "extra_forbidden":
        known = _known_keys(location[:-1], kind)
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        return _Problem(path, line, f"unknown key; {hint}", 0)
    if type_ == "string_pattern_mismatch":
        return _Problem(path, line, f"{_said(node)} does not have the right form: {_form(str(context['pattern']))}", 1)
    for name, word in _BOUNDS.items():
        if name in context:
            return _Problem(path, line, f"must be {word} {context[name]}, not {_said(node)}", 1)
    if type_ in ("literal_error", "enum"):
        return _Problem(path, line, f"{_said(node)} is not one of {str(context['expected']).replace(chr(39), '')}", 1)
    if type_ == "value_error":
        return _Problem(path, line, str(context["error"]), 1)
    said = str(detail["msg"])
    return _Problem(path, line, f"{said[:1].lower()}{said[1:]}, not {_said(node)}", 1)


def _form(pattern: str) -> str:
    if "environment" in pattern:
        return "engine.KEY, workload.KEY, environment.VARIABLE, server.NAME or packages"
    if "throughput" in pattern:
        return "throughput, or latency, time-to-first-token or time-per-token with -p50, -p90, -p95 or -p99"
    if pattern.startswith("^[a-z0-9]"):
        return "use lower-case letters, digits, '.', '_' and '-', at most 63 of them"
    return pattern


def _known_keys(location: Sequence[str | int], kind: type[Document]) -> list[str]:
    """The keys that the document at a location knows, by its schema."""
    schema = kind.model_json_schema(by_alias=True)
    defs: dict[str, Any] = schema.get("$defs", {})
    at: dict[str, Any] = schema
    for part in location:
        at = _resolved(at, defs)
        if isinstance(part, int):
            at = at.get("items", {})
        elif part in at.get("properties", {}):
            at = at["properties"][part]
    return sorted(_resolved(at, defs).get("properties", {}))


def _resolved(schema: dict[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    while True:
        if "$ref" in schema:
            schema = defs[schema["$ref"].rpartition("/")[2]]
            continue
        options = [one for one in schema.get("anyOf", ()) if "$ref" in one]
        if not options:
            return schema
        schema = options[0]


def _locate(location: Sequence[str | int], root: FileNode) -> tuple[str, int | None, FileNode]:
    """Follow a validator's location as far as the file goes; names of union members are no places in it."""
    node, line, path = root, root.line, []
    for part in location:
        if node.entries is not None and isinstance(part, str) and part in node.entries:
            entry = node.entries[part]
            node, line = entry.node, entry.line
            path.append(shown(part))
        elif node.items is not None and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            line = node.line
            path.append(str(part))
    return ".".join(path), line, node


def _said(node: FileNode) -> str:
    if node.entries is not None or node.items is not None or node.value is None:
        return node.kind
    return f"'{shown(node.value)}'" if isinstance(node.value, str) else str(node.value).lower()


def restored(document: object, file: str) -> Definition:
    """A definition from its stored canonical form."""
    root = nodes_from_json(document, file)
    try:
        return Definition.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise refuse_document(error, root, file, Definition) from None
