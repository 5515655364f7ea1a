"""Samples that two processes have in common: a copy is told, what clocks do by chance is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lynxbench.record import plan_check
from lynxbench.record.plan_check import claim_problems, in_common


def process(starts: list[int] | np.ndarray[Any, Any], took: int = 7) -> Any:
    start = np.asarray(starts, dtype=np.int64)
    return SimpleNamespace(iterations=SimpleNamespace(start_ns=start, end_ns=start + took))


@pytest.mark.parametrize(("copied", "told"), [(0, 0), (1, 0), (10, 0), (11, 11), (10_000, 10_000)])
def test_a_copy_is_more_than_a_thousandth(copied: int, told: int) -> None:
    one = np.arange(10_000) * 1000
    other = np.concatenate([one[:copied], one[copied:] + 1])
    assert in_common(process(one), process(other)) == told


def test_of_a_few_samples_one_is_a_copy() -> None:
    assert in_common(process([1, 100, 200]), process([2, 100, 201])) == 1


def test_a_start_alone_is_no_sample() -> None:
    assert in_common(process([1, 100, 200]), process([1, 100, 200], took=8)) == 0


def test_processes_one_after_another_or_without_samples_have_nothingin_common() -> None:
    assert in_common(process([1, 2, 3]), process([4, 5, 6])) == 0
    assert in_common(process([4, 5, 6]), process([1, 2, 3])) == 0
    assert in_common(process([]), process([1])) == 0


def asked_at(rate_per_s: float, seconds: float, seed: int = 3) -> Any:
    """Requests of a Poisson stream, with later turns of their conversations between them."""
    rng = np.random.default_rng(seed)
    due = np.cumsum(rng.exponential(1 / rate_per_s, int(rate_per_s * seconds)))
    both = np.concatenate([due, due + 0.01])
    return SimpleNamespace(scheduled_ns=(both * 1e9).astype(np.int64), turn=np.repeat([0, 1], due.size))


def told(claimed: float | None, really: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What is said of a search that claims one rate where the runs after it were asked at another."""
    monkeypatch.setattr(plan_check, "claimed_rate", lambda run: claimed)
    monkeypatch.setattr(plan_check, "read_record", lambda file: asked_at(really, 20.0))
    attempts: Any = [
        SimpleNamespace(slot=SimpleNamespace(index=index, restart=max(index - 1, 0)), done=True, folder=tmp_path)
        for index in range(3)
    ]
    run: Any = None
    return list(claim_problems(run, attempts))


def test_runs_at_the_claimed_rate_bear_it_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for rate in (0.5, 3.0, 41.0, 900.0):
        assert told(rate, rate, monkeypatch, tmp_path) == []
    assert told(None, 3.0, monkeypatch, tmp_path) == []


@pytest.mark.parametrize("factor", [10.0, 1.5, 0.5])
def test_a_rate_that_no_run_was_asked_at_is_no_claim(
    factor: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Found: a search's record with another rate in it verified, beside runs at the rate that was really found."""
    lines = told(41.0 * factor, 41.0, monkeypatch, tmp_path)
    assert len(lines) == 2
    assert lines[0].startswith(f"{41.0 * factor:.4g} /s is claimed, and run 1 after it was asked at 4")
