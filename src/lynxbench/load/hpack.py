"""Header blocks of HTTP/2 (HPACK, RFC 7541): read whole, written in the plainest form. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache

from lynxbench.load.http import Malformed

Headers = tuple[tuple[str, str], ...]

_STATIC_TEXT = """\
:authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|:status=204|
:status=206|:status=304|:status=400|:status=404|:status=500|accept-charset|accept-encoding=gzip, deflate|
accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|
content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|
cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|
last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|
server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"""
STATIC: Headers = tuple(
    (entry.partition("=")[0], entry.partition("=")[2]) for entry in _STATIC_TEXT.replace("|\n", "|").split("|")
)
"""RFC 7541, appendix A; the first has index 1."""
_CODE_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b080606060505050606060606"
    "060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e060f050605060506060605070706060605"
    "06070605050607070707070f0b0e0d1c14161414161616171617171717171817181816171817171717151617161717181615141616171715"
    "1716161815161717151516151716171714161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
"""Bits of each byte's code, and of the end (RFC 7541, appendix B). The code is canonical: the lengths say all of it."""
_END = 256
ENTRY_BYTES = 32
"""What a table entry counts beside its texts (section 4.1)."""
LARGEST_TABLE = 4096
"""Of a peer's table while nothing else was agreed (RFC 9113, section 6.5.2)."""
LARGEST_VALUE = 65_536
"""As of an HTTP/1.1 head; servers stop sooner."""


@cache
def codes() -> dict[tuple[int, int], int]:
    """Symbol by length and code: codes of a length follow each other, in the order of their symbols."""
    found: dict[tuple[int, int], int] = {}
    code = 0
    for length in range(1, 31):
        code <<= 1
        for symbol, bits in enumerate(_CODE_LENGTHS):
            if bits == length:
                found[length, code] = symbol
                code += 1
    return found


def _decompressed(data: bytes) -> bytes:
    known, text = codes(), bytearray()
    code = length = 0
    for byte in data:
        for place in range(7, -1, -1):
            code = code << 1 | byte >> place & 1
            length += 1
            symbol = known.get((length, code))
            if symbol is not None:
                if symbol == _END:
                    raise Malformed("a header text that holds its own end")
                text.append(symbol)
                code = length = 0
            elif length >= 30:
                raise Malformed("a header text that is no code")
    if length > 7 or code != (1 << length) - 1:
        raise Malformed("a header text whose padding is wrong")
    return bytes(text)


class HeaderDecoder:
    """Reads one direction of a connection: what a block says depends on those before it."""

    __slots__ = ("_largest", "_size", "_table")

    def __init__(self, largest: int = LARGEST_TABLE) -> None:
        self._table: deque[tuple[str, str]] = deque()
        self._largest, self._size = largest, 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered, so that equal blocks say the same."""
        return not self._table

    def decode(self, block: bytes) -> Headers:
        """The headers of a block."""
        headers: list[tuple[str, str]] = []
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                headers.append(self._entry(index))
            elif first & 0xE0 == 0x20:
                size, at = _integer(block, at, 5)
                if size > LARGEST_TABLE or headers:
                    raise Malformed("a header table of another size than was agreed")
                self._largest = size
                self._evict(0)
            else:
                index, at = _integer(block, at, 6 if first & 0x40 else 4)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                headers.append((name, value))
                if first & 0x40:
                    self._remember(name, value)
        return tuple(headers)

    def _entry(self, index: int) -> tuple[str, str]:
        if 1 <= index <= len(STATIC):
            return STATIC[index - 1]
        place = index - len(STATIC) - 1
        if not 0 <= place < len(self._table):
            raise Malformed(f"header {index} of a table that has {len(STATIC) + len(self._table)}")
        return self._table[place]

    def _remember(self, name: str, value: str) -> None:
        size = len(name) + len(value) + ENTRY_BYTES
        self._evict(size)
        if size <= self._largest:
            self._table.appendleft((name, value))
            self._size += size

    def _evict(self, more: int) -> None:
        while self._table and self._size + more > self._largest:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + ENTRY_BYTES


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number that begins in the low bits of a byte, and where the next thing begins (section 5.1)."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for place in range(0, 35, 7):
        if at >= len(block):
            break
        value += (block[at] & 0x7F) << place
        at += 1
        if block[at - 1] < 0x80:
            return value, at
    raise Malformed("a number in a header block without an end")


def _text(block: bytes, at: int) -> tuple[str, int]:
    if at >= len(block):
        raise Malformed("a header block that breaks off")
    packed = block[at] & 0x80
    size, at = _integer(block, at, 7)
    if size > LARGEST_VALUE or at + size > len(block):
        raise Malformed("a header block that breaks off")
    raw = block[at : at + size]
    return (_decompressed(raw) if packed else raw).decode("latin-1"), at + size


def encode_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """A block that any peer reads and none has to remember: every text as it is."""
    block = bytearray()
    for name, value in headers:
        block.append(0)
        for text in (name.encode("latin-1"), value.encode("latin-1")):
            block += _length(len(text)) + text
    return bytes(block)


def _length(size: int) -> bytes:
    if size < 127:
        return bytes((size,))
    rest, out = size - 127, bytearray((127,))
    while rest >= 128:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
