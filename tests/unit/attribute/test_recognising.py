"""Files are what they begin with, under any name, and what is nothing is refused in one line."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from attributed import is_doubted, refusal
from lynxbench.attribute.read.recognising import RecordKind, recognise
from lynxbench.errors import BadInput

DATA = Path(__file__).parents[2] / "data" / "traces"
XLA = {"traceEvents": [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}}, {}]}
KINETO = {"schemaVersion": 1, "traceEvents": [{"ph": "M", "name": "process_name", "args": {"name": "python"}}]}
SAID = 'said "timeMs": "id": "timestamps": "rocprofiler-sdk-tool"'
HOSTILE = {"traceEvents": [{"ph": "X", "name": SAID, "cat": "cpu_op"}]}
BEGINNINGS: dict[str, tuple[bytes, RecordKind]] = {
    "a PyTorch trace": (json.dumps(KINETO).encode(), RecordKind.CHROME),
    "a bare list of events": (b'[{"ph":"X","name":"timeMs","id":1,"timestamps":[]}]', RecordKind.CHROME),
    "an XLA trace": (json.dumps(XLA).encode(), RecordKind.XLA),
    "a packed XLA trace": (gzip.compress(json.dumps(XLA).encode()), RecordKind.XLA),
    "a resource record": (b'{"kind": "resource", "steps": []}', RecordKind.RESOURCE),
    "rocprofv3's document": (b'{\n "rocprofiler-sdk-tool": [', RecordKind.ROCPROF_DOCUMENT),
    "rocprofv3's table": (b'"Kind","Start_Timestamp","End_Timestamp"\r\n', RecordKind.ROCPROF_TABLE),
    "… with a byte order mark": (b'\xef\xbb\xbf"Kind","Start_Timestamp","End_Timestamp"\n', RecordKind.ROCPROF_TABLE),
    "Nsight Compute's table": (b'==PROF== Connected\nhello, world\n"ID","Kernel Name"\n', RecordKind.NSIGHT_COMPUTE),
    "a database": (b"SQLite format 3\x00", RecordKind.NSIGHT_SYSTEMS),
    "layers": (b'[\n  { "count" : 9 }\n, { "name" : "a", "timeMs" : 1 }', RecordKind.TENSORRT_LAYERS),
    "no layers": (b'[ { "count" : 9 } ]', RecordKind.TENSORRT_LAYERS),
    "inferences": (b'[ { "startEnqMs" : 1, "startComputeMs" : 2 } ]', RecordKind.TENSORRT_TIMES),
    "requests": (b'[{"id":1,"model_name":"simple"}', RecordKind.TRITON),
    "requests without names": (b'[{"id":1,"timestamps":[{"name":"REQUEST_START","ns":1}]}', RecordKind.TRITON),
    "tensors": (b'[{"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{', RecordKind.TRITON),
    "words of other formats inside": (json.dumps(HOSTILE).encode(), RecordKind.CHROME),
    "nothing": (b"", RecordKind.CHROME),
    "a list of nothing": (b"[]", RecordKind.CHROME),
    "a damaged gzip stream": (b"\x1f\x8b\x08\x00garbage", RecordKind.CHROME),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_the_beginning_decides(name: str, tmp_path: Path) -> None:
    content, kind = BEGINNINGS[name]
    for called in ("trace.csv", "trace.json", "trace.sqlite"):
        path = tmp_path / called
        path.write_bytes(content)
        assert recognise(path) is kind


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json.gz")), ids=lambda path: path.name)
def test_recorded_traces_are_what_they_were(path: Path) -> None:
    assert recognise(path) is RecordKind.CHROME


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BadInput, match="cannot be read"):
            recognise(path)


@pytest.mark.parametrize("name", ["nothing", "a list of nothing", "inferences", "tensors", "a database"])
def test_a_beginning_alone_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BEGINNINGS[name][0])
    refusal(path)


def test_random_bytes_behind_any_beginning_never_crash(tmp_path: Path) -> None:
    chance = random.Random(17)
    path = tmp_path / "file"
    for content, kind in BEGINNINGS.values():
        if kind is RecordKind.NSIGHT_SYSTEMS:
            continue  # its own tests damage whole databases
        for _ in range(12):
            path.write_bytes(content + chance.randbytes(chance.randrange(200)))
            is_doubted(path)
