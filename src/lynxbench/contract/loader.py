"""From a file, a bundled name or a stored document to a Contract, or to one line that says why not."""

from __future__ import annotations

import difflib
import json
import re
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from lynxbench.contract.nodes import LARGEST_FILE_BYTES, FileNode, nodes_from_json, parse_nodes, shown
from lynxbench.contract.problems import refuse_contract
from lynxbench.errors import BadContract
from lynxbench.model.contract import Contract
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

LARGEST_DOCUMENT_BYTES = 64 << 20
"""Of a stored JSON document that holds a contract; a result carries far more than its contract."""


def parse_contract(text: str, file: str = "<contract>") -> Contract:
    """A contract from YAML text; BadContract says the file, the line, the key and what would be right."""
    root = parse_nodes(text, file)
    if root.entries is None:
        raise BadContract(f"a contract is a mapping of keys, not {root.kind}", file=file, line=root.line)
    return _validated(root, file)


def parse_document(text: str, file: str = "<document>") -> Contract:
    """The contract that a stored JSON document holds under `contract`, or is."""
    try:
        document = parse_strict_json(text)
    except NotStrictJson as error:
        raise BadContract(str(error), file=file, line=error.line or 1) from None
    if not isinstance(document, dict):
        raise BadContract("holds no contract: a document with a key `contract` is needed", file=file, line=1)
    if "contract" not in document:
        if "lynxbench" not in document:
            raise BadContract("holds no contract: neither a key `contract` nor `lynxbench`", file=file, line=1)
        return _validated(nodes_from_json(document, file, 1), file)
    line = _line_of_contract(text)
    inner = nodes_from_json(document["contract"], file, line)
    if inner.entries is None:
        raise BadContract(f"must be a mapping of keys, not {inner.kind}", file=file, line=line, key="contract")
    contract = _validated(inner, file, "contract")
    claimed = document.get("contract_id", contract.contract_id)
    if claimed != contract.contract_id:
        raise BadContract(
            f"{shown(claimed)} is not the id of the contract beside it ({contract.contract_id[:12]}…); it was changed",
            file=file,
            line=line,
            key="contract_id",
        )
    return contract


def read_contract(name_or_path: str | Path) -> Contract:
    """A contract by bundled name, or from a YAML contract or a JSON document that holds one.

    A bare bundled name always means the bundled contract; `./quickstart` means the file of that name.
    """
    name = str(name_or_path)
    if name in bundled_names():
        return read_bundled(name)
    is_document = name.lower().endswith(".json")
    text = _read_text(Path(name), name, LARGEST_DOCUMENT_BYTES if is_document else LARGEST_FILE_BYTES)
    return parse_document(text, name) if is_document else parse_contract(text, name)


def bundled_names() -> tuple[str, ...]:
    """The contracts that come with lynxbench."""
    folder = resources.files("lynxbench.contract") / "bundled"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def read_bundled(name: str) -> Contract:
    """A bundled contract by name."""
    return parse_contract(read_bundled_text(name), f"{name}.yaml")


def read_bundled_text(name: str) -> str:
    """A bundled contract as it was written, comments included."""
    if name not in bundled_names():
        raise BadContract(f"no bundled contract of this name; there are {', '.join(bundled_names())}", file=shown(name))
    return (resources.files("lynxbench.contract") / "bundled" / f"{name}.yaml").read_text(encoding="utf-8")


def _validated(root: FileNode, file: str, prefix: str = "") -> Contract:
    # JSON mode is what makes strictness mean what a file's author expects: a list is a tuple, but "5" is no number.
    try:
        return Contract.model_validate_json(json.dumps(root.plain()))
    except ValidationError as error:
        raise refuse_contract(error, root, file, prefix) from None


def _read_text(path: Path, name: str, largest_bytes: int) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(largest_bytes + 1)
    except FileNotFoundError:
        raise BadContract(_not_found(name), file=shown(name)) from None
    except IsADirectoryError:
        raise BadContract("is a folder; name the contract file in it", file=shown(name)) from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadContract(f"cannot be read: {said}", file=shown(name)) from None
    if len(data) > largest_bytes:
        raise BadContract(f"is larger than {largest_bytes >> 20} MiB; no contract is", file=name, line=1)
    if b"\0" in data:
        at = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise BadContract("is binary, not text", file=name, line=at)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = data.count(b"\n", 0, error.start) + 1
        raise BadContract("is not UTF-8 text; save it as UTF-8", file=name, line=at) from None


def _line_of_contract(text: str) -> int:
    # A stored document is written by a program, so the line where its contract starts is near enough.
    found = re.search(r'"contract"\s*:', text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _not_found(name: str) -> str:
    close = difflib.get_close_matches(name, bundled_names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"bundled are {', '.join(bundled_names())}"
    return f"no such file, and no bundled contract of this name; {hint}"
