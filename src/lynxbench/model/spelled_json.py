"""A JSON text and its canonical bytes by one reading: what is stored is nearly always in order, and then this is quick.

Whatever is not beyond doubt (a key twice, NaN, an escape, an integer that readers round, depth) raises `NotQuick`: the
strict reader and the canonical writer then look at it each by itself, and say what is wrong.
"""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from lynxbench.model.canonical import EXACT_INTEGER, NotQuick, ascii_keys, spell_number, write_quickly
from lynxbench.model.strict_json import NotStrictJson, refuse_depth

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


def _integer(text: str) -> int:
    value = int(text)
    if len(text) > SURELY_EXACT and abs(value) > EXACT_INTEGER:
        raise NotQuick
    return value


def _no_constant(_: str) -> NoReturn:
    raise NotQuick
