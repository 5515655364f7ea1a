"""KServe v2 requests and answers, and Triton's counters."""

import json

import numpy as np
import pytest

from lynxbench.engines.kserve import (
    KserveLanguage,
    NamedTensor,
    build_request,
    parse_triton_stats,
    triton_between,
)
from lynxbench.errors import BadInput, BadResult
from lynxbench.load.response_reading import FAILED, OUTPUT
from lynxbench.model.serving import KserveEngine, TensorInput

INPUTS = (TensorInput(name="x", datatype="FP32", shape=(2, 3)),)
HERE = KserveEngine(name="kserve", url="http://h:8000", version="2", inputs=INPUTS)


def split(raw):
    head, _, rest = raw.partition(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return head.split(b"\r\n")[0], fields, rest


def test_json_tensors():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    line, fields, rest = split(
        build_request(
            HERE.model_copy(update={"binary": False, "outputs": ("y",)}),
            "my model",
            [NamedTensor("x", array), NamedTensor("t", ["a", "é"])],
        )
    )
    assert line == b"POST /v2/models/my%20model/versions/2/infer HTTP/1.1"
    assert int(fields[b"Content-Length"]) == len(rest)
    sent = json.loads(rest)
    assert sent["inputs"][0] == {"name": "x", "shape": [2, 3], "datatype": "INT32", "data": [0, 1, 2, 3, 4, 5]}
    assert sent["inputs"][1] == {"name": "t", "shape": [2], "datatype": "BYTES", "data": ["a", "é"]}
    assert sent["outputs"] == [{"name": "y"}]
    assert b"Inference-Header-Content-Length" not in fields


def test_binary_tensors_come_back_as_they_were():
    array = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float16)
    _, fields, rest = split(
        build_request(HERE, "my model", [NamedTensor("x", array.T), NamedTensor("t", ["ab", "é"], shape=(2, 1))])
    )
    length = int(fields[b"Inference-Header-Content-Length"])
    sent = json.loads(rest[:length])
    first, second = sent["inputs"]
    size = first["parameters"]["binary_data_size"]
    raw = rest[length : length + size]
    np.testing.assert_array_equal(np.frombuffer(raw, "<f2").reshape(first["shape"]), array.T)
    assert rest[length + size :] == b"\x02\0\0\0ab\x02\0\0\0\xc3\xa9"
    assert second["shape"] == [2, 1]
    assert sent["parameters"] == {"binary_data_output": True}
    assert int(fields[b"Content-Length"]) == len(rest)


def test_what_cannot_be_sent_is_said():
    as_json = HERE.model_copy(update={"binary": False})
    with pytest.raises(BadInput, match="FP16"):
        build_request(as_json, "my model", [NamedTensor("x", np.zeros(2, dtype=np.float16))])


def test_answers():
    reader = KserveLanguage().reader(False)
    good = b'{"model_name":"m","outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[1.0]}]}'
    assert reader.body(good, -1) == OUTPUT
    binary = b'{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}'
    assert reader.body(binary + b"\0\1\2\3", len(binary)) == OUTPUT
    assert reader.output_tokens == -1
    assert reader.body(b'{"error":"no such model"}', -1) == FAILED
    assert reader.failure == "no such model"
    with pytest.raises(ValueError, match="outputs"):
        reader.body(b"{}", -1)


def stats(count, ns, version="1"):
    part = {
        name: {"count": count, "ns": ns + i}
        for i, name in enumerate(("queue", "compute_input", "compute_infer", "compute_output"))
    }
    inference = {"success": {"count": count, "ns": 10 * ns}, "fail": {"count": 0, "ns": 0}, **part}
    return {
        "name": "m",
        "version": version,
        "inference_count": 4 * count,
        "execution_count": count,
        "inference_stats": inference,
    }


def test_triton_counters_between_two_readings():
    before = parse_triton_stats(json.dumps({"model_stats": [stats(10, 1000)]}).encode(), "m")
    document = json.dumps(
        {"model_stats": [stats(30, 5000), stats(1, 1, "2"), stats(9, 9) | {"name": "other"}]}
    ).encode()
    after = parse_triton_stats(document, "m", "1")
    delta = triton_between(before, after)
    assert (delta["inferences"], delta["executions"], delta["requests"]) == (80, 20, 20)
    assert (delta["queue_ns"], delta["compute_infer_ns"], delta["total_ns"]) == (4000, 4000, 40000)
    assert parse_triton_stats(document, "m")["requests"] == 31
    with pytest.raises(BadResult, match="restarted"):
        triton_between(after, before)
    with pytest.raises(BadResult, match="do not mention"):
        parse_triton_stats(document, "absent")
    with pytest.raises(BadResult, match="not Triton"):
        parse_triton_stats(b"[]", "m")
