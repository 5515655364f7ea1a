"""Files of models: named by their bytes, and converted ones kept in a folder that appears whole or not at all."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

COMPLETE = "complete"
"""Written last. A folder without it was never finished and is made again."""

DRAFT_PREFIX = ".draft-"
ABANDONED_S = 24 * 3600.0
"""A draft this old belongs to a process that was killed; no conversion takes a day."""
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".onnx")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files of a model folder that hold weights, in name order; safetensors alone where there are any."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in WEIGHT_SUFFIXES)
    return tuple(path for path in files if path.suffix == ".safetensors") or tuple(files)


def files_sha256(paths: Iterable[Path]) -> str:
    """One hash over several files: SHA-256 over `name hash` lines in name order; a single file keeps its own hash."""
    named = sorted((path.name, file_sha256(path)) for path in paths)
    if len(named) == 1:
        return named[0][1]
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in named).encode()).hexdigest()


def cache_root() -> Path:
    """$LYNXBENCH_CACHE, else $XDG_CACHE_HOME/lynxbench, else ~/.cache/lynxbench."""
    named = os.environ.get("LYNXBENCH_CACHE")
    if named:
        return Path(named)
    shared = os.environ.get("XDG_CACHE_HOME")
    return Path(shared) / "lynxbench" if shared else Path.home() / ".cache" / "lynxbench"


def is_complete(folder: Path) -> bool:
    """Whether the folder was finished."""
    return (folder / COMPLETE).is_file()


def make_folder_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """The folder, filled by `fill` if it is not there yet. Processes may race or be killed: it is never half full."""
    if is_complete(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    draft = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=folder.parent))
    try:
        fill(draft)
        (draft / COMPLETE).touch()
        _publish(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _publish(draft: Path, folder: Path) -> None:
    try:
        draft.rename(folder)  # atomic on one filesystem; fails when another process was first
    except OSError:
        if is_complete(folder):
            return
        stale = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=folder.parent))
        folder.rename(stale / "folder")  # a leftover that lacks its mark, such as one a person copied in part
        shutil.rmtree(stale, ignore_errors=True)
        draft.rename(folder)


def _sweep(parent: Path) -> None:
    for draft in parent.glob(f"{DRAFT_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(draft, ignore_errors=True)
