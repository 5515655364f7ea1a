"""Folders that runs, experiments, tunings and fleet runs are kept in: named, made, and found again to go on with."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from lynxbench.errors import BadInput

Opened = TypeVar("Opened")


def dated_name(name: str, now: datetime, tag: str | None = None) -> str:
    """`quickstart-20260131T120000-3f9ac2`: by date, and no two alike."""
    return f"{name}-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{tag or secrets.token_hex(3)}"


def make_folder(path: Path) -> None:
    """Make a folder with those above it; BadInput where that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give a folder that can be written with --out") from error


def newest_unfinished(
    out: Path, begun: str, ended: str | None, opened: Callable[[Path], Opened], wanted: Callable[[Opened], bool]
) -> Opened | None:
    """The newest wanted one of the folders below `out` that have the file `begun` and not yet the file `ended`."""
    files = [file for file in out.glob(f"*/{begun}") if ended is None or not (file.parent / ended).exists()]
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            folder = opened(file.parent)
        except BadInput:
            continue  # a damaged record of another one must not stop this one
        if wanted(folder):
            return folder
    return None
