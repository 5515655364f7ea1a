"""Columns of a trace: small, the same verdict as from the profiler's own file, and closed to what nobody wrote."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.recognising import COLUMNS_MAGIC, RecordKind, recognise
from lynxbench.attribute.read.trace import Trace
from lynxbench.attribute.read.trace_columns import TICK_NS, condense_trace, pack_columns, read_columns
from lynxbench.attribute.read.trace_files import read_source
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

DATA = Path(__file__).parents[2] / "data" / "traces"
RECORDED = sorted(DATA.glob("*.json.gz"))
SMALL = DATA / "unfused_elementwise.json.gz"

Head = dict[str, Any]


def condensed(source: Path, folder: Path) -> Path:
    raw = Path(shutil.copy(source, folder / "raw.json.gz"))
    path = condense_trace(raw)
    assert [file.name for file in folder.iterdir()] == ["trace.columns"]
    return path


def attributed(path: Path) -> Attribution:
    owner = DEFAULT_OWNERS.__getitem__
    return attribute_trace(path, ceilings=(), precision=Precision.BF16, unprofiled_step_ms=None, owner=owner)


@pytest.mark.parametrize("source", RECORDED, ids=lambda path: str(path.name).removesuffix(".json.gz"))
def test_the_verdict_is_the_same_from_fewer_bytes(source: Path, tmp_path: Path) -> None:
    path = condensed(source, tmp_path)
    assert recognise(path) is RecordKind.COLUMNS
    assert path.stat().st_size < source.stat().st_size / 2
    of_raw, of_columns = attributed(source), attributed(path)
    for name in ("bottleneck", "bound", "layer", "owner", "weak", "steps"):
        assert getattr(of_columns, name) == getattr(of_raw, name), name
    assert of_columns.shares == pytest.approx(of_raw.shares, abs=0.005)
    assert of_columns.wall_ms_per_step == pytest.approx(of_raw.wall_ms_per_step, rel=1e-3)
    for end in ("low", "high"):
        gains = [getattr(attribution.gain_if_removed, end) for attribution in (of_columns, of_raw)]
        assert gains[0] == pytest.approx(gains[1], rel=0.02), end


def test_all_but_the_last_digits_of_stamps_is_kept(tmp_path: Path) -> None:
    raw, kept = read_trace(SMALL), read_columns(condensed(SMALL, tmp_path))
    assert (kept.names, kept.threads, kept.signatures) == (raw.names, raw.threads, raw.signatures)
    assert (kept.device, kept.notes, kept.damaged, kept.rank) == (raw.device, raw.notes, raw.damaged, raw.rank)
    assert len(kept) == len(raw)
    # Rows of one tick may have changed places.
    words = ("kind", "name", "thread", "correlation", "external", "signature", "nbytes")
    rows_of = [sorted(zip(*(getattr(trace, word).tolist() for word in words), strict=True)) for trace in (raw, kept)]
    assert rows_of[0] == rows_of[1]
    assert np.abs(np.sort(kept.start_ns) - np.sort(raw.start_ns)).max() < TICK_NS
    assert np.abs(np.sort(kept.end_ns) - np.sort(raw.end_ns)).max() < TICK_NS
    assert abs(float(kept.dur_ns.mean() - raw.dur_ns.mean())) < TICK_NS / 4


def test_what_a_profiler_wrote_badly_stays_doubtful(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(SMALL.read_bytes()))
    document["traceEvents"][5]["dur"] = -3.0
    raw = tmp_path / "raw.json"
    raw.write_text(json.dumps(document))
    notes = read_trace(raw).notes
    kept = read_source(condense_trace(raw))
    assert isinstance(kept, Trace)
    assert kept.damaged
    assert notes
    assert kept.notes == notes


@pytest.mark.parametrize("text", ["", "no trace", '{"traceEvents": []}', '{"schema": "lynxbench.resource"}'])
def test_what_cannot_be_condensed_stays_as_it_is(text: str, tmp_path: Path) -> None:
    raw = tmp_path / "trace.json"
    raw.write_text(text)
    assert condense_trace(raw) == raw
    assert raw.read_text() == text
    assert list(tmp_path.iterdir()) == [raw]


stamps = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000)), min_size=1, max_size=30)


@given(stamps)
@settings(max_examples=60)
def test_what_was_inside_stays_inside_and_the_order_holds(stamps: list[tuple[int, int]]) -> None:
    stamps.sort(key=lambda pair: (pair[0], -pair[1]))
    rows, trace = len(stamps), read_trace(SMALL)
    columns = {
        name: getattr(trace, name)[:1].repeat(rows) for name in ("kind", "name", "thread", "signature", "nbytes")
    }
    start, dur = (np.array(column, dtype=np.int64) for column in zip(*stamps, strict=True))
    identity = np.arange(rows, dtype=np.int64)
    trace = replace(trace, **columns, start_ns=start, dur_ns=dur, external=identity, correlation=identity)
    kept = unpacked(pack_columns(trace))
    assert sorted(zip(kept.start_ns, -kept.dur_ns, strict=True)) == list(zip(kept.start_ns, -kept.dur_ns, strict=True))
    place = np.argsort(kept.external)
    for outer in range(rows):
        inner = (start >= start[outer]) & (start + dur <= start[outer] + dur[outer])
        begin, end = kept.start_ns[place], kept.end_ns[place]
        assert (begin[inner] >= begin[outer]).all()
        assert (end[inner] <= end[outer]).all()


def unpacked(packed: bytes, folder: Path | None = None) -> Trace:
    with tempfile.TemporaryDirectory() as made:
        path = (folder or Path(made)) / "trace.columns"
        path.write_bytes(COLUMNS_MAGIC + packed)
        return read_columns(path)


# --- what nobody here wrote ---


def parts_of(packed: bytes) -> tuple[Head, bytes]:
    plain = lzma.decompress(packed)
    size = int.from_bytes(plain[:8], "little")
    return json.loads(plain[8 : 8 + size]), plain[8 + size :]


def repacked(head: Head, columns: bytes, size: int | None = None) -> bytes:
    text = json.dumps(head).encode()
    return lzma.compress((len(text) if size is None else size).to_bytes(8, "little") + text + columns)


HOSTILE: dict[str, Callable[[Head, bytes], bytes]] = {
    "more rows than there are": lambda head, columns: repacked({**head, "rows": head["rows"] + 1}, columns),
    "fewer rows": lambda head, columns: repacked({**head, "rows": head["rows"] - 1}, columns),
    "a terabyte of rows": lambda head, columns: repacked({**head, "rows": 1 << 40}, columns),
    "no rows": lambda head, _: repacked({**head, "rows": 0}, b""),
    "negative rows": lambda head, columns: repacked({**head, "rows": -5}, columns),
    "a head of a terabyte": lambda head, columns: repacked(head, columns, 1 << 40),
    "a head of no text": lambda head, columns: repacked(head, columns, 0),
    "more behind it": lambda head, columns: repacked(head, columns + b"x"),
    "less": lambda head, columns: repacked(head, columns[:-1]),
    "names missing": lambda head, columns: repacked({**head, "names": head["names"][:1]}, columns),
    "threads missing": lambda head, columns: repacked({**head, "threads": []}, columns),
    "operands missing": lambda head, columns: repacked({**head, "signatures": []}, columns),
    "an unknown key": lambda head, columns: repacked({**head, "verdict": "fine"}, columns),
    "names that are numbers": lambda head, columns: repacked({**head, "names": [1]}, columns),
    "a step of no time": lambda head, columns: repacked({**head, "tick_ns": 0}, columns),
    "a step of a day": lambda head, columns: repacked({**head, "tick_ns": 86_400 * 10**9}, columns),
    "numbers all set": lambda head, columns: repacked(head, b"\x7f" * len(columns)),
    "kinds that are none": lambda head, columns: repacked(head, b"\x40" * head["rows"] + columns[head["rows"] :]),
    "deep nesting": lambda *_: lzma.compress((10**6).to_bytes(8, "little") + b"[" * 10**6),
    "a bomb": lambda *_: lzma.compress(b"\x00" * (64 << 20)),
    "not packed": lambda head, columns: json.dumps(head).encode() + columns,
    "nothing": lambda *_: b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_columns_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    packed = HOSTILE[name](*parts_of(pack_columns(read_trace(SMALL))))
    with pytest.raises(BadInput, match=r"trace\.columns: holds no columns of a trace") as refusal:
        unpacked(packed, tmp_path)
    assert "\n" not in str(refusal.value)


def test_flipped_bits_are_refused(tmp_path: Path) -> None:
    """The packed form carries a checksum of what it holds."""
    whole = condensed(SMALL, tmp_path).read_bytes()
    dice = random.Random(5)
    for _ in range(200):
        place = dice.randrange(len(COLUMNS_MAGIC), len(whole))
        flipped = bytearray(whole)
        flipped[place] ^= 1 << dice.randrange(8)
        with pytest.raises(BadInput):
            unpacked(bytes(flipped[len(COLUMNS_MAGIC) :]), tmp_path)
