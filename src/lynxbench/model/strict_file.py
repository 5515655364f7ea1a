"""The one strict reader of files that people write: text to a validated value, or to one line.

The line says the file, the line, the key, what is wrong and what would be right, for every kind of file alike.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar

from pydantic import JsonValue, ValidationError

from lynxbench.errors import BadFile
from lynxbench.model.document import Document
from lynxbench.model.file_nodes import FileNode, parse_nodes
from lynxbench.model.file_problems import Schema, list_problems

D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class FileForm(Generic[D]):
    """A kind of file: what it is called, how a person begins one, and the document that it must be."""

    noun: str
    begin: str
    document: type[D]
    described: Callable[[], Schema] | None = None
    """A schema that says more about its keys than the document's own."""

    @property
    def schema(self) -> Schema:
        """JSON Schema of the document; do not change it in place."""
        return self.described() if self.described is not None else _schema_of(self.document)


def parse_file(text: str, file: str, form: FileForm[D]) -> D:
    """The value of a file's text; BadFile otherwise."""
    return validate(parse_nodes(text, file, form.noun, form.begin), file, form)


def validate(
    root: FileNode, file: str, form: FileForm[D], within: str = "", instead: Mapping[str, object] | None = None
) -> D:
    """The value of nodes that stand at a key (`within`) of a file; `instead` replaces keys that were looked up."""
    keys = root.plain()
    assert isinstance(keys, dict)
    # JSON mode is what makes strictness mean what a file's author expects: a list is a tuple, but "5" is no number.
    try:
        return form.document.model_validate_json(json.dumps({**keys, **(instead or {})}))
    except ValidationError as error:
        first, *others = list_problems(error, root, form.schema)
        more = f" (and {len(others)} more)" if others else ""
        key = ".".join(part for part in (within, first.key) if part)
        raise BadFile(first.says + more, file=file, line=first.line, key=key) from None


def parse_keys(text: str, file: str, noun: str) -> dict[str, JsonValue]:
    """The keys and values of a file that may say anything, such as a claim."""
    keys = parse_nodes(text, file, noun, "write it as `key: value`, one a line").plain()
    assert isinstance(keys, dict)
    return keys


@cache
def _schema_of(document: type[Document]) -> Schema:
    return document.model_json_schema(by_alias=True)
