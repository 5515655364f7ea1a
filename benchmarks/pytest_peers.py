"""The pytest plug-in beside pytest-benchmark and asv: the same functions in one sitting, and the same loss is borne.

    python benchmarks/pytest_peers.py --peers .peers/pytest/bin/python [--pairs 40] [--slower 10] [--keep FOLDER]

Two functions: `waiting` pauses twenty times for 5 ms, `computing` is two hundred small matrix products. A round
measures both with each tool, the tools in an order by lot. What 5 % more of the same takes in truth is measured first,
in turn in one process: where it is not about 5 %, nothing is. Neighbouring rounds are a pair of equal runs: a loss
that is called is a false alarm. Some rounds measure them again with 5 % more of the same: a loss that is not called is
missed. Each tool calls by its own rule at 2 %: `lynxbench compare` on the plug-in's results (`regressed`, which is
what fails a test), `--benchmark-compare-fail=median:2%`, `asv compare --factor 1.02` (its mark for worse). What ours
leaves undecided (inconclusive, unproven, incomparable) is counted beside, with the first reason that was given for
each. `make peer-pytest` makes the environment of the peers. With `--keep` a sitting that was cut off goes on where it
was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BORNE = 0.02
FUNCTIONS = ("waiting", "computing")
WORK = """\
import os, time
import numpy as np
MORE = 1.05 if os.environ.get("PLANTED") else 1.0
TRIPS, ROUNDS = round(20 * MORE), round(200 * MORE)
A = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32) / 5  # numbers that neither grow nor vanish

def waiting(trips=TRIPS):
    for _ in range(trips):
        time.sleep(0.005)

def computing(rounds=ROUNDS):
    x = A
    for _ in range(rounds):
        x = np.tanh(A @ x)
"""
ALTERNATELY = """import json, statistics, sys, time
import work

def seconds(function, many):
    began = time.perf_counter()
    function(many)
    return time.perf_counter() - began

def ratio(function, few, many, times):
    pairs = [(seconds(function, few), seconds(function, many)) for _ in range(times)]
    return statistics.median(many_s / few_s for few_s, many_s in pairs)

print(json.dumps({"waiting": ratio(work.waiting, 20, 21, 15), "computing": ratio(work.computing, 200, 210, 1500)}))
"""
PLANTED = (1.04, 1.06)
"""Between these the planted functions take longer by truth, measured in turn in one process, or nothing is measured."""
OURS = """\
import pytest
import work

@pytest.mark.lynxbench(budget="2 %", min_duration="1500 ms", limit="3 s", window="200 ms", drift="10 %")
def test_waiting(lynxbench):
    lynxbench(work.waiting)

@pytest.mark.lynxbench(budget="2 %", min_duration="1500 ms", limit="3 s", window="50 ms", drift="10 %")
def test_computing(lynxbench):
    lynxbench(work.computing)
"""
THEIRS = """\
import work

def test_waiting(benchmark):
    benchmark(work.waiting)

def test_computing(benchmark):
    benchmark(work.computing)
"""
ASV = """\
import sys
sys.path.insert(0, PLACE)
import work

def time_waiting():
    work.waiting()

def time_computing():
    work.computing()
"""
ASV_CONF = {
    "version": 1,
    "project": "work",
    "repo": ".",
    "branches": ["main"],
    "benchmark_dir": "benchmarks",
    "results_dir": "results",
    "html_dir": "html",
    "env_dir": "env",
    "environment_type": "virtualenv",
}
DECIDED = ("regressed", "improved", "within budget", "not called")
"""Words that say something about the function; `not called` is all that the peers say of an equal one."""
Called = dict[str, tuple[str, str]]
"""By function: `regressed`, or another word; and why nothing was decided, where that is said."""


class Plugin:
    """lynxbench's plug-in."""

    name = "lynxbench"

    def __init__(self, place: Path) -> None:
        self._place = place / "ours"
        self._place.mkdir(exist_ok=True)
        (self._place / "test_ours.py").write_text(OURS)
        (self._place / "work.py").write_text(WORK)

    def measure(self, label: str, environment: dict[str, str]) -> None:
        """One session of the suite, into a folder of its own."""
        out = self._place / label
        shutil.rmtree(out, ignore_errors=True)  # of a round that was cut off
        words = ["-q", "-p", "no:cacheprovider", "--lynxbench-ledger=none", f"--lynxbench-out={out}", "test_ours.py"]
        own = {**environment, "LYNXBENCH_HOME": str(self._place / "home")}
        run([sys.executable, "-m", "pytest", *words], self._place, own)

    def called(self, before: str, after: str) -> Called:
        """What `lynxbench compare` says of each function."""
        verdicts = {}
        for function in FUNCTIONS:
            # the last one of each: a run that was disturbed is measured again, and set aside
            sides = [max((self._place / label).glob(f"*{function}*")) for label in (before, after)]
            words = [sys.executable, "-m", "lynxbench", "compare", *map(str, sides), "--json", "--ledger", "none"]
            done = run(words, self._place, dict(os.environ), codes=(0, 1, 3, 6))
            document = json.loads(done.stdout)
            verdict = str(document["verdict"] or document["comparability"])
            verdicts[function] = verdict, "" if verdict in DECIDED else reason_of(document)
        return verdicts


class PytestBenchmark:
    """pytest-benchmark."""

    name = "pytest-benchmark"

    def __init__(self, place: Path, python: str) -> None:
        self._place, self._python = place / "theirs", python
        self._place.mkdir(exist_ok=True)
        (self._place / "test_theirs.py").write_text(THEIRS)
        (self._place / "work.py").write_text(WORK)

    def measure(self, label: str, environment: dict[str, str]) -> None:
        """One session, saved."""
        file = self._place / f"{label}.json"
        self._pytest(["test_theirs.py", f"--benchmark-json={file}"], environment)

    def called(self, before: str, after: str) -> Called:
        """Its own rule, on the two files it saved: pytest-benchmark's check of the median."""
        code = (
            "import json, sys\n"
            "from pytest_benchmark.utils import PercentageRegressionCheck\n"
            "check = PercentageRegressionCheck('median', float(sys.argv[3]))\n"
            "a, b = ({x['name']: x['stats'] for x in json.load(open(p))['benchmarks']} for p in sys.argv[1:3])\n"
            "print(json.dumps({name: bool(check.fails(b[name], a[name])) for name in a}))\n"
        )
        files = [str(self._place / f"{label}.json") for label in (before, after)]
        done = run([self._python, "-c", code, *files, str(BORNE * 100)], self._place, dict(os.environ))
        fails = json.loads(done.stdout)
        return {name: ("regressed" if fails[f"test_{name}"] else "not called", "") for name in FUNCTIONS}

    def _pytest(self, words: list[str], environment: dict[str, str]) -> None:
        run([self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words], self._place, environment)


class AirspeedVelocity:
    """asv, with the interpreter it is in; every run is stored under a commit of its own."""

    name = "asv"

    def __init__(self, place: Path, python: str) -> None:
        self._place, self._python = place / "asv", python
        begun = (self._place / "asv.conf.json").exists()
        (self._place / "benchmarks").mkdir(parents=True, exist_ok=True)
        (self._place / "benchmarks" / "__init__.py").write_text("")
        (self._place / "benchmarks" / "speed.py").write_text(ASV.replace("PLACE", repr(str(self._place))))
        (self._place / "work.py").write_text(WORK)
        (self._place / "asv.conf.json").write_text(json.dumps(ASV_CONF))
        self._commits: dict[str, str] = {}
        if begun:
            told = self._git("log", "--format=%s %H").splitlines()
            self._commits = dict(reversed([tuple(line.split(" ")) for line in told]))
            return
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("add", "--all")
        self._asv(["machine", "--yes"], dict(os.environ))

    def measure(self, label: str, environment: dict[str, str]) -> None:
        """One run."""
        self._git("commit", "--quiet", "--allow-empty", "--message", label)
        self._commits[label] = self._git("rev-parse", "HEAD")
        self._asv(
            ["run", f"--environment=existing:{self._python}", f"--set-commit-hash={self._commits[label]}"], environment
        )

    def called(self, before: str, after: str) -> Called:
        """The marks of `asv compare`: + is worse."""
        commits = [self._commits[label] for label in (before, after)]
        said = self._asv(["compare", f"--factor={1 + BORNE}", *commits], dict(os.environ))
        worse = {name for line in said.splitlines() if line.startswith("| +") for name in FUNCTIONS if name in line}
        listed = {name for name in FUNCTIONS if re.search(rf"time_{name}", said)}
        assert listed == set(FUNCTIONS), said
        return {name: ("regressed" if name in worse else "not called", "") for name in FUNCTIONS}

    def _asv(self, words: list[str], environment: dict[str, str]) -> str:
        own = {**environment, "HOME": str(self._place)}
        return run([self._python, "-m", "asv", *words], self._place, own, codes=(0, 2)).stdout

    def _git(self, *words: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return run(["git", *who, *words], self._place, dict(os.environ)).stdout.strip()


Tool = Plugin | PytestBenchmark | AirspeedVelocity
Book = dict[str, Any]
"""`rounds` that are done, `spent` seconds by tool, and `calls`."""


def main() -> int:
    """Measure all rounds, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True, help="Python with pytest-benchmark and asv")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--slower", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no round after so long")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder that keeps what was measured; it is gone on with")
    options = parser.parse_args()
    if options.keep is None:
        with tempfile.TemporaryDirectory(prefix="lynxbench-peers-") as name:
            book = carry_out(Path(name), options)
    else:
        options.keep.mkdir(parents=True, exist_ok=True)
        book = carry_out(options.keep.absolute(), options)
    document = summary(book)
    print(json.dumps({**document, **book}, indent=1) if options.json else text_of(document))
    return 0


def carry_out(place: Path, options: argparse.Namespace) -> Book:
    """Rounds that the folder does not have yet; its book of what each run took and what was called."""
    file, python = place / "book.json", str(Path(options.peers).absolute())
    book: Book = json.loads(file.read_text()) if file.exists() else {"rounds": 0, "spent": {}, "calls": []}
    ours = Plugin(place)
    if "planted" not in book:
        book["planted"] = planted_ratios(place / "ours")
    tools: list[Tool] = [PytestBenchmark(place, python), AirspeedVelocity(place, python), ours]
    lot, began = random.Random(), time.monotonic()
    for number in range(book["rounds"], options.pairs + 1):
        if time.monotonic() - began > 60 * options.minutes:
            break
        for tool in lot.sample(tools, len(tools)):
            _round(tool, number, number < options.slower, book["spent"], book["calls"])
        book["rounds"] = number + 1
        written = file.with_suffix(".new")  # a round is in the book as a whole or not at all
        written.write_text(json.dumps(book))
        written.replace(file)
    return book


def planted_ratios(place: Path) -> dict[str, float]:
    """How much longer the planted functions take in truth; exits where that is not about 5 %."""
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ratios: dict[str, float] = json.loads(run([sys.executable, "-c", ALTERNATELY], place, one_thread).stdout)
    print(f"planted: {ratios}", file=sys.stderr, flush=True)
    if not all(PLANTED[0] <= ratio <= PLANTED[1] for ratio in ratios.values()):
        sys.exit(f"what is planted is not 5 %: {ratios}")
    return ratios


def _round(tool: Tool, number: int, planted: bool, spent: dict[str, list[float]], calls: list[dict[str, Any]]) -> None:
    """One run, held against the one before it; where it is planted, a slower one against it too."""
    plain = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    spent.setdefault(tool.name, []).append(seconds_of(lambda: tool.measure(f"same-{number}", plain)))
    pairs = [("equal", f"same-{number - 1}", f"same-{number}")] if number else []
    if planted:
        tool.measure(f"slow-{number}", {**plain, "PLANTED": "1"})
        pairs.append(("slower", f"same-{number}", f"slow-{number}"))
    for kind, before, after in pairs:
        for function, (verdict, why) in tool.called(before, after).items():
            calls.append({"tool": tool.name, "kind": kind, "function": function, "verdict": verdict, "why": why})
            print(f"{number} {tool.name} {kind} {function}: {verdict} {why}", file=sys.stderr, flush=True)


def reason_of(document: dict[str, Any]) -> str:
    """Why a comparison decided nothing: the first rule that breaks or doubts, or what is said of the figure."""
    rules = [rule for rule in document["rules"] if rule["outcome"] != "differs"]
    if rules:
        return f"{rules[0]['rule']} {rules[0]['said']}"
    effects = [each for row in document["per_precision"] for each in row["effects"]]
    return next((each["why"] for each in effects if each["figure"] == document["figure"]), "")


def summary(book: Book) -> dict[str, Any]:
    """False alarms and misses of each tool on each function, with the seconds of a run; and why nothing was decided."""
    rows = []
    for tool, seconds in book["spent"].items():
        for function in FUNCTIONS:
            mine = [call for call in book["calls"] if call["tool"] == tool and call["function"] == function]
            equal, slower = ([c["verdict"] for c in mine if c["kind"] == kind] for kind in ("equal", "slower"))
            rows.append(
                {
                    "tool": tool,
                    "function": function,
                    "false": equal.count("regressed"),
                    "equal": len(equal),
                    "missed": len(slower) - slower.count("regressed"),
                    "slower": len(slower),
                    "undecided": dict(Counter(v for v in (*equal, *slower) if v not in DECIDED)),
                    "run_s": statistics.median(seconds),
                }
            )
    reasons = Counter(f"{call['verdict']}: {call['why'][:3]}" for call in book["calls"] if call["why"])
    return {"rows": rows, "reasons": dict(reasons.most_common()), "planted": book["planted"]}


def text_of(document: dict[str, Any]) -> str:
    """For people."""
    head = "tool | function | false alarms | missed 5 % | undecided | a run of both, s\n---|---|---:|---:|---:|---:"
    lines = []
    for r in document["rows"]:
        undecided = ", ".join(f"{many} {word}" for word, many in r["undecided"].items()) or "none"
        counts = f"{r['false']} of {r['equal']} | {r['missed']} of {r['slower']} | {undecided}"
        lines.append(f"{r['tool']} | {r['function']} | {counts} | {r['run_s']:.1f}")
    reasons = [f"{many} times {why}" for why, many in document["reasons"].items()]
    planted = ", ".join(f"{function} {ratio:.3f}" for function, ratio in document["planted"].items())
    return "\n".join([head, *lines, "", f"planted, measured in turn: {planted}", *reasons])


def seconds_of(work: Callable[[], None]) -> float:
    """How long it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def run(
    words: list[str], place: Path, environment: dict[str, str], codes: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[str]:
    """A command that has to end with one of these codes."""
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(words)}: code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done


if __name__ == "__main__":
    sys.exit(main())
