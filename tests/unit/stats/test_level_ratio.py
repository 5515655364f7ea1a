"""The ratio of two levels: it covers where results remember one another, and stays Welch's where they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from lynxbench.stats.intervals import ratio_interval
from lynxbench.stats.level_ratio import LevelNoise


def _logs(rng: np.random.Generator, count: int, phi: float) -> np.ndarray:
    noise = lfilter([1.0], [1.0, -phi], rng.standard_normal(count + 100))[100:]
    return np.asarray(0.01 * math.sqrt(1 - phi**2) * noise)


@pytest.mark.parametrize(("count", "phi"), [(6, 0.0), (8, 0.7), (30, 0.5), (30, 0.7)])
def test_the_interval_covers_what_remembers(count: int, phi: float) -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        values = np.exp(_logs(rng, 2 * count, phi))
        interval = LevelNoise([values[:count], values[count:]]).ratio(values[:count], values[count:], 0.95)
        covered += interval.low <= 1 <= interval.high
    assert covered / 300 >= 0.91


def test_a_long_history_without_memory_costs_little_beside_welch() -> None:
    rng = np.random.default_rng(6)
    before, after = np.exp(_logs(rng, 100, 0.0)), 0.9 * np.exp(_logs(rng, 100, 0.0))
    interval, welch = LevelNoise([before, after]).ratio(before, after, 0.95), ratio_interval(before, after)
    assert interval.estimate == pytest.approx(welch.estimate, rel=1e-12)
    assert welch.half_width <= interval.half_width * 1.05
    assert interval.half_width <= 2 * welch.half_width


def test_each_level_keeps_a_spread_of_its_own() -> None:
    rng = np.random.default_rng(7)
    quiet, loud = np.exp(_logs(rng, 60, 0.0)), np.exp(10 * _logs(rng, 60, 0.0))
    noise = LevelNoise([quiet, loud])
    assert noise.ratio(quiet, loud, 0.95).half_width > 4 * noise.ratio(quiet, quiet[::-1], 0.95).half_width


def test_other_levels_tell_about_memory() -> None:
    rng = np.random.default_rng(8)
    long = np.exp(_logs(rng, 400, 0.8))
    before, after = long[:8], long[8:16]
    alone, in_company = LevelNoise([before, after]), LevelNoise([before, after, long[16:]])
    widths = [noise.ratio(before, after, 0.95).half_width for noise in (alone, in_company)]
    assert widths[0] != widths[1]


def test_levels_without_scatter_and_single_results() -> None:
    flat = LevelNoise([[100.0] * 8, [90.0] * 8])
    interval = flat.ratio([100.0] * 8, [90.0] * 8, 0.95)
    assert (interval.low, interval.high) == pytest.approx((0.9, 0.9))
    single = flat.ratio([100.0], [90.0, 91.0], 0.95)
    assert single.estimate == pytest.approx(0.905, abs=0.001)
    assert not single.known
    assert not flat.ratio([], [1.0], 0.95).known
