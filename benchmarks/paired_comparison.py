"""A change of 2 % judged in pairs on a machine whose neighbour comes and goes: found, how soon, and how often falsely.

    python benchmarks/paired_comparison.py [--at FOLDER] [--minutes 24] [--pairs 20] [--changes 3] [--json]

A function of fixed work on one thread, measured by the real command line; beside it a process that is busy for 0.2 to
4 s and idle for as long, by lot, on any core. `--pairs` comparisons of the function with itself (`compare --run`): a
verdict that they differ is false. `--changes` comparisons with 2 % more work; and, in the same sitting, the same change
by two separate runs and `compare`, with twice the restarts each time until that is decided or took twice as long as the
pairs: longer would not change whether the bar holds. Bars: at most one of twenty is false; pairs decide in at most half
the time of two separate runs.

What is finished is kept in FOLDER: after `--minutes` no comparison is begun, and the same command goes on with what is
left. Exit code 1 where a bar is missed, 6 where it is too early to say.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from command_line import CommandRun, lynxbench

WORK = """\
import os
import numpy as np
TURNS = round(1000 * float(os.environ.get("MORE", "1")))
A = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32)

def work():
    x = A
    for _ in range(TURNS):
        x = np.tanh(A @ x)
    return float(x[0, 0])
"""
CONTRACT = """\
lynxbench: 1
name: paired-work
question: Does two per cent more work show?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "work:work"}
  precisions: [fp32]
engine: {name: callable, threads: 1}
protocol:
  restarts: RESTARTS
  steady: {drift: 5 %, window: 100 ms}
  min_duration: 1500 ms
  limit: 3 s
policy: {regression: 0.5 %}
"""
CHANGE = "1.02"
FALSE, DECIDED, FAILED = ("regressed", "improved"), "regressed", "exit code"
MOST_FALSE, MOST_TIME = 0.05, 0.5
PATIENCE = 1 / MOST_TIME
"""Times the pairs' own time that the separate runs are given."""
STATE = "finished.json"
LONGEST_S = 3600.0
"""Of one command. It ends by itself; two runs of many restarts take minutes, longer on a machine that others use."""


def main() -> int:
    """Measure what is left, print the table, exit 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at", type=Path, help="where finished comparisons are kept; nowhere if left out")
    parser.add_argument("--minutes", type=float, default=24.0, help="begin no comparison after so long")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--changes", type=int, default=3)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="lynxbench-paired-") as name, neighbour():
        place = Path(name)
        (place / "work.py").write_text(WORK)
        kept = KeptComparisons(options.at or place, options.restarts)
        while len(kept.changes) < options.changes and time.monotonic() < until:
            kept.add("changes", one_change(place, options.restarts))
        while len(kept.alike) < options.pairs and time.monotonic() < until:
            verdict, seconds = in_pairs(place, options.restarts, "1")
            kept.add("alike", {"verdict": verdict, "seconds": seconds})
            told = f"A/A {len(kept.alike)}/{options.pairs}: {verdict} after {seconds:.0f} s"
            print(told, file=sys.stderr, flush=True)
    document = judged(kept, options.pairs, options.changes)
    print(json.dumps(document, indent=1) if options.json else text_of(document))
    return 1 if document["missed"] else 6 if document["left"] else 0


class KeptComparisons:
    """What was finished, in a file that is written anew after each comparison."""

    def __init__(self, folder: Path, restarts: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / STATE
        self._kept: dict[str, Any] = {"restarts": restarts, "changes": [], "alike": []}
        if self._file.exists():
            self._kept = json.loads(self._file.read_text(encoding="utf-8"))
            if self._kept["restarts"] != restarts:
                sys.exit(f"{self._file} is of {self._kept['restarts']} restarts, not {restarts}; give another folder")

    @property
    def alike(self) -> list[dict[str, Any]]:
        """Comparisons of the function with itself."""
        return list(self._kept["alike"])

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Comparisons with 2 % more work."""
        return list(self._kept["changes"])

    def add(self, kind: str, comparison: dict[str, Any]) -> None:
        """Keep one more."""
        self._kept[kind].append(comparison)
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._kept, indent=1))
        fresh.replace(self._file)


def judged(kept: KeptComparisons, pairs: int, changes: int) -> dict[str, Any]:
    """What the finished ones say of the bars, and how many are left."""
    alike = [comparison["verdict"] for comparison in kept.alike]
    false = sum(verdict in FALSE for verdict in alike)
    found = [change for change in kept.changes if change["paired"] == DECIDED]
    ratios = [change["paired_s"] / change["separate_s"] for change in found]
    ratio = statistics.median(ratios) if ratios else None
    missed = [f"{false} of {len(alike)} A/A pairs are false"] if false > max(1, MOST_FALSE * pairs) else []
    failed = sum(verdict.startswith(FAILED) for verdict in alike)
    missed += [f"{failed} of {len(alike)} A/A pairs could not be measured"] if failed else []
    lost = len(kept.changes) - len(found)
    missed += [f"{lost} of {len(kept.changes)} changes were not found"] if lost else []
    missed += [f"pairs took {ratio:.2f} of the time"] if ratio is not None and ratio > MOST_TIME else []
    return {
        "alike": alike,
        "alike_s": [comparison["seconds"] for comparison in kept.alike],
        "false": false,
        "changes": kept.changes,
        "found": len(found),
        "time_ratio": ratio,
        "missed": missed,
        "left": max(0, pairs - len(alike)) + max(0, changes - len(kept.changes)),
    }


def one_change(place: Path, restarts: int) -> dict[str, Any]:
    """The same 2 % in pairs, and by two runs one after the other."""
    paired, paired_s = in_pairs(place, restarts, CHANGE)
    print(f"2 % more work in pairs: {paired} after {paired_s:.0f} s", file=sys.stderr, flush=True)
    separate, spent, times = "", 0.0, restarts
    while separate != DECIDED and spent < PATIENCE * paired_s:
        separate, seconds = apart(place, times)
        spent += seconds
        print(f"  by two runs of {times} restarts: {separate} after {spent:.0f} s", file=sys.stderr, flush=True)
        times *= 2
    return {"paired": paired, "paired_s": paired_s, "separate": separate, "separate_s": spent}


def in_pairs(place: Path, restarts: int, more: str) -> tuple[str, float]:
    """The verdict of `compare --run`, and the seconds it took."""
    contract = _contract(place, restarts)
    began = time.monotonic()
    done = _call(place, "compare", "--run", contract, contract, "--env-b", f"MORE={more}", "--json")
    return _verdict(done), time.monotonic() - began


def apart(place: Path, restarts: int) -> tuple[str, float]:
    """The verdict of `compare` on two runs made one after the other, and the seconds of all three."""
    contract = _contract(place, restarts)
    began, folders = time.monotonic(), []
    for more in ("1", CHANGE):
        out = place / f"run-{time.monotonic_ns()}"
        _call(place, "run", contract, "--out", str(out), MORE=more)
        folders.append(str(next(out.iterdir())))
    return _verdict(_call(place, "compare", *folders, "--json")), time.monotonic() - began


def _contract(place: Path, restarts: int) -> str:
    (place / "work.yaml").write_text(CONTRACT.replace("RESTARTS", str(restarts)))
    return "work.yaml"


def _verdict(done: CommandRun) -> str:
    try:
        document = json.loads(done.out)
    except json.JSONDecodeError:
        return f"{FAILED} {done.code}: {done.err.strip().splitlines()[-1]}"
    return str(document["verdict"] or document["comparability"])


def _call(place: Path, *words: str, **more: str) -> CommandRun:
    home = str(place / "home")
    # Forty processes start: each would compile its modules anew where the variables here forbid to keep them.
    usual = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1") | {"PYTHONDONTWRITEBYTECODE": ""}
    return lynxbench(*words, cwd=place, timeout_s=LONGEST_S, LYNXBENCH_HOME=home, LYNXBENCH_LEDGER="", **usual, **more)


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """Somebody else's program on the same cores, coming and going."""
    busy = multiprocessing.get_context("fork").Process(target=_come_and_go, daemon=True)
    busy.start()
    try:
        yield
    finally:
        busy.kill()  # a handler of SIGTERM that it inherited would let it live
        busy.join()


def _come_and_go() -> None:
    lot = random.Random(os.getpid())
    while True:
        until = time.monotonic() + lot.uniform(0.2, 4.0)
        while time.monotonic() < until:
            sum(range(20_000))
        time.sleep(lot.uniform(0.2, 4.0))


def text_of(document: dict[str, Any]) -> str:
    """For people."""
    alike, changes = document["alike"], document["changes"]
    words = ", ".join(f"{alike.count(verdict)} {verdict}" for verdict in dict.fromkeys(alike))
    lines = [f"A/A in pairs, {len(alike)}: {document['false']} false; {words or 'none yet'}"]
    for change in changes:
        lines.append(
            f"2 % more work: in pairs {change['paired']} after {change['paired_s']:.0f} s; "
            f"by two runs {change['separate']} after {change['separate_s']:.0f} s"
        )
    ratio = document["time_ratio"]
    told = "" if ratio is None else f", in {ratio:.2f} of the time (median)"
    lines.append(f"found in pairs: {document['found']} of {len(changes)}{told}")
    left = f"{document['left']} comparisons are left: the same command goes on" if document["left"] else "bars hold"
    lines.append(f"MISSED: {'; '.join(document['missed'])}" if document["missed"] else left)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
