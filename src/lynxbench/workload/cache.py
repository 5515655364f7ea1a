"""Where converted weights are kept, and how a folder appears there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

COMPLETE = "complete"
"""Written last. A folder without it was never finished and is made again."""

DRAFT_PREFIX = ".draft-"
ABANDONED_S = 24 * 3600.0
"""A draft this old belongs to a process that was killed; no conversion takes a day."""


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
