"""A real history: one contract measured through upgrades of its libraries, and one setting that made it slower.

    python benchmarks/version_history.py prepare --at FOLDER        # an environment for each lock file
    python benchmarks/version_history.py measure --at FOLDER        # the sessions, one after the other; goes on
    python benchmarks/version_history.py confirm --at FOLDER        # the slow setting in pairs
    python benchmarks/version_history.py publish --at FOLDER --to results/version-history

`examples/version-history` holds the contract, the lock files and which of them was in force when (`nights.toml`). Every
session is a `lynxbench run` by the interpreter of its own environment. What was finished is not measured again, so an
interruption costs the session it was in. A session that was disturbed carries no verdict: it is set aside, kept and
published as such, and measured again, three sittings in all. `benchmarks/version_history_replay.py` lays what was
published before the watch, a session a night.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lynxbench.measure.calm import wait_until_calm

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "version-history"
LOCKS = EXAMPLE / "environments"
VALID = "valid"
CONTRACT, PAIRED = "retrieval.yaml", "retrieval-pairs.yaml"
KEY, TEAM = "version-history", "ml-platform"
DROPPED = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
"""Variables of whoever calls: environments find their own packages, and keep what they compiled."""
START = "from retrieval import retrieval; retrieval.setup(); retrieval(0)"
MACHINE = platform.machine()
SITTINGS = 3
"""As `lynxbench ci` does: how fast a sitting was plays no part in whether it is set aside."""


@dataclass(frozen=True, slots=True)
class Night:
    """One session: its number, the environment and variables in force, and what had changed before it."""

    number: int
    environment: str
    what: str
    first: bool
    variables: Mapping[str, str] = field(default_factory=dict)


def planned_nights() -> Iterator[Night]:
    """All sessions in their order."""
    number = 0
    for stretch in tomllib.loads((EXAMPLE / "nights.toml").read_text(encoding="utf-8"))["stretch"]:
        for turn in range(stretch["nights"]):
            number += 1
            first = turn == 0
            yield Night(number, stretch["environment"], stretch["what"], first, variables_of(stretch))


def variables_of(stretch: Mapping[str, Any]) -> Mapping[str, str]:
    """What is set on this kind of machine: old processors have other names on others."""
    variables: Mapping[str, str] = stretch.get(MACHINE, stretch).get("variables", {})
    return variables


def main() -> int:
    """One step of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("prepare", "measure", "confirm", "publish"))
    parser.add_argument("--at", type=Path, required=True, help="where environments and runs are kept")
    parser.add_argument("--to", type=Path, default=ROOT / "results" / "version-history")
    parser.add_argument("--minutes", type=float, default=600.0, help="measure: begin no session after so long")
    parser.add_argument("--calm", type=float, default=100.0, help="measure: wait until others use at most so many %%")
    options = parser.parse_args()
    at = options.at.resolve()
    if options.step == "prepare":
        prepare(at)
    elif options.step == "measure":
        measure(at, time.monotonic() + 60 * options.minutes, options.calm / 100)
    elif options.step == "confirm":
        confirm(at)
    else:
        publish(at, options.to.resolve())
    return 0


def prepare(at: Path) -> None:
    """Make what is not there yet."""
    for lock in sorted(LOCKS.glob("*.txt")):
        place = at / "environments" / lock.stem
        if (place / "made").exists():
            continue
        shutil.rmtree(place, ignore_errors=True)
        named = {line.partition("==")[0] for line in lock.read_text(encoding="utf-8").split()}
        lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        rest = at / "environments" / f"{lock.stem}-constraints.txt"
        rest.parent.mkdir(parents=True, exist_ok=True)
        rest.write_text("\n".join(line for line in lines if line.partition("==")[0] not in named))
        wanted = ["--constraint", str(rest), "--requirement", str(lock), str(ROOT)]
        uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
        if uv:
            call([uv, "venv", "--quiet", "--python", sys.executable, str(place)])
            call([uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), *wanted])
        else:
            call([sys.executable, "-m", "venv", str(place)])
            call([str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted])
        call([str(place / "bin" / "python"), "-c", START])  # it works, and what it imports is compiled
        (place / "made").touch()
        print(f"{lock.stem}: made", flush=True)


def measure(at: Path, until: float, calm: float = 1.0) -> None:
    """Every session that has no result yet, in order, each begun when others leave enough of the machine."""
    if not (at / "home" / "keys" / f"{KEY}.pem").exists():
        lynxbench(at, next(planned_nights()).environment, "key", "new", KEY, "--team", TEAM)
    for night in planned_nights():
        folder = at / "nights" / f"{night.number:02d}"
        if any(folder.glob("*/result.json")):
            continue
        if time.monotonic() > until or wait_until_calm(calm, until - time.monotonic()) is None:
            print(f"stopped before session {night.number}; the same command goes on")
            return
        for sitting in range(set_aside(at, night) + 1, SITTINGS + 1):
            verdict = sit(at, night, folder)
            if verdict == VALID or sitting == SITTINGS:
                break
            place = at / "aside" / f"{night.number:02d}-{sitting}"
            place.parent.mkdir(exist_ok=True)
            folder.rename(place)


def set_aside(at: Path, night: Night) -> int:
    """How many sittings of a session were disturbed."""
    return len(list((at / "aside").glob(f"{night.number:02d}-*")))


def sit(at: Path, night: Night, folder: Path) -> str:
    """One sitting of a session; what its evidence carries."""
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    said = lynxbench(at, night.environment, "run", CONTRACT, "--out", str(folder), "--json", variables=night.variables)
    figures = json.loads(said)["per_precision"][0]
    rate, verdict = figures["throughput"]["estimate"], str(figures["validity"]["verdict"])
    spent = time.monotonic() - began
    print(f"session {night.number}: {rate:.0f} requests/s, {verdict}, {spent:.0f} s; {night.what}", flush=True)
    return verdict


def confirm(at: Path) -> None:
    """The slow setting against the usual one, in pairs in one sitting; what was said is kept."""
    last = list(planned_nights())[-1].environment
    slow = next(night.variables for night in planned_nights() if night.variables)
    setting = [word for name, value in slow.items() for word in ("--env-b", f"{name}={value}")]
    out = at / "pairs"
    shutil.rmtree(out, ignore_errors=True)
    words = ("compare", "--run", PAIRED, PAIRED, *setting, "--out", str(out), "--json")
    document = json.loads(lynxbench(at, last, *words, allowed=(0, 1, 6)))
    (out / "comparison.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"in pairs: {document['verdict']}")


def publish(at: Path, to: Path) -> None:
    """Bundles of what was measured, what the pairs gave, and the card of the key that signed them."""
    last = list(planned_nights())[-1].environment
    (to / "keys").mkdir(parents=True, exist_ok=True)
    card = lynxbench(at, last, "key", "export", KEY)
    (to / "keys" / f"{json.loads(card)['keyid'][:8]}.json").write_text(card)
    nights = {result.parents[1].name: result for result in sorted((at / "nights").glob("*/*/result.json"))}
    aside = {result.parents[1].name: result for result in sorted((at / "aside").glob("*/*/result.json"))}
    pairs = {result.parent.name: result for result in sorted((at / "pairs").glob("*/result.json"))}
    for kind, results in (("nights", nights), ("aside", aside), ("pairs", pairs)):
        if results:
            pack(at, last, results, to / f"{kind}.tar.xz")
    if pairs:
        shutil.copy(at / "pairs" / "comparison.json", to / "comparison.json")


def pack(at: Path, environment: str, results: Mapping[str, Path], file: Path) -> None:
    """Each result as a bundle of its own, by name, all of them in one file."""
    with tarfile.open(file, "w:xz") as packed, tempfile.TemporaryDirectory() as folder:
        for name, result in results.items():
            bundle = Path(folder, f"{name}.bundle")
            export(at, environment, result, bundle)
            packed.add(bundle, bundle.name, filter=_plain)


def export(at: Path, environment: str, result: Path, bundle: Path) -> None:
    """One result as a bundle."""
    result_id = json.loads(result.read_text(encoding="utf-8"))["result_id"]
    lynxbench(at, environment, "results", "export", result_id, "--without-traces", "--output", str(bundle))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without whose and when the file was."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def lynxbench(
    at: Path,
    environment: str,
    *words: str,
    variables: Mapping[str, str] | None = None,
    allowed: tuple[int, ...] = (0,),
) -> str:
    """What the command of one environment printed."""
    python = at / "environments" / environment / "bin" / "python"
    own = {"LYNXBENCH_HOME": str(at / "home"), "LYNXBENCH_CACHE": str(at / "cache"), **(variables or {})}
    return call([str(python), "-m", "lynxbench", *words], own, allowed)


def call(command: list[str], variables: Mapping[str, str] | None = None, allowed: tuple[int, ...] = (0,)) -> str:
    """Carry a command out beside the contract; its last line of complaint where it fails."""
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    done = subprocess.run(
        command, cwd=EXAMPLE, env=kept | dict(variables or {}), capture_output=True, text=True, check=False
    )
    if done.returncode not in allowed:
        said = done.stderr.strip().splitlines() or [f"code {done.returncode}"]
        sys.exit(f"{' '.join(command[:6])} …: {said[-1]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
