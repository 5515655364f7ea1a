"""Packages of one line, built by hand: nothing is fetched."""

from __future__ import annotations

import zipfile
from pathlib import Path


def tiny_wheel(folder: Path, version: str) -> Path:
    """A wheel of `tinylayer` whose SPEED is its major version."""
    path = folder / f"tinylayer-{version}-py3-none-any.whl"
    info = f"tinylayer-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tinylayer.py", f"SPEED = {version[0]}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinylayer\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


def tiny_lock(folder: Path, version: str) -> Path:
    """A lock file that names that wheel."""
    path = folder / f"tiny-{version}.txt"
    path.write_text(f"tinylayer @ {tiny_wheel(folder, version).as_uri()}\n")
    return path
