"""What follows from a session: suspicion before an alarm, confirmation before a notice, evidence before a closing."""

from __future__ import annotations

import numpy as np

from lynxbench.stats.sequential import SessionStreams
from lynxbench.watch.level_rules import (
    is_alarm,
    is_confirmed,
    is_gain,
    is_recovered,
    is_suspect,
    judge_streams,
)

BUDGET = 0.005


def _streams(values: np.ndarray) -> SessionStreams:
    many, count = values.shape
    days = np.tile(np.arange(count) % 7, (many, 1))
    none = np.zeros(many)
    shares = np.full(values.shape, 0.2)
    return SessionStreams(values, shares, values, shares, days, none, none.astype(int), np.full(many, count))


def _noise(seed: int, count: int, sigma: float = 0.003, many: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, sigma, (many, count))


def test_a_slow_night_is_suspected_and_alarms_nobody() -> None:
    values = _noise(1, 70)
    values[:, -1] = -0.02
    judged = judge_streams(_streams(values))
    assert is_suspect(judged, BUDGET).all()
    assert not is_alarm(judged, BUDGET).any()


def test_a_loss_within_the_budget_is_told_to_nobody() -> None:
    values = _noise(2, 84, 0.0005)
    values[:, 70:] -= 0.003
    judged = judge_streams(_streams(values))
    assert (judged.loss.strength >= 1).all(), "it is no chance"
    assert not is_alarm(judged, BUDGET).any(), "and it is borne"
    assert not is_suspect(judged, BUDGET).any()
    assert is_alarm(judged, 0.001).all()


def test_what_is_measured_again_must_be_slow_itself() -> None:
    values = _noise(3, 75)
    values[:, 70:] -= 0.03
    judged = judge_streams(_streams(values))
    assert is_alarm(judged, BUDGET).all()
    assert is_confirmed(judged, np.full(40, 0.0), BUDGET).all()
    assert not is_confirmed(judged, np.full(40, 0.05), BUDGET).any()


def test_a_gain_needs_two_weeks() -> None:
    values = _noise(4, 84)
    values[:, 70:] += 0.03
    assert not is_gain(judge_streams(_streams(values[:, :74])), BUDGET).any()
    assert is_gain(judge_streams(_streams(values)), BUDGET).mean() > 0.9


def test_a_notice_closes_by_sessions_that_are_back_and_by_no_other() -> None:
    values = _noise(5, 90)
    values[:, 70:80] -= 0.03
    told = np.full(40, 0.03)
    still = is_recovered(_streams(values[:, :80]), told, np.full(40, 8), BUDGET)
    assert not still.any()
    assert is_recovered(_streams(values), told, np.full(40, 10), BUDGET).all()
    too_soon = is_recovered(_streams(values), told, np.full(40, 2), BUDGET)
    assert not too_soon.any(), "two sessions are no evidence"


def test_a_loss_that_is_half_back_is_not_closed_as_recovered() -> None:
    values = _noise(6, 100)
    values[:, 70:80] -= 0.03
    values[:, 80:] -= 0.02
    assert not is_recovered(_streams(values), np.full(40, 0.03), np.full(40, 20), BUDGET).any()
