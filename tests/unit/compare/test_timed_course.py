"""Histories at moments as teams take results: what is shown in words, seasons beside steps, gaps without a date."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from lynxbench.compare.levels import read_history
from lynxbench.model.history import History, HistoryPoint, Motion
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.report.documents.history_document import compose_history
from lynxbench.report.render_markdown import render_markdown

MONDAY = datetime(2026, 1, 5, tzinfo=UTC).timestamp()


def history(days: np.ndarray, values: np.ndarray, cause: str = "", stamp: str | None = None) -> History:
    """Throughputs of 100 with these departures in percent, taken so many days after a Monday."""
    points = [
        HistoryPoint(
            result_id=f"{i:064d}",
            started_at=stamp if stamp is not None else datetime.fromtimestamp(MONDAY + 86_400 * day, UTC).isoformat(),
            executor_id="a",
            instance_id="",
            layer_ids={Layer.SYSTEM: "a"},
            weights=None,
            run_means=(),
            estimate=100 * math.exp(value / 100),
            low=None,
            high=None,
            unit="items/s",
            cause=cause,
        )
        for i, (day, value) in enumerate(zip(days.tolist(), values.tolist(), strict=True))
    ]
    return read_history(points, contract_id="c" * 64, contract="timed", precision=Precision.FP32)


def test_a_step_in_a_season_is_found_and_both_are_said() -> None:
    rng = np.random.default_rng(1)
    days = np.sort(rng.uniform(0, 60, 240))
    values = 2 * np.sin(2 * np.pi * days) + 6 * (np.arange(240) >= 130) + rng.normal(0, 1, 240)
    found = history(days, values)
    assert found.words == ("step", "hour of day")
    (change,) = found.changes
    assert abs(change.index - 130) <= 3
    assert "seasonal by hour of day: " in found.note
    (season,) = found.seasons
    assert season.ratio.low < math.exp(0.04) < season.ratio.high
    text = render_markdown(compose_history(found))
    assert "seasonal by hour of day" in text


def test_noise_shows_nothing_and_the_page_says_so() -> None:
    rng = np.random.default_rng(2)
    found = history(np.sort(rng.uniform(0, 60, 200)), rng.normal(0, 1, 200))
    assert found.words == ()
    assert "no step, drift, wandering or season is shown" in render_markdown(compose_history(found))


def test_a_drift_across_gaps_is_a_drift_and_no_staircase() -> None:
    rng = np.random.default_rng(3)
    days = np.concatenate([30 * group + np.sort(rng.uniform(0, 2, 16)) for group in range(6)])
    values = -15 * days / days[-1] + rng.normal(0, 1, len(days))
    found = history(days, values)
    assert found.words == ("drift",)
    assert found.trend is not None
    assert found.trend.low < math.exp(-0.15) < found.trend.high
    assert "drift: slower" in found.note


def test_a_change_between_results_weeks_apart_has_no_date() -> None:
    rng = np.random.default_rng(4)
    days = np.concatenate((np.arange(20), 60 + np.arange(20))) + 0.1
    values = 10.0 * (np.arange(40) >= 20) + rng.normal(0, 1, 40)
    found = history(days, values)
    changes = [change for change in found.changes if change.found]
    if changes:  # a line across the gap is as good an account of it, and may be said instead
        assert changes[0].since.startswith("2026-01-24")
        assert "between" in render_markdown(compose_history(found))
    else:
        assert found.motion is Motion.DRIFT
    near = history(np.arange(40) + 0.1, values)
    assert [change.since for change in near.changes if change.found] == [""]


def test_the_leading_bottleneck_stands_beside_the_figure() -> None:
    rng = np.random.default_rng(5)
    text = render_markdown(compose_history(history(np.arange(20.0), rng.normal(0, 1, 20), "memory_bandwidth")))
    assert "items/s; bound by memory bandwidth (20 of 20 results)" in text


@pytest.mark.parametrize("stamp", ["000001", "", "yesterday"])
def test_moments_that_are_none_leave_a_history_without_seasons(stamp: str) -> None:
    rng = np.random.default_rng(6)
    days = np.sort(rng.uniform(0, 60, 200))
    values = 4 * np.sin(2 * np.pi * days) + rng.normal(0, 1, 200)
    assert history(days, values, stamp=stamp).seasons == ()
