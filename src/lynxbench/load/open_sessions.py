"""Sessions of several calls that wait for each other: which are due when one has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class SessionGraph:
    """The calls of a session: each is due its gap after all that it waits for have ended, or after the start."""

    after: tuple[tuple[int, ...], ...]
    gap_ns: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, after: Sequence[Sequence[int]], gap_ns: Sequence[int]) -> SessionGraph:
        """A graph by what each call waits for; the first call waits for none, and none waits for a later one."""
        followers: list[list[int]] = [[] for _ in after]
        for place, earlier in enumerate(after):
            if any(not 0 <= one < place for one in earlier):
                raise ValueError("a call waits for one that comes before it in its session")
            for one in earlier:
                followers[one].append(place)
        if not after or after[0]:
            raise ValueError("the first call of a session waits for none")
        return cls(tuple(map(tuple, after)), tuple(gap_ns), tuple(map(tuple, followers)))


@runtime_checkable
class SessionScript(Protocol):
    """A script whose arrivals are sessions; `first` is the first call of one."""

    def graph(self, number: int) -> SessionGraph:
        """The calls of session `number`."""

    def call(self, number: int, place: int) -> bytes:
        """The request of one of them."""


@dataclass(frozen=True, slots=True)
class DueCall:
    """A call whose time is known."""

    place: int
    due_ns: int


class _OpenSession:
    __slots__ = ("ended_ns", "graph", "open", "waits")

    def __init__(self, graph: SessionGraph) -> None:
        self.graph = graph
        self.waits = [len(earlier) for earlier in graph.after]
        self.ended_ns = [0] * len(graph.after)
        self.open = 0


class OpenSessions:
    """The sessions under way in one process. A call that fails ends what waits for it, and nothing else."""

    def __init__(self, script: SessionScript) -> None:
        self._script = script
        self._open: dict[int, _OpenSession] = {}

    def begin(self, number: int, at_ns: int) -> list[DueCall]:
        """The calls that wait for none; the first of all is due at the arrival itself."""
        session = self._open[number] = _OpenSession(self._script.graph(number))
        graph = session.graph
        calls = [DueCall(place, at_ns + graph.gap_ns[place]) for place, waits in enumerate(session.waits) if not waits]
        session.open = len(calls)
        return calls

    def end(self, number: int, place: int, ended_ns: int, *, good: bool) -> list[DueCall]:
        """One has ended: which are due now."""
        session = self._open[number]
        session.open -= 1
        due: list[DueCall] = []
        for follower in session.graph.followers[place] if good else ():
            session.waits[follower] -= 1
            session.ended_ns[follower] = max(session.ended_ns[follower], ended_ns)
            if session.waits[follower] == 0:
                due.append(DueCall(follower, session.ended_ns[follower] + session.graph.gap_ns[follower]))
        session.open += len(due)
        return due

    def is_over(self, number: int, left_out: int) -> bool:
        """Whether nothing of a session is open or due, once so many of its calls are left out; then it is forgotten."""
        session = self._open[number]
        session.open -= left_out
        if session.open == 0:
            del self._open[number]
            return True
        return False

    def request(self, number: int, place: int) -> bytes:
        """The request of a call."""
        return self._script.call(number, place)
