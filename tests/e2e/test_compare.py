"""A planted change of the thread count on real runs: found, quantified, blamed on its layer, and kept in the book.

What is compared waits instead of computing, one pause for each thread, by a clock that goes on: who has a core is not
part of it, and a call that woke up late is followed by a shorter one. So the runs are steady and their ratio is known
on a machine that others use too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import CommandRun, lynxbench_here
from disturbed import LARGEST_SHARE, read_processor_time
from forked_workers import forked_workers

CONTRACT = """\
lynxbench: 1
name: forward
question: How often a second do the inputs of all threads pass, one after another?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "layers:work"}
  precisions: [fp32]
engine: {name: callable, threads: THREADS}
protocol:
  restarts: 5
  steady: {drift: 20 %, window: 250 ms}
  min_duration: 1500 ms
  limit: 20 s
  foreign_load: 100 %
owners: {runtime: "the runtime people"}
policy: {regression: 5 %}
"""
LAYERS = """\
import time

PAUSE_S = 0.02
THREADS = 1
DUE_S = None


def setup(threads):
    global THREADS
    THREADS = threads


def work():
    global DUE_S
    DUE_S = (DUE_S or time.monotonic()) + PAUSE_S * THREADS
    time.sleep(max(DUE_S - time.monotonic(), 0))
    return 1


work.setup = setup
"""
ONE, MANY = 1, 4
"""A call with so many threads takes so many pauses: the ratio is a quarter."""


class Place:
    """A folder with two runs, and a ledger of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: dict[int, Path] = {}

    def run(self, *arguments: str) -> CommandRun:
        """A command in this place."""
        home = {"LYNXBENCH_HOME": str(self.folder / "home"), "LYNXBENCH_LEDGER": ""}
        return lynxbench_here(*arguments, cwd=self.folder, **home)

    def measure(self, threads: int) -> None:
        """Run the contract with so many threads."""
        name, out = f"threads{threads}.yaml", self.folder / f"{threads}-threads"
        (self.folder / name).write_text(CONTRACT.replace("THREADS", str(threads)))
        with forked_workers("callable"):
            done = self.run("run", name, "--out", str(out))
        assert done.code == 0, done.out + done.err
        (self.runs[threads],) = out.iterdir()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same contract with one thread, then with many; anew where others took the processor: all tests share it."""
    for _ in range(3):
        here, before = Place(tmp_path_factory.mktemp("compared")), read_processor_time()
        (here.folder / "layers.py").write_text(LAYERS)
        for threads in (ONE, MANY):
            here.measure(threads)
        if before.share_taken_until(read_processor_time()) <= LARGEST_SHARE:
            break
    return here


@pytest.mark.slow
def test_a_planted_thread_count_is_found_and_blamed_on_its_layer(place: Place) -> None:
    done = place.run("compare", str(place.runs[ONE]), str(place.runs[MANY]), "--json")
    assert done.code == 1, done.out + done.err
    found = json.loads(done.out)
    assert found.keys() >= {"comparability", "rules", "effect", "verdict", "layers"}
    assert found["comparability"] == "comparable with differences"
    assert found["verdict"] == "regressed"
    assert found["effect"]["low"] < found["effect"]["estimate"] < found["effect"]["high"] < 0.95
    assert 0.15 < found["effect"]["estimate"] < 0.4, "four pauses instead of one"
    assert found["cause"]["kind"] == "one layer changed", found["layers"]
    assert found["cause"]["layer"] == "runtime"
    assert found["cause"]["owner"] == "the runtime people"
    assert found["layers"][0]["layer"] == "runtime"
    assert found["layers"][0]["fields"][0]["name"] == "threads"
    back = place.run("compare", str(place.runs[MANY]), str(place.runs[ONE]))
    assert back.code == 0
    assert back.out.startswith("IMPROVED: throughput at fp32 +")
    assert "the runtime people" in back.out


@pytest.mark.slow
def test_results_are_compared_by_their_ids_from_the_ledger(place: Place) -> None:
    ids = [json.loads((place.runs[n] / "result.json").read_text())["result_id"] for n in (ONE, MANY)]
    done = place.run("compare", ids[0][:10], ids[1][:10], "--json")
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
def test_a_change_is_declared_measured_and_kept_in_the_book(place: Place) -> None:
    declared = place.run(
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
    done = place.run(
        "change", "measure", change["change_id"][:12], str(place.runs[MANY]), str(place.runs[ONE]), "--json"
    )
    found = json.loads(done.out)
    assert done.code == 1, "nothing becomes thousands of times faster"
    assert found["verdict"] == "less than expected"
    assert found["layers_differing"] == ["runtime"]
    assert found["caution"] == ""
    listed = place.run("change", "list", "threads1.yaml", "--json")
    assert listed.code == 0, listed.err
    book = json.loads(listed.out)
    assert [row["verdict"] for row in book["rows"]] == ["less than expected"]
    assert book["by_owner"][0]["less"] == 1
    assert "one thread" in place.run("change", "list", "threads1.yaml").out


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


@pytest.mark.slow
def test_two_contracts_are_measured_in_pairs(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    short = CONTRACT.replace("min_duration: 1500 ms", "min_duration: 1 s")
    for threads in (ONE, MANY):
        (tmp_path / f"threads{threads}.yaml").write_text(short.replace("THREADS", str(threads)))
    surroundings = {"LYNXBENCH_HOME": str(tmp_path / "home"), "LYNXBENCH_LEDGER": ""}
    one, many = f"threads{ONE}.yaml", f"threads{MANY}.yaml"
    with forked_workers("callable"):
        done = lynxbench_here("compare", "--run", one, many, "--json", cwd=tmp_path, **surroundings)
    assert done.code == 1, done.out + done.err
    found = json.loads(done.out)
    assert found["verdict"] == "regressed"
    assert 0.15 < found["effect"]["estimate"] < 0.4
    assert sorted(set(found["order"])) in (["AB"], ["AB", "BA"], ["BA"])
    assert len(found["order"]) == 5
    assert "within 5 pairs" in found["per_precision"][0]["effects"][0]["basis"]
    runs = list((tmp_path / "results").iterdir())
    assert len([run for run in runs if (run / "result.json").exists()]) == 2, "each leaves a result of its own"
    assert "pair 5/5" in done.err
    again = lynxbench_here("compare", "--run", one, "nothing.yaml", cwd=tmp_path, **surroundings)
    assert again.code == 2
    wrong = lynxbench_here("compare", str(runs[0]), str(runs[1]), "--env-b", "A=1", cwd=tmp_path, **surroundings)
    assert wrong.code == 2
    assert "--run" in wrong.err
