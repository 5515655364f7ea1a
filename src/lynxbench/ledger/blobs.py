"""Documents held by their content: a folder, or any store that fsspec reaches (S3 and what speaks its language).

What is read is hashed again, always: a store can lose a document, it cannot change one.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from lynxbench.errors import BadInput, BadLedger, EvidenceInvalid, LynxbenchError
from lynxbench.ledger.flushing import flush_file_system, is_on
from lynxbench.model.canonical import short

MAX_BLOB_BYTES = 4 << 30
AT_ONCE = 64
"""Documents that are written before they are flushed together."""
FLUSHED_AT_ONCE = 8
TOGETHER = 16
"""So many documents are flushed with their whole file system, which is one call in place of one for each of them."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class BlobStore(Protocol):
    """Where documents are kept."""

    def put(self, data: bytes) -> str:
        """Keep a document; its SHA-256 is its name. Durable when this returns."""

    def put_all(self, documents: Iterable[bytes]) -> list[str]:
        """The same for several, which is quicker than one after the other."""

    def put_named(self, documents: Mapping[str, bytes]) -> None:
        """The same for documents whose names the caller computed from these very bytes: they are not hashed again."""

    def get(self, sha256: str) -> bytes:
        """A document, proven to be the one asked for."""

    def has(self, sha256: str) -> bool:
        """Whether a document is there."""


def open_blobs(url: str) -> BlobStore:
    """The store at a folder or URL."""
    if "://" in url and not url.startswith("file://"):
        return UrlBlobs(url)
    return FolderBlobs(Path(url.removeprefix("file://")))


class FolderBlobs:
    """ROOT/ab/cdef…: one file a document."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, data: bytes) -> str:
        """Write the file whole, flush it to the disk, then give it its name."""
        return self.put_all([data])[0]

    def put_all(self, documents: Iterable[bytes]) -> list[str]:
        """The same for several: all are written, then flushed together, then named, then their folders flushed."""
        names: list[str] = []
        for some in _batched(documents):
            digests = [hashlib.sha256(data).hexdigest() for data in some]
            self.put_named(dict(zip(digests, some, strict=True)))
            names += digests
        return names

    def put_named(self, documents: Mapping[str, bytes]) -> None:
        """The same under names that are known already."""
        self._write({name: data for name, data in documents.items() if not self.has(name)})

    def _write(self, documents: Mapping[str, bytes]) -> None:
        batch, together = secrets.token_hex(8), len(documents) >= TOGETHER
        file, parts = str(self._root), dict[str, str]()
        try:
            folders = {os.path.dirname(self._file(name)) for name in documents}
            for folder in folders:
                self._make_folder(folder, flush=not together)
            for name, data in documents.items():
                file = self._file(name)
                part = parts[file] = f"{os.path.dirname(file)}/.{batch}-{len(parts)}.part"
                _write_new(part, data)
            together = together and all(is_on(Path(folder), self._root) for folder in folders)
            if not (together and flush_file_system(self._root)):
                _sync(parts.values(), os.O_RDONLY)
            for file in list(parts):
                os.replace(parts[file], file)
                del parts[file]
            if not (together and flush_file_system(self._root)):
                _sync({*folders, self._root}, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BadLedger(f"{file}: {error.strerror or error}; the document was not kept") from error
        finally:
            for part in parts.values():  # those that did not get a name
                Path(part).unlink(missing_ok=True)

    def get(self, sha256: str) -> bytes:
        """Read without following links, and hash."""
        file = self._file(sha256)
        folder = os.path.dirname(file)
        if os.path.islink(folder):
            raise EvidenceInvalid(f"{folder}: a symbolic link in the ledger's documents; it was tampered with")
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            if os.path.islink(file):
                raise EvidenceInvalid(f"{file}: a symbolic link in place of a document; it was tampered with") from None
            raise EvidenceInvalid(f"{file}: {error.strerror or error}; document {short(sha256)} is not there") from None
        with os.fdopen(descriptor, "rb") as stream:
            facts = os.fstat(stream.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BLOB_BYTES:
                raise EvidenceInvalid(f"{file}: not a document of this ledger")
            return _proven(stream.read(), sha256, file)

    def has(self, sha256: str) -> bool:
        """Whether a plain file of that name is there; half-written ones never have the name."""
        file = self._file(sha256)
        try:
            return stat.S_ISREG(os.lstat(file).st_mode) and not os.path.islink(os.path.dirname(file))
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return False

    def _file(self, sha256: str) -> str:
        """As text: a bundle names many of them, and a `Path` takes longer than the file it is of."""
        _refuse_name(sha256)
        return f"{self._root}/{sha256[:2]}/{sha256[2:]}"

    def _make_folder(self, folder: str, *, flush: bool) -> None:
        if os.path.islink(folder):
            raise EvidenceInvalid(f"{folder}: a symbolic link in the ledger's documents; it was tampered with")
        if not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
            if flush:
                _sync([os.path.dirname(folder)], os.O_RDONLY | os.O_DIRECTORY)


def open_store(url: str) -> tuple[Any, str]:
    """A file system of fsspec, and the path in it; BadInput says what to install."""
    try:
        import fsspec
    except ModuleNotFoundError:
        raise BadInput(f"{url}: needs fsspec; pip install 'lynxbench[s3]'") from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise BadInput(f"{url}: {error}; pip install 'lynxbench[s3]', or give a folder") from None
    return system, str(path)


class UrlBlobs:
    """URL/ab/cdef… through fsspec: s3://bucket/prefix, gs://…, memory://…"""

    def __init__(self, url: str) -> None:
        self._system, self._root = open_store(url)
        self._url = url

    def put(self, data: bytes) -> str:
        """One object a document; object stores write whole or not at all."""
        sha256 = hashlib.sha256(data).hexdigest()
        if not self.has(sha256):
            with self._translated("; the document was not kept"):
                self._system.pipe_file(self._path(sha256), data)
        return sha256

    def put_all(self, documents: Iterable[bytes]) -> list[str]:
        """One after the other."""
        return [self.put(data) for data in documents]

    def put_named(self, documents: Mapping[str, bytes]) -> None:
        """One after the other."""
        for name, data in documents.items():
            if not self.has(name):
                with self._translated("; the document was not kept"):
                    self._system.pipe_file(self._path(name), data)

    def get(self, sha256: str) -> bytes:
        """Fetch and hash."""
        path = self._path(sha256)
        with self._translated():
            try:
                size = int(self._system.info(path)["size"])
                data = self._system.cat_file(path) if size <= MAX_BLOB_BYTES else None
            except FileNotFoundError:
                raise EvidenceInvalid(f"{path}: document {short(sha256)} is not there") from None
        if data is None:
            raise EvidenceInvalid(f"{path}: not a document of this ledger")
        return _proven(bytes(data), sha256, path)

    def has(self, sha256: str) -> bool:
        """Whether the object is there."""
        with self._translated():
            return bool(self._system.isfile(self._path(sha256)))

    @contextlib.contextmanager
    def _translated(self, consequence: str = "") -> Iterator[None]:
        try:
            yield
        except LynxbenchError:
            raise
        except Exception as error:  # every store has errors of its own
            words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise BadLedger(f"{self._url}: {words}{consequence}") from error

    def _path(self, sha256: str) -> str:
        _refuse_name(sha256)
        return f"{str(self._root).rstrip('/')}/{sha256[:2]}/{sha256[2:]}"


def _batched(documents: Iterable[bytes]) -> Iterator[list[bytes]]:
    waiting = iter(documents)
    while some := list(islice(waiting, AT_ONCE)):
        yield some


def _proven(data: bytes, sha256: str, where: str) -> bytes:
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise EvidenceInvalid(f"{where}: holds {short(actual)}…, not {short(sha256)}…: the document was changed")
    return data


def _refuse_name(sha256: str) -> None:
    if not _SHA256.fullmatch(sha256):
        raise BadInput(f"{sha256[:80]!r} is no name of a document; it is 64 lower-case hex digits")


def _write_new(path: str, data: bytes) -> None:
    """A file that was not there; flushed by whoever asks."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _sync(paths: Iterable[str | Path], flags: int) -> None:
    """Flush files or folders to the disk; several at a time become one write of the file system's journal."""

    def sync(path: str | Path) -> None:
        descriptor = os.open(path, flags | os.O_NOFOLLOW)
        try:
            os.fsync(descriptor)
        except OSError:
            if not flags & os.O_DIRECTORY:  # not every file system can flush a folder
                raise
        finally:
            os.close(descriptor)

    several = list(paths)
    for _ in map(sync, several) if len(several) < 2 else _flushing().map(sync, several):
        pass


@cache
def _flushing() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(FLUSHED_AT_ONCE, thread_name_prefix="lynxbench-flush")
