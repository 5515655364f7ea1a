from __future__ import annotations

import gzip
import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from lynxbench import plain_files
from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.read import chrome_text
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.trace import NONE, EventKind, Trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound, Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

REAL = Path(__file__).parents[2] / "data" / "traces"
Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def steps_of(make_event: Make, make_operands: Make, count: int = 4, per_step: int = 5) -> list[dict[str, Any]]:
    """Steps of products that take 9 of every 10 ms."""
    events = []
    for i in range(count):
        start = 1000.0 + i * 10_000.125
        events.append(make_event(f"step#{i}", start, 10_000.0, cat="user_annotation"))
        for j in range(per_step):
            at = start + 100 + j * 1_900
            events.append(make_event("aten::mm", at, 1_800.0, **make_operands((512, 512), (512, 512))))
    return events


def same(left: Trace, right: Trace) -> bool:
    columns = ("kind", "name", "start_ns", "dur_ns", "thread", "correlation", "signature", "nbytes")
    return left.names == right.names and all(np.array_equal(getattr(left, c), getattr(right, c)) for c in columns)


def test_nanoseconds_are_kept(write_trace: Write, make_event: Make) -> None:
    events = [make_event("aten::add", 3851475076245.999, 0.001), make_event("aten::mul", 3851475076246.0, 12.345)]
    trace = read_trace(write_trace(events))
    assert trace.start_ns.tolist() == [3851475076245999, 3851475076246000]
    assert trace.dur_ns.tolist() == [1, 12345]


def test_stamps_beyond_a_double_are_read_exactly(tmp_path: Path) -> None:
    text = """{"traceEvents": [
      {"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1790857026123456.789,"dur":1.001},
      {"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1790857026123456.790,"dur":0.5},
      {"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":1,"ts":1790857026123457,"dur":2}]}"""
    path = tmp_path / "epoch.json"
    path.write_text(text)
    trace = read_trace(path)
    assert trace.start_ns.tolist() == [1790857026123456789, 1790857026123456790, 1790857026123457000]
    assert trace.dur_ns.tolist() == [1001, 500, 2000]
    assert not trace.damaged


def test_fields_come_through(write_trace: Write, make_event: Make) -> None:
    kernel = make_event(
        "k<int>", 5.0, 2.0, cat="kernel", tid=7, stream=7, correlation=42, grid=[2, 3, 1], block=[64, 2, 1]
    )
    copy = make_event("Memcpy HtoD", 8.0, 2.0, cat="gpu_memcpy", tid=7, stream=7, correlation=43, bytes=4096)
    convolution = make_event(
        "aten::mkldnn_convolution",
        1.0,
        2.0,
        **{
            "Input Dims": [[2, 8, 32, 32], [16, 8, 3, 3], [], [[4], [5, 6]]],
            "Input type": ["float", "c10::BFloat16", "ScalarList", "TensorList"],
            "Input Strides": [[8192, 1024, 32, 1], [72, 9, 3, 1], [], [[1], [6, 1]]],
            "Concrete Inputs": ["", "", "[1, 1]", ""],
            "External id": 9,
        },
    )
    path = write_trace([copy, kernel, convolution], deviceProperties=[{"id": 0, "name": "NVIDIA H200", "numSms": 132}])
    trace = read_trace(path)
    assert [EventKind(k) for k in trace.kind] == [EventKind.OPERATOR, EventKind.KERNEL, EventKind.MEMCPY]
    assert trace.device == "NVIDIA H200"
    assert trace.has_device_work
    assert trace.correlation.tolist() == [-1, 42, 43]
    assert trace.external.tolist() == [9, -1, -1]
    assert trace.nbytes.tolist() == [-1, -1, 4096]
    signature = trace.signatures[trace.signature[0]]
    assert [t.sizes for t in signature.tensors] == [(2, 8, 32, 32), (16, 8, 3, 3), (4,), (5, 6)]
    assert signature.arguments[2] == ()
    assert signature.tensors[1].dtype == "c10::BFloat16"
    assert signature.concrete == ("", "", "[1, 1]", "")


def test_gzip_raw_pretty_and_array_forms_agree(
    write_trace: Write, make_event: Make, make_operands: Make, tmp_path: Path
) -> None:
    events = steps_of(make_event, make_operands)
    reference = read_trace(write_trace(events))
    assert same(reference, read_trace(write_trace(events, "trace.json.gz")))
    array = tmp_path / "array.json"
    array.write_text("\ufeff" + json.dumps(events))
    assert same(reference, read_trace(array))
    members = tmp_path / "members.json.gz"
    text = json.dumps({"traceEvents": events}).encode()
    members.write_bytes(gzip.compress(text[:500]) + gzip.compress(text[500:]))
    assert same(reference, read_trace(members))
    assert not read_trace(members).damaged


def test_views_are_not_asked_for_their_operands(write_trace: Write, make_event: Make, make_operands: Make) -> None:
    names = ("aten::transpose", "aten::mm", "aten::view", "mine::view", "aten::copy_")
    events = [
        make_event(name, 1000.0 + 10 * i, 5.0, **make_operands((64, 64), (64, 64))) for i, name in enumerate(names)
    ]
    trace = read_trace(write_trace(events))
    has_operands = {trace.names[n]: int(s) != NONE for n, s in zip(trace.name, trace.signature, strict=True)}
    assert has_operands == dict(zip(names, (False, True, False, True, True), strict=True))


@pytest.mark.parametrize("size", [400, 1_000, 5_000])
def test_cutting_into_pieces_changes_nothing(
    write_trace: Write, make_event: Make, make_operands: Make, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    events = steps_of(make_event, make_operands, count=8)
    events[3]["args"]["nested"] = [{"a": 1}, {"b": 2}]  # a place that looks like the end of an event
    events[5]["name"] = 'tricky "}, {" name }, {'
    path = write_trace(events)
    whole = read_trace(path)
    monkeypatch.setattr(chrome_text, "PIECE_BYTES", size)
    assert same(whole, read_trace(path))
    assert len(whole) == len(events)
    assert not read_trace(path).damaged


def test_order_in_the_file_does_not_matter(write_trace: Write, make_event: Make, make_operands: Make) -> None:
    events = steps_of(make_event, make_operands)
    shuffled = events[:]
    random.Random(3).shuffle(shuffled)
    assert same(read_trace(write_trace(events)), read_trace(write_trace(shuffled)))


def test_what_json_forbids_and_writers_emit_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "inf.json"
    path.write_bytes(
        b'{"traceEvents":[{"ph":"X","cat":"gpu_memcpy","name":"Memcpy","pid":0,"tid":7,"ts":1.5,"dur":1,'
        b'"args":{"bytes":4,"memory bandwidth (GB/s)":inf,"est. achieved occupancy %": nan}},'
        b'{"ph":"X","cat":"cpu_op","name":"caf\xe9","pid":0,"tid":7,"ts":3,"dur":1}]}'
    )
    trace = read_trace(path)
    assert len(trace) == 2
    assert not trace.damaged


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut in the middle": lambda text: text[: len(text) // 2],
    "cut in a name": lambda text: text[: text.rindex(b"aten::mm") + 4],
    "closing bracket lost": lambda text: text[: text.rindex(b"]")],
    "gzip cut": lambda text: gzip.compress(text)[:-200],
    "gzip byte flipped": lambda text: _flip(gzip.compress(text, mtime=0)),
    "garbage in the middle": lambda text: text[: len(text) // 2] + b"\x00\xff{{{]]\x01" + text[len(text) // 2 :],
    "negative durations": lambda text: text.replace(b'"dur": 1800.0', b'"dur": -1800.0', 3),
    "stamps as words": lambda text: text.replace(b'"ts": 1100.0', b'"ts": "yesterday"', 1),
    "stamps missing": lambda text: text.replace(b'"ts": 1100.0,', b"", 1),
    "stamps beyond 64 bits": lambda text: text.replace(b'"ts": 1100.0', b'"ts": 1e300', 1),
    "names as numbers": lambda text: text.replace(b'"name": "aten::mm"', b'"name": 17', 2),
    "events that are not objects": lambda text: text.replace(b'"traceEvents": [', b'"traceEvents": [null, 7, "x",', 1),
    "operands of the wrong type": lambda text: text.replace(b'"args": {', b'"args": ["x"], "other": {', 1),
    "correlation of the wrong type": lambda text: text.replace(b'"Input Dims"', b'"correlation": "k", "Input Dims"', 1),
}


def _flip(data: bytes) -> bytes:
    at = len(data) * 2 // 3
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_never_gives_a_confident_verdict(
    damage: str, write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    path = write_trace(steps_of(make_event, make_operands, count=12))
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    said = attribute_trace(
        path,
        ceilings=ceilings,
        precision=Precision.FP32,
        unprofiled_step_ms=10.0,
        owner=DEFAULT_OWNERS.__getitem__,
    )
    assert said.bound is Bound.UNDETERMINED
    assert said.weak
    assert said.layer is None
    assert said.owner is None
    assert "damaged" in said.sentence
    assert any(line.startswith("note: ") for line in said.evidence)


FOREIGN: dict[str, bytes] = {
    "empty": b"",
    "blanks": b"  \n\t ",
    "a table": b"time,value\n1,2\n",
    "no events key": b'{"schemaVersion": 1, "spans": []}',
    "no events": b'{"traceEvents": []}',
    "only flow events": b'{"traceEvents": [{"ph": "s", "id": 1, "ts": 3}]}',
    "a scalar": b"17",
    "a database": b"SQLite format 3\x00" + b"\x00" * 100,
    "a picture": b"\x89PNG\r\n\x1a\n" + b"\x00" * 50,
    "an empty gzip": gzip.compress(b""),
    "half a gzip header": b"\x1f\x8b\x08",
    "events that are no list": b'{"traceEvents": {"ph": "X"}}',
    "a deep bomb": b'{"traceEvents": [' + b"[" * 100_000,
    "only words": b'{"traceEvents": ["a", "b"]}',
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files_are_refused_in_one_line(what: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.json"
    path.write_bytes(FOREIGN[what])
    with pytest.raises(BadInput) as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


EVENT = b'{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1.0,"dur":2.0}'


@pytest.mark.parametrize("what", [EVENT + b",", b" ", b'{"ph":"M"},', b'{"name":' + b" " * 100], ids=repr)
@pytest.mark.parametrize("members", [1, 8])
def test_a_small_file_that_never_ends_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: bytes, members: int
) -> None:
    """A gzip of one event, blank or note over and over: three hundred to a thousand times as large as its file."""
    monkeypatch.setattr(plain_files, "UNFOLDS_FREELY_BYTES", 16 << 20)
    path, block = tmp_path / "bomb.json.gz", what * ((32 << 20) // members // len(what))
    ends = (gzip.compress(b'{"traceEvents": ['), gzip.compress(EVENT + b"]}"))
    path.write_bytes((gzip.compress(block, 9) * members).join(ends))
    with pytest.raises(BadInput) as caught:
        read_trace(path)
    told = str(caught.value)
    assert told.startswith(str(path))
    assert "\n" not in told
    assert re.search(r"unfolds to over [\d,]+ bytes from [\d,]+; no profiler writes that", told), told


def test_one_long_event_is_not_looked_at_with_every_piece_of_it(tmp_path: Path) -> None:
    path, reading = tmp_path / "long.json", chrome_text.FileReading()
    path.write_bytes(b'{"traceEvents": [' + EVENT[:-1] + b',"args":"' + b"a" * (32 << 20) + b'"}]}')
    looked_at = 0

    def decode(text: bytes) -> list[dict[str, Any]]:
        nonlocal looked_at
        looked_at += len(text)
        return msgspec.json.decode(text, type=list[dict[str, Any]])

    (events,) = chrome_text.read_pieces(path, decode, reading)
    assert events[0]["name"] == "aten::mm"
    assert reading.complete
    assert looked_at < 6 * path.stat().st_size, looked_at


@pytest.mark.parametrize("path", sorted(REAL.glob("*.json.gz")), ids=lambda path: path.name)
def test_no_real_trace_unfolds_so_far(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_files, "UNFOLDS_FREELY_BYTES", 0)
    assert len(read_trace(path).start_ns)


def test_a_file_of_empty_members_takes_no_longer_than_another_of_its_size(tmp_path: Path) -> None:
    path = tmp_path / "members.json.gz"
    parts = (gzip.compress(b'{"traceEvents": ['), gzip.compress(b"") * 300_000, gzip.compress(EVENT + b"]}"))
    path.write_bytes(b"".join(parts))
    began = time.process_time()
    assert read_trace(path).dur_ns.tolist() == [2000]
    assert time.process_time() - began < 4, "a megabyte was copied for each of them"


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(tmp_path / "absent.json")
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(tmp_path)


def test_a_trace_without_operators_says_so(write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]) -> None:
    path = write_trace([make_event("GC", 1.0, 2.0, cat="python_function")])
    with pytest.raises(BadInput, match="no operators"):
        attribute_trace(
            path, ceilings=ceilings, precision=Precision.FP32, unprofiled_step_ms=None, owner=DEFAULT_OWNERS.__getitem__
        )
