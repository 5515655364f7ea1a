"""Every file that a run left behind, by its SHA-256: written last, so that nothing of the record can change unseen.

The manifest is what a signature reaches the raw files through: the signed entry names the manifest's hash, the manifest
names theirs.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field as Bound_

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_document
from lynxbench.evidence.sample_file import hash_file
from lynxbench.evidence.whole_files import write_text
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.document import Document
from lynxbench.model.fields import Sha256
from lynxbench.plain_files import read_plain

MANIFEST_FILE: Final = "manifest.json"
ENVELOPE_FILE: Final = "entry.dsse.json"
"""The signed entry of this result, where one was made."""
REGISTERED_FILE: Final = "registration.dsse.json"
"""The signed announcement of the run: shows whose it is where no ledger took it."""
NOT_EVIDENCE: Final = frozenset({MANIFEST_FILE, ENVELOPE_FILE, REGISTERED_FILE, "report.html", "report.md"})
"""Drawn from the evidence, or about it; at the top of the folder alone."""
MAX_MANIFEST_BYTES: Final = 32 << 20

_PART = r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*"
RelativePath = Annotated[str, Bound_(pattern=rf"^{_PART}(/{_PART})*$", max_length=1000)]
"""Below the folder, without a way out of it: no '..', no hidden name, no absolute path."""


class KeptFile(Document):
    """One file of a run."""

    path: RelativePath
    sha256: Sha256
    size_bytes: Annotated[int, Bound_(ge=0)]


class RunManifest(Document):
    """All files of a run, by path."""

    schema_version: Literal[1] = 1
    files: tuple[KeptFile, ...]

    def to_bytes(self) -> bytes:
        """The manifest's only byte form."""
        return canonical_bytes(self.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not what the manifest says."""

    path: str
    stated: str
    actual: str


def take_manifest(folder: Path) -> RunManifest:
    """The files of a folder as they are now."""
    files = [
        KeptFile(path=name, sha256=hash_file(path), size_bytes=path.stat().st_size)
        for name, path in _named_files(folder).items()
        if name not in NOT_EVIDENCE
    ]
    return RunManifest(files=tuple(sorted(files, key=lambda file: file.path)))


def write_manifest(folder: Path) -> RunManifest:
    """Take down the files of a finished run."""
    manifest = take_manifest(folder)
    write_text(folder / MANIFEST_FILE, manifest.to_bytes().decode("utf-8"))
    return manifest


def read_manifest(folder: Path) -> RunManifest | None:
    """The manifest of a folder; None where there is none."""
    file = folder / MANIFEST_FILE
    try:
        data = read_plain(file, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceInvalid(f"{MANIFEST_FILE}: {error.strerror or error}") from error
    return parse_manifest(data)


def parse_manifest(data: bytes) -> RunManifest:
    """A manifest from canonical bytes; EvidenceInvalid for anything else."""
    manifest = parse_document(data, MANIFEST_FILE, MAX_MANIFEST_BYTES, RunManifest)
    paths = [file.path for file in manifest.files]
    if paths != sorted(set(paths)):
        raise EvidenceInvalid(f"{MANIFEST_FILE}: paths are not in order, or one is listed twice")
    return manifest


def differences(folder: Path, manifest: RunManifest) -> tuple[Difference, ...]:
    """Files that are missing, changed or were added since the manifest was taken."""
    here = _named_files(folder)
    changed: list[Difference] = []
    for file in manifest.files:
        path = here.pop(file.path, None)
        if path is None:
            changed.append(Difference(file.path, f"sha256 {file.sha256[:12]}…", "no such file"))
        elif path.stat().st_size != file.size_bytes:
            changed.append(Difference(file.path, f"{file.size_bytes} bytes", f"{path.stat().st_size} bytes"))
        elif (digest := hash_file(path)) != file.sha256:
            changed.append(Difference(file.path, f"sha256 {file.sha256[:12]}…", f"sha256 {digest[:12]}…"))
    added = sorted(here.keys() - NOT_EVIDENCE)
    return (*changed, *(Difference(name, "no such file", "a file that was added") for name in added))


def _named_files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in walk(folder)}


def walk(folder: Path) -> Iterator[Path]:
    """Every plain file below a folder; EvidenceInvalid at a link or anything that is neither file nor folder.

    Hidden files are parts of writes that never ended; they are no evidence.
    """
    for directory, folders, files in os.walk(folder, followlinks=False, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in sorted((*folders, *files)):
            if name.startswith("."):
                continue
            path = Path(directory) / name
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                yield path
            elif not stat.S_ISDIR(mode):
                what = "a symbolic link" if stat.S_ISLNK(mode) else "not a plain file"
                raise EvidenceInvalid(f"{path.relative_to(folder)}: {what}; evidence holds plain files alone")


def _refuse(error: OSError) -> None:
    raise EvidenceInvalid(f"{error.filename}: {error.strerror}") from error
