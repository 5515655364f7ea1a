"""What follows from a session: suspicion before an alarm, confirmation before a notice, evidence before a closing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lynxbench.stats.sequential import SessionStreams, bound_of, measure_return, measure_span
from lynxbench.watch.level_rules import (
    SURE,
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


def _wandering(seed: int, sessions: int) -> np.ndarray:
    """A machine that slides by a quarter over its window: how low it went is known, its level hardly."""
    return np.linspace(0.13, -0.13, sessions)[None, :] + _noise(seed, sessions, 0.02)


def test_a_notice_closes_where_sessions_lie_as_those_of_a_wandering_window_lay() -> None:
    values = np.concatenate([_wandering(7, 21), _noise(8, 10, 0.02) - 0.05], axis=1)
    values[:, 21:26] -= 0.8
    streams = replace(_streams(values), ends=np.full(40, 21))
    told, after = np.full(40, 0.8), np.full(40, 6)
    unsure = sum(
        bool(bound_of(measure_span(streams, span), SURE)[0] - measure_span(streams, span).change[0] > 0.4)
        for span in (3, 5)
    )
    assert unsure, "the mean alone may leave half of it"
    assert is_recovered(streams, told, after, BUDGET).all()


def test_a_loss_that_lasts_stays_open_beside_a_wandering_window() -> None:
    values = np.concatenate([_wandering(7, 21), _noise(8, 10, 0.02) - 0.8], axis=1)
    streams = replace(_streams(values), ends=np.full(40, 21))
    assert not is_recovered(streams, np.full(40, 0.8), np.full(40, 10), BUDGET).any()
    half_back = replace(streams, values=values + np.where(np.arange(31) < 26, 0.0, 0.35))
    assert not is_recovered(half_back, np.full(40, 0.8), np.full(40, 5), BUDGET).any()


def test_where_a_window_went_as_low_as_half_of_the_loss_its_range_shows_no_recovery() -> None:
    values = _noise(9, 60, 0.01)
    values[:, ::7] -= 0.05
    values[:, 40:] -= 0.03
    streams = replace(_streams(values), ends=np.full(40, 40))
    back = [bool(measure_return(streams, span)[0].all()) for span in (3, 5, 8)]
    assert any(back), "they lie where the window lay"
    assert not is_recovered(streams, np.full(40, 0.03), np.full(40, 20), BUDGET).any()


def test_a_loss_that_is_half_back_is_not_closed_as_recovered() -> None:
    values = _noise(6, 100)
    values[:, 70:80] -= 0.03
    values[:, 80:] -= 0.02
    assert not is_recovered(_streams(values), np.full(40, 0.03), np.full(40, 20), BUDGET).any()
