"""A JSON text and its canonical bytes by one reading: what is stored is nearly always in order, and then this is quick.

Whatever is not beyond doubt (a key twice, NaN, an escape, an integer that readers round, depth) raises `NotQuick`: the
strict reader and the canonical writer then look at it each by itself, and say what is wrong.
"""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from lynxbench.model.canonical import EXACT_INTEGER, LONG_TEXT, NotQuick, ascii_keys, spell_number, write_quickly
from lynxbench.model.strict_json import DEEPEST, NotStrictJson, refuse_depth

SURELY_EXACT = 15
"""Characters of an integer that every reader agrees on."""


@dataclass(frozen=True, slots=True)
class SpelledJson:
    """The value of a text, its numbers such as the canonical form spells them."""

    value: Any
    spelled: list[str]
    """Numbers that stand in the value as marked texts."""

    def canonical_bytes(self) -> bytes:
        """RFC 8785 bytes of the whole."""
        return write_quickly(self.value, self.spelled)

    def canonical_without(self, key: str) -> bytes:
        """RFC 8785 bytes of an object without one of its keys; NotQuick where it is no object."""
        if not isinstance(self.value, dict):
            raise NotQuick
        return write_quickly({name: item for name, item in self.value.items() if name != key}, self.spelled)


def parse_spelled(data: bytes) -> SpelledJson:
    """The text of these bytes; NotQuick where anything about it has to be looked at closely."""
    if b"\\u" in data:  # half a character, or a key or a mark that is not seen as such
        raise NotQuick
    if len(data) >= LONG_TEXT and (long := _parse_long(data)) is not None:
        return long
    spelled: list[str] = []
    ascii_text = data.isascii()

    def fraction(text: str) -> float | str:
        return spell_number(float(text), spelled)

    def keyed(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs) or not (ascii_text or ascii_keys(made)):
            raise NotQuick
        return made

    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=keyed,
            parse_float=fraction,
            parse_int=_integer,
            parse_constant=_no_constant,
        )
        refuse_depth(value)
    except (ValueError, RecursionError, NotStrictJson):
        raise NotQuick from None
    return SpelledJson(value, spelled)


def _parse_long(data: bytes) -> SpelledJson | None:
    """The same by msgspec, in half of the time; None where it cannot tell whether a key is written twice."""
    from msgspec import MsgspecError
    from msgspec.json import decode, format

    try:
        compact: bytes = format(data, indent=-1)
        value = decode(compact)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotQuick from None
    spelled: list[str] = []
    keys = _spell_numbers(value, spelled, ascii_text=data.isascii(), depth=0)
    # Between a text and a colon nothing is left, so each key that is written shows once, and once more where it is
    # written twice; what else looks like one (a text that begins with a colon) only adds to them.
    known = b'\\":' not in compact and compact.count(b'":') == keys
    return SpelledJson(value, spelled) if known else None


def _spell_numbers(value: Any, spelled: list[str], *, ascii_text: bool, depth: int) -> int:
    """Put the canonical form of every number in its place; how many keys there are."""
    kind = type(value)
    if depth == DEEPEST - 1 or kind not in (dict, list) or not (kind is list or ascii_text or ascii_keys(value)):
        raise NotQuick
    keys = len(value) if kind is dict else 0
    for place, item in value.items() if kind is dict else enumerate(value):
        held = type(item)
        if held is str or item is None:
            continue
        if held is float:
            if (number := spell_number(item, spelled)) is not item:
                value[place] = number
        elif held is dict or held is list:
            keys += _spell_numbers(item, spelled, ascii_text=ascii_text, depth=depth + 1)
        elif held is int and abs(item) > EXACT_INTEGER:
            raise NotQuick
    return keys


def _integer(text: str) -> int:
    value = int(text)
    if len(text) > SURELY_EXACT and abs(value) > EXACT_INTEGER:
        raise NotQuick
    return value


def _no_constant(_: str) -> NoReturn:
    raise NotQuick
