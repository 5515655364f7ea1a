"""Native libraries mapped into this process, by stable name and content; hashes are remembered on disk."""

import hashlib
import json
import os
import re
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CACHE_FILE = "library-hashes.json"
CACHE_ENTRIES = 4096
_SHARED_OBJECT = re.compile(r"\.so(\.[\w.-]+)?$")
DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class MappedLibrary:
    """A mapped file: what it is called everywhere, where it lies here, and where it came from."""

    name: str
    path: str
    origin: str
    """`bundled` with a Python package, `python` itself, `system`, or `generated` while running."""
    replaced: bool = False
    """The file was deleted or replaced after it was mapped, so its hash on disk says nothing."""


def parse_maps(text: str) -> list[str]:
    """Paths of shared objects that /proc/PID/maps shows as executable, in order, once each."""
    paths: dict[str, None] = {}
    for line in text.splitlines():
        parts = line.split(None, 5)
        if len(parts) == 6 and "x" in parts[1] and _SHARED_OBJECT.search(parts[5].removesuffix(DELETED)):
            paths[parts[5]] = None
    return list(paths)


def package_folders() -> tuple[str, ...]:
    """Folders Python packages are installed in; longest first, so that a nested one wins."""
    named = [*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values(), *sys.path]
    real = {os.path.realpath(folder) for folder in named if re.search(r"(site|dist)-packages/?$", folder or "")}
    return tuple(sorted(real, key=len, reverse=True))


def name_libraries(paths: Iterable[str], packages: tuple[str, ...], generated: tuple[str, ...]) -> list[MappedLibrary]:
    """Stable names: a path inside a package folder, inside Python's own, or a system library's bare name."""
    named: list[MappedLibrary] = []
    taken: dict[str, int] = {}
    python = os.path.realpath(sysconfig.get_paths()["stdlib"])
    for path in sorted(paths):
        replaced = path.endswith(DELETED)
        plain = path.removesuffix(DELETED)
        inside = next((folder for folder in packages if plain.startswith(f"{folder}/")), None)
        if inside:
            name, origin = plain[len(inside) + 1 :], "bundled"
        elif plain.startswith(f"{python}/"):
            name, origin = f"python/{plain[len(python) + 1 :]}", "python"
        else:
            name = plain.rpartition("/")[2]
            origin = "generated" if plain.startswith(tuple(f"{g}/" for g in generated)) else "system"
        taken[name] = taken.get(name, 0) + 1
        unique = name if taken[name] == 1 else f"{name} #{taken[name]}"
        named.append(MappedLibrary(unique, plain, origin, replaced))
    return named


def generated_folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Folders in which compilers leave libraries while a program runs."""
    home_cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", "/root"), ".cache")
    named = [tempfile.gettempdir(), "/tmp", "/dev/shm", home_cache, environ.get("TORCHINDUCTOR_CACHE_DIR", "")]
    return tuple(sorted({os.path.realpath(folder) for folder in named if folder}))


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where hashes are remembered: $LYNXBENCH_CACHE, else the user's cache folder."""
    if environ.get("LYNXBENCH_CACHE"):
        return Path(environ["LYNXBENCH_CACHE"])
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "lynxbench"
    return Path(environ.get("HOME") or os.path.expanduser("~")) / ".cache" / "lynxbench"


class HashCache:
    """SHA-256 by device, inode, size and times: a 400 MB library is read once, not once a run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / CACHE_FILE
        self._known = self._read()
        self._new: dict[str, str] = {}
        self.hashed_bytes = 0

    def _read(self) -> dict[str, str]:
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(stored, dict):
            return {}
        return {key: value for key, value in stored.items() if re.fullmatch(r"[0-9a-f]{64}", str(value))}

    def sha256(self, path: str) -> str:
        """The file's hash, from memory where the very same file was hashed before; raises OSError."""
        file = os.stat(path)
        key = f"{file.st_dev}:{file.st_ino}:{file.st_size}:{file.st_mtime_ns}:{file.st_ctime_ns}"
        if key not in self._known:
            with open(path, "rb", buffering=0) as stream:
                self._known[key] = self._new[key] = hashlib.file_digest(stream, "sha256").hexdigest()
            self.hashed_bytes += file.st_size
        return self._known[key]

    def save(self) -> None:
        """Keep what is new, beside what other processes kept meanwhile; a cache that cannot be written is no loss."""
        if not self._new:
            return
        merged = {**self._read(), **self._new}
        newest = dict(list(merged.items())[-CACHE_ENTRIES:])
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=CACHE_FILE)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(newest, file)
            os.replace(temporary, self._file)
        self._new = {}
