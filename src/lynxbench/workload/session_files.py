"""Recorded sessions: several calls that wait for each other, with the gaps of tools and people in between.

A line a call: `session`, `call`, `after` (the calls that it waits for; the one before it where unsaid), `gap` in
seconds, `at` (seconds, of a session's first call), and either `prompt` or `messages`, or `input_tokens` with the
`hash_ids` of its blocks. `output_tokens` goes with both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lynxbench.errors import BadInput
from lynxbench.model.load_figures import SourceFile
from lynxbench.workload.log_rows import decoded_text
from lynxbench.workload.prompt_files import Messages, json_lines, prompt_in, read_source, tokens_in
from lynxbench.workload.request_log import RequestLog

LONGEST_GAP_S = 1e6
MOST_CALLS = 10_000
"""Calls of one session; more is a key that is none."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One request of a session."""

    after: tuple[int, ...]
    """Places of the calls that it waits for, all before its own."""
    gap_s: float
    prompt: str | Messages | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    hash_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """The calls of one session, each after those that it waits for; the first one starts it."""

    calls: tuple[RecordedCall, ...]
    at_s: float | None = None


@dataclass(frozen=True, slots=True)
class SessionSet:
    """The sessions of a file in the order of their starts, and which file that was."""

    sessions: tuple[RecordedSession, ...]
    source: SourceFile

    def arrivals(self) -> RequestLog:
        """When sessions start, as a trace to replay; BadInput where one does not say."""
        moments = [session.at_s for session in self.sessions if session.at_s is not None]
        if len(moments) < len(self.sessions) or len(moments) < 2:
            raise BadInput(
                f"{self.source.file}: a replay needs two sessions or more, and `at` in the first call of each"
            )
        none = np.zeros(len(moments), dtype=np.int64)
        return RequestLog(self.source.file, np.array(moments) - moments[0], none, none, None, None, 0)


def read_sessions(path: str, pinned: str | None = None) -> SessionSet:
    """Every session of a file."""
    data, source = read_source(path, "sessions", pinned)
    sessions = parse_sessions(decoded_text(data, path), path)
    return SessionSet(sessions, source.model_copy(update={"rows": sum(len(session.calls) for session in sessions)}))


def parse_sessions(text: str, source: str = "<sessions>") -> tuple[RecordedSession, ...]:
    """The same from text."""
    grouped: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for line, row in json_lines(text, source):
        if "session" not in row:
            raise BadInput(f"{source}:{line}: has no `session`: calls of one session name it alike")
        grouped.setdefault(str(row["session"]), []).append((f"{source}:{line}", row))
    if not grouped:
        raise BadInput(f"{source}: holds no call")
    sessions = [_session(rows) for rows in grouped.values()]
    written = {call.prompt is not None for session in sessions for call in session.calls}
    if len(written) > 1:
        raise BadInput(f"{source}: some calls have a text and others a length; a file has the one or the other")
    return tuple(sorted(sessions, key=lambda session: math.inf if session.at_s is None else session.at_s))


def _session(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> RecordedSession:
    if len(rows) > MOST_CALLS:
        raise BadInput(f"{rows[0][0]}: a session of {len(rows):,} calls; at most {MOST_CALLS:,} are replayed")
    names: dict[str, int] = {}
    for place, (where, row) in enumerate(rows):
        name = str(row.get("call", place))
        if name in names:
            raise BadInput(f"{where}: its session has a call of this name already; each has one of its own")
        names[name] = place
    waits = [_waits(row, place, names, where) for place, (where, row) in enumerate(rows)]
    gaps = [_seconds(row, "gap", where) or 0.0 for where, row in rows]
    order = _in_order(waits, gaps, rows)
    start_s = min(gap for gap, earlier in zip(gaps, waits, strict=True) if not earlier)
    new = {old: place for place, old in enumerate(order)}
    calls = tuple(
        _call(
            rows[old],
            tuple(sorted(new[earlier] for earlier in waits[old])),
            gaps[old] if waits[old] else gaps[old] - start_s,
        )
        for old in order
    )
    moments = [at for where, row in rows if (at := _seconds(row, "at", where)) is not None]
    return RecordedSession(calls, min(moments, default=None))


def _call(row: tuple[str, Mapping[str, Any]], after: tuple[int, ...], gap_s: float) -> RecordedCall:
    where, values = row
    prompt, length = prompt_in(values, where), tokens_in(values, "input_tokens", where)
    if (prompt is None) == (length is None):
        raise BadInput(f"{where}: needs a text (`prompt` or `messages`) or its length (`input_tokens`), one of them")
    hashes = values.get("hash_ids") or []
    if not isinstance(hashes, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in hashes):
        raise BadInput(f"{where}: hash_ids must be whole numbers")
    return RecordedCall(after, gap_s, prompt, length, tokens_in(values, "output_tokens", where), tuple(hashes))


def _waits(row: Mapping[str, Any], place: int, names: Mapping[str, int], where: str) -> tuple[int, ...]:
    after = row.get("after", None if place == 0 else [list(names)[place - 1]])
    if after is None:
        return ()
    waited = [str(name) for name in after] if isinstance(after, list) else [str(after)]
    if any(name not in names for name in waited):
        raise BadInput(f"{where}: waits for a call that its session does not have")
    return tuple(dict.fromkeys(names[name] for name in waited))


def _in_order(
    waits: Sequence[tuple[int, ...]], gaps: Sequence[float], rows: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[int]:
    """Each call after those that it waits for; the one that starts the session first."""
    order: list[int] = []
    left = sorted(range(len(waits)), key=lambda place: (bool(waits[place]), gaps[place] if not waits[place] else 0.0))
    placed: set[int] = set()
    while left:
        ready = [place for place in left if placed.issuperset(waits[place])]
        if not ready:
            raise BadInput(f"{rows[left[0]][0]}: calls wait for each other in a circle")
        order += ready
        placed.update(ready)
        left = [place for place in left if place not in placed]
    return order


def _seconds(row: Mapping[str, Any], name: str, where: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    good = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value < (1e12 if name == "at" else LONGEST_GAP_S)
    )
    if not good:
        raise BadInput(f"{where}: {name} must be seconds, a number from 0 on")
    return float(value)
