"""Every promise lynxbench makes about its figures, held against known truth on shapes that are unkind.

    python benchmarks/truth.py [--topic TOPIC ...] [--seeds 1 2 3] [--runs 200] [--json]

A topic is a module truth_TOPIC.py beside this file with `promises(seed, runs)`; a line of the table is one promise,
and with several seeds each line is measured once a seed. A share breaks its promise where the runs contradict it: few
runs break none by chance, many are a sharper test. Exit code 1 where a promise breaks, 2 for a wrong option.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from truth_promise import Promise

FOLDER = Path(__file__).resolve().parent


def topics() -> list[str]:
    """The topics that have a module of their own, in order of their names."""
    names = (path.stem.removeprefix("truth_") for path in sorted(FOLDER.glob("truth_*.py")))
    return [name for name in names if name != "promise"]


def promises(topic: str, seed: int, runs: int) -> Iterator[Promise]:
    """What one topic promises, measured with this seed."""
    yield from importlib.import_module(f"truth_{topic}").promises(seed, runs)


def main() -> int:
    """Print the table; 1 where a promise breaks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--topic", action="append", choices=topics(), help="one topic alone; may be repeated")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--runs", type=int, default=200, help="simulated runs for each line")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    options = parser.parse_args()
    if options.runs < 20:
        parser.error("--runs: a share of fewer than 20 simulated runs says nothing; take 20 or more")
    measured = []
    for topic in options.topic or topics():
        for seed in options.seeds:
            started = time.perf_counter()
            for promise in promises(topic, seed, options.runs):
                measured.append({"topic": topic, "seed": seed, **asdict(promise)})
                if not options.json:
                    word = "holds" if promise.holds else "BROKEN"
                    print(f"{word:6}  {promise.measured:9.4g}  {promise.name}: {promise.promise}", flush=True)
            print(f"# {topic}, seed {seed}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    broken = [line for line in measured if not line["holds"]]
    if options.json:
        print(json.dumps(measured, indent=1))
    else:
        print(f"{len(measured)} promises measured, {len(broken)} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
