"""Hashes of model files: what was loaded is named by its bytes, not by its path."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_PIECE_BYTES = 1 << 22
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".onnx")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files of a model folder that hold weights, in name order; safetensors alone where there are any."""
    found = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in WEIGHT_SUFFIXES)
    safe = [path for path in found if path.suffix == ".safetensors"]
    return tuple(safe or found)


def files_sha256(paths: Iterable[Path]) -> str:
    """One hash over several files: SHA-256 over `name hash` lines in name order; a single file keeps its own hash."""
    named = sorted((path.name, file_sha256(path)) for path in paths)
    if len(named) == 1:
        return named[0][1]
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in named).encode()).hexdigest()
