"""Canonical bytes (RFC 8785) and the SHA-256 ids made from them."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import rfc8785

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

_SURROGATE = re.compile("[\\ud800-\\udfff]")

EXACT_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader agrees on; larger numbers are floating point in RFC 8785."""
SHORT_ID = 12
"""Hex digits shown to people; any unique prefix is accepted back."""


def canonical_bytes(value: JsonValue) -> bytes:
    """RFC 8785 bytes of a JSON value. NaN and infinities have no JSON form and become null."""
    try:
        return _encode_quickly(value)
    except _NotQuick:
        return strict_canonical_bytes(plain_json(value))


def strict_canonical_bytes(value: JsonValue) -> bytes:
    """RFC 8785 bytes of a value that has them; rfc8785.CanonicalizationError otherwise.

    The common case goes through the standard library's encoder, which is written in C and an order of magnitude
    quicker; whatever the two could spell differently goes through the reference implementation.
    """
    try:
        return _encode_quickly(value)
    except _NotQuick:
        return rfc8785.dumps(cast("dict[str, object]", value))  # type: ignore[arg-type]


def _encode_quickly(value: JsonValue) -> bytes:
    """Fractions that the two would spell differently travel as marked texts and are put in afterwards."""
    spelled: list[str] = []
    text = _quick.encode(_quickly(value, spelled))
    if spelled:
        text, put_in = _SPELLED.subn(r"\1", text)
        if put_in != len(spelled):  # a text of the value's own looks like a marked one
            raise _NotQuick
    return text.encode("utf-8")


class _NotQuick(Exception):
    """A value that the two encoders could spell differently."""


_quick = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_PLAIN_FROM, _PLAIN_TO = 1e-4, 1e16
"""Between these, Python's shortest form of a fraction has no exponent, and neither has ECMAScript's."""
_MARK = "\0"
_SPELLED = re.compile(r'"\\u0000([-+.0-9e]+)"')
"""A marked text as the encoder writes it."""


def _ascii_keys(value: dict[Any, Any]) -> bool:
    """Whether sorting by code point is sorting by UTF-16 unit, as RFC 8785 wants it."""
    try:
        return "".join(value).isascii()
    except TypeError:  # a key that is no text
        return False


def _quickly(value: Any, spelled: list[str]) -> Any:
    kind = type(value)  # itself: subclasses may be spelled in their own way
    if kind is str or value is None or kind is bool:
        if kind is str and not value.isascii() and _SURROGATE.search(value):
            raise _NotQuick
        return value
    if kind is int:
        if abs(value) <= EXACT_INTEGER:
            return value
    elif kind is float:
        size = abs(value)
        if value.is_integer():
            if size <= EXACT_INTEGER:
                return int(value)
        elif _PLAIN_FROM <= size < _PLAIN_TO:
            return value
        if math.isfinite(size):
            spelled.append(rfc8785.dumps(value).decode("ascii"))
            return _MARK + spelled[-1]
    elif kind is dict:
        if _ascii_keys(value):  # most values are plain texts: they are looked at here, without another call
            return {
                key: item if type(item) is str and item.isascii() else _quickly(item, spelled)
                for key, item in value.items()
            }
    elif kind is list or kind is tuple:
        return [_quickly(item, spelled) for item in value]
    raise _NotQuick


def content_id(value: JsonValue) -> str:
    """SHA-256 of the canonical bytes, in hex."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def short(identifier: str) -> str:
    """The first digits of an id, for people."""
    return identifier[:SHORT_ID]


def finite_or_none(value: float) -> float | None:
    """NaN and infinities have no JSON form."""
    return value if math.isfinite(value) else None


def plain_json(value: object) -> JsonValue:
    """The same value with null for every NaN and infinity."""
    if isinstance(value, float):
        return finite_or_none(value)
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    return value  # type: ignore[return-value]  # what is no container is a scalar
