"""How the commands find what a person names: one place for results, foreign files, precisions and layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lynxbench.errors import BadInput

if TYPE_CHECKING:
    from lynxbench.model.entries import EntryBody, ForeignImported
    from lynxbench.model.layers import Layer
    from lynxbench.model.precision import Precision
    from lynxbench.record.recalling import Recalled


@contextmanager
def resolve_result(name: str, ledger: str | None) -> Iterator[Recalled]:
    """A result by path, id or unique beginning of an id, with its folder and standing."""
    import os

    from lynxbench.record.recalling import recalled

    with recalled(name, ledger, os.environ) as found:
        yield found


def foreign_or_none(name: str) -> ForeignImported | None:
    """A foreign result file, where the name is a file that is not a result of ours and that we know."""
    from pathlib import Path

    from lynxbench.record.formats.foreign_results import read_foreign

    path = Path(name)
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        if b'"lynxbench_version"' in stream.read(4096):
            return None
    try:
        return read_foreign(path)
    except BadInput:
        return None


def record_entry(body: EntryBody, ledger: str | None) -> tuple[int, str]:
    """Sign a statement and append it to the ledger; its number, and the team that signed."""
    import os
    from datetime import UTC, datetime

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.record.recalling import opened
    from lynxbench.record.recording import seal

    key = Keyring().signing_key(datetime.now(UTC)).key
    with opened(ledger, os.environ, create=True) as open_:
        seq = open_.log.append(seal(body, key))
        open_.seen.check(open_.log)
    return seq, key.team


def parse_precision(text: str | None) -> Precision | None:
    """`--precision`, checked."""
    from lynxbench.model.precision import Precision

    if text is None:
        return None
    try:
        return Precision(text)
    except ValueError:
        raise BadInput(f"--precision {text!r}: choose one of {', '.join(Precision)}") from None


def parse_layer(text: str) -> Layer:
    """`--layer`, checked."""
    from lynxbench.model.layers import Layer

    try:
        return Layer(text)
    except ValueError:
        raise BadInput(f"--layer {text!r}: choose one of {', '.join(Layer)}") from None


def print_document(document: object) -> None:
    """One JSON document; what is not known is null."""
    import json
    import math

    def finite(value: object) -> object:
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            return {str(key): finite(item) for key, item in value.items()}
        return [finite(item) for item in value] if isinstance(value, list | tuple) else value

    print(json.dumps(finite(document), indent=2, ensure_ascii=False, allow_nan=False))
