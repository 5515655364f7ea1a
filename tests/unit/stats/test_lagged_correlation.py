"""Telemetry against requests: a planted lag is found with its sign, and unrelated columns stay unnamed."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.stats.lagged_correlation import correlate_columns


def smooth(chance: np.random.Generator, count: int, phi: float = 0.7) -> np.ndarray:
    out = np.zeros(count)
    for i in range(1, count):
        out[i] = phi * out[i - 1] + chance.standard_normal()
    return out


@pytest.mark.parametrize("lag", [3, -4, 0])
def test_a_planted_lag_is_found(lag: int) -> None:
    chance = np.random.default_rng(5)
    at = np.arange(240.0)
    load = smooth(chance, 260)
    latency = 0.1 + 0.01 * load[10:250]
    power = 300 + 20 * load[10 - lag : 250 - lag] + chance.standard_normal(240)
    requests = np.repeat(at, 4) + np.tile([0.1, 0.3, 0.6, 0.8], 240)
    columns = {"power": power, "clock": 1980 - 5 * load[10:250] + chance.standard_normal(240)}
    related = correlate_columns(requests, np.repeat(latency, 4), at + 0.5, columns)
    found = {correlation.column: correlation for correlation in related}
    assert found["power"].lag_s == pytest.approx(lag, abs=0.05)
    assert found["power"].r > 0.8
    assert found["clock"].r < -0.8


def test_unrelated_columns_are_rarely_named() -> None:
    chance, named = np.random.default_rng(11), 0
    at = np.arange(200.0)
    for _ in range(60):
        latency, column = smooth(chance, 200), smooth(chance, 200)
        named += len(correlate_columns(at, latency, at, {"x": column}))
    assert named <= 4


def test_a_common_drift_is_no_relation() -> None:
    chance = np.random.default_rng(2)
    at = np.arange(200.0)
    latency, column = at * 0.01 + smooth(chance, 200, 0.0), 50 + at * 0.2 + smooth(chance, 200, 0.0)
    assert correlate_columns(at, latency, at, {"temperature": column}) == ()


def test_short_constant_and_broken_columns_say_nothing() -> None:
    at = np.arange(100.0)
    latency = np.sin(at)
    columns = {"constant": np.full(100, 7.0), "broken": np.full(100, np.nan)}
    assert correlate_columns(at, latency, at, columns) == ()
    assert correlate_columns(at[:10], latency[:10], at, {"x": np.cos(at)}) == ()
    assert correlate_columns(at, latency, at + 1000.0, {"x": np.cos(at)}) == ()
