"""Canonical bytes (RFC 8785) and the SHA-256 ids made from them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import rfc8785

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

SHORT_ID = 12
"""Hex digits shown to people; any unique prefix is accepted back."""


def canonical_bytes(value: JsonValue) -> bytes:
    """RFC 8785 bytes of a JSON value. NaN and infinities have no JSON form and become null."""
    return rfc8785.dumps(cast("dict[str, object]", _plain(value)))  # type: ignore[arg-type]


def content_id(value: JsonValue) -> str:
    """SHA-256 of the canonical bytes, in hex."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def short(identifier: str) -> str:
    """The first digits of an id, for people."""
    return identifier[:SHORT_ID]


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
