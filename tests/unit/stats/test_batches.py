"""Windows: exact apportionment, gaps, peaks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lynxbench.errors import BadSeries
from lynxbench.stats import batches
from lynxbench.stats.batches import best_rate, best_rates, best_run, means_by_time, window_means

S = 1_000_000_000


def test_a_sample_that_straddles_is_shared_by_time() -> None:
    windows = window_means([0, S // 2], [S // 2, 2 * S], [10.0, 30.0], 1.0)
    assert windows.units == pytest.approx([10 + 10, 20])
    assert windows.rate_per_s == pytest.approx([20, 20])
    assert windows.centre_s == pytest.approx([0.5, 1.5])


def test_gaps_count_as_nothing_done() -> None:
    windows = window_means([0, 3 * S], [S, 4 * S], 5.0, 1.0)
    assert windows.rate_per_s == pytest.approx([5, 0, 0, 5])


def test_a_short_rest_joins_and_a_long_one_stands() -> None:
    joined = window_means([0], [int(2.3 * S)], 23.0, 1.0)
    assert joined.width_s == pytest.approx([1, 1.3])
    assert joined.rate_per_s == pytest.approx([10, 10])
    alone = window_means([0], [int(2.6 * S)], 26.0, 1.0)
    assert alone.width_s == pytest.approx([1, 1, 0.6])
    assert alone.rate_per_s == pytest.approx([10, 10, 10])


def test_overlapping_requests_add_up() -> None:
    windows = window_means([0, 0, S], [2 * S, 2 * S, 2 * S], [2.0, 2.0, 1.0], 1.0)
    assert windows.units == pytest.approx([2, 3])


def test_the_best_rate_is_that_of_the_burst() -> None:
    starts = np.arange(100) * S // 10
    units = np.where((np.arange(100) >= 30) & (np.arange(100) < 40), 2.0, 1.0)
    assert best_rate(starts, starts + S // 10, units, 1.0) == pytest.approx(20)


def test_long_runs_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [([0, S], [S, 3 * S], [1.0, 4.0]), ([5], [3 * S], 2.0), ([0, 0], [2 * S, S], [1.0, 1.0])]
    together = best_rates(runs, 0.5)
    monkeypatch.setattr(batches, "EDGES_TOGETHER", 3)
    assert best_rates(runs, 0.5) == together
    assert best_rates([]) == []


def test_the_best_rate_of_a_short_run_is_that_of_the_run() -> None:
    assert best_rate([0], [S // 2], 4.0, 1.0) == 8.0


@pytest.mark.parametrize(
    ("start", "end", "units", "window", "said"),
    [
        ([], [], [], 1.0, "no samples"),
        ([0], [1, 2], 1.0, 1.0, "every sample has one"),
        ([5], [1], 1.0, 1.0, "ends before it starts"),
        ([5], [5], 1.0, 1.0, "one instant"),
        ([0], [5], float("nan"), 1.0, "finite"),
        ([0], [5], 1.0, 0.0, "not a duration"),
    ],
)
def test_bad_samples(start: list[int], end: list[int], units: float, window: float, said: str) -> None:
    for function in (window_means, best_rate):
        with pytest.raises(BadSeries, match=said):
            function(start, end, units, window)


def test_means_by_time() -> None:
    found = means_by_time([0.0, 0.4, 1.1, 3.2, 3.9, 4.1], [1.0, 3.0, 5.0, 7.0, 9.0, 11.0], 1.0)
    assert found.mean == pytest.approx([2, 5, 9])  # nothing fell into 2…3; 4.1 joins 3…4
    assert found.first.tolist() == [0, 2, 3]


def test_means_by_time_is_checked() -> None:
    with pytest.raises(BadSeries, match="backwards"):
        means_by_time([1.0, 0.0], [1.0, 1.0], 1.0)
    with pytest.raises(BadSeries, match="every value has one time"):
        means_by_time([1.0], [1.0, 1.0], 1.0)
    with pytest.raises(BadSeries, match="not a duration"):
        means_by_time([1.0], [1.0], -1.0)


def test_best_run() -> None:
    values = [5.0, 1.0, 2.0, 9.0, 8.0]
    assert best_run(values, 2, higher_is_better=True).start == 3
    assert best_run(values, 2, higher_is_better=False).mean == pytest.approx(1.5)
    assert best_run(values, 99, higher_is_better=True).count == 5
    with pytest.raises(BadSeries):
        best_run([], 1, higher_is_better=True)


@pytest.mark.parametrize("ask", [window_means, best_rate])
def test_a_damaged_stamp_does_not_fill_the_memory(ask: Callable[..., object]) -> None:
    with pytest.raises(BadSeries, match="a stamp must be damaged"):
        ask([0, S], [S, 2 * S + (1 << 60)], 1.0, 0.01)
