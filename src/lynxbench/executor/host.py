"""What a probe may look at. Tests point it at a fake file tree; nothing else in this room opens /proc or /sys."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from lynxbench.model.canonical import EXACT_INTEGER, finite_or_none
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.tables import read_table

PSEUDONYM_DIGITS = 16
"""64 bits: two machines of a fleet collide with probability under 1e-10 for a million machines."""
SALT_VARIABLE = "LYNXBENCH_SALT"
KNOWN = read_table("executor/known.toml")
"""What probes look for, and what it is called."""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine as files, environment and the CPUs this process may use."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    affinity: Callable[[], set[int]] = lambda: set(os.sched_getaffinity(0))

    def path(self, path: str) -> Path:
        """Where an absolute path of the machine lies."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """A file's text without surrounding blanks; raises OSError."""
        return self.path(path).read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")

    def text_or(self, path: str, otherwise: str = "") -> str:
        """A file's text, or the given one where it cannot be read."""
        try:
            return self.text(path)
        except OSError:
            return otherwise

    def names(self, pattern: str) -> list[str]:
        """Absolute paths that match a glob, sorted."""
        try:
            return sorted(f"/{path.relative_to(self.root)}" for path in self.root.glob(pattern.lstrip("/")))
        except OSError:
            return []

    def field(self, path: str, parse: Callable[[str], JsonValue] = str, tier: Tier = Tier.CONFIGURATION) -> Field:
        """One file as a field; what goes wrong becomes its reason."""
        try:
            return measured(parse(self.text(path)), path, tier)
        except (OSError, ValueError, LookupError) as problem:
            return unreadable(explain(problem, path), tier)

    def pseudonym(self, kind: str, identity: str) -> str:
        """A stable stand-in for an identity; an organisation's own salt keeps outsiders from guessing it back."""
        salted = f"lynxbench\x00{self.environ.get(SALT_VARIABLE, '')}\x00{kind}\x00{identity}"
        return hashlib.sha256(salted.encode()).hexdigest()[:PSEUDONYM_DIGITS]


@dataclass(frozen=True, slots=True)
class Probe:
    """A small reader of one layer. What it promises becomes unreadable, with the reason, when it fails as a whole."""

    layer: Layer
    read: Callable[[Host], dict[str, Field]]
    promises: tuple[str, ...]
    tier: Tier = Tier.CONFIGURATION


def run_probe(probe: Probe, host: Host) -> dict[str, Field]:
    """The probe's fields; never an exception, because a capture that dies tells nobody anything."""
    try:
        return probe.read(host)
    except Exception as problem:
        return dict.fromkeys(probe.promises, unreadable(explain(problem), probe.tier))


def explain(problem: BaseException, path: str = "") -> str:
    """One line on why a reading failed."""
    where = path or str(getattr(problem, "filename", "") or "")
    for kind, reason in ((FileNotFoundError, "not present"), (PermissionError, "not permitted")):
        if isinstance(problem, kind):
            return f"{reason}: {where}" if where else reason
    message = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    return f"{where}: {message}" if where else message


def parse_cpu_list(text: str) -> list[int]:
    """The CPUs of a kernel list such as `0-3,8,10-11`."""
    cpus: set[int] = set()
    for span in filter(None, map(str.strip, text.split(","))):
        first, _, last = span.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return sorted(cpus)


def format_cpu_list(cpus: set[int] | list[int]) -> str:
    """The kernel's short form of a set of CPUs; one form for one set."""
    spans: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if spans and spans[-1][1] == cpu - 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def chosen(text: str) -> str:
    """The bracketed option of a kernel switch: `always [madvise] never` is madvise."""
    _, opened, rest = text.partition("[")
    return rest.partition("]")[0] if opened else text


def exact_json(value: object) -> JsonValue:
    """The value as JSON that every reader sees alike: integers beyond 2**53 and unknown objects become text.

    Halves of a character, which JSON can spell and no file can hold, are written out.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return value if abs(value) <= EXACT_INTEGER else str(value)
    if isinstance(value, float):
        return finite_or_none(value)
    if isinstance(value, Mapping):
        return {str(exact_json(str(key))): exact_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [exact_json(item) for item in items]
    return str(value)
