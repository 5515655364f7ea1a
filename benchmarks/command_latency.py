"""How long a person waits for the commands that should answer at once, and that they load nothing heavy.

    python benchmarks/command_latency.py [--home FOLDER] [--results 100000] [--json]

Whole commands in processes of their own: the median of several, judged against what is promised, and the least CPU
time beside it, which other work on the machine disturbs less. `results list` reads a ledger of that many results; it is
made first, in a folder that goes away, or in the LYNXBENCH_HOME that --home names, where it is found again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from ledger import envelopes, register_many
from lynxbench.ledger.log import Ledger

PROMISES = {"--help": 0.3, "executor --json": 3.0, "results list": 0.6, "results list --precision int8 --json": 0.6}
"""Seconds, by the words of the command."""
HEAVY = ("torch", "transformers", "onnxruntime", "scipy", "ray", "fastapi")
ROUNDS = 9
TOGETHER = 500


@dataclass(frozen=True, slots=True)
class Latency:
    """One command against what is promised of it."""

    command: str
    promised_s: float
    median_s: float
    least_s: float
    least_cpu_s: float
    heavy: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.median_s <= self.promised_s and not self.heavy


def main() -> None:
    """Measure and print; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="where the ledger is, or is to be made and left")
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        home = options.home or Path(temporary)
        make_ledger(home, options.results)
        rows = [measure(words.split(), promised_s, home) for words, promised_s in PROMISES.items()]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
    for row in rows if not options.json else ():
        print(f"{row.command:<48} promised {row.promised_s:.1f} s, measured {row.median_s:.3f} s", end="")
        print(f" (least {row.least_s:.3f} s, CPU {row.least_cpu_s:.3f} s), heavy: {', '.join(row.heavy) or 'none'}")
    raise SystemExit(0 if all(row.holds for row in rows) else 1)


def make_ledger(home: Path, size: int) -> None:
    """A ledger of that many results and a tenth as many registrations, unless it is there."""
    file = home / "ledger" / "ledger.sqlite"
    if file.exists():
        return
    with Ledger(f"sqlite:///{file}") as ledger:
        for first in range(0, size, TOGETHER):
            ledger.append_all(list(envelopes(first, min(TOGETHER, size - first))))
        register_many(ledger, size)


def measure(words: list[str], promised_s: float, home: Path) -> Latency:
    """Run a command in fresh processes; the first, which may compile modules, does not count."""
    walls, cpus = [], []
    for _ in range(ROUNDS + 1):
        started, before = time.perf_counter(), os.times()
        run([sys.executable, "-m", "lynxbench", *words], home)
        after = os.times()
        walls.append(time.perf_counter() - started)
        cpus.append(sum(after[2:4]) - sum(before[2:4]))
    walls, cpus = walls[1:], cpus[1:]
    command = " ".join(["lynxbench", *words])
    return Latency(command, promised_s, median(walls), min(walls), min(cpus), heavy_imports(words, home))


def heavy_imports(words: list[str], home: Path) -> tuple[str, ...]:
    """Which heavy packages a command imports."""
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['lynxbench', *{words!r}]\n"
        "try:\n    runpy.run_module('lynxbench', run_name='__main__')\nexcept SystemExit:\n    pass\n"
        f"print(*{set(HEAVY)!r} & set(sys.modules), file=sys.stderr)\n"
    )
    return tuple(run([sys.executable, "-c", code], home).stderr.splitlines()[-1].split())


def run(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    """A process as a person starts it, with compiled modules kept."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"LYNXBENCH_HOME": str(home)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    main()
