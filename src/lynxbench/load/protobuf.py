"""The few forms of Protocol Buffers that inference messages are made of, written and read as bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lynxbench.load.http import Malformed

VARINT, FIXED64, TEXT, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """A whole number; a negative one is written as its 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A whole number in a field; zero is what an absent one means."""
    return varint(field << 3) + varint(value) if value else b""


def text(field: int, value: str | bytes) -> bytes:
    """Texts, bytes and messages within messages; an empty one is written too."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | TEXT) + varint(len(raw)) + raw


def numbers(field: int, values: Iterable[int]) -> bytes:
    """Several whole numbers, packed."""
    return text(field, b"".join(map(varint, values)))


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Every field of a message in its order: whole numbers as they are, anything else as bytes."""
    at, length = 0, len(data)
    while at < length:
        tag = data[at]  # nearly every tag and most lengths are one byte: those cost no call
        if tag < 0x80:
            at += 1
        else:
            tag, at = _varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == TEXT:
            if at < length and data[at] < 0x80:
                size = data[at]
                at += 1
            else:
                size, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise Malformed(f"a message with a field of kind {kind}")
        if at + size > length:
            raise Malformed("a message that breaks off")
        yield tag >> 3, data[at : at + size]
        at += size


def unpack_numbers(value: int | bytes) -> tuple[int, ...]:
    """Whole numbers of a field, packed or one by one; those of 64 bits with their sign."""
    if isinstance(value, int):
        return (_signed(value),)
    found, at = [], 0
    while at < len(value):
        one, at = _varint(value, at)
        found.append(_signed(one))
    return tuple(found)


def as_bytes(value: int | bytes) -> bytes:
    """The bytes of a field that has to hold them."""
    if isinstance(value, int):
        raise Malformed("a number where a text should be")
    return value


def as_text(value: int | bytes) -> str:
    """The text of a field."""
    return as_bytes(value).decode("utf-8", "replace")


def as_number(value: int | bytes) -> int:
    """The whole number of a field."""
    if not isinstance(value, int):
        raise Malformed("a text where a number should be")
    return value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << place
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise Malformed("a number without an end")
