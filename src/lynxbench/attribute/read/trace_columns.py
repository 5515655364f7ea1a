"""A trace as its columns, packed: all that the verdict is computed from, in a tenth of the profiler's own file.

An eager step of a small model is fifty thousand operators, 360 bytes of text each. What is read of them is a kind, a
name, a thread, two stamps and a list of operands, and nearly all of it repeats from step to step. Stamps are kept in
steps of 64 ns: a profiler takes a microsecond for an operator, and start and end are rounded alike, so that durations
are right on average and what was inside stays inside.
"""

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from lynxbench.attribute.read.dataflow import Dataflow
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.operands import OperatorCall
from lynxbench.attribute.read.recognising import COLUMNS_MAGIC, RecordKind, recognise
from lynxbench.attribute.read.trace import NONE, EventKind, Trace
from lynxbench.errors import BadInput
from lynxbench.plain_files import open_plain

COLUMNS_FILE: Final = "trace.columns"
TICK_NS: Final = 64
MOST_MEMORY: Final = 256 << 20
"""What unpacking may take beside its result."""
MOST_BYTES: Final = 512 << 20
"""Of a head, and of all columns unpacked: eleven million events. Larger traces stay in the profiler's own form."""
_HEAD_BYTES: Final = 8
_NO_COLUMNS = "holds no columns of a trace: not written by lynxbench, or damaged"

_COLUMNS: Final[dict[str, type[np.signedinteger[Any]]]] = {
    "kind": np.int8,
    "name": np.int32,
    "start_ns": np.int64,
    "dur_ns": np.int64,
    "thread": np.int32,
    "correlation": np.int64,
    "external": np.int64,
    "signature": np.int32,
    "nbytes": np.int64,
}
_ROW_BYTES = sum(np.dtype(width).itemsize for width in _COLUMNS.values())

Column = npt.NDArray[np.signedinteger[Any]]


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What stands before the columns: how many rows, and the tables that they point into."""

    rows: int
    tick_ns: int
    names: tuple[str, ...]
    threads: tuple[tuple[str, str], ...]
    signatures: tuple[OperatorCall, ...]
    device: str | None
    notes: tuple[str, ...]
    damaged: bool
    rank: int | None
    dataflow: Dataflow | None = None


def condense_trace(raw: Path) -> Path:
    """Columns in a file in the place of a chrome trace; what is none, cannot be read or is too large stays as it is."""
    try:
        trace = read_trace(raw) if recognise(raw) is RecordKind.CHROME else None
    except BadInput:
        trace = None
    if trace is None or len(trace) * _ROW_BYTES > MOST_BYTES:
        return raw
    packed = raw.with_name(COLUMNS_FILE)
    draft = packed.with_suffix(".part")
    draft.write_bytes(COLUMNS_MAGIC + pack_columns(trace))
    draft.replace(packed)
    raw.unlink()
    return packed


def pack_columns(trace: Trace) -> bytes:
    """The columns of a trace, and the tables that they point into."""
    start, end = trace.start_ns // TICK_NS, trace.end_ns // TICK_NS
    order = np.lexsort((start - end, start))
    columns = {name: getattr(trace, name)[order] for name in _COLUMNS}
    columns["start_ns"] = np.diff(start[order], prepend=0)
    columns["dur_ns"] = (end - start)[order]
    words = _Words(
        rows=len(trace),
        tick_ns=TICK_NS,
        names=trace.names,
        threads=trace.threads,
        signatures=trace.signatures,
        device=trace.device,
        notes=trace.notes,
        damaged=trace.damaged,
        rank=trace.rank,
        dataflow=trace.dataflow,
    )
    head = msgspec.json.encode(words)
    planes = (_planes(columns[name], width) for name, width in _COLUMNS.items())
    return lzma.compress(b"".join((len(head).to_bytes(_HEAD_BYTES, "little"), head, *planes)))


def read_columns(path: Path) -> Trace:
    """The trace whose columns a file holds; BadInput where it is none, or claims more than it holds."""
    try:
        with open_plain(path) as file:
            packed = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a trace file") from None
    if not packed.startswith(COLUMNS_MAGIC) or len(packed) > MOST_BYTES:
        raise BadInput(f"{path}: {_NO_COLUMNS}")
    try:
        words, columns = _unpacked(packed[len(COLUMNS_MAGIC) :])
    except (lzma.LZMAError, msgspec.DecodeError, RecursionError, ValueError, MemoryError):
        raise BadInput(f"{path}: {_NO_COLUMNS}") from None
    return Trace(
        source=str(path),
        names=words.names,
        threads=words.threads,
        signatures=words.signatures,
        device=words.device,
        notes=words.notes,
        damaged=words.damaged,
        rank=words.rank,
        dataflow=words.dataflow,
        **columns,
    )


def _unpacked(packed: bytes) -> tuple[_Words, dict[str, Any]]:
    """What the bytes hold, once their own head says how much that is: no more is ever unpacked."""
    stream = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
    ahead = stream.decompress(packed, max_length=_HEAD_BYTES)
    size = int.from_bytes(ahead, "little")
    if len(ahead) != _HEAD_BYTES or size > MOST_BYTES:
        raise ValueError(_NO_COLUMNS)
    words = msgspec.json.decode(_exactly(stream, size), type=_Words)
    if not 0 < words.rows * _ROW_BYTES <= MOST_BYTES or not 0 < words.tick_ns <= TICK_NS:
        raise ValueError(_NO_COLUMNS)
    columns = {
        name: _from_planes(_exactly(stream, words.rows * np.dtype(width).itemsize), words.rows, width)
        for name, width in _COLUMNS.items()
    }
    more = b"" if stream.eof else stream.decompress(b"", max_length=1)
    if more or not stream.eof or stream.unused_data:  # at its end its checksum was held against what it holds
        raise ValueError(_NO_COLUMNS)
    columns["start_ns"] = np.cumsum(columns["start_ns"], dtype=np.int64) * words.tick_ns
    columns["dur_ns"] = columns["dur_ns"] * words.tick_ns
    if not all(_is_sound(words, columns)):
        raise ValueError(_NO_COLUMNS)
    return words, columns


def _exactly(stream: lzma.LZMADecompressor, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = b"" if stream.eof else stream.decompress(b"", max_length=size)
        if not part:
            raise ValueError(_NO_COLUMNS)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_sound(words: _Words, columns: dict[str, Column]) -> Iterator[bool]:
    """Whether every number points into its table, and rows come by start, longest first."""
    tables = {"name": (0, words.names), "thread": (0, words.threads), "signature": (NONE, words.signatures)}
    for name, (least, table) in tables.items():
        yield bool((columns[name] >= least).all() and (columns[name] < len(table)).all())
    yield bool(np.isin(columns["kind"], [int(kind) for kind in EventKind]).all())
    start, dur = columns["start_ns"], columns["dur_ns"]
    yield bool((start >= 0).all() and (dur >= 0).all() and (start + dur >= start).all())
    later, tied = start[1:] > start[:-1], start[1:] == start[:-1]
    yield bool((later | tied & (dur[1:] <= dur[:-1])).all())


def _planes(column: Column, width: type[np.signedinteger[Any]]) -> bytes:
    """Byte by byte: the high bytes of small numbers then lie together, and weigh nothing."""
    plain = np.ascontiguousarray(column, dtype=np.dtype(width).newbyteorder("<"))
    return np.ascontiguousarray(plain.view(np.uint8).reshape(len(plain), -1).T).tobytes()


def _from_planes(data: bytes, rows: int, width: type[np.signedinteger[Any]]) -> Column:
    planes = np.frombuffer(data, np.uint8).reshape(-1, rows)
    little = np.ascontiguousarray(planes.T).view(np.dtype(width).newbyteorder("<")).reshape(rows)
    return little.astype(width)
