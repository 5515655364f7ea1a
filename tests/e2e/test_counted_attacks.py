"""A small version of benchmarks/attacks.py: every kind of attack, few flips, none gets through, crashes or waits."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FLIPS = 80


@pytest.fixture(scope="module")
def attacks() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "attacks.py"
    found = importlib.util.spec_from_file_location("attacks", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["attacks"] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


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
