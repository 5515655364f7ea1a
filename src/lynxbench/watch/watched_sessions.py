"""Results of one contract at one place as sessions, and the stream that the newest of them belongs to. Pure.

A session is a sitting of one executor: what was measured again within it belongs to it. An executor is held against a
window of its own sessions. One that follows another is held against that one's window, so that what an upgrade costs is
seen and many small losses add up; one that came before there was a window has its own from the start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np

from lynxbench.compare.sittings import in_one_sitting
from lynxbench.stats.sequential import FEWEST, MOST, SPANS, YEAR, SessionStreams

DAY_S = 86400.0
FEWEST_LOOKS = 12.0
"""A year of a schedule has at least so many sessions: rarer ones are judged as if they came monthly."""
LONGEST_LOSS = 28
"""Sessions in which the beginning of a loss is looked for."""


@dataclass(frozen=True, slots=True)
class WatchedResult:
    """One result's leading figure at one precision."""

    result_id: str
    executor_id: str
    started_at: str
    value: float
    """Mean of the logarithms over restarts, turned so that higher is better."""
    restarts: int
    scatter: float
    """Squares of the restarts' departures from it."""


@dataclass(frozen=True, slots=True)
class WatchedSession:
    """Results of one executor in one sitting, the last one last."""

    results: tuple[WatchedResult, ...]

    @property
    def executor_id(self) -> str:
        """Which executor it was."""
        return self.results[0].executor_id

    @property
    def started_at(self) -> str:
        """When its first result began."""
        return self.results[0].started_at

    @property
    def result_id(self) -> str:
        """Its newest result."""
        return self.results[-1].result_id

    @property
    def result_ids(self) -> frozenset[str]:
        """All of its results."""
        return frozenset(result.result_id for result in self.results)

    @property
    def restarts(self) -> int:
        """Of all its results."""
        return sum(result.restarts for result in self.results)

    @property
    def value(self) -> float:
        """Mean over all its restarts."""
        return math.fsum(result.value * result.restarts for result in self.results) / self.restarts


@dataclass(frozen=True, slots=True)
class WatchedStream:
    """Sessions that are held against one window, oldest first, the newest last."""

    sessions: tuple[WatchedSession, ...]
    own: int
    """How many of the first ones the window may be made of."""

    def arrays(self) -> SessionStreams:
        """As the test takes them."""
        window = self.sessions[: min(self.own, MOST)]
        scatter = math.fsum(result.scatter for session in window for result in session.results)
        degrees = sum(result.restarts - 1 for session in window for result in session.results)
        return SessionStreams(
            values=np.array([[session.value for session in self.sessions]]),
            shares=np.array([[1 / session.restarts for session in self.sessions]]),
            firsts=np.array([[session.results[0].value for session in self.sessions]]),
            first_shares=np.array([[1 / session.results[0].restarts for session in self.sessions]]),
            weekdays=np.array([[_moment(session.started_at).weekday() for session in self.sessions]], dtype=np.int64),
            between_restarts=np.array([scatter / degrees if degrees else 0.0]),
            starts=np.zeros(1, dtype=np.int64),
            ends=np.array([self.own], dtype=np.int64),
        )

    def held_before(self, since: str | None) -> WatchedStream:
        """Held against what was measured before a moment: a loss that was told is no part of the window."""
        if since is None:
            return self
        later = (place for place, session in enumerate(self.sessions) if session.started_at >= since)
        return WatchedStream(self.sessions, min(self.own, next(later, self.own)))

    def without_newest(self) -> WatchedStream:
        """As it was one session before."""
        return WatchedStream(self.sessions[:-1], min(self.own, len(self.sessions) - 1))

    @property
    def looks(self) -> float:
        """Sessions a year, by the usual distance of the newest ones."""
        moments = [_moment(session.started_at).timestamp() for session in self.sessions[-MOST:]]
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        usual = float(np.median(gaps)) / DAY_S if gaps else 1.0
        return max(YEAR / max(usual, 1 / 24), FEWEST_LOOKS)

    @property
    def typical(self) -> WatchedSession:
        """The session in the middle of the window: what people may compare with."""
        window = sorted(self.sessions[: min(self.own, MOST)], key=lambda session: session.value)
        return window[len(window) // 2]

    def sessions_after(self, result_id: str) -> int:
        """How many sessions came after that of a result; none where it is held against another window."""
        held = [place for place, session in enumerate(self.sessions) if result_id in session.result_ids]
        return len(self.sessions) - 1 - held[-1] if held else 0

    def newest_level(self, span: int) -> float:
        """The mean of so many newest sessions."""
        return float(np.mean([session.value for session in self.sessions[-span:]]))

    def began(self) -> int:
        """Where the loss most likely began: sessions from there on lie the furthest below the window."""
        level = float(np.mean([session.value for session in self.sessions[: min(self.own, MOST)]]))
        newest = [session.value - level for session in self.sessions[-LONGEST_LOSS:]]
        sums = np.cumsum(newest[::-1])
        return len(self.sessions) - 1 - int(np.argmin(sums / np.sqrt(np.arange(1, len(newest) + 1))))


@dataclass(frozen=True, slots=True)
class AcceptedLevel:
    """Where a new level begins: what was measured before it is no reference any more."""

    since: str
    fresh: bool
    """Whether its window holds only what was measured after it: a gain must not choose its own best nights."""


def sessions_of(results: Sequence[WatchedResult]) -> list[WatchedSession]:
    """Results in the order of time, those of one executor in one sitting together."""
    sessions: list[list[WatchedResult]] = []
    for result in sorted(results, key=lambda each: (each.started_at, each.result_id)):
        last = sessions[-1] if sessions else None
        same = last is not None and last[0].executor_id == result.executor_id
        if last is not None and same and in_one_sitting(last[0].started_at, result.started_at):
            last.append(result)
        else:
            sessions.append([result])
    return [WatchedSession(tuple(session)) for session in sessions]


def since_level(sessions: Sequence[WatchedSession], levels: Sequence[AcceptedLevel]) -> list[WatchedSession]:
    """Sessions of the level in force; a gain's window is taken once it can be tested against."""
    for level in sorted(levels, key=lambda each: each.since, reverse=True):
        after = [session for session in sessions if session.started_at > level.since]
        if level.fresh and len(after) >= FEWEST + SPANS[0]:
            return after
        if not level.fresh:
            return [session for session in sessions if session.started_at >= level.since]
    return list(sessions)


def newest_stream(sessions: Sequence[WatchedSession]) -> WatchedStream:
    """The newest session with the window that its executor is held against, and all that is held against the same."""
    held: dict[str, str] = {}
    own: dict[str, int] = {}
    before: str | None = None
    for session in sessions:
        executor = session.executor_id
        if executor not in held:
            window = None if before is None else held[before]
            held[executor] = window if window is not None and own[window] >= FEWEST else executor
        if held[executor] == executor:
            own[executor] = own.get(executor, 0) + 1
        before = executor
    window = held[sessions[-1].executor_id]
    mine = tuple(session for session in sessions if held[session.executor_id] == window)
    others = (place for place, session in enumerate(mine) if session.executor_id != window)
    return WatchedStream(mine, next(others, len(mine)))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
