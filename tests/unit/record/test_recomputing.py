"""How long a run lasted against how long its processes measured, with what is known of the clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lynxbench.model.activity import WALL_STEP
from lynxbench.record.recomputing import check_times

START = "2026-11-18T10:00:00+00:00"
MINUTE_NS = 60_000_000_000


class Iterations(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.start_ns)


def judged(seconds: int, columns: dict[str, Any] | None, measuring_s: float = 60.0) -> list[str]:
    """Two processes of a minute each, in a run that lasted so long and says how long it measured."""
    result: Any = SimpleNamespace(
        started_at=START,
        finished_at=f"2026-11-18T10:{seconds // 60:02}:{seconds % 60:02}+00:00",
        measuring_s=measuring_s,
    )
    start = np.array([0, MINUTE_NS // 2])
    each = Iterations(start_ns=start, end_ns=start + MINUTE_NS // 2, seconds=np.array([30.0, 30.0]))
    process = SimpleNamespace(samples=SimpleNamespace(iterations=each))
    telemetry = None if columns is None else SimpleNamespace(columns=columns)
    conclusion: Any = SimpleNamespace(processes=(process, process), telemetry=telemetry)
    return [f"{check.name}: {check.outcome.value}" for check in check_times(result, conclusion)]


@pytest.mark.parametrize(
    ("seconds", "columns", "said"),
    [
        (120, {WALL_STEP: np.zeros(3)}, []),
        (119, {WALL_STEP: np.zeros(3)}, []),  # times are written to the second
        (60, {WALL_STEP: np.zeros(3)}, ["times: does not hold"]),
        (60, {WALL_STEP: np.array([0.0, -90.0])}, []),  # the clock was set back, which is a doubt of its own
        (60, {}, ["times: cannot be recomputed"]),
        (60, None, ["times: cannot be recomputed"]),
        (120, None, []),
    ],
)
def test_who_measured_longer_than_the_run_is_told_where_the_clock_is_known(
    seconds: int, columns: dict[str, Any] | None, said: list[str]
) -> None:
    assert judged(seconds, columns) == said


@pytest.mark.parametrize(
    ("stated_s", "is_told"), [(0.0, False), (119.0, False), (120.9, False), (200.0, True), (-1.0, True)]
)
def test_a_run_says_no_more_of_its_time_than_it_lasted(stated_s: float, is_told: bool) -> None:
    """Found: how long measuring took was shown in reports, and held against nothing."""
    assert judged(120, {WALL_STEP: np.zeros(3)}, stated_s) == (["times: does not hold"] if is_told else [])
    assert judged(120, None, -1.0) == ["times: does not hold"]
