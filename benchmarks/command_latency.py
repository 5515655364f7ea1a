"""How long a person waits for the commands that should answer at once, and that they load nothing heavy.

python benchmarks/command_latency.py [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

COMMANDS = {"lynxbench --help": (["--help"], 0.3), "lynxbench executor --json": (["executor", "--json"], 3.0)}
HEAVY = ("torch", "transformers", "onnxruntime", "scipy.stats")
ROUNDS = 7


def seconds(arguments: list[str]) -> float:
    """The median wall time of a command in fresh processes."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "lynxbench", *arguments], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - started)
    return median(taken)


def heavy_imports(arguments: list[str]) -> list[str]:
    """Which heavy packages a command imports."""
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['lynxbench', *{arguments!r}]\n"
        "try:\n    runpy.run_module('lynxbench', run_name='__main__')\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: list[str] = json.loads(done.stderr.strip().splitlines()[-1].replace("'", '"'))
    return found


def main() -> None:
    """Measure and print; exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [
        {"command": name, "seconds": seconds(arguments), "bar_s": bar, "heavy": heavy_imports(arguments)}
        for name, (arguments, bar) in COMMANDS.items()
    ]
    if options.json:
        print(json.dumps(rows))
    for row in rows if not options.json else ():
        heavy = ", ".join(row["heavy"]) or "none"
        print(f"{row['command']:<28} {row['seconds']:.3f} s (bar {row['bar_s']} s), heavy imports: {heavy}")
    if any(row["seconds"] > row["bar_s"] or row["heavy"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
