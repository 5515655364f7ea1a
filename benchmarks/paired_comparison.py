"""A change of 2 % judged in pairs on a machine whose neighbour comes and goes: found, how soon, and how often falsely.

    python benchmarks/paired_comparison.py [--pairs 20] [--changes 5] [--restarts 10] [--json]

A function of fixed work on one thread, measured by the real command line; beside it a process that is busy for 0.2 to
4 s and idle for as long, by lot, on any core. `--pairs` comparisons of the function with itself (`compare --run`): a
verdict that they differ is false. `--changes` comparisons with 2 % more work; and, in the same sitting, the same change
by two separate runs and `compare`, with twice the restarts each time until that is decided or took eight times as long
as the pairs. Bars: at most one of twenty is false; pairs decide in at most half the time of two separate runs.
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
FALSE, DECIDED = ("regressed", "improved"), "regressed"
MOST_FALSE, MOST_TIME = 0.05, 0.5
PATIENCE = 8.0


def main() -> int:
    """Measure, print the table, exit 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--changes", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lynxbench-paired-") as name, neighbour():
        place = Path(name)
        (place / "work.py").write_text(WORK)
        alike = []
        for number in range(options.pairs):
            verdict, seconds = in_pairs(place, options.restarts, "1")
            print(f"A/A {number + 1}/{options.pairs}: {verdict} after {seconds:.0f} s", file=sys.stderr, flush=True)
            alike.append(verdict)
        changes = [one_change(place, options.restarts) for _ in range(options.changes)]
    false = sum(verdict in FALSE for verdict in alike)
    found = [change for change in changes if change["paired"] == DECIDED]
    ratios = [change["paired_s"] / change["separate_s"] for change in found]
    document = {
        "alike": alike,
        "false": false,
        "changes": changes,
        "found": len(found),
        "time_ratio": statistics.median(ratios) if ratios else None,
    }
    document["holds"] = (
        false <= max(1, MOST_FALSE * options.pairs)
        and len(found) == len(changes)
        and (not ratios or statistics.median(ratios) <= MOST_TIME)
    )
    print(json.dumps(document, indent=1) if options.json else text_of(document))
    return 0 if document["holds"] else 1


def one_change(place: Path, restarts: int) -> dict[str, Any]:
    """The same 2 % in pairs, and by two runs one after the other."""
    paired, paired_s = in_pairs(place, restarts, CHANGE)
    print(f"2 % more work in pairs: {paired} after {paired_s:.0f} s", file=sys.stderr)
    separate, spent, times = "", 0.0, restarts
    while separate != DECIDED and spent < PATIENCE * paired_s:
        separate, seconds = apart(place, times)
        spent += seconds
        print(f"  by two runs of {times} restarts: {separate} after {spent:.0f} s", file=sys.stderr)
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
        return f"exit code {done.code}: {done.err.strip().splitlines()[-1]}"
    return str(document["verdict"] or document["comparability"])


def _call(place: Path, *words: str, **more: str) -> CommandRun:
    home = str(place / "home")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return lynxbench(*words, cwd=place, LYNXBENCH_HOME=home, LYNXBENCH_LEDGER="", **threads, **more)


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """Somebody else's program on the same cores, coming and going."""
    busy = multiprocessing.get_context("fork").Process(target=_come_and_go, daemon=True)
    busy.start()
    try:
        yield
    finally:
        busy.terminate()
        busy.join()


def _come_and_go() -> None:
    lot = random.Random(os.getpid())
    while True:
        until = time.monotonic() + lot.uniform(0.2, 4.0)
        while time.monotonic() < until:
            sum(range(20_000))
        time.sleep(lot.uniform(0.2, 4.0))


def text_of(document: dict[str, object]) -> str:
    """For people."""
    alike, changes = document["alike"], document["changes"]
    assert isinstance(alike, list)
    assert isinstance(changes, list)
    words = {verdict: alike.count(verdict) for verdict in dict.fromkeys(alike)}
    lines = [f"A/A in pairs, {len(alike)}: {document['false']} false; {words}"]
    for change in changes:
        lines.append(
            f"2 % more work: in pairs {change['paired']} after {change['paired_s']:.0f} s; "
            f"by two runs {change['separate']} after {change['separate_s']:.0f} s"
        )
    ratio = document["time_ratio"]
    told = "" if ratio is None else f", in {ratio:.2f} of the time (median)"
    lines.append(
        f"found in pairs: {document['found']} of {len(changes)}{told}; bars {'hold' if document['holds'] else 'MISSED'}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
