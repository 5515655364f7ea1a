"""From a file, a bundled name or a stored document to a Contract, or to one line that says why not."""

import difflib
import re
from contextlib import suppress
from importlib import resources
from pathlib import Path

from lynxbench.contract.schema import contract_schema
from lynxbench.errors import BadFile
from lynxbench.model.contract import Contract
from lynxbench.model.file_nodes import LARGEST_FILE_BYTES, nodes_from_json, shown
from lynxbench.model.strict_file import FileForm, parse_file, validate
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json
from lynxbench.reading import read_text

CONTRACT = FileForm("a contract", "`lynxbench contract new` writes one to start from", Contract, contract_schema)

LARGEST_DOCUMENT_BYTES = 64 << 20
"""Of a stored JSON document that holds a contract; a result carries far more than its contract."""


def parse_contract(text: str, file: str = "<contract>") -> Contract:
    """A contract from YAML text; BadFile says the file, the line, the key and what would be right."""
    return parse_file(text, file, CONTRACT)


def parse_document(text: str, file: str = "<document>") -> Contract:
    """The contract that a stored JSON document holds under `contract`, or is."""
    try:
        document = parse_strict_json(text)
    except NotStrictJson as error:
        raise BadFile(str(error), file=file, line=error.line or 1) from None
    if not isinstance(document, dict):
        raise BadFile("holds no contract: a document with a key `contract` is needed", file=file, line=1)
    if "contract" not in document:
        if "lynxbench" not in document:
            raise BadFile("holds no contract: neither a key `contract` nor `lynxbench`", file=file, line=1)
        return validate(nodes_from_json(document, file, 1), file, CONTRACT)
    line = _line_of_contract(text)
    inner = nodes_from_json(document["contract"], file, line)
    if inner.entries is None:
        raise BadFile(f"must be a mapping of keys, not {inner.kind}", file=file, line=line, key="contract")
    contract = validate(inner, file, CONTRACT, "contract")
    claimed = document.get("contract_id", contract.contract_id)
    if claimed != contract.contract_id:
        raise BadFile(
            f"{shown(claimed)} is not the id of the contract beside it ({contract.contract_id[:12]}…); it was changed",
            file=file,
            line=line,
            key="contract_id",
        )
    return contract


def read_contract(name_or_path: str | Path) -> Contract:
    """A contract by bundled name, or from a YAML contract or a JSON document that holds one.

    A bare bundled name always means the bundled contract; `./quickstart` means the file of that name. Any other bare
    name means the file of that name here, or the one that is called after it: reports name contracts, not files.
    """
    name = str(name_or_path)
    if name in bundled_names():
        return read_bundled(name)
    with suppress(OSError, ValueError):  # no name of a file at all is said where it is read
        if not Path(name).exists() and Path(f"{name}.yaml").is_file():
            name = f"{name}.yaml"
    is_document = name.lower().endswith(".json")
    largest_bytes = LARGEST_DOCUMENT_BYTES if is_document else LARGEST_FILE_BYTES
    text = read_text(name, CONTRACT.noun, missing=_not_found(name), largest_bytes=largest_bytes)
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
        raise BadFile(f"no bundled contract of this name; there are {', '.join(bundled_names())}", file=shown(name))
    return (resources.files("lynxbench.contract") / "bundled" / f"{name}.yaml").read_text(encoding="utf-8")


def _line_of_contract(text: str) -> int:
    # A stored document is written by a program, so the line where its contract starts is near enough.
    start = re.search(r'"contract"\s*:', text)
    return text.count("\n", 0, start.start()) + 1 if start else 1


def _not_found(name: str) -> str:
    close = difflib.get_close_matches(name, bundled_names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"bundled are {', '.join(bundled_names())}"
    return f"no such file, and no bundled contract of this name; {hint}"
