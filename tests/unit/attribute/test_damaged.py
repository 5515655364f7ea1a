"""Thirty damaged traces: never a crash, never a confident verdict."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lynxbench.attribute.api import analyse_trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

DATA = Path(__file__).parents[2] / "data" / "traces"
SOURCE = DATA / "pageable_h2d.json.gz"
"""Undamaged, it gets a confident verdict: transfer, software-bound."""

Events = list[dict[str, Any]]
Damage = Callable[[dict[str, Any]], bytes]


def packed(document: object) -> bytes:
    return gzip.compress(json.dumps(document).encode(), 1)


def timed(document: dict[str, Any]) -> Events:
    return [event for event in document["traceEvents"] if event.get("ph") == "X"]


def edited(edit: Callable[[Events], None]) -> Damage:
    """Damage to single events of an otherwise whole file."""

    def damage(document: dict[str, Any]) -> bytes:
        edit(timed(document))
        return packed(document)

    return damage


def cut(share: float) -> Damage:
    return lambda document: (data := packed(document))[: int(len(data) * share)]


def cut_raw(share: float) -> Damage:
    return lambda document: (data := json.dumps(document).encode())[: int(len(data) * share)]


def some(events: Events, every: int = 11) -> Events:
    return events[::every]


def set_all(events: Events, **fields: Any) -> None:
    for event in some(events):
        event.update(fields)


def drop_field(events: Events, name: str) -> None:
    for event in some(events):
        event.pop(name, None)


def jump(events: Events, by_us: float) -> None:
    """The clock of half of the host's events jumps in the middle of the trace: they lie across the others."""
    middle = sorted(event["ts"] for event in events)[len(events) // 2]
    for i, event in enumerate(events):
        if event["ts"] > middle and i % 2 and event.get("cat") == "cpu_op":
            event["ts"] += by_us


def cross(events: Events) -> None:
    for event in events:
        if event.get("cat") == "cpu_op":
            event["dur"] = event["dur"] * 1.7 + 50


def shuffle_bytes(document: dict[str, Any]) -> bytes:
    data = bytearray(json.dumps(document).encode())
    chance = random.Random(3)
    for _ in range(400):
        data[chance.randrange(len(data) // 4, len(data))] = chance.randrange(256)
    return bytes(data)


def flip_packed(document: dict[str, Any]) -> bytes:
    data = bytearray(packed(document))
    for at in range(len(data) // 2, len(data) // 2 + 64):
        data[at] ^= 0x5A
    return bytes(data)


def without_end(document: dict[str, Any]) -> bytes:
    events = document.pop("traceEvents")
    return json.dumps({**document, "traceEvents": events}).encode().rstrip(b"}]\n ") + b"}},"


def nested_deep(document: dict[str, Any]) -> bytes:
    return b'{"traceEvents": ' + b"[" * 100_000


CASES: dict[str, Damage] = {
    "empty file": lambda document: b"",
    "empty gzip": lambda document: gzip.compress(b""),
    "only white space": lambda document: b" \n\t ",
    "not JSON": lambda document: b"hello, this is a trace",
    "another JSON": lambda document: b'{"hello": [1, 2, 3]}',
    "no events": lambda document: packed({**document, "traceEvents": []}),
    "events that are no objects": lambda document: packed({**document, "traceEvents": [1, "two", None, [3]]}),
    "only metadata": lambda document: packed(
        {**document, "traceEvents": [e for e in document["traceEvents"] if e.get("ph") == "M"]}
    ),
    "gzip cut at 10 %": cut(0.1),
    "gzip cut at 50 %": cut(0.5),
    "gzip cut at 90 %": cut(0.9),
    "gzip without its last bytes": lambda document: packed(document)[:-4],
    "raw cut at 30 %": cut_raw(0.3),
    "raw cut at 75 %": cut_raw(0.75),
    "raw cut at 99 %": cut_raw(0.99),
    "no closing bracket": without_end,
    "bytes overwritten": shuffle_bytes,
    "compressed bytes overwritten": flip_packed,
    "brackets without end": nested_deep,
    "negative durations": edited(lambda events: set_all(events, dur=-5.0)),
    "negative starts": edited(lambda events: set_all(events, ts=-1.0)),
    "starts missing": edited(lambda events: drop_field(events, "ts")),
    "starts as words": edited(lambda events: set_all(events, ts="soon")),
    "durations as lists": edited(lambda events: set_all(events, dur=[1, 2])),
    "names missing their type": edited(lambda events: set_all(events, name=17)),
    "arguments as text": edited(lambda events: set_all(events, args="none")),
    "starts beyond any clock": edited(lambda events: set_all(events, ts=1e300)),
    "clock jumps back": edited(lambda events: jump(events, -9_000.0)),
    "clock jumps ahead": edited(lambda events: jump(events, 7_500.0)),
    "events across each other": edited(cross),
    "endless durations": edited(lambda events: set_all(events, dur=1e300)),
}


@pytest.mark.parametrize("name", CASES)
def test_damage_never_crashes_and_never_convinces(name: str, tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(SOURCE.read_bytes()))
    path = tmp_path / "trace.json"
    path.write_bytes(CASES[name](document))
    problem, said = "", None
    try:
        said = analyse_trace(
            path,
            ceilings=(),
            precision=Precision.BF16,
            unprofiled_step_ms=29.9,
            owner=DEFAULT_OWNERS.__getitem__,
        ).attribution
    except BadInput as error:
        problem = str(error)
    assert "\n" not in problem
    if said is None:
        assert str(path) in problem
        return
    assert (said.bound, said.layer, said.owner, said.weak) == (Bound.UNDETERMINED, None, None, True), said.sentence
    assert said.gain_if_removed.estimate == 1.0
    assert sum(said.shares.values()) == pytest.approx(1.0)


def test_the_source_itself_convinces(tmp_path: Path) -> None:
    """Otherwise the cases above would show nothing."""
    said = analyse_trace(
        SOURCE, ceilings=(), precision=Precision.BF16, unprofiled_step_ms=29.9, owner=DEFAULT_OWNERS.__getitem__
    ).attribution
    assert (said.bound, said.weak) == (Bound.SOFTWARE, False)


def _duplicate(events: Events) -> None:
    for event in events:
        if "correlation" in event.get("args", {}):
            event["args"]["correlation"] = 7


def test_duplicate_correlations_are_no_confident_verdict(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(SOURCE.read_bytes()))
    _duplicate(timed(document))
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed(document))
    said = analyse_trace(
        path, ceilings=(), precision=Precision.BF16, unprofiled_step_ms=29.9, owner=DEFAULT_OWNERS.__getitem__
    ).attribution
    assert (said.bound, said.owner, said.weak) == (Bound.UNDETERMINED, None, True), said.sentence
