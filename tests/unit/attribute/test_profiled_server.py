"""Traces of a server: which is judged, and when nobody is blamed."""

import gzip
import json
from pathlib import Path

import pytest

from lynxbench.attribute.profiled_server import attribute_profile, declared_ceilings
from lynxbench.attribute.read.trace import DEVICE_KINDS
from lynxbench.attribute.read.trace_files import read_source
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision

TRACES = Path(__file__).parents[2] / "data" / "traces"
ATTENTION, SMALL = TRACES / "naive_attention.json.gz", TRACES / "unfused_elementwise.json.gz"


@pytest.fixture(scope="module")
def window():
    trace = read_source(ATTENTION)
    rows = trace.rows_of(*DEVICE_KINDS)  # the record itself begins before
    return int(trace.start_ns[rows].min()) + trace.base_ns, int(trace.end_ns[rows].max()) + trace.base_ns


def judge(paths, spans):
    return attribute_profile(paths, spans, Precision.BF16, owner=DEFAULT_OWNERS.__getitem__)


def test_the_trace_with_most_work_is_judged_by_declared_ceilings(window):
    first, last = window
    short = (first + 1000, first + 2000)
    found = judge([SMALL, ATTENTION], [(first - 10**6, last + 10**6), short])
    assert found.path == ATTENTION
    assert found.attribution.layer is Layer.RUNTIME
    assert found.join.outside == 0
    assert found.join.requests == 2
    assert all("declared" in ceiling.how for ceiling in found.attribution.ceilings)


def test_work_of_others_blames_nobody(window):
    first, last = window
    half = first + (last - first) // 2
    found = judge([ATTENTION], [(first + 1000, half)])
    assert found.attribution is None
    assert "is outside of the pass's requests: others asked too" in found.missing
    assert found.join.outside > 0.3


def test_a_trace_of_another_time_blames_nobody(window):
    first, last = window
    day_ns = 86_400 * 10**9
    found = judge([ATTENTION], [(first + day_ns, last + day_ns)])
    assert found.attribution is None
    assert found.missing.endswith("it is of another time")


def test_what_cannot_be_read_is_said(tmp_path):
    broken = tmp_path / "trace-0.json.gz"
    broken.write_bytes(b"not a trace")
    assert "trace-0.json.gz" in judge([broken], [(0, 1)])
    assert str(tmp_path) not in judge([broken], [(0, 1)])
    assert judge([], [(0, 1)]) == "the server wrote no trace"


def test_devices_that_nobody_declared_have_no_ceilings():
    assert declared_ceilings("NVIDIA H200")
    assert declared_ceilings("NVIDIA H2000") == ()
    assert declared_ceilings(None) == ()


def test_a_trace_that_vllm_wrote_is_told_apart_by_its_own_steps_and_is_the_serving_frameworks():
    folder = TRACES.parent / "server_profiles"
    spans = [tuple(span) for span in json.loads((folder / "vllm-0.32.0-cpu-requests.json").read_text())]
    found = judge([folder / "vllm-0.32.0-cpu.json.gz"], spans)
    assert found.missing == ""
    assert found.device is None
    assert found.attribution.steps == 9, "ten are marked, and the first pays for what the others find ready"
    assert found.join.requests == 2
    assert found.join.outside == 0
    assert 0 < found.join.busy < 0.5
    assert found.attribution.layer in (None, Layer.SERVING)
    assert all(each.layer is not Layer.APPLICATION for each in found.attribution.candidates)
    later = [(start + 10**9, end + 10**9) for start, end in spans]
    assert judge([folder / "vllm-0.32.0-cpu.json.gz"], later).attribution is None


def test_without_steps_nobody_is_blamed(tmp_path):
    folder = TRACES.parent / "server_profiles"
    document = json.loads(gzip.decompress((folder / "vllm-0.32.0-cpu.json.gz").read_bytes()))
    document["traceEvents"] = [e for e in document["traceEvents"] if e.get("cat") != "user_annotation"]
    bare = tmp_path / "trace-0.json.gz"
    bare.write_bytes(gzip.compress(json.dumps(document).encode()))
    found = judge([bare], [tuple(s) for s in json.loads((folder / "vllm-0.32.0-cpu-requests.json").read_text())])
    assert found.attribution is None
    assert "no steps are told apart" in found.missing
    assert found.join.outside == 0
