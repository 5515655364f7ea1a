"""Sessions out of OpenTelemetry spans: which call waited for which, by the tree of spans and their times.

What comes out has lengths, gaps, the shape of the graph and numbers that stand for equal beginnings of prompts; no
text, no name and no identifier of what was captured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from lynxbench.errors import BadInput
from lynxbench.model.asked_work import TRACE_BLOCK
from lynxbench.plain_files import read_plain
from lynxbench.workload.log_rows import (
    AROUND,
    attributes_of,
    decoded_text,
    first_of,
    json_objects,
    named_value,
    spans_in,
    whole_number,
)

_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_TEXT = ("gen_ai.input.messages", "gen_ai.prompt")


@dataclass(slots=True)
class _Span:
    """A span in the tree of its trace."""

    begin_ns: int
    end_ns: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    text: str | None = None
    children: list[_Span] = field(default_factory=list)
    after: list[_Span] = field(default_factory=list)

    @property
    def is_call(self) -> bool:
        return self.input_tokens is not None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The calls under a span: when they were, which begin it, and which end it."""

    begin_ns: int
    end_ns: int
    entries: list[_Span]
    exits: list[_Span]


@dataclass(frozen=True, slots=True)
class CapturedSessions:
    """Sessions as lines of a file that can be replayed."""

    rows: tuple[dict[str, object], ...]
    sessions: int
    spans: int

    def render(self) -> str:
        """The file's text."""
        return "".join(json.dumps(row, separators=(", ", ": ")) + "\n" for row in self.rows)


def capture_sessions(path: Path) -> CapturedSessions:
    """The sessions of a file of spans: OTLP in JSON, or what the SDK's console exporter prints."""
    try:
        text = decoded_text(read_plain(path), str(path))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; name a JSON export of spans") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    return parse_span_sessions(text, str(path))


def parse_span_sessions(text: str, source: str = "<spans>") -> CapturedSessions:
    """The same from text."""
    grouped: dict[str, dict[str, tuple[str, _Span]]] = {}
    joined: dict[str, str] = {}
    for trace, identifier, parent, span, conversation in _spans(text, source):
        grouped.setdefault(trace, {})[identifier] = (parent, span)
        if conversation:
            joined.setdefault(trace, conversation)
    roots: dict[str, list[_Span]] = {}
    for trace, spans in grouped.items():
        for identifier, (parent, span) in spans.items():
            above = spans.get(parent) if parent != identifier else None
            holder = roots.setdefault(f"c{joined[trace]}" if trace in joined else f"t{trace}", [])
            (holder if above is None else above[1].children).append(span)
    try:
        sessions = [calls for top in roots.values() if (calls := _linked(top))]
    except RecursionError:
        raise BadInput(f"{source}: spans are nested too deep for the calls of a program") from None
    if not sessions:
        raise BadInput(f"{source}: no span has {_INPUT[0]}; spans of the GenAI conventions tell a request's tokens")
    sessions.sort(key=lambda calls: calls[0].begin_ns)
    ids = _hashes(sessions)
    start_ns = sessions[0][0].begin_ns
    rows = [row for number, calls in enumerate(sessions) for row in _rows(number, calls, ids, start_ns)]
    return CapturedSessions(tuple(rows), len(sessions), sum(len(spans) for spans in grouped.values()))


def _spans(text: str, source: str) -> Iterator[tuple[str, str, str, _Span, str]]:
    """Trace, identifier, parent, span and conversation of each."""
    for line, document in json_objects(text, source):
        where = f"{source}:{line}"
        for span in spans_in(document):
            times = [whole_number(named_value(span, name)) for name in ("startTimeUnixNano", "endTimeUnixNano")]
            ids = [str(named_value(span, name) or "") for name in ("traceId", "spanId", "parentSpanId")]
            yield _told(ids, times, attributes_of(span), where)
        context, attributes = document.get("context"), document.get("attributes")
        if isinstance(context, Mapping) and isinstance(attributes, Mapping):
            times = [_moment_ns(document.get(name)) for name in ("start_time", "end_time")]
            ids = [
                str(context.get("trace_id") or ""),
                str(context.get("span_id") or ""),
                str(document.get("parent_id") or ""),
            ]
            yield _told(ids, times, attributes, where)


def _told(
    ids: Sequence[str], times: Sequence[int | None], attributes: Mapping[str, object], where: str
) -> tuple[str, str, str, _Span, str]:
    begin_ns, end_ns = times
    if begin_ns is None or end_ns is None or end_ns < begin_ns or not ids[1]:
        raise BadInput(f"{where}: a span without its id, or without a start and an end after it")
    span = _Span(begin_ns, end_ns)
    tokens = whole_number(first_of(attributes, *_INPUT))
    if tokens is not None and tokens > 0 and attributes.get("gen_ai.operation.name") not in AROUND:
        said = first_of(attributes, *_TEXT)
        span.input_tokens = tokens
        span.output_tokens = whole_number(first_of(attributes, *_OUTPUT))
        span.text = None if said is None else said if isinstance(said, str) else json.dumps(said)
    return ids[0], ids[1], ids[2], span, str(first_of(attributes, "gen_ai.conversation.id", "session.id") or "")


def _moment_ns(value: object) -> int | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + moment.microsecond * 1000


# --- which call waited for which --------------------------------------------------------------------------------------


def _linked(top: Iterable[_Span]) -> list[_Span]:
    """All calls under these spans by their beginning, each with those that it waited for."""
    calls: list[_Span] = []
    _joined(top, calls)
    return sorted(calls, key=lambda call: (call.begin_ns, call.end_ns))


def _stretch(span: _Span, calls: list[_Span]) -> _Stretch | None:
    if span.is_call:  # a request within a request is the same one, told by another library
        calls.append(span)
        return _Stretch(span.begin_ns, span.end_ns, [span], [span])
    return _joined(span.children, calls)


def _joined(spans: Iterable[_Span], calls: list[_Span]) -> _Stretch | None:
    """Siblings: one that began after another had ended waited for it; those that overlap did not."""
    parts = [part for span in spans if (part := _stretch(span, calls)) is not None]
    if not parts:
        return None
    parts.sort(key=lambda part: part.begin_ns)
    entries: list[_Span] = []
    waited_for: set[int] = set()
    for place, part in enumerate(parts):
        ended = [other for other in parts[:place] if other.end_ns <= part.begin_ns]
        # The last ones alone: what ended before another of them began is waited for through that one.
        last = [one for one in ended if not any(one.end_ns <= other.begin_ns for other in ended)]
        waited_for.update(id(one) for one in last)
        for entry in part.entries:
            entry.after += [call for one in last for call in one.exits]
        entries += part.entries if not last else []
    exits = [call for part in parts if id(part) not in waited_for for call in part.exits]
    return _Stretch(parts[0].begin_ns, max(part.end_ns for part in parts), entries, exits)


# --- what is kept of it -----------------------------------------------------------------------------------------------


def _hashes(sessions: Iterable[Sequence[_Span]]) -> dict[int, list[int]]:
    """Numbers for equal beginnings of the texts, by call; pieces of text have about the tokens of a trace's block."""
    told = [call for calls in sessions for call in calls if call.text]
    tokens = sum(call.input_tokens or 0 for call in told)
    piece = max(1, round(TRACE_BLOCK * sum(len(call.text or "") for call in told) / tokens)) if tokens else 1
    numbers: dict[tuple[int, str], int] = {}
    ids: dict[int, list[int]] = {}
    for call in told:
        text, chain, mine = call.text or "", -1, ids.setdefault(id(call), [])
        for begin in range(0, len(text), piece):
            chain = numbers.setdefault((chain, text[begin : begin + piece]), len(numbers))
            mine.append(chain)
        del mine[-(-(call.input_tokens or 1) // TRACE_BLOCK) :]
    return ids


def _rows(
    number: int, calls: Sequence[_Span], ids: Mapping[int, list[int]], start_ns: int
) -> Iterator[dict[str, object]]:
    place_of = {id(call): place for place, call in enumerate(calls)}
    for place, call in enumerate(calls):
        since_ns = max((one.end_ns for one in call.after), default=calls[0].begin_ns)
        row: dict[str, object] = {"session": number, "call": place}
        if place == 0:
            row["at"] = (call.begin_ns - start_ns) / 1e9
        row |= {
            "after": sorted({place_of[id(one)] for one in call.after}),
            "gap": max(0, call.begin_ns - since_ns) / 1e9,
            "input_tokens": call.input_tokens,
        }
        if call.output_tokens:
            row["output_tokens"] = call.output_tokens
        if ids.get(id(call)):
            row["hash_ids"] = ids[id(call)]
        yield row
