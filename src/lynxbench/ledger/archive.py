"""One file that holds many, in exactly one form: a plain tar (USTAR) whose every byte follows from its members.

Nothing is compressed, so nothing can explode; a header that is not the one this file would write is refused, and with
it links, odd modes, odd names and hidden bytes. `tar tf` reads it.
"""

import os
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.whole_files import written_whole
from lynxbench.ledger.blobs import MAX_BLOB_BYTES
from lynxbench.plain_files import open_plain

BLOCK = tarfile.BLOCKSIZE
MAX_MEMBERS = 200_000
_END = bytes(2 * BLOCK)
LARGEST_SIZE = 8**11 - 1
"""Eleven octal digits of a header."""
# POSIX.1-1988, USTAR header
_NAME_AT, _SIZE_AT, _SUM_AT, _MAGIC_AT = slice(0, 100), slice(124, 136), slice(148, 156), slice(257, 262)
_SIZE = re.compile(rb"([0-7]{11})\0")
_PACKED = {
    b"\xfd7zXZ\0": ("xz", "xz -dk"),
    b"\x1f\x8b": ("gzip", "gunzip -k"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"BZh": ("bzip2", "bunzip2 -k"),
    b"PK\x03\x04": ("zip", "unzip"),
}
"""By its first bytes: how a file is packed, and what unpacks it."""
_OF_MANY = re.compile(r"\.(?:tar(?:\.\w{1,4})?|t[gx]z|tbz2?|tzst|zip)")
_NAME = re.compile(r"[a-z]{1,20}(?:/[0-9a-f]{10,64})?(?:\.json)?")


def write_archive(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write the members in this order, whole or not at all."""
    try:
        with written_whole(path) as stream:
            for name, data in members:
                stream.write(_header(name, len(data)))
                stream.write(data)
                stream.write(bytes(-len(data) % BLOCK))
            stream.write(_END)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def looks_like_archive(path: Path) -> bool:
    """Whether a file is a bundle, perhaps a damaged one: texts are not. What cannot be opened is left to the reader."""
    try:
        with open_plain(path) as stream:
            start = stream.read(BLOCK)
    except OSError:
        return True
    return not start or b"\0" in start or start.startswith(tuple(_PACKED))


def is_archive(path: Path) -> bool:
    """Whether a file begins as a bundle does."""
    try:
        with open_plain(path) as stream:
            return stream.read(BLOCK)[_MAGIC_AT] == b"ustar"
    except OSError:
        return False


def read_archive(stream: BinaryIO, file: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of each member, in order; EvidenceInvalid at the first byte that is not as it must be."""
    left = os.fstat(stream.fileno()).st_size
    seen: set[str] = set()
    while True:
        block = stream.read(BLOCK)
        left -= len(block)
        if block == bytes(BLOCK):
            break
        if not seen:
            _refuse_packed(block, file)
        name, size = _parse_header(block, file)
        if name in seen:
            raise EvidenceInvalid(f"{file}: member {name!r} is there twice")
        seen.add(name)
        padded = size + -size % BLOCK
        if size > MAX_BLOB_BYTES or padded > left or len(seen) > MAX_MEMBERS:
            raise EvidenceInvalid(f"{file}: member {name!r} claims {size} bytes, more than the file holds; truncated?")
        data = stream.read(padded)
        left -= padded
        if len(data) != padded or any(data[size:]):
            raise EvidenceInvalid(f"{file}: member {name!r} is truncated or followed by foreign bytes")
        yield name, data[:size]
    if left != BLOCK or stream.read(BLOCK + 1) != bytes(BLOCK):
        raise EvidenceInvalid(f"{file}: the end is missing, or bytes follow it")


def first_member(data: bytes, file: str) -> tuple[str, bytes]:
    """Name and content of the first member of an archive that is in memory; EvidenceInvalid where it has none."""
    _refuse_packed(data[:BLOCK], file)
    name, size = _parse_header(data[:BLOCK], file)
    content = data[BLOCK : BLOCK + size]
    if len(content) != size:
        raise EvidenceInvalid(f"{file}: member {name!r} claims {size} bytes, more than the file holds; truncated?")
    return name, content


def _refuse_packed(block: bytes, file: str) -> None:
    """A bundle in something else is no damaged one: say what it is in, and how it comes out."""
    of_many = _OF_MANY.search(Path(file).name) is not None
    for magic, (packed, command) in _PACKED.items():
        if block.startswith(magic):
            unpack = "tar xf" if of_many and packed != "zip" else command
            then = "the bundles in it" if of_many else "what comes out"
            step = f"unpack it ({unpack} {shlex.quote(file)}) and give {then}"
            raise BadInput(f"{file}: not a bundle yet, packed with {packed}; {step}")
    try:
        first = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except tarfile.HeaderError:
        return
    if first.isdir() or not _NAME.fullmatch(first.name):
        raise BadInput(
            f"{file}: a tar of other files ({first.name[:80]!a}), not one bundle; unpack it "
            f"(tar xf {shlex.quote(file)}) and give the bundles in it"
        )


def _header(name: str, size: int) -> bytes:
    """The block before a member: that of a file without a name or a size, with both put in and added to its sum."""
    if not _NAME.fullmatch(name):
        raise EvidenceInvalid(f"{name[:80]!r} is no name of a member")
    if size > LARGEST_SIZE:
        raise EvidenceInvalid(f"{name}: {size} bytes are more than a member can have")
    block, encoded, digits = bytearray(_plain_header()), name.encode("ascii"), b"%011o" % size
    block[: len(encoded)] = encoded
    block[_SIZE_AT.start : _SIZE_AT.start + len(digits)] = digits
    total = int(block[_SUM_AT][:6], 8) + sum(encoded) + sum(digits) - len(digits) * ord("0")
    block[_SUM_AT] = b"%06o\0 " % total
    return bytes(block)


@cache
def _plain_header() -> bytes:
    facts = tarfile.TarInfo("")
    facts.mode = 0o644
    return facts.tobuf(tarfile.USTAR_FORMAT)


def _parse_header(block: bytes, file: str) -> tuple[str, int]:
    """Name and size where USTAR has them; everything else about the block must follow from these two."""
    digits = _SIZE.fullmatch(block[_SIZE_AT])
    if len(block) != BLOCK or block[_MAGIC_AT] != b"ustar" or digits is None:
        raise EvidenceInvalid(f"{file}: not a bundle of lynxbench, or truncated or damaged")
    name, size = block[_NAME_AT].rstrip(b"\0").decode("ascii", "replace"), int(digits[1], 8)
    if not _NAME.fullmatch(name) or _header(name, size) != block:
        raise EvidenceInvalid(f"{file}: member {name[:80]!r} is not a plain file as lynxbench writes it")
    return name, size
