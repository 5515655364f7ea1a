"""What kind of record a file is, by how it begins: its name says nothing."""

import re
import zlib
from enum import StrEnum
from pathlib import Path

from lynxbench.attribute.read.csv_tables import is_header
from lynxbench.attribute.read.nsight_compute import KERNEL
from lynxbench.attribute.read.resource_record import is_resource
from lynxbench.attribute.read.rocprof import STAMPS
from lynxbench.errors import BadInput
from lynxbench.plain_files import open_plain

HEAD_BYTES = 64 << 10
"""Enough to tell what kind of file it is, behind what a profiled program may have printed."""
RESOURCE_BYTES = 512
SQLITE_MAGIC = b"SQLite format 3"
GZIP_MAGIC = b"\x1f\x8b"
COLUMNS_MAGIC = b"lynxbench trace columns 1\n"

_DEVICE_NAMED = re.compile(rb'"name"\s*:\s*"[^"]*/(?:host|device):')
_KEY = re.compile(rb'"(\w+)"\s*:')
_COUNT_FIRST = re.compile(rb'^\[\s*\{\s*"count"\s*:\s*\d+\s*\}')


class RecordKind(StrEnum):
    """Kinds of files that tell where time went."""

    CHROME = "chrome trace"
    COLUMNS = "columns of a trace"
    XLA = "XLA trace"
    RESOURCE = "resource record"
    NSIGHT_SYSTEMS = "Nsight Systems export"
    NSIGHT_COMPUTE = "Nsight Compute table"
    ROCPROF_TABLE = "rocprofv3 table"
    ROCPROF_DOCUMENT = "rocprofv3 document"
    TENSORRT_LAYERS = "TensorRT layer profile"
    TENSORRT_TIMES = "TensorRT inference times"
    TRITON = "Triton trace"


def recognise(path: Path) -> RecordKind:
    """What a file is; whatever is nothing else is left to the reader of chrome traces, which says what it lacks."""
    try:
        with open_plain(path) as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a trace file") from None
    if head.startswith(SQLITE_MAGIC):
        return RecordKind.NSIGHT_SYSTEMS
    if head.startswith(COLUMNS_MAGIC):
        return RecordKind.COLUMNS
    if head.startswith(GZIP_MAGIC):
        head = _inflated(head)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        return _document_kind(text)
    if text.startswith(b"["):
        return _list_kind(text)
    return _table_kind(text)


def _inflated(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _document_kind(text: bytes) -> RecordKind:
    if is_resource(text[:RESOURCE_BYTES]):
        return RecordKind.RESOURCE
    if b'"rocprofiler-sdk-tool"' in text[:RESOURCE_BYTES]:
        return RecordKind.ROCPROF_DOCUMENT
    is_xla = b'"process_name"' in text and _DEVICE_NAMED.search(text) is not None
    return RecordKind.XLA if is_xla else RecordKind.CHROME


def _list_kind(text: bytes) -> RecordKind:
    keys = {key.decode() for key in _KEY.findall(text[: 4 * RESOURCE_BYTES])}
    if "ph" in keys:
        return RecordKind.CHROME
    if "timeMs" in keys or "averageMs" in keys or _COUNT_FIRST.match(text):
        return RecordKind.TENSORRT_LAYERS
    if "startComputeMs" in keys or "computeMs" in keys:
        return RecordKind.TENSORRT_TIMES
    if "id" in keys and keys & {"timestamps", "model_name", "activity"}:
        return RecordKind.TRITON
    return RecordKind.CHROME


def _table_kind(text: bytes) -> RecordKind:
    for line in text.decode("utf-8", "replace").splitlines():
        if is_header(line, STAMPS):
            return RecordKind.ROCPROF_TABLE
        if is_header(line, (KERNEL,)):
            return RecordKind.NSIGHT_COMPUTE
    return RecordKind.CHROME
