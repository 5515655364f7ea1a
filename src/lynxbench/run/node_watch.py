"""The node of a server, watched through its exporters while clients ask, or asked of Prometheus when they are done.

Kept beside the telemetry in its form and on its clock; what the columns cannot say stands in a file of notes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
from pydantic import ValidationError

from lynxbench.errors import BadResult
from lynxbench.evidence.whole_files import write_text
from lynxbench.https import HttpAnswer, request
from lynxbench.measure.exposition import ExposedSample
from lynxbench.measure.node_readings import BEGINNINGS, NAMES, NodeReader, mixed_names, read_samples
from lynxbench.measure.node_telemetry import NodeTelemetry, node_telemetry
from lynxbench.measure.run_conditions import Span
from lynxbench.measure.telemetry import STAMP, ReadingsSampler, read_telemetry
from lynxbench.model.node_record import NodeNotes
from lynxbench.model.samples import Telemetry
from lynxbench.model.serving import NodeSource

NODE_FILE, NOTES_FILE = "node.csv", "node.json"
TIMEOUT_S = 2.0
"""Of one look among many."""
QUERY_TIMEOUT_S = 30.0
MOST_BYTES = 64 * 1024 * 1024
MARGIN_S = 60.0
"""Before and after the run: counters need a reading before the first counted moment."""
DIGITS = 15
"""Counters of a node that has been up for months, in full."""


@contextmanager
def watched_node(folder: Path, source: NodeSource | None) -> Iterator[None]:
    """Keep the readings of a server's node in the run's folder; nothing that goes wrong here ends a run."""
    if source is None:
        yield
    elif source.prometheus is not None:
        with _queried(folder, source, source.prometheus):
            yield
    else:
        with _scraped(folder, source):
            yield


def node_in(folder: Path, counted: Sequence[Span]) -> NodeTelemetry | None:
    """What was kept of a node; None where the contract named nobody who watches it."""
    notes = read_notes(folder)
    if notes is None:
        return None
    try:
        kept = read_telemetry(folder / NODE_FILE)
    except BadResult:
        kept = Telemetry(np.empty(0, np.int64), {})
    return node_telemetry(kept, notes, counted)


# --- exporters -------------------------------------------------------------------------------------------------------


@contextmanager
def _scraped(folder: Path, source: NodeSource) -> Iterator[None]:
    places = {_place(url): partial(_scrape, url, source) for url in source.exporters}
    reader = NodeReader(places, source.gpus)
    earlier = read_notes(folder)
    try:
        with ReadingsSampler(folder / NODE_FILE, [reader], source.every_s, digits=DIGITS):
            yield
    finally:
        skews_s = reader.skews_s
        notes = NodeNotes(
            source=f"scraped from {', '.join(places)}",
            devices=dict(sorted(reader.models.items())),
            mixed=tuple(sorted({*reader.mixed, *(() if earlier is None else earlier.mixed)})),
            skew_s=round(float(np.median(skews_s)), 6) if skews_s else None,
            notes=tuple(dict.fromkeys((*(() if earlier is None else earlier.notes), *_notes_of(reader)))),
        )
        write_text(folder / NOTES_FILE, notes.model_dump_json(indent=1))


def _notes_of(reader: NodeReader) -> Iterator[str]:
    for where, many in sorted(reader.unanswered.items()):
        yield f"{where} did not answer {many} of {reader.asked} times, at last: {reader.why[where]}"
    for reason, many in sorted(reader.left_out.items()):
        yield f"left out, {many} times: {reason}"


def read_notes(folder: Path) -> NodeNotes | None:
    """Of a run that is resumed."""
    try:
        return NodeNotes.model_validate_json((folder / NOTES_FILE).read_bytes(), strict=False)
    except (OSError, ValidationError):
        return None


def _get(url: str, source: NodeSource, timeout_s: float) -> HttpAnswer:
    return request(
        "GET", url, timeout_s=timeout_s, most_bytes=MOST_BYTES, ca_file=source.ca_file, verify=source.verify_tls
    )


def _scrape(url: str, source: NodeSource) -> str:
    address = url if urlsplit(url).path not in ("", "/") else url.rstrip("/") + "/metrics"
    try:
        answer = _get(address, source, TIMEOUT_S)
    except ValueError as problem:
        raise OSError(str(problem)) from None
    if answer.status != 200:
        raise OSError(f"status {answer.status}")
    return answer.body.decode("utf-8", "replace")


def _place(url: str) -> str:
    return urlsplit(url).netloc


# --- Prometheus ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerClock:
    """How far a server's clock is ahead of this one's, and how well that is known."""

    ahead_s: float
    bound_s: float


@contextmanager
def _queried(folder: Path, source: NodeSource, address: str) -> Iterator[None]:
    ask = partial(_query, address, source)
    earlier = read_notes(folder)
    began_s = time.time() if earlier is None or earlier.began_s is None else earlier.began_s
    clocks: list[ServerClock] = []
    problems: list[str] = []
    for_clock = partial(_look_at_clock, ask, clocks, problems)
    for_clock()
    try:
        yield
    finally:
        for_clock()
        notes = query_node(folder, source, ask, began_s, clocks, problems)
        write_text(folder / NOTES_FILE, notes.model_dump_json(indent=1))


Ask = Callable[[str, float | None], object]


def query_node(
    folder: Path, source: NodeSource, ask: Ask, began_s: float, clocks: Sequence[ServerClock], problems: Sequence[str]
) -> NodeNotes:
    """The raw samples of the run's window, as Prometheus stored them, written on this run's clock."""
    ended_s = time.time()
    skew_s = float(np.mean([clock.ahead_s for clock in clocks])) if clocks else None
    bound_s = max((clock.bound_s for clock in clocks), default=None)
    notes = list(problems)
    if len(clocks) == 2 and abs(clocks[1].ahead_s - clocks[0].ahead_s) > 2 * sum(clock.bound_s for clock in clocks):
        moved_s = clocks[1].ahead_s - clocks[0].ahead_s
        notes.append(f"the clock of Prometheus moved by {moved_s:+.3f} s against this machine's during the run")
    window_s = int(ended_s - began_s + 2 * MARGIN_S)
    rows: dict[float, list[ExposedSample]] = {}
    if skew_s is None:
        notes.append("its clock could not be asked for: no sample can be placed in time, and none is used")
    else:
        for labels in filter(None, (source.gpu_labels, source.host_labels)):
            try:
                answer = ask(f"{_selector(labels)}[{window_s}s]", ended_s + skew_s)
                for moment_s, sample in _matrix(answer):
                    rows.setdefault(moment_s, []).append(sample)
            except OSError as problem:
                notes.append(f"not answered: {problem}")
    if rows:
        stamped = {round((at_s - (skew_s or 0.0)) * 1e9) - _unix_ahead_ns(): each for at_s, each in rows.items()}
        seen = _write_rows(folder / NODE_FILE, stamped, source.gpus)
        notes += [f"left out, {many} times: {reason}" for reason, many in sorted(seen.left_out.items())]
    else:
        seen = _Rows()
        notes.append("no sample of these labels lies in the run's window")
    return NodeNotes(
        source=f"Prometheus at {_place(source.prometheus or '')}, {_said(source)}",
        devices=dict(sorted(seen.models.items())),
        mixed=mixed_names(seen.identities),
        began_s=began_s,
        skew_s=None if skew_s is None else round(skew_s, 6),
        skew_bound_s=None if bound_s is None else round(bound_s, 6),
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass(slots=True)
class _Rows:
    """What the rows of a window were made of."""

    models: dict[str, str] = field(default_factory=dict)
    identities: dict[str, set[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


def _write_rows(file: Path, stamped: Mapping[int, Sequence[ExposedSample]], gpus: Sequence[int] | None) -> _Rows:
    """One line a moment; anything of the same run that was kept before is in the window again."""
    readings = {at_ns: read_samples(samples, gpus) for at_ns, samples in sorted(stamped.items())}
    names = list(dict.fromkeys(name for reading in readings.values() for name in reading.columns))
    seen = _Rows()
    lines = [",".join((STAMP, *names))]
    for at_ns, reading in readings.items():
        seen.models |= reading.models
        seen.left_out += reading.left_out
        for name, identity in reading.identities.items():
            seen.identities.setdefault(name, set()).add(identity)
        cells = (f"{reading.columns[name]:.{DIGITS}g}" if name in reading.columns else "" for name in names)
        lines.append(",".join((str(at_ns), *cells)))
    write_text(file, "\n".join(lines) + "\n")
    return seen


def _look_at_clock(ask: Ask, clocks: list[ServerClock], problems: list[str]) -> None:
    before_s = time.time()
    try:
        answer = ask("time()", None)
        told_s = float(answer["result"][1])  # type: ignore[index]
    except (OSError, LookupError, TypeError, ValueError) as problem:
        problems.append(f"its clock was not told: {problem}")
        return
    after_s = time.time()
    clocks.append(ServerClock(told_s - (before_s + after_s) / 2, (after_s - before_s) / 2))


def _query(address: str, source: NodeSource, query: str, at_s: float | None) -> object:
    """The `data` of an answer; OSError says what went wrong."""
    when = "" if at_s is None else f"&time={at_s:.3f}"
    url = f"{address.rstrip('/')}/api/v1/query?query={quote(query, safe='')}{when}"
    try:
        answer = _get(url, source, QUERY_TIMEOUT_S)
        document = json.loads(answer.body)
        if answer.status != 200 or document.get("status") != "success":
            raise OSError(f"status {answer.status}: {str(document.get('error', ''))[:200]}")
        return document["data"]
    except (ValueError, LookupError, AttributeError, RecursionError) as problem:
        raise OSError(f"not an answer of Prometheus: {problem}"[:200]) from None


def _selector(labels: Mapping[str, str]) -> str:
    names = "|".join(name for name in NAMES if name.startswith(BEGINNINGS))
    chosen = "".join(f',{name}="{_escaped(value)}"' for name, value in labels.items())
    return f'{{__name__=~"{names}"{chosen}}}'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _matrix(data: object) -> Iterator[tuple[float, ExposedSample]]:
    """Every stored sample of a range; what is not in Prometheus' form is an OSError."""
    try:
        assert isinstance(data, dict)
        if data["resultType"] != "matrix":
            raise ValueError(f"a {data['resultType']} where a range was asked for")
        for series in data["result"]:
            labels = {str(name): str(value) for name, value in series["metric"].items()}
            name = labels.pop("__name__")
            for moment_s, value in series["values"]:
                yield float(moment_s), ExposedSample(name, labels, float(value))
    except (AssertionError, LookupError, TypeError, ValueError, AttributeError) as problem:
        raise OSError(f"not a range of samples: {problem}"[:200]) from None


def _unix_ahead_ns() -> int:
    return time.time_ns() - time.perf_counter_ns()


def _said(source: NodeSource) -> str:
    labels = {**source.gpu_labels, **source.host_labels}
    return ", ".join(f"{name}={value}" for name, value in labels.items())
