"""Damaged traces made from a labelled one: never a crash, never a confident verdict, by the room or the program."""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lynxbench.attribute.attributing import TraceSettings, analyse_trace
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.cli.trace_command import trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound
from lynxbench.model.precision import Precision

DATA = Path(__file__).parents[2] / "data" / "traces"
SOURCE = DATA / "pageable_h2d.json.gz"
SETTINGS = TraceSettings(precision=Precision.BF16, step_ms=29.9)
"""Undamaged, it gets a confident verdict: transfer, software-bound."""

app = typer.Typer()
app.command()(trace)
_spec = importlib.util.spec_from_file_location("nsight_export", Path(__file__).parent / "test_nsight.py")
assert _spec is not None
assert _spec.loader is not None
test_nsight = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(test_nsight)

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


def set_args(events: Events, every: int = 11, **fields: Any) -> None:
    for event in events[::every]:
        if "correlation" in event.get("args", {}):
            event["args"].update(fields)


def without(category: str) -> Damage:
    def damage(document: dict[str, Any]) -> bytes:
        events = [event for event in document["traceEvents"] if event.get("cat") != category]
        return packed({**document, "traceEvents": events})

    return damage


def lose_calls(events: Events) -> None:
    for event in [event for event in events if event.get("cat") == "cuda_runtime"][::2]:
        event["ph"] = "lost"


def overlap_steps(events: Events) -> None:
    for event in events:
        if event["name"].startswith("step#"):
            event["dur"] *= 1.6


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
    "categories missing": edited(lambda events: drop_field(events, "cat")),
    "names missing": edited(lambda events: drop_field(events, "name")),
    "integers beyond 64 bits": edited(lambda events: set_all(events, ts=10**40)),
    "ids beyond 64 bits": edited(lambda events: set_args(events, correlation=10**40)),
    "starts that are no number": edited(lambda events: set_all(events, ts=math.nan)),
    "durations that are no number": edited(lambda events: set_all(events, dur=-math.inf)),
    "duplicate correlations": edited(lambda events: set_args(events, 1, correlation=7)),
    "every event twice": lambda document: packed({**document, "traceEvents": document["traceEvents"] * 2}),
    "no call launched anything": without("cuda_runtime"),
    "half of the calls lost": edited(lose_calls),
    "one event": lambda document: packed({**document, "traceEvents": timed(document)[:1]}),
    "one kernel": lambda document: packed(
        {**document, "traceEvents": [e for e in timed(document) if e.get("cat") == "kernel"][:1]}
    ),
    "steps across each other": edited(overlap_steps),
    "gzip of a gzip": lambda document: gzip.compress(packed(document)),
    "a list of traces": lambda document: json.dumps([document, document]).encode(),
}


def nsight(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """An Nsight export of the same trace, damaged."""

    def write(path: Path) -> None:
        test_nsight.export(read_trace(SOURCE), path)
        damage(path)

    return write


def cut_to(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:count])


def cut_file(share: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])

    return damage


def statement(*texts: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with sqlite3.connect(path) as database:
            for text in texts:
                database.execute(text)
        database.close()

    return damage


NSIGHT_CASES: dict[str, Callable[[Path], None]] = {
    "cut at 5 %": nsight(cut_file(0.05)),
    "cut at 50 %": nsight(cut_file(0.5)),
    "cut at 95 %": nsight(cut_file(0.95)),
    "its head alone": nsight(lambda path: cut_to(path, 16)),
    "no kernels": nsight(statement("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY")),
    "no calls": nsight(statement("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME")),
    "no strings": nsight(statement("DROP TABLE StringIds")),
    "empty tables": nsight(statement("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", "DELETE FROM NVTX_EVENTS")),
    "words for stamps": nsight(statement("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 'soon'")),
    "ends before starts": nsight(statement("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET end = start - 5000")),
    "a database of something else": statement("CREATE TABLE people (name)"),
}


def doubtful(path: Path) -> None:
    """A refusal in one line, or shares without a verdict."""
    problem, said = "", None
    try:
        said = analyse_trace(path, SETTINGS).attribution
    except BadInput as error:
        problem = str(error)
    if said is None:
        assert len(problem.splitlines()) == 1
        assert str(path) in problem
        return
    assert (said.bound, said.layer, said.owner, said.weak) == (Bound.UNDETERMINED, None, None, True), said.sentence
    assert said.gain_if_removed.estimate == 1.0
    assert sum(said.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", CASES)
def test_damage_never_crashes_and_never_convinces(name: str, tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(SOURCE.read_bytes()))
    path = tmp_path / "trace.json"
    path.write_bytes(CASES[name](document))
    doubtful(path)


def test_the_source_itself_convinces(tmp_path: Path) -> None:
    """Otherwise the cases above would show nothing."""
    said = analyse_trace(SOURCE, SETTINGS).attribution
    assert (said.bound, said.weak) == (Bound.SOFTWARE, False)


@pytest.mark.parametrize("name", NSIGHT_CASES)
def test_damaged_exports_never_crash_and_never_convince(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    NSIGHT_CASES[name](path)
    doubtful(path)


def test_thirty_cases_and_more() -> None:
    assert len(CASES) + len(NSIGHT_CASES) >= 30


@pytest.mark.parametrize("name", CASES)
def test_the_command_line_says_one_line_or_doubts(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(CASES[name](json.loads(gzip.decompress(SOURCE.read_bytes()))))
    result = CliRunner().invoke(app, [str(path), "--device", "h200", "--step-ms", "29.9"])
    if result.exception is not None:
        assert isinstance(result.exception, BadInput), result.exception
        assert result.exception.exit_code == 2
        assert len(str(result.exception).splitlines()) == 1
        return
    assert result.exit_code == 0
    assert "UNDETERMINED" in result.stdout
    assert "no owner is named" in result.stdout


@pytest.mark.parametrize("name", ["gzip cut at 50 %", "another JSON", "empty file"])
def test_the_program_leaves_with_its_code(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(CASES[name](json.loads(gzip.decompress(SOURCE.read_bytes()))))
    done = subprocess.run(
        [sys.executable, "-m", "lynxbench", "trace", str(path)], capture_output=True, text=True, check=False
    )
    if name == "gzip cut at 50 %":
        assert done.returncode == 0
        assert done.stderr.startswith("lynxbench: no ceilings of NVIDIA H200 are known"), "one line, and no traceback"
        assert len(done.stderr.splitlines()) == 1
        assert "UNDETERMINED" in done.stdout
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
