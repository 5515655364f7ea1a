"""Results into sessions, sessions into the stream of the newest: executor by executor, level by level."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from lynxbench.stats.sequential import FEWEST, MOST, SPANS
from lynxbench.watch.watched_sessions import (
    AcceptedLevel,
    WatchedResult,
    WatchedSession,
    newest_stream,
    sessions_of,
    since_level,
)

FIRST = datetime(2026, 3, 2, 3, tzinfo=UTC)


def _at(night: float) -> str:
    return (FIRST + timedelta(days=night)).isoformat(timespec="seconds")


def _result(night: float, executor: str = "x", value: float = 0.0, restarts: int = 5) -> WatchedResult:
    return WatchedResult(f"{executor}-{night}", executor, _at(night), value, restarts, 4e-6)


def _nights(*executors: str) -> list[WatchedSession]:
    return sessions_of([_result(night, executor) for night, executor in enumerate(executors)])


def test_what_was_measured_again_belongs_to_its_night() -> None:
    sessions = sessions_of([_result(1), _result(0.1, value=0.3, restarts=10), _result(0)])
    assert [len(session.results) for session in sessions] == [2, 1]
    assert sessions[0].restarts == 15
    assert sessions[0].value == pytest.approx(0.2)
    assert sessions[0].result_id == "x-0.1"
    assert sessions[0].result_ids == {"x-0", "x-0.1"}


def test_another_executor_is_another_session() -> None:
    assert len(sessions_of([_result(0), _result(0.1, "y")])) == 2


def test_an_executor_that_follows_is_held_against_the_window_before_it() -> None:
    stream = newest_stream(_nights(*"x" * FEWEST, "y", "y", "z"))
    assert stream.own == FEWEST
    assert len(stream.sessions) == FEWEST + 3


def test_executors_in_turn_from_the_start_have_windows_of_their_own() -> None:
    sessions = _nights(*"xy" * (FEWEST + 2))
    stream = newest_stream(sessions)
    assert {session.executor_id for session in stream.sessions} == {"y"}
    assert stream.own == len(stream.sessions) == FEWEST + 2
    assert {session.executor_id for session in newest_stream(sessions[:-1]).sessions} == {"x"}


def test_one_that_comes_back_is_held_against_its_own_window() -> None:
    stream = newest_stream(_nights(*"x" * FEWEST, "y", "y", "x"))
    assert stream.own == FEWEST
    assert [session.executor_id for session in stream.sessions[-3:]] == ["y", "y", "x"]


def test_an_accepted_level_begins_at_once_and_a_gain_when_its_window_can_be_tested() -> None:
    sessions = _nights(*"x" * 40)
    accepted = since_level(sessions, [AcceptedLevel(_at(30), fresh=False)])
    assert accepted[0].started_at == _at(30)
    gained = AcceptedLevel(_at(30), fresh=True)
    assert since_level(sessions, [gained]) == sessions, "nine sessions are no window"
    enough = _nights(*"x" * (31 + FEWEST + SPANS[0]))
    assert since_level(enough, [gained])[0].started_at == _at(31), "the night that showed it is no part of it"
    assert since_level(sessions, [gained, AcceptedLevel(_at(10), fresh=False)])[0].started_at == _at(10)
    assert since_level(sessions, []) == sessions


def test_the_arrays_are_those_of_the_sessions() -> None:
    sessions = sessions_of([_result(night, value=0.01 * night, restarts=4 + night % 2) for night in range(MOST + 10)])
    streams = newest_stream(sessions).arrays()
    assert streams.values.shape == (1, MOST + 10)
    assert streams.values[0, 3] == pytest.approx(0.03)
    assert streams.shares[0, 0] == 0.25
    assert list(streams.weekdays[0, :8]) == [0, 1, 2, 3, 4, 5, 6, 0], "the second of March 2026 is a Monday"
    assert streams.between_restarts[0] == pytest.approx(MOST * 4e-6 / (MOST // 2 * (3 + 4)))


def test_looks_a_year_follow_the_timetable() -> None:
    assert newest_stream(_nights(*"x" * 30)).looks == pytest.approx(365)
    weekly = sessions_of([_result(7 * week) for week in range(30)])
    assert newest_stream(weekly).looks == pytest.approx(365 / 7)
    yearly = sessions_of([_result(365 * year) for year in range(5)])
    assert newest_stream(yearly).looks == 12


def test_the_beginning_of_a_loss_is_found() -> None:
    values = [0.001 * math.sin(night * 7) for night in range(40)]
    results = [_result(night, value=value - 0.03 * (night >= 34)) for night, value in enumerate(values)]
    assert newest_stream(sessions_of(results)).began() == 34


def test_sessions_after_a_result_are_counted_in_its_own_stream() -> None:
    stream = newest_stream(_nights(*"x" * 20))
    assert stream.sessions_after("x-15") == 4
    assert stream.sessions_after("elsewhere") == 0


def test_the_typical_session_is_the_one_in_the_middle() -> None:
    results = [_result(night, value=float(night % 5)) for night in range(15)]
    assert newest_stream(sessions_of(results)).typical.value == 2.0
