"""Seasons in real time: planted ones are found with their size, and noise, cycles and results at one hour show none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.model.history import SeasonKind
from lynxbench.stats.seasons import DAY_S, _fits, _whiten, find_seasons, line_in_time, phase_of

MONDAY_S = 1_767_571_200.0  # 2026-01-05 00:00 UTC


def moments(rng: np.random.Generator, days: float = 40, count: int = 160) -> np.ndarray:
    return MONDAY_S + DAY_S * np.sort(rng.uniform(0, days, count))


def test_whitening_gives_the_likelihood_of_the_whole_covariance() -> None:
    """Against the covariance matrix written out, at moments that are anything but equally spaced."""
    rng = np.random.default_rng(1)
    at_s = np.cumsum(rng.exponential(1.0, 30) ** 3)
    columns = np.column_stack((np.ones(30), rng.normal(size=30)))
    white = _whiten(at_s, columns)
    likely = _fits(white, slice(0, 1))
    forgets, share = 4 * float(np.median(np.diff(at_s))), 0.3
    cell = 1 * 9 + 3  # the second share of white noise with the fourth time
    covariance = (1 - share) * np.exp(-np.abs(np.subtract.outer(at_s, at_s)) / forgets) + share * np.eye(30)
    inverse = np.linalg.inv(covariance)
    ones = columns[:, :1]
    level = np.linalg.solve(ones.T @ inverse @ ones, ones.T @ inverse @ columns[:, 1])
    left = columns[:, 1] - ones @ level
    expected = 30 * math.log(float(left @ inverse @ left) / 30) + np.linalg.slogdet(covariance)[1]
    assert likely[cell] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_day_s_wave_is_found_with_its_size_and_its_hours(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at_s = moments(rng)
    values = 2 * np.sin(2 * np.pi * at_s / DAY_S) + rng.normal(0, 1, len(at_s))
    (season,) = find_seasons(at_s, values)
    assert season.kind is SeasonKind.HOUR_OF_DAY
    assert season.swing.low - 1 < 4 < season.swing.high + 1
    assert 3 <= season.highest <= 9
    assert 15 <= season.lowest <= 21
    assert np.std(values - season.curve) < 1.2


def test_a_weekend_is_found_and_named_by_its_days() -> None:
    rng = np.random.default_rng(5)
    at_s = MONDAY_S + DAY_S * (np.arange(120) + 2 / 24)
    values = 3.0 * (phase_of(at_s, SeasonKind.DAY_OF_WEEK) >= 5) + rng.normal(0, 1, 120)
    (season,) = find_seasons(at_s, values)
    assert season.kind is SeasonKind.DAY_OF_WEEK
    assert season.highest in (5, 6)
    assert season.lowest < 5


def test_both_are_found_beside_each_other_and_beside_a_step() -> None:
    rng = np.random.default_rng(6)
    at_s = moments(rng, 60, 400)
    weekly = 3.0 * (phase_of(at_s, SeasonKind.DAY_OF_WEEK) >= 5)
    values = weekly + 2 * np.sin(2 * np.pi * at_s / DAY_S) + rng.normal(0, 1, 400)
    assert {season.kind for season in find_seasons(at_s, values)} == set(SeasonKind)
    stepped = values + 6 * (np.arange(400) >= 200)
    assert {season.kind for season in find_seasons(at_s, stepped, [200])} == set(SeasonKind)


def test_results_at_one_hour_of_the_day_say_nothing_of_the_others() -> None:
    rng = np.random.default_rng(7)
    at_s = MONDAY_S + DAY_S * (np.arange(90) + 2 / 24 + rng.normal(0, 0.01, 90))
    values = 50 * np.sin(2 * np.pi * at_s / DAY_S) + rng.normal(0, 0.1, 90)
    assert find_seasons(at_s, values) == ()


def test_an_hour_that_cannot_be_told_from_a_day_is_neither() -> None:
    """Weekdays at night and weekends at noon: the difference may be the hour's or the day's."""
    rng = np.random.default_rng(12)
    days = np.arange(140)
    at_s = MONDAY_S + DAY_S * (days + np.where(days % 7 >= 5, 12, 2) / 24)
    values = 3.0 * (days % 7 >= 5) + rng.normal(0, 1, 140)
    assert find_seasons(at_s, values) == ()


@pytest.mark.parametrize("hours", [19, 30, 36, 240])
def test_a_cycle_of_another_length_is_no_season(hours: float) -> None:
    rng = np.random.default_rng(8)
    at_s = moments(rng)
    values = 3 * np.sin(2 * np.pi * at_s / 3600 / hours) + rng.normal(0, 1, len(at_s))
    assert find_seasons(at_s, values) == ()


def test_what_did_not_repeat_is_no_season() -> None:
    """A wave a day in the first half of the history alone, so strong that it would pass as one of the whole."""
    rng = np.random.default_rng(9)
    at_s = moments(rng)
    first = np.arange(len(at_s)) < len(at_s) // 2
    values = np.where(first, 3 * np.sin(2 * np.pi * at_s / DAY_S), -3 * np.sin(2 * np.pi * at_s / DAY_S))
    assert find_seasons(at_s, values + rng.normal(0, 1, len(at_s))) == ()


def test_few_results_and_few_days_show_nothing() -> None:
    rng = np.random.default_rng(10)
    for days, count in ((40, 20), (5, 100)):
        at_s = moments(rng, days, count)
        assert find_seasons(at_s, 5 * np.sin(2 * np.pi * at_s / DAY_S)) == ()
    twice = np.sort(np.repeat(moments(rng), 2))  # results of one moment
    assert find_seasons(twice, rng.normal(size=len(twice))) == ()
    same = np.full(50, MONDAY_S)
    assert find_seasons(same, rng.normal(size=50)) == ()


def test_a_line_in_time_is_told_from_steps_across_gaps() -> None:
    rng = np.random.default_rng(11)
    at_s = MONDAY_S + DAY_S * np.concatenate([30 * group + np.sort(rng.uniform(0, 2, 15)) for group in range(5)])
    along = (at_s - at_s[0]) / (at_s[-1] - at_s[0])
    drifting = 12 * along + rng.normal(0, 1, 75)
    change = line_in_time(at_s, drifting, [15, 30, 45, 60], 1.5)
    assert change is not None
    assert change.low < 12 < change.high
    stepping = 8.0 * (np.arange(75) >= 22) + rng.normal(0, 1, 75)
    assert line_in_time(at_s, stepping, [22], 1.5) is None
    assert line_in_time(at_s, rng.normal(0, 1, 75), [], 1.5) is None
