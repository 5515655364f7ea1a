"""A planted change of the thread count on real runs: found, quantified, blamed on its layer, and kept in the book."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandRun, lynxbench, lynxbench_here
from lynxbench.measure.telemetry import read_telemetry

CONTRACT = """\
lynxbench: 1
name: forward
question: How often a second do four inputs pass through four layers?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "layers:work"}
  precisions: [fp32]
engine: {name: callable, threads: THREADS}
protocol:
  restarts: 5
  steady: {drift: 20 %, window: WINDOW ms}
  min_duration: SHORTEST ms
  limit: LONGEST ms
  foreign_load: 100 %
owners: {runtime: "the runtime people"}
policy: {regression: 5 %}
"""
LAYERS = """\
from concurrent.futures import ThreadPoolExecutor

import numpy as np

CHANCE = np.random.default_rng(5)
LAYERS = [CHANCE.standard_normal((64, 64), dtype=np.float32) / 8 for _ in range(4)]
INPUTS = [CHANCE.standard_normal((4, 64, 64), dtype=np.float32) for _ in range(4)]
POOL = None


def setup(threads):
    global POOL
    POOL = threads, ThreadPoolExecutor(threads)


def forward(state):
    # Stacks of products too small for BLAS to share out: a thread computes alone, and does not wait for another.
    for layer in LAYERS:
        state = np.maximum(np.matmul(state, layer), 0)
    return float(state.sum())


def take(share):
    for own in INPUTS:  # what a thread computes for itself before it takes its share, as workspaces are prepared
        forward(own)
    return sum(map(forward, share))


def work():
    threads, pool = POOL
    return 1 if sum(pool.map(take, [INPUTS[n::threads] for n in range(threads)])) > 0 else 0


work.setup = setup
"""
ONE, MANY = 1, 8 * (os.cpu_count() or 1)
"""One thread computes 8 inputs a call; eight threads for each CPU compute 4, and 32 more for each CPU. All of them
compute and none waits: the call takes at least four times as long, with neighbours on the machine or without."""
WINDOWS_MS = (200, 400)
"""Beside a neighbour that comes and goes a run says itself that it was not steady; both are made again, and longer."""
CROWDED = 0.25
"""Others who come and go on this share of the CPUs leave no steady state to be had, and nothing to compare."""

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]  # two pairs of runs, where the machine is busy


class Place:
    """A folder with two runs, and a ledger of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: dict[int, Path] = {}
        self.unsteady: float | None = None
        """Where no pair was steady: the share of the CPUs that others held."""

    def run(self, *arguments: str) -> CommandRun:
        """A command in this place; what measures has a process of its own."""
        call = lynxbench if arguments[0] == "run" else lynxbench_here
        return call(*arguments, cwd=self.folder, LYNXBENCH_HOME=str(self.folder / "home"), LYNXBENCH_LEDGER="")

    def foreign_share(self, threads: int) -> float:
        """The share of the CPUs that others held during the latest run."""
        return float(np.nanmean(read_telemetry(self.runs[threads] / "telemetry.csv").columns["cpu_busy_foreign"]))

    def measure(self, threads: int, window_ms: int) -> bool:
        """Run the contract with so many threads; whether the run found itself steady."""
        name, out = f"threads{threads}.yaml", self.folder / f"{threads}-threads-{window_ms}"
        text = CONTRACT.replace("THREADS", str(threads)).replace("WINDOW", str(window_ms))
        text = text.replace("SHORTEST", str(8 * window_ms)).replace("LONGEST", str(20 * window_ms))
        (self.folder / name).write_text(text)
        done = self.run("run", name, "--out", str(out))
        assert done.code in (0, 1), done.out + done.err
        (self.runs[threads],) = out.iterdir()
        (only,) = json.loads((self.runs[threads] / "result.json").read_text())["per_precision"]
        return done.code == 0 and only["steady"]["verdict"] == "steady"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same contract with one thread, then with many."""
    here = Place(tmp_path_factory.mktemp("compared"))
    (here.folder / "layers.py").write_text(LAYERS)
    for window_ms in WINDOWS_MS:
        runs = [here.measure(threads, window_ms) for threads in (ONE, MANY)]
        if all(runs):
            break
    else:
        here.unsteady = max(here.foreign_share(threads) for threads in (ONE, MANY))
    return here


@pytest.fixture
def pair(place: Place) -> Place:
    """The same, where both runs were steady: nothing else can be compared."""
    if place.unsteady is not None:
        assert place.unsteady > CROWDED, f"no pair of steady runs, with others on {place.unsteady:.0%} of the CPUs"
        pytest.skip(f"others held {place.unsteady:.0%} of the CPUs: no run was steady")
    return place


@pytest.mark.slow
def test_a_planted_thread_count_is_found_and_blamed_on_its_layer(pair: Place) -> None:
    done = pair.run("compare", str(pair.runs[ONE]), str(pair.runs[MANY]), "--json")
    assert done.code == 1, done.out + done.err
    found = json.loads(done.out)
    assert found.keys() >= {"comparability", "rules", "effect", "verdict", "layers"}
    assert found["comparability"] == "comparable with differences"
    assert found["verdict"] == "regressed"
    assert found["effect"]["low"] < found["effect"]["estimate"] < found["effect"]["high"] < 0.95
    assert found["cause"]["kind"] == "one layer changed", found["layers"]
    assert found["cause"]["layer"] == "runtime"
    assert found["cause"]["owner"] == "the runtime people"
    assert found["layers"][0]["layer"] == "runtime"
    assert found["layers"][0]["fields"][0]["name"] == "threads"
    back = pair.run("compare", str(pair.runs[MANY]), str(pair.runs[ONE]))
    assert back.code == 0
    assert back.out.startswith("IMPROVED: throughput at fp32 +")
    assert "the runtime people" in back.out


@pytest.mark.slow
def test_results_are_compared_by_their_ids_from_the_ledger(pair: Place) -> None:
    ids = [json.loads((pair.runs[n] / "result.json").read_text())["result_id"] for n in (ONE, MANY)]
    done = pair.run("compare", ids[0][:10], ids[1][:10], "--json")
    assert done.code == 1, done.err
    found = json.loads(done.out)
    assert [found["a"]["result_id"], found["b"]["result_id"]] == ids
    latency = next(e for e in found["per_precision"][0]["effects"] if e["figure"] == "latency p50")
    assert "each fresh process" in latency["basis"]


@pytest.mark.slow
def test_what_is_incomparable_gets_no_ratio_and_exit_code_3(place: Place, spin_run: Path) -> None:
    done = place.run("compare", str(place.runs[MANY]), str(spin_run), "--json")
    assert done.code == 3, done.err
    found = json.loads(done.out)
    assert found["comparability"] == "incomparable"
    assert found["effect"] is None
    assert found["verdict"] is None
    assert all(not row["effects"] for row in found["per_precision"])
    assert {one["rule"] for one in found["rules"] if one["outcome"] == "breaks"} >= {"R17"}
    text = place.run("compare", str(place.runs[MANY]), str(spin_run))
    assert text.code == 3
    assert text.out.startswith("INCOMPARABLE: no ratio is given.")
    assert "%" not in text.out.split("What would make it sound")[1]


@pytest.mark.slow
def test_a_foreign_result_is_shown_and_never_compared(place: Place) -> None:
    strange = Path(__file__).parents[1] / "data" / "foreign" / "aiperf.json"
    done = place.run("compare", str(place.runs[MANY]), str(strange))
    assert done.code == 3, done.err
    assert "R18" in done.out
    assert "the precision" in done.out
    shown = place.run("foreign", str(strange), "--json")
    assert shown.code == 0
    assert json.loads(shown.out)["tool"] == "aiperf"
    assert place.run("foreign", str(place.folder / "layers.py")).code == 2


@pytest.mark.slow
def test_history_and_signals_over_folders(place: Place) -> None:
    both = [word for threads in (ONE, MANY) for word in ("--from", str(place.runs[threads].parent))]
    done = place.run("history", "threads1.yaml", *both, "--ledger", "none", "--html", "page.html", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["points"]) == 2
    assert found["points"][0]["result_id"] != found["points"][1]["result_id"]
    page = (place.folder / "page.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    text = place.run("history", "threads1.yaml", *both)
    assert "forward" in text.out
    signs = place.run("signals", "threads1.yaml", *both, "--json")
    assert signs.code in (0, 1), signs.err
    assert len(json.loads(signs.out)["signals"]) == 5


@pytest.mark.slow
def test_a_change_is_declared_measured_and_kept_in_the_book(pair: Place) -> None:
    declared = pair.run(
        "change",
        "declare",
        "threads1.yaml",
        "--layer",
        "runtime",
        "--expect",
        "5000..9000",
        "--what",
        "one thread",
        "--json",
    )
    assert declared.code == 0, declared.err
    change = json.loads(declared.out)
    assert change["entry"]["owner"] == "the runtime people"
    done = pair.run("change", "measure", change["change_id"][:12], str(pair.runs[MANY]), str(pair.runs[ONE]), "--json")
    found = json.loads(done.out)
    assert done.code == 1, "nothing becomes thousands of times faster"
    assert found["verdict"] == "less than expected"
    assert found["layers_differing"] == ["runtime"]
    assert found["caution"] == ""
    listed = pair.run("change", "list", "threads1.yaml", "--json")
    assert listed.code == 0, listed.err
    book = json.loads(listed.out)
    assert [row["verdict"] for row in book["rows"]] == ["less than expected"]
    assert book["by_owner"][0]["less"] == 1
    assert "one thread" in pair.run("change", "list", "threads1.yaml").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "nothing.json", "nothing.json"),
        ("compare", "abcd1234", "abcd1234", "--ledger", "empty"),
        ("history", "nothing.yaml", "--from", "."),
        ("history", "quickstart", "--from", "absent"),
        ("signals", "quickstart", "--from", "absent"),
        ("change", "declare", "quickstart", "--layer", "roof", "--expect", "1..2", "--what", "x"),
        ("change", "declare", "quickstart", "--layer", "system", "--expect", "much", "--what", "x"),
        ("change", "measure", "abcd1234", "a", "b", "--ledger", "empty"),
        ("foreign", "nothing.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = lynxbench_here(*arguments, cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code == 2, done.out + done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1
