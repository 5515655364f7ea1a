"""Nsight Systems exports: the labelled traces written as SQLite must give the same answer through the other reader."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.nsight import COPY_WORDS, MEMORY_WORDS, read_nsight
from lynxbench.attribute.read.trace import NONE, EventKind, Trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

DATA = Path(__file__).parents[2] / "data" / "traces"
CASES = {case["case"]: case for case in json.loads((DATA / "truth.json").read_text())["cases"]}
RANGE = 59


def export(trace: Trace, path: Path, *, old: bool = False) -> Path:
    """A trace as Nsight Systems would export it; `old` versions write texts out and lack some columns."""
    strings: dict[str, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings) + 1)

    kinds: dict[str, list[tuple[Any, ...]]] = {"kernel": [], "memcpy": [], "memset": [], "runtime": [], "nvtx": []}
    for row in range(len(trace)):
        name, kind = trace.names[trace.name[row]], int(trace.kind[row])
        start, end = int(trace.start_ns[row]), int(trace.end_ns[row])
        process, thread = trace.threads[trace.thread[row]]
        correlation, stream = int(trace.correlation[row]), int(trace.thread[row])
        if kind == EventKind.KERNEL:
            kinds["kernel"].append((start, end, 0, stream, correlation, text(name), text(name)))
        elif kind == EventKind.MEMCPY:
            copy = next(k for k, word in COPY_WORDS.items() if word in name)
            ends = name[name.index("(") + 1 : -1].split(" -> ")
            source, into = (next(k for k, word in MEMORY_WORDS.items() if word == end_word) for end_word in ends)
            kinds["memcpy"].append((start, end, 0, stream, correlation, int(trace.nbytes[row]), copy, source, into))
        elif kind == EventKind.MEMSET:
            kinds["memset"].append((start, end, 0, stream, correlation, int(trace.nbytes[row])))
        elif process.isdigit() and thread.isdigit():
            where = (int(process) << 24) | int(thread)
            if kind == EventKind.RUNTIME:
                kinds["runtime"].append((start, end, where, correlation, text(name)))
            elif kind in (EventKind.ANNOTATION, EventKind.OPERATOR):
                said = f"{name}, seq = 3, sizes = [[1]]" if kind == EventKind.OPERATOR and "::" in name else name
                kinds["nvtx"].append((start, end, RANGE, where, said if old else None, None if old else text(said)))
    with sqlite3.connect(path) as database:
        tables = {
            "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, streamId, correlationId, demangledName, shortName",
            "CUPTI_ACTIVITY_KIND_MEMCPY": (
                "start, end, deviceId, streamId, correlationId, bytes, copyKind, srcKind, dstKind"
            ),
            "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, deviceId, streamId, correlationId, bytes",
            "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId",
            "NVTX_EVENTS": "start, end, eventType, globalTid, text, textId",
        }
        for (table, columns), rows in zip(tables.items(), kinds.values(), strict=True):
            database.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * (columns.count(",") + 1))
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(n, v) for v, n in strings.items()])
        database.execute("CREATE TABLE TARGET_INFO_GPU (id, name)")
        database.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?)", (trace.device,))
    database.close()
    return path


def attribute(path: Path, step_ms: float | None) -> Attribution:
    return attribute_trace(
        path, ceilings=(), precision=Precision.BF16, unprofiled_step_ms=step_ms, owner=DEFAULT_OWNERS.__getitem__
    )


@pytest.mark.parametrize("name", CASES)
def test_both_readers_agree(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    source = read_trace(DATA / f"{name}.json.gz")
    path = export(source, tmp_path / "trace.sqlite", old=name.startswith("d"))
    again = read_nsight(path)
    for kind in (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.RUNTIME):
        mine, theirs = again.rows_of(kind), source.rows_of(kind)
        assert len(mine) == len(theirs)
        assert np.array_equal(np.sort(again.start_ns[mine]), np.sort(source.start_ns[theirs]))
        assert int(again.dur_ns[mine].sum()) == int(source.dur_ns[theirs].sum())
    there, here = attribute(DATA / f"{name}.json.gz", case["step_ms"]), attribute(path, case["step_ms"])
    assert here.steps == there.steps
    assert here.wall_ms_per_step == pytest.approx(there.wall_ms_per_step, rel=1e-6)
    # Exports carry no shapes: which side of the roofline a kernel is on may differ, what idles the device may not.
    kernels = (Category.COMPUTE, Category.MEMORY_BANDWIDTH)
    for category in Category:
        if category not in kernels:
            assert here.shares.get(category, 0.0) == pytest.approx(there.shares.get(category, 0.0), abs=0.01), category
    if there.bottleneck not in kernels:
        assert here.bottleneck == there.bottleneck
    assert here.evidence[-1].startswith("attributed on NVIDIA H200")


def test_kernels_find_their_operator_without_ids(tmp_path: Path) -> None:
    source = read_trace(DATA / "prefill_noshapes.json.gz")
    again = read_nsight(export(source, tmp_path / "trace.sqlite"))

    def operators(trace: Trace) -> list[str]:
        rows = trace.rows_of(EventKind.OPERATOR)
        by_id = {int(trace.external[row]): trace.names[trace.name[row]] for row in rows[trace.external[rows] != NONE]}
        return [by_id.get(int(trace.external[row]), "") for row in trace.rows_of(EventKind.KERNEL)]

    theirs, mine = operators(source), operators(again)
    same = sum(a == b for a, b in zip(theirs, mine, strict=True))
    assert same >= 0.95 * len(theirs)


def test_a_graph_recorded_as_a_whole_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, correlationId, graphId)"
        )
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)")
        for i in range(8):
            at = i * 1_000_000
            database.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?, ?, 0, 7, ?, 1)", (at + 9_000, at + 950_000, i)
            )
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 1, ?, 0)", (at, at + 5_000, i))
    database.close()
    said = attribute(path, None)
    assert (said.bottleneck, said.bound) == (Category.UNATTRIBUTED, Bound.UNDETERMINED)


def _empty(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id, value)")
    database.close()


def test_files_that_are_no_export_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    _empty(path)
    with pytest.raises(BadInput, match="no CUDA activities") as caught:
        attribute(path, None)
    assert "\n" not in str(caught.value)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadInput) as caught:
        attribute(path, None)
    assert "\n" not in str(caught.value)


def test_negative_durations_and_missing_ends_take_the_confidence(tmp_path: Path) -> None:
    path = export(read_trace(DATA / "pageable_h2d.json.gz"), tmp_path / "trace.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5 WHERE rowid % 7 = 0")
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET end = NULL WHERE rowid = 1")
    database.close()
    said = attribute(path, 29.9)
    assert (said.bound, said.owner, said.weak) == (Bound.UNDETERMINED, None, True)
    assert any("left out" in line for line in said.evidence)


def test_a_damaged_database_keeps_what_came_before_or_refuses(tmp_path: Path) -> None:
    path = export(read_trace(DATA / "sync_every_layer.json.gz"), tmp_path / "trace.sqlite")
    data = path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        cut = tmp_path / f"cut-{share}.sqlite"
        cut.write_bytes(data[: int(len(data) * share)])
        problem, said = "", None
        try:
            said = attribute(cut, None)
        except BadInput as error:
            problem = str(error)
        assert "\n" not in problem
        assert said is None or (said.bound, said.owner, said.weak) == (Bound.UNDETERMINED, None, True)


@pytest.mark.parametrize("table", ["StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "TARGET_INFO_GPU", "NVTX_EVENTS"])
def test_an_export_that_never_ends_is_given_up(table: str, tmp_path: Path) -> None:
    """A view that counts without end in place of a table: reading ends by the steps that a file of its size needs."""
    file = tmp_path / "endless.sqlite"
    with closing(sqlite3.connect(file)) as database:
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        database.execute(f"CREATE VIEW {table} AS {endless} SELECT x AS id, 'a' AS value, NULL AS name FROM n")
        database.commit()
    with pytest.raises(BadInput) as refused:
        read_nsight(file)
    assert "\n" not in str(refused.value)
