"""A small version of benchmarks/attacks.py: every kind of attack, few flips, none gets through, crashes or waits."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FLIPS = 80


@pytest.fixture(scope="module")
def attacks() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        yield importlib.import_module("attacks")


@pytest.mark.parametrize("kind", ["folder", "bundle", "written", "forged", "hostile", "terminal"])
def test_no_attack_of_a_kind_gets_through(attacks: ModuleType, spin_run: Path, tmp_path: Path, kind: str) -> None:
    (tally,) = attacks.attack_all(spin_run, tmp_path, FLIPS, (kind,))
    assert tally.tried >= 10
    assert tally.examples == []
    assert tally.failed == 0


def test_an_attack_that_gets_through_is_counted_as_one(attacks: ModuleType) -> None:
    tally = attacks.Tally("planted")
    tally.count("unnoticed", lambda: True)
    tally.count("crash", lambda: 1 // 0)
    tally.count("noticed", lambda: False)
    assert (tally.tried, tally.got_through, tally.crashed, tally.failed) == (3, 1, 1, 2)
