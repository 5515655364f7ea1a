"""A failure on a disturbed machine is run again and never hides one that nothing disturbed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

import disturbed
from disturbed import ProcessorTime

pytest_plugins = ("pytester",)

HOOKS = """
import disturbed
pytest_runtest_makereport = disturbed.pytest_runtest_makereport
pytest_runtest_protocol = disturbed.pytest_runtest_protocol
"""
FAILING = """
from pathlib import Path
def test_it():
    times = Path("times")
    ran = len(times.read_text()) if times.exists() else 0
    times.write_text("x" * (ran + 1))
    assert ran >= {passes_after}, "this is how it fails"
"""
SHARED = """
import pytest
from pathlib import Path
@pytest.fixture(scope="session")
def made():
    times = Path("times")
    ran = len(times.read_text()) if times.exists() else 0
    times.write_text("x" * (ran + 1))
    assert ran >= {passes_after}, "this is how it fails"
    yield ran
    Path("ended").write_text("once")
def test_one(made): pass
def test_another(made): pass
def test_without(): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of one timed room."""
    monkeypatch.setattr(disturbed, "TIMED", ("test_timed.py",))
    monkeypatch.delenv(disturbed.STRICT, raising=False)
    pytester.makeconftest(HOOKS)
    return pytester


def _outcomes(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, shares: Sequence[float], text: str, room: str = "timed"
) -> tuple[dict[str, int], str, int]:
    """What the suite ends in where each run of a test has its share of 10 s taken, and how often the first one ran."""
    at = ProcessorTime(0.0, 0.0)
    readings = [at]
    for share in shares:
        at = ProcessorTime(at.used_s + 10 * (1 - share), at.taken_s + 10 * share)
        readings += [at, at]
    left = itertools.chain(readings, itertools.repeat(readings[-1]))
    monkeypatch.setattr(disturbed, "read_processor_time", lambda: next(left))
    suite.makepyfile(**{f"test_{room}": text})
    done = suite.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:lynxbench", "-ra")
    times = Path(suite.path, "times")
    return done.parseoutcomes(), done.stdout.str(), len(times.read_text())


def test_what_passes_at_the_second_time_passes(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, _, ran = _outcomes(suite, monkeypatch, [0.5, 0.5], FAILING.format(passes_after=1))
    assert (ends, ran) == ({"passed": 1}, 2)


def test_what_fails_twice_while_disturbed_shows_nothing(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, said, ran = _outcomes(suite, monkeypatch, [0.5, 0.37], FAILING.format(passes_after=9))
    assert (ends, ran) == ({"skipped": 1}, 2)
    assert "37% of the processor time was taken" in said
    assert "this is how it fails" in said


@pytest.mark.parametrize(("shares", "runs"), [([0.0], 1), ([0.09], 1), ([0.6, 0.05], 2)])
def test_what_fails_undisturbed_fails(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, shares: list[float], runs: int
) -> None:
    ends, _, ran = _outcomes(suite, monkeypatch, shares, FAILING.format(passes_after=9))
    assert (ends, ran) == ({"failed": 1}, runs)


def test_rooms_that_judge_values_are_never_excused(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, _, ran = _outcomes(suite, monkeypatch, [0.9, 0.9], FAILING.format(passes_after=9), room="values")
    assert (ends, ran) == ({"failed": 1}, 1)


def test_nothing_is_excused_where_it_is_forbidden(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disturbed.STRICT, "1")
    ends, _, ran = _outcomes(suite, monkeypatch, [0.9, 0.9], FAILING.format(passes_after=9))
    assert (ends, ran) == ({"failed": 1}, 1)


def test_a_shared_fixture_is_made_again_once_for_all(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, _, ran = _outcomes(suite, monkeypatch, [0.5, 0.5, 0.0, 0.0], SHARED.format(passes_after=1))
    assert (ends, ran) == ({"passed": 3}, 2)
    assert Path(suite.path, "ended").read_text() == "once"


def test_who_needs_a_fixture_that_was_disturbed_shows_nothing_either(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, said, ran = _outcomes(suite, monkeypatch, [0.5, 0.5, 0.0, 0.0], SHARED.format(passes_after=9))
    assert (ends, ran) == ({"passed": 1, "skipped": 2}, 2)
    assert "what its tests share was disturbed" in said


def test_a_fixture_that_fails_undisturbed_fails_for_all(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, _, ran = _outcomes(suite, monkeypatch, [0.0, 0.5, 0.5, 0.5], SHARED.format(passes_after=9))
    assert (ends, ran) == ({"passed": 1, "errors": 2}, 1)


def test_time_that_nobody_wanted_is_not_counted() -> None:
    begun = ProcessorTime(100.0, 7.0)
    assert begun.share_taken_until(ProcessorTime(103.0, 8.0)) == pytest.approx(0.25)
    assert begun.share_taken_until(begun) == 0.0


@pytest.mark.parametrize(
    ("groups", "folder", "text", "withheld_s"),
    [
        ("0::/suite", "suite", "nr_periods 4\nthrottled_usec 2500000\n", 2.5),
        ("2:cpuacct:/\n1:cpu:/suite\n0::/", "cpu/suite", "nr_periods 4\nthrottled_time 2500000000\n", 2.5),
        ("0::/suite", "suite", "usage_usec 77\n", 0.0),
        ("0::/elsewhere", "suite", "throttled_usec 2500000\n", 0.0),
    ],
)
def test_what_a_quota_withholds_is_taken_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, folder: str, text: str, withheld_s: float
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "cpu.stat").write_text(text)
    (tmp_path / "cgroup").write_text(groups)
    monkeypatch.setattr(disturbed, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(disturbed, "OWN_GROUPS", tmp_path / "cgroup")
    assert disturbed._withheld_s() == withheld_s


def test_what_the_kernel_counts_in_a_test_of_values_is_no_disturbance() -> None:
    assert ProcessorTime(1.0, 1.0).share_taken_until(ProcessorTime(1.02, 1.02)) == 0.0, "two ticks of four"
    assert ProcessorTime(1.0, 1.0).share_taken_until(ProcessorTime(2.0, 2.0)) == 0.5


def test_simulations_of_a_timed_room_are_never_excused(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbed, "VALUES", ("test_timed.py",))
    outcomes, _, ran = _outcomes(suite, monkeypatch, [0.5, 0.5], FAILING.format(passes_after=9))
    assert outcomes == {"failed": 1}
    assert ran == 1
