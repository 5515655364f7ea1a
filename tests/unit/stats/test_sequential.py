"""The test of a level with known truth: silent where nothing changed, quick where something did, deaf to outliers."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.stats.sequential import (
    FEWEST,
    MOST,
    SMALLEST,
    SPANS,
    LevelJudgement,
    SessionStreams,
    bound_of,
    judge_level,
    measure_span,
)

FALSE_ALARMS = 0.003
STREAMS = 60


def _streams(values: np.ndarray, starts: int = 0, ends: int | None = None, restarts: float = 0.0) -> SessionStreams:
    many, count = values.shape
    return SessionStreams(
        values=values,
        shares=np.full(values.shape, 0.2),
        firsts=values,
        first_shares=np.full(values.shape, 0.2),
        weekdays=np.tile(np.arange(count) % 7, (many, 1)),
        between_restarts=np.full(many, restarts),
        starts=np.full(many, starts),
        ends=np.full(many, count if ends is None else ends),
    )


def _noise(seed: int, count: int, sigma: float = 0.004) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, sigma, (STREAMS, count))


def _judge(values: np.ndarray, **more: int) -> LevelJudgement:
    return judge_level(_streams(values, **more), FALSE_ALARMS)


def test_nothing_is_said_before_there_is_a_window() -> None:
    judged = _judge(_noise(1, FEWEST + SPANS[0] - 1))
    assert np.isnan(judged.loss.strength).all()
    assert not np.isnan(_judge(_noise(1, FEWEST + SPANS[0])).loss.strength).any()


def test_an_unchanged_level_is_silent() -> None:
    values = _noise(2, 150)
    alarms = [(_judge(values[:, :night]).loss.strength >= 1).any() for night in range(20, 150, 3)]
    assert not any(alarms)


@pytest.mark.parametrize(("loss", "nights", "least"), [(0.03, 3, 0.95), (0.015, 14, 0.8)])
def test_a_loss_is_found_in_time(loss: float, nights: int, least: float) -> None:
    values = _noise(3, 80 + nights)
    values[:, 80:] -= loss
    found = np.zeros(STREAMS, dtype=bool)
    for night in range(1, nights + 1):
        found |= _judge(values[:, : 80 + night]).loss.strength >= 1
    assert found.mean() >= least
    judged = _judge(values)
    assert np.median(judged.loss.change) == pytest.approx(-loss, abs=0.002)


def test_a_gain_is_judged_over_the_longest_span() -> None:
    values = _noise(4, 94)
    values[:, 80:] += 0.02
    judged = _judge(values)
    assert (judged.gain.span == SPANS[-1]).all()
    assert (judged.gain.strength >= 1).mean() > 0.9
    assert np.median(judged.gain.change) == pytest.approx(0.02, abs=0.002)
    assert (judged.loss.strength < 1).all()
    assert (_judge(values[:, :84]).gain.strength < 1).all(), "four good nights are no gain"


def test_one_terrible_night_is_no_alarm() -> None:
    values = _noise(5, 80)
    values[:, -3:] = 0.0
    values[:, -1] -= 0.5
    assert (_judge(values).loss.strength < 1).all()
    values[:, -2] -= 0.5
    assert (_judge(values).loss.strength < 1).all(), "nor are two: a span of three must persist"
    values[:, -3] -= 0.5
    assert (_judge(values).loss.strength >= 1).all()


def test_bad_nights_in_the_window_hardly_move_its_level() -> None:
    values = _noise(6, 70)
    plain = measure_span(_streams(values), 5).change
    values[:, 10] -= 0.2
    values[:, 40] -= 0.2
    moved = measure_span(_streams(values), 5).change - plain
    assert np.abs(moved).max() < 0.002, "a mean would have moved by 0.7 %"


def test_the_days_of_the_week_are_learned() -> None:
    nights = np.arange(90)
    week = 0.02 * (nights % 7 >= 5)
    values = _noise(7, 90, 0.001) - week
    assert (_judge(values[:, : 7 * 12]).loss.strength < 1).all(), "a weekend is no loss"
    assert (measure_span(_streams(values), 3).error < 0.002).all(), "nor does it widen the error"


def test_sessions_that_remember_one_another_need_more() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(0.0, 0.004, (STREAMS, 80))
    for night in range(1, 80):
        values[:, night] = 0.7 * values[:, night - 1] + values[:, night]
    fresh = _noise(9, 80, 0.0056)
    assert np.median(measure_span(_streams(values), 8).error) > 1.4 * np.median(measure_span(_streams(fresh), 8).error)


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("window", [FEWEST, 25])
def test_half_of_the_rate_is_told_by_the_third_night_however_little_is_known(memory: float, window: int) -> None:
    """A young level that wanders: a t that allows for both is reached by no loss at all."""
    rng = np.random.default_rng(20)
    values = rng.normal(0.0, 0.03 * np.sqrt(1 - memory**2), (STREAMS, window + 3))
    values[:, 0] = rng.normal(0.0, 0.03, STREAMS)
    for night in range(1, window + 3):
        values[:, night] += memory * values[:, night - 1]
    values[:, window:] -= 0.7
    assert (_judge(values).loss.strength >= 1).mean() > 0.95


def test_what_lies_beyond_all_that_the_window_saw_must_persist_and_be_far_beyond() -> None:
    values = np.tile(np.linspace(-0.02, 0.02, FEWEST + 3), (1, 1))  # each remembers the one before
    for lost, told in ((0.04, False), (0.08, False), (0.2, True), (0.5, True)):
        values[:, FEWEST:] = -0.02 - lost
        assert bool(_judge(values).loss.strength[0] >= 1) is told, lost
    values[:, -2] = 0.0
    assert _judge(values).loss.strength[0] < 1
    values[:, FEWEST:] = 0.5
    assert _judge(values).loss.strength[0] < 1, "a gain is no loss"


def test_noise_that_has_grown_counts_with_what_it_is_now() -> None:
    values = _noise(10, 120)
    values[:, 70:] *= 4
    assert (_judge(values).sigma > 0.009).mean() > 0.95


def test_fewer_restarts_count_for_less() -> None:
    values = _noise(11, 80)
    streams = _streams(values, restarts=5 * 0.004**2)
    thin = SessionStreams(
        streams.values,
        np.tile(np.where(np.arange(80) >= 77, 1.0, 0.2), (STREAMS, 1)),
        streams.firsts,
        streams.first_shares,
        streams.weekdays,
        streams.between_restarts,
        streams.starts,
        streams.ends,
    )
    assert (measure_span(thin, 3).error > 1.5 * measure_span(streams, 3).error).all()


def test_the_window_stays_where_it_is() -> None:
    values = _noise(12, 200)
    values[:, 60:] -= np.linspace(0, 0.03, 140)
    judged = _judge(values)
    assert (judged.loss.strength >= 1).all(), "a slow slide adds up"
    later = judge_level(_streams(values, starts=130), FALSE_ALARMS)
    assert np.median(later.loss.change) > np.median(judged.loss.change)


def test_sessions_of_another_executor_are_no_part_of_the_window() -> None:
    values = _noise(13, 40)
    values[:, 20:] -= 0.05
    mixed, own = measure_span(_streams(values), 3), measure_span(_streams(values, ends=20), 3)
    assert np.median(own.change) == pytest.approx(-0.05, abs=0.003)
    assert np.median(mixed.change) > -0.04
    assert np.isnan(measure_span(_streams(values, ends=FEWEST - 1), 3).change).all()


def test_a_level_without_any_noise_has_the_smallest_one() -> None:
    values = np.zeros((2, MOST + 5))
    judged = _judge(values)
    assert (judged.sigma >= SMALLEST).all()
    assert (judged.loss.strength < 1).all()
    values[0, -3:] -= 0.01
    assert list(_judge(values).loss.strength >= 1) == [True, False]


def test_a_bound_is_students() -> None:
    from scipy.special import stdtrit

    measured = measure_span(_streams(_noise(14, 70)), 5)
    expected = measured.error * stdtrit(np.floor(measured.degrees), 0.975)
    np.testing.assert_allclose(bound_of(measured, 0.025), expected)


def test_streams_do_not_see_one_another() -> None:
    values = _noise(15, 75)
    values[3, 70:] -= 0.03
    together = _judge(values)
    alone = judge_level(_streams(values[3:4]), FALSE_ALARMS)
    assert together.loss.strength[3] == pytest.approx(alone.loss.strength[0])


def test_what_was_measured_again_is_no_part_of_the_windows_scatter() -> None:
    values = _noise(16, 80)
    streams = _streams(values)
    pulled_in = np.where(values < -0.004, values / 2, values)
    mixed = SessionStreams(
        pulled_in, streams.shares, values, *(getattr(streams, name) for name in SessionStreams.__slots__[3:])
    )
    np.testing.assert_allclose(judge_level(mixed, FALSE_ALARMS).sigma, judge_level(streams, FALSE_ALARMS).sigma)
