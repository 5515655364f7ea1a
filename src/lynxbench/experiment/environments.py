"""Environments of their own for versions under test: made from lock files, used again, known by what is in them."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import lynxbench
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.canonical import content_id
from lynxbench.model.surroundings import PackageSet

STAMP = "lynxbench-packages.json"
INSTALL_LIMIT_S = 1800.0
_LIST = (
    "import importlib.metadata as m, json, re\n"
    "versions = {}\n"
    "for d in m.distributions():\n"
    "    name = d.metadata['Name']\n"
    "    if name: versions.setdefault(re.sub(r'[-_.]+', '-', name).lower(), d.version)\n"
    "print(json.dumps(versions))"
)


@dataclass(frozen=True, slots=True)
class MadeEnvironment:
    """An interpreter, and what it finds."""

    interpreter: Path
    packages: PackageSet


def make_environment(lock: Path, folder: Path, *, inherits: bool) -> MadeEnvironment:
    """The environment of a lock file; one that was made before is used again. CannotRun where it cannot be made.

    What the lock does not name comes from the running environment where it `inherits`; otherwise lynxbench's own
    requirements are installed beside it, in the versions that run here.
    """
    try:
        data = lock.read_bytes()
    except OSError as error:
        raise BadInput(f"{lock}: {error.strerror or error}; name a lock file beside the experiment") from None
    sha256 = hashlib.sha256(data).hexdigest()
    place = folder / f"{lock.stem}-{sha256[:12]}{'' if inherits else '-alone'}"
    python = place / "bin" / "python"
    if not (place / STAMP).exists():
        if place.exists():
            shutil.rmtree(place)  # a half-made one: nothing was ever measured in it
        _make(place, lock, data.decode("utf-8", errors="replace"), inherits)
        listed = _run([str(python), "-P", "-c", _LIST], f"{lock.name}: its environment does not start")
        (place / STAMP).write_text(listed)
    packages: dict[str, str] = dict(sorted(json.loads((place / STAMP).read_text()).items()))
    return MadeEnvironment(
        python.absolute(),
        PackageSet(
            name=lock.stem,
            lock_sha256=sha256,
            packages_sha256=content_id(packages),
            packages=packages,
            inherits=inherits,
        ),
    )


def named_packages(text: str) -> frozenset[str]:
    """The distributions a lock file names, normalised."""
    names = set()
    for line in text.splitlines():
        name = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", line.partition("#")[0])
        if name and not line.lstrip().startswith("-"):
            names.add(re.sub(r"[-_.]+", "-", name.group(1)).lower())
    return frozenset(names)


def _make(place: Path, lock: Path, text: str, inherits: bool) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    uv = _uv()
    failed = f"{lock.name}: its environment could not be made"
    if uv is not None:
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(place)], failed)
        install = [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python")]
    else:
        _run([sys.executable, "-m", "venv", str(place)], failed)
        install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    site = next(place.glob("lib/python*/site-packages"))
    paths = [str(Path(lynxbench.__file__).parent.parent)]
    if inherits:
        paths += [path for path in sys.path if path.endswith("site-packages")]
        # A lock is complete for what it names: its packages' requirements come from the running environment.
        _run([*install, "--no-deps", "--requirement", str(lock)], failed)
    else:
        own = _own_requirements(named_packages(text))
        _run([*install, "--requirement", str(lock), *own], failed)
    (site / "lynxbench-under-test.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(paths)))


def _own_requirements(named: frozenset[str]) -> list[str]:
    """What lynxbench itself needs, in the versions that are installed here, unless the lock says otherwise."""
    try:
        required = metadata.requires("lynxbench") or []
    except metadata.PackageNotFoundError:
        required = []
    pinned = []
    for line in required:
        if "extra ==" in line:
            continue
        name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        if re.sub(r"[-_.]+", "-", name).lower() not in named:
            pinned.append(f"{name}=={metadata.version(name)}")
    return pinned


def _uv() -> str | None:
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")


def _run(command: list[str], failed: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{failed}: {error}") from None
    if done.returncode != 0:
        words = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise CannotRun(f"{failed}: {' '.join(words[-3:])[:400] or f'code {done.returncode}'}")
    return done.stdout
