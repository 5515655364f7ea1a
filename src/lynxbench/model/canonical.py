"""Canonical bytes (RFC 8785) and the SHA-256 ids made from them."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
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
    except NotQuick:
        return strict_canonical_bytes(plain_json(value))


def strict_canonical_bytes(value: JsonValue) -> bytes:
    """RFC 8785 bytes of a value that has them; rfc8785.CanonicalizationError otherwise.

    The common case goes through an encoder that is written in C and orders of magnitude quicker; whatever it could
    spell differently goes through the reference implementation.
    """
    try:
        return _encode_quickly(value)
    except NotQuick:
        return rfc8785.dumps(cast("dict[str, object]", value))  # type: ignore[arg-type]


def _encode_quickly(value: JsonValue) -> bytes:
    spelled: list[str] = []
    return write_quickly(_quickly(value, spelled), spelled)


def write_quickly(value: Any, spelled: Sequence[str]) -> bytes:
    """Bytes of a value whose every number and text the encoders spell as RFC 8785 does.

    Fractions that they would spell differently travel as marked texts (`spell_number`) and are put in here.
    """
    written = _write(value)
    if spelled:
        written, put_in = _SPELLED.subn(rb"\1", written)
        if put_in != len(spelled):  # a text of the value's own looks like a marked one
            raise NotQuick
    return written


class NotQuick(Exception):
    """A value that an encoder could spell differently than the reference implementation."""


LONG_TEXT = 1 << 13
"""From here on it pays to import a quicker encoder."""
_quick = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_seen_long: list[int] = []


def _write(value: Any) -> bytes:
    """By the standard library until a long text comes, from then on by msgspec: the same bytes in a tenth of the time.

    A command that writes short texts alone is over before msgspec would be imported.
    """
    if _seen_long:
        return _quicker()(value)
    written = _quick.encode(value).encode("utf-8")
    if len(written) >= LONG_TEXT:
        _seen_long.append(len(written))
    return written


@cache
def _quicker() -> Callable[[Any], bytes]:
    from msgspec.json import Encoder

    return Encoder(order="sorted").encode


_PLAIN_FROM, _PLAIN_TO = 1e-4, 1e16
"""Between these, Python's shortest form of a fraction has no exponent, and neither has ECMAScript's."""
_MARK = "\0"
_SPELLED = re.compile(rb'"\\u0000([-+.0-9e]+)"')
"""A marked text as the encoder writes it."""


def ascii_keys(value: dict[Any, Any]) -> bool:
    """Whether sorting by code point is sorting by UTF-16 unit, as RFC 8785 wants it."""
    try:
        return "".join(value).isascii()
    except TypeError:  # a key that is no text
        return False


def _quickly(value: Any, spelled: list[str]) -> Any:
    kind = type(value)  # itself: subclasses may be spelled in their own way
    if kind is str or value is None or kind is bool:
        if kind is str and not value.isascii() and _SURROGATE.search(value):
            raise NotQuick
        return value
    if kind is int:
        if abs(value) <= EXACT_INTEGER:
            return value
    elif kind is float:
        return spell_number(value, spelled)
    elif kind is dict:
        if ascii_keys(value):  # most values are plain texts: they are looked at here, without another call
            return {
                key: item if type(item) is str and item.isascii() else _quickly(item, spelled)
                for key, item in value.items()
            }
    elif kind is list or kind is tuple:
        return [_quickly(item, spelled) for item in value]
    raise NotQuick


def spell_number(value: float, spelled: list[str]) -> float | str:
    """A number as the encoders may write it, or its canonical form as a marked text."""
    size = abs(value)
    if value.is_integer():
        if size <= EXACT_INTEGER:
            return int(value)
    elif _PLAIN_FROM <= size < _PLAIN_TO:
        return value
    if not math.isfinite(size):
        raise NotQuick
    spelled.append(rfc8785.dumps(value).decode("ascii"))
    return _MARK + spelled[-1]


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
