"""The plug-in on a suite of its own: real runs of a function that waits, so that a crowded machine changes little."""

from __future__ import annotations

import itertools
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import lynxbench
from compared import RUN_MEANS, make_executor, make_precision, make_result
from forked_workers import forked_workers
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.location import locate, open_ledger
from lynxbench.model.evidence_gate import Lack
from lynxbench.model.result import Result
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.public_values import ComparedResults
from lynxbench.pytest_plugin import is_proven_regression, line_of
from lynxbench.record.comparing_results import compare_sides, side_of
from planted import OF_EVIDENCE, Plant, doubted, unsteady
from recording_teams import record

pytest_plugins = ("pytester",)

LOADED = () if entry_points(group="pytest11", name="lynxbench") else ("-p", "lynxbench.pytest_plugin")
SUITE = """
import pytest
from waiting import wait

pytestmark = pytest.mark.lynxbench(
    restarts=5, min_duration="2 s", window="250 ms", limit="6 s", drift="20 %", foreign_load="100 %", budget="10 %"
)

@pytest.mark.lynxbench(threads=1)
def test_waiting(lynxbench):
    assert lynxbench(wait).result.contract.protocol.restarts == 5
"""
DOUBTS = [kind for kind, (lack, _) in OF_EVIDENCE.items() if lack not in (Lack.WEAK, Lack.EMULATED)]
"""Of the figures of one side: a weak attribution is none, and two emulated sides may be compared."""
WAIT_S = 0.08
"""Long beside what a crowded machine adds to a pause."""


def _waiting(pause_s: float) -> str:
    return f"import time\n\ndef wait():\n    time.sleep({pause_s})\n"


@pytest.fixture(autouse=True)
def _libraries_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite inside of this one forgets what it imported: its own modules alone, for libraries are loaded once."""
    own = ("test_suite", "test_local", "test_plain", "waiting")

    def forget(_: object) -> None:
        for name in own:
            sys.modules.pop(name, None)

    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot.restore", forget)


class Suite:
    """A project with one benchmark, and a ledger of its own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.ledger = lynxbench.Ledger(str(pytester.path / "ledger"))
        pytester.makepyfile(test_suite=SUITE)

    def run(self, *options: str, **modules: str) -> pytest.RunResult:
        """Run it with these modules beside it."""
        self._pytester.makepyfile(**modules)
        self._pytester.syspathinsert()
        where = ("--lynxbench-ledger", str(self.ledger.location))
        return self._pytester.runpytest_inprocess(*LOADED, "-p", "no:cacheprovider", *where, *options)

    def run_soundly(self, pause_s: float) -> pytest.RunResult:
        """With pauses of so long; where the machine leaves the figures in doubt no test fails, and this is over."""
        with forked_workers("callable"):
            done = self.run("--lynxbench-again", "0", waiting=_waiting(pause_s))
        newest = self.ledger.results()[0]
        if newest["validity"] != "valid":
            done.assert_outcomes(passed=1)
            done.stdout.fnmatch_lines([f"*{newest['result_id'][:12]} of contract *doubtful: *"])
            pytest.skip("this machine is too unsteady for a planted slowdown to be proven on it")
        return done


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """A fresh one."""
    return Suite(pytester)


@pytest.mark.slow
def test_a_planted_slowdown_fails_and_nothing_less_does(suite: Suite) -> None:
    """One level, the same again, and 30 % slower."""
    first = suite.run_soundly(WAIT_S)
    first.assert_outcomes(passed=1)
    first.stdout.fnmatch_lines(
        ["*lynxbench: 1 benchmark*", "*recorded; no sound result of this contract on this machine*"]
    )
    (level,) = suite.ledger.results()

    same = suite.run_soundly(WAIT_S)
    same.assert_outcomes(passed=1)
    same.stdout.fnmatch_lines([f"*against {level['result_id'][:12]}: latency p50 *budget 10.0%*"])
    same.stdout.no_fnmatch_line("*regressed*")

    slower = suite.run_soundly(WAIT_S * 1.3)
    slower.assert_outcomes(failed=1)
    slower.stdout.re_match_lines(
        [
            rf"lynxbench: proven regression: regressed against {level['result_id'][:12]}: latency p50 \+[23]\d\.\d% .*",
            r"REGRESSED: latency p50 at fp32 .*",
            r".*application.*",
            r"Meant\? pytest test_suite\.py::test_waiting --lynxbench-accept holds later runs against it\.",
        ]
    )
    slow, again, _ = suite.ledger.results()
    assert slow["contract_id"] == level["contract_id"]
    for result in (slow, again):
        baseline = suite.ledger.baseline(suite.ledger.load(result["result_id"]))
        assert baseline is not None
        assert baseline.result_id == level["result_id"], "neither a regression nor the same again moves the level"


# --- the same through results that were planted in a ledger: what is measured is known, and costs nothing ------------


class Planted:
    """A ledger with results of one contract, the newest of which a suite is made to measure."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pytester, self._patch = pytester, monkeypatch
        self.ledger = lynxbench.Ledger(str(pytester.path / "ledger"))
        self._minutes = itertools.count(1)
        monkeypatch.setenv("LYNXBENCH_HOME", str(pytester.path / "home"))
        self._key = Keyring().signing_key(datetime.now(UTC)).key
        pytester.makepyfile(test_suite=SUITE.replace("assert lynxbench(wait).result", "lynxbench(wait)  #"))
        pytester.makepyfile(waiting=_waiting(0))
        pytester.syspathinsert()

    def add(self, speed: float = 1.0, plant: Plant = lambda result: result, *, day: int = 1, **changes: Any) -> Result:
        """Record a result of so many times the usual speed; those of a day are of one sitting."""
        means = tuple(mean * speed for mean in RUN_MEANS)
        at = f"2026-11-{day:02}T09:{next(self._minutes):02}:00+00:00"
        result = make_result(per_precision=(make_precision(run_means=means),), started_at=at, **changes)
        location = locate(self.ledger.location, os.environ)
        assert location is not None
        with open_ledger(location, os.environ, create=True, example=True) as ledger:
            return record(ledger, plant(result).model_copy(update={"run_id": f"run-{at[14:16]}"}), self._key)

    def run(
        self, *options: str, ledger: str | None = None, measures: Sequence[Result] | None = None
    ) -> pytest.RunResult:
        """Run the suite; what it measures is the newest result, again and again, or these one after the other."""
        newest = self.ledger.load("last")
        measured = replace(newest, standing=None) if ledger == "none" else newest
        given: Iterator[lynxbench.Measurement] = itertools.repeat(measured)
        if measures is not None:
            given = iter([self.ledger.load(result.result_id) for result in measures])
        self._patch.setattr(import_module("lynxbench.api"), "run", lambda *_, **named: next(given))
        where = ("--lynxbench-ledger", ledger or str(self.ledger.location))
        return self._pytester.runpytest_inprocess(*LOADED, "-p", "no:cacheprovider", *where, *options)

    def level(self, of: Result) -> str | None:
        """What a result is held against."""
        baseline = self.ledger.baseline(self.ledger.load(of.result_id))
        return None if baseline is None else baseline.result_id


@pytest.fixture
def planted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """A fresh one."""
    return Planted(pytester, monkeypatch)


def test_without_a_ledger_it_passes_and_says_so(planted: Planted) -> None:
    planted.add()
    done = planted.run(ledger="none")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*not recorded, held against nothing (no ledger is wanted)"])


def test_a_regression_fails_again_and_again_until_it_is_accepted(planted: Planted) -> None:
    level = planted.add()
    for _ in range(2):
        slow = planted.add(0.5)
        planted.run().assert_outcomes(failed=1)
    accepted = planted.run("--lynxbench-accept")
    accepted.assert_outcomes(passed=1)
    accepted.stdout.fnmatch_lines([f"*{slow.result_id[:12]} of contract *: later runs are held against it"])
    assert planted.level(planted.add(0.5)) == slow.result_id != level.result_id
    planted.run().assert_outcomes(passed=1)


def test_what_improves_is_the_level_once_it_is_accepted(planted: Planted) -> None:
    """By itself it would ratchet: one lucky run, and every honest one after it fails."""
    first = planted.add()
    fast = planted.add(2.0)
    done = planted.run()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*: improved against *"])
    assert planted.level(fast) == first.result_id
    accepted = planted.run("--lynxbench-accept")
    accepted.assert_outcomes(passed=1)
    accepted.stdout.fnmatch_lines(["*: later runs are held against it"])
    assert planted.level(planted.add()) == fast.result_id
    planted.run().assert_outcomes(failed=1)


def test_doubtful_evidence_fails_no_test_and_is_no_level(planted: Planted) -> None:
    level = planted.add()
    doubtful = planted.add(0.5, doubted("foreign load: other programs used 71 % of the CPUs"))
    done = planted.run()
    done.assert_outcomes(passed=1)
    alone = "the interval alone shows a loss beyond the budget"
    done.stdout.fnmatch_lines([f"*: unproven against {level.result_id[:12]}: throughput -50*{alone}*foreign load*"])
    refused = planted.run("--lynxbench-accept")
    refused.assert_outcomes(passed=1)
    refused.stdout.fnmatch_lines([f"*not accepted: {doubtful.result_id[:12]} is doubtful: *"])
    assert planted.level(planted.add()) == level.result_id


def test_what_is_incomparable_fails_no_test(planted: Planted) -> None:
    planted.add()
    planted.add(0.5, unsteady(SteadyVerdict.NOT_STEADY))
    done = planted.run()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        ["*: incomparable against * (R09 *): no ratio, and no failure; 1 disturbed run set aside"]
    )


@pytest.mark.parametrize("verdict", [SteadyVerdict.NOT_STEADY, SteadyVerdict.INCONCLUSIVE])
@pytest.mark.parametrize(
    ("again", "counts", "aside"),
    [(0, 0, None), (1, 1, "1 disturbed run set aside"), (3, 2, "2 disturbed runs set aside")],
)
def test_a_disturbed_run_is_measured_again_a_few_times_and_the_first_steady_one_counts(
    planted: Planted, again: int, counts: int, aside: str | None, verdict: SteadyVerdict
) -> None:
    """Disturbed at half the speed, disturbed, then as ever: nothing regressed, whatever the first one says."""
    planted.add()
    runs = [planted.add(0.5, unsteady(verdict)), planted.add(1.0, unsteady(verdict)), planted.add(1.0)]
    done = planted.run("--lynxbench-again", str(again), measures=runs)
    done.assert_outcomes(passed=1)
    (line,) = [line for line in done.outlines if " of contract " in line]
    assert runs[counts].result_id[:12] in line
    assert ("set aside" in line) == (aside is not None)
    assert aside is None or line.endswith(aside)


def test_what_is_doubtful_for_another_reason_is_not_measured_again(planted: Planted) -> None:
    planted.add()
    doubtful = planted.add(0.5, doubted("foreign load: other programs used 71 % of the CPUs"))
    done = planted.run("--lynxbench-again", "3", measures=[doubtful])
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("*set aside*")


def test_what_may_be_the_other_day_fails_no_test(planted: Planted) -> None:
    """Half the speed on another day, and no third one that would show how far days differ."""
    planted.add()
    planted.add(0.5, day=2)
    done = planted.run()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*: unproven against *are of two sittings*"])


def test_another_machine_has_a_level_of_its_own(planted: Planted) -> None:
    planted.add()
    planted.add(0.5, executor=make_executor(machine="elsewhere"))
    done = planted.run()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*recorded; no sound result of this contract on this machine before it*"])


@pytest.mark.parametrize("kind", DOUBTS)
@pytest.mark.parametrize("side", ["a", "b"])
def test_no_doubt_about_either_side_fails_a_test(kind: str, side: str) -> None:
    """Throughput halved for sure, and one side with each shortfall that evidence can have."""
    plant = OF_EVIDENCE[kind][1]
    slower = make_precision(run_means=tuple(mean / 2 for mean in RUN_MEANS))
    sides = {"a": make_result(), "b": make_result(per_precision=(slower,))}
    sound = ComparedResults(compare_sides(side_of(sides["a"]), side_of(sides["b"])))
    assert is_proven_regression(sound), "otherwise this shows nothing"
    sides[side] = plant(sides[side])
    doubted = ComparedResults(compare_sides(side_of(sides["a"]), side_of(sides["b"])))
    assert not is_proven_regression(doubted)
    assert line_of(doubted).startswith(("unproven against", "incomparable against"))


def test_what_cannot_be_imported_is_timed_here_and_held_against_nothing(suite: Suite) -> None:
    local = """
        import pytest

        @pytest.mark.lynxbench(min_duration="100 ms", window="10 ms", drift="20 %")
        def test_local(lynxbench):
            calls = []
            watch = lynxbench(lambda: calls.append(1))
            assert len(watch.samples_ms) == len(calls) >= 12

        @pytest.mark.lynxbench(patience="1 s")
        def test_local_odd(lynxbench):
            lynxbench(lambda: None)
    """
    done = suite.run("-k", "local", waiting=_waiting(0), test_local=local)
    done.assert_outcomes(passed=1, failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        [
            "lynxbench: this:process: no term patience; there are *",
            "* ms a call, steady state: *; one process, not recorded, held against nothing (*no fresh process*",
        ]
    )
    assert not Path(str(suite.ledger.location)).exists()


def test_a_function_that_fails_fails_its_test_in_one_line(suite: Suite) -> None:
    broken = "def wait():\n    raise RuntimeError('planted')\n"
    done = suite.run(waiting=broken)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["lynxbench: *waiting:wait failed at *waiting.py:2: RuntimeError: planted"])


def test_a_term_that_is_none_is_said(suite: Suite) -> None:
    odd = SUITE.replace("restarts=5", "restart=5")
    done = suite.run(test_suite=odd, waiting=_waiting(0))
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["lynxbench: waiting:wait: no term restart; there are restarts, *"])


def test_benchmarks_are_left_out_by_their_marker_and_strict_markers_know_it(suite: Suite) -> None:
    plain = "def test_plain():\n    pass\n"
    done = suite.run("-m", "not lynxbench", "--strict-markers", waiting=_waiting(0), test_plain=plain)
    done.assert_outcomes(passed=1, deselected=1)
    done.stdout.no_fnmatch_line("*lynxbench: * benchmark*")


def test_the_plug_in_is_registered_and_light(pytester: pytest.Pytester) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"lynxbench": "lynxbench.pytest_plugin"}
    heavy = "{'numpy', 'pydantic', 'scipy', 'lynxbench.api'}"
    done = pytester.runpython_c(f"import sys, lynxbench.pytest_plugin; print(sorted({heavy} & set(sys.modules)))")
    assert done.outlines == ["[]"], "every suite of everybody who installed lynxbench loads it"
