"""Recorded sessions as a script for the driver: which call is due after which, and the request of each."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import accumulate

from lynxbench.engines.marked_requests import Markable
from lynxbench.load.open_sessions import SessionGraph
from lynxbench.load.response_reading import Script
from lynxbench.workload.session_files import RecordedSession


class SessionRotation:
    """Sessions in turn; the requests of their calls are those of another script, in the order of the file."""

    stands_alone = True

    def __init__(self, sessions: Sequence[RecordedSession], requests: Script) -> None:
        self._graphs = [
            SessionGraph.of([call.after for call in session.calls], [int(call.gap_s * 1e9) for call in session.calls])
            for session in sessions
        ]
        self.calls_before = (0, *accumulate(len(session.calls) for session in sessions))
        self._requests = requests

    def of_run(self, run: int) -> SessionRotation:
        """The same sessions as those of another run."""
        other = copy(self)
        other._requests = self._requests.of_run(run) if isinstance(self._requests, Markable) else self._requests
        return other

    def first(self, number: int) -> bytes:
        """The call that starts a session."""
        return self.call(number, 0)

    def follow(self, number: int, answers: tuple[str, ...]) -> bytes | None:
        """What follows is in the graph."""
        return None

    def graph(self, number: int) -> SessionGraph:
        """The calls of session `number`; sessions rotate."""
        return self._graphs[number % len(self._graphs)]

    def call(self, number: int, place: int) -> bytes:
        """The request of one of them, another one in every round."""
        round_, session = divmod(number, len(self._graphs))
        return self._requests.first(round_ * self.calls_before[-1] + self.calls_before[session] + place)
