"""The events of a chrome trace as pieces of JSON text, cut between events, without ever holding the whole document.

A cut is only believed when what it cuts off decodes as a JSON list; the start is right by construction, so a piece that
decodes ends between two events and nowhere else.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import GenericAlias
from typing import Generic, TypeAlias, TypeVar

import msgspec

from lynxbench.errors import BadInput
from lynxbench.plain_files import open_plain, unfolds_too_far

PIECE_BYTES = 7 << 18
"""Large enough that the decoder's start-up vanishes, small enough that a piece's objects stay in cache-sized memory."""
CUT_WINDOW_BYTES = 16 << 10
"""Where a cut between two events is looked for first; tens of events fit."""
LONGEST_EVENT_BYTES = 64 << 20
"""An event longer than this is no event."""
HEAD_BYTES = 16 << 20
"""`traceEvents` comes within the first bytes of every writer seen; metadata before it may be some megabytes."""
CUT_TRIES = 8
SEPARATORS = b", \t\r\n"
"""What may stand between two events."""
DRIP_BYTES = 64
PACKED_BYTES = 1 << 16
"""What is left of it is copied at the end of each member, and a megabyte holds fifty thousand empty ones."""

UNDECODABLE = (msgspec.DecodeError, RecursionError, ValueError)
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_NOT_A_NUMBER = re.compile(rb"(?<=[:\[,\s])[+-]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_BYTE = re.compile(r"\(byte (\d+)\)")
_FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"SQLite format 3", "an SQLite file (an Nsight Systems export?)"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed; decompress it first"),
    (b"\x80", "a Python pickle (a memory snapshot?)"),
    (b"\n", "not a JSON chrome trace (a Perfetto protobuf?)"),
)

T = TypeVar("T")
Cut: TypeAlias = tuple[list[T], bytes, bool]
"""Decoded events, the text that follows them, and whether the list ended there."""


@dataclass
class FileReading:
    """What was learned about the file while it was read."""

    raw_bytes: int = 0
    head: bytes = b""
    complete: bool = False
    notes: list[str] = field(default_factory=list)


class ListDecoder(Generic[T]):
    """Text of a list of objects to objects. One of the wrong shape costs that one, and is counted."""

    def __init__(self, kind: type[T]) -> None:
        self.refused = 0
        self._kind = kind
        self._decode: Callable[[bytes], list[T]] = msgspec.json.Decoder(GenericAlias(list, (kind,))).decode

    def __call__(self, text: bytes) -> list[T]:
        try:
            return self._decode(text)
        except msgspec.ValidationError:
            pass
        read: list[T] = []
        written = msgspec.json.decode(text, type=list[msgspec.Raw])
        for raw in written:
            with contextlib.suppress(msgspec.ValidationError):
                read.append(msgspec.json.decode(raw, type=self._kind))
        self.refused += len(written) - len(read)
        return read


def read_pieces(path: Path, decode: Callable[[bytes], list[T]], reading: FileReading) -> Iterator[list[T]]:
    """Decoded lists of events in file order; `reading.complete` says afterwards whether the file's end was reached."""
    chunks = _chunks(path, reading)
    rest = _skip_head(path, chunks, reading)
    enough = PIECE_BYTES
    for chunk in chain(chunks, (b"",)):
        final = not chunk
        rest = (rest + chunk).lstrip(SEPARATORS)
        if len(rest) < enough and not final:
            continue
        cut = _cut(rest, decode, final=final)
        if cut is not None:
            events, rest, reading.complete = cut
            enough = PIECE_BYTES
            yield events
            if reading.complete:
                return
            rest = rest.lstrip(SEPARATORS)  # now, while it is short: with the next piece it would be copied whole
        elif len(rest) > LONGEST_EVENT_BYTES and not final:
            reading.notes.append(f"nothing readable after {reading.raw_bytes - len(rest):,} bytes")
            return
        else:  # one event longer than this: looked at again when there is twice as much, not with every piece
            enough = min(2 * len(rest), LONGEST_EVENT_BYTES + 1)
    if not rest.strip(SEPARATORS + b"]"):
        reading.complete = b"]" in rest
    if not reading.complete:
        reading.notes.append(f"the file ends inside its events; the last {len(rest):,} bytes were not readable")


def read_events_text(path: Path, reading: FileReading) -> Iterator[bytes]:
    """The events' own text, piece by piece, each piece whole events with commas between them."""

    def check(text: bytes) -> list[bytes]:
        msgspec.json.decode(text, type=list[msgspec.Raw])
        return [text]

    for (text,) in read_pieces(path, check, reading):
        body = text.strip()[1:-1].strip(SEPARATORS)
        if body:
            yield body


def repaired(piece: bytes) -> bytes:
    """The piece without what some writers emit and JSON forbids: bare nan and inf, broken UTF-8, control characters."""
    piece = _NOT_A_NUMBER.sub(b"null", piece)
    text = piece.decode("utf-8", "replace")
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", " ", text).encode()


def _chunks(path: Path, reading: FileReading) -> Iterator[bytes]:
    """Decompressed bytes, as far as they go."""
    try:
        with open_plain(path) as stream:
            first = stream.read(2)
            stream.seek(0)
            plain = iter(lambda: stream.read(PIECE_BYTES), b"")
            packed = first == b"\x1f\x8b"
            for chunk in _inflated(stream.read, reading) if packed else plain:
                reading.raw_bytes += len(chunk)
                if packed and unfolds_too_far(reading.raw_bytes, stream.tell()):
                    far = f"unfolds to over {reading.raw_bytes:,} bytes from {stream.tell():,}"
                    raise BadInput(f"{path}: {far}; no profiler writes that")
                yield chunk
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a trace file") from None


def _inflated(read: Callable[[int], bytes], reading: FileReading) -> Iterator[bytes]:
    """A gzip stream inflated by hand, so that what precedes damage is not lost; members follow each other."""
    inflate = zlib.decompressobj(wbits=31)
    pending = b""
    while True:
        block = pending or read(PACKED_BYTES)
        if not block:
            if not inflate.eof:
                reading.notes.append("the gzip stream is truncated")
            return
        before = inflate.copy()
        try:
            out = inflate.decompress(block, PIECE_BYTES)
        except zlib.error as error:
            reading.notes.append(f"the gzip stream is damaged ({error})")
            yield _before_error(before, block)
            return
        pending = inflate.unconsumed_tail
        if out:
            yield out
        if inflate.eof:
            pending = inflate.unused_data.lstrip(b"\0")
            if pending or (pending := read(PACKED_BYTES)):
                if not pending.startswith(b"\x1f\x8b"):
                    return  # trailing bytes after the last member are ignored, as gzip itself does
                inflate = zlib.decompressobj(wbits=31)


def _before_error(inflate: zlib._Decompress, block: bytes) -> bytes:
    """What a block holds before the damage: a failing call returns nothing, so it is fed a few bytes at a time."""
    out = []
    for at in range(0, len(block), DRIP_BYTES):
        try:
            out.append(inflate.decompress(block[at : at + DRIP_BYTES]))
        except zlib.error:
            break
    return b"".join(out)


def _skip_head(path: Path, chunks: Iterator[bytes], reading: FileReading) -> bytes:
    """What follows the opening bracket of the events; the bytes before it are kept as the head."""
    head = b""
    for chunk in chunks:
        head += chunk
        text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not text:
            continue
        if text.startswith(b"["):
            return text[1:]
        if not text.startswith(b"{"):
            raise BadInput(f"{path}: {_foreign(head)}; give a PyTorch profiler trace (.json or .json.gz)")
        match = _EVENTS_KEY.search(text)
        if match is not None:
            reading.head = text[: match.start()]
            return text[match.end() :]
        if len(head) > HEAD_BYTES:
            break
    if not head.strip():
        damage = f" ({'; '.join(reading.notes)})" if reading.notes else ""
        raise BadInput(f"{path}: the file is empty{damage}; profile again and export the trace")
    raise BadInput(f"{path}: has no traceEvents, so it is no profiler trace; give the file of export_chrome_trace")


def _foreign(head: bytes) -> str:
    return next((what for magic, what in _FOREIGN if head.startswith(magic)), "not a JSON chrome trace")


def _cut(rest: bytes, decode: Callable[[bytes], list[T]], *, final: bool) -> Cut[T] | None:
    """The longest believable run of whole events at the start of `rest`, what follows, and whether the list ended."""
    cut = _cut_once(rest, decode)
    if cut is None and (fixed := repaired(rest)) != rest:
        cut = _cut_once(fixed, decode)
        rest = fixed
    if cut is None and (final or len(rest) > LONGEST_EVENT_BYTES):
        cut = _before_damage(rest.lstrip(SEPARATORS), decode)
    return cut


def _cut_once(rest: bytes, decode: Callable[[bytes], list[T]]) -> Cut[T] | None:
    body = rest.lstrip(SEPARATORS)
    if len(body) < PIECE_BYTES:
        whole = _closed(body, decode)
        if whole is not None:
            return whole
    candidates = _last_cuts(body)
    if body.rstrip(SEPARATORS).endswith(b"}"):
        candidates.append(len(body.rstrip(SEPARATORS)))
    for end in reversed(candidates):
        try:
            return decode(b"".join((b"[", memoryview(body)[:end], b"]"))), body[end:], False
        except UNDECODABLE as error:
            whole = _ended_at(error, body, decode)
            if whole is not None:
                return whole
    return _closed(body, decode)


def _last_cuts(body: bytes) -> list[int]:
    """Where the last few events may end, in order; the window grows where one event is longer than it."""
    window = CUT_WINDOW_BYTES
    while True:
        cuts = [match.start() + 1 for match in _BETWEEN.finditer(body, max(0, len(body) - window))]
        if len(cuts) >= CUT_TRIES or window >= len(body):
            return cuts[-CUT_TRIES:]
        window *= 8


def _before_damage(body: bytes, decode: Callable[[bytes], list[T]]) -> Cut[T] | None:
    """The events before a byte that no reading can mend: every later cut fails, so the last good one is bisected."""
    cuts = [match.start() + 1 for match in _BETWEEN.finditer(body)]
    good: tuple[list[T], int] | None = None
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        try:
            good = decode(b"[" + body[: cuts[middle]] + b"]"), cuts[middle]
            low = middle + 1
        except UNDECODABLE:
            high = middle
    return None if good is None else (good[0], body[good[1] :], False)


def _closed(body: bytes, decode: Callable[[bytes], list[T]]) -> Cut[T] | None:
    """The events when the list's closing bracket lies in `body`; the decoder says where by refusing what follows it."""
    try:
        return decode(b"[" + body), b"", True
    except UNDECODABLE as error:
        return _ended_at(error, body, decode)


def _ended_at(error: Exception, body: bytes, decode: Callable[[bytes], list[T]]) -> Cut[T] | None:
    if "trailing characters" not in str(error):
        return None
    at = _BYTE.search(str(error))
    if at is None:
        return None
    end = body.rfind(b"]", 0, int(at.group(1)))  # the message counts the added bracket and the first foreign byte
    if end < 0:
        return None
    try:
        return decode(b"[" + body[: end + 1]), body[end + 1 :], True
    except UNDECODABLE:
        return None
