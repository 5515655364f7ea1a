"""Calls and answers of the KServe language over gRPC, as bytes."""

import numpy as np
import pytest

from lynxbench.engines.kserve import NamedTensor
from lynxbench.engines.kserve_grpc import GrpcLanguage, build_call, check_answer, language_of_engine
from lynxbench.errors import BadInput
from lynxbench.load import protobuf
from lynxbench.load.hpack import HeaderDecoder
from lynxbench.load.http import Malformed
from lynxbench.load.http2 import MessageSplitter
from lynxbench.load.protobuf import read_fields, unpack_numbers
from lynxbench.load.response_reading import FAILED, NOTHING, OUTPUT
from lynxbench.model.serving import KserveEngine, TensorInput

INPUTS = (TensorInput(name="x", datatype="FP32", shape=(2, 3)),)
HERE = KserveEngine(name="kserve", url="http://h:8001", protocol="grpc", version="2", inputs=INPUTS)


def split(call):
    size = int.from_bytes(call[:4])
    (message,) = MessageSplitter().feed(call[4 + size :])
    return dict(HeaderDecoder().decode(call[4 : 4 + size])), list(read_fields(message))


def output(name="y", datatype="FP32", shape=(1, 2), raw=bytes(8), contents=None):
    entry = protobuf.text(1, name) + protobuf.text(2, datatype) + protobuf.numbers(3, shape)
    if contents is not None:
        entry += protobuf.text(5, contents)
    return protobuf.text(5, entry) + (protobuf.text(6, raw) if raw is not None else b"")


def test_binary_tensors_come_back_as_they_were():
    array = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float16)
    headers, fields = split(build_call(HERE, "m", [NamedTensor("x", array.T), NamedTensor("t", ["ab", "é"], (2, 1))]))
    assert headers[":path"] == "/inference.GRPCInferenceService/ModelInfer"
    assert headers[":authority"] == "h:8001"
    assert [(number, value) for number, value in fields if number < 3] == [(1, b"m"), (2, b"2")]
    first, second = (dict(read_fields(value)) for number, value in fields if number == 5)
    assert (first[1], first[2], unpack_numbers(first[3])) == (b"x", b"FP16", (3, 2))
    assert (second[1], second[2], unpack_numbers(second[3])) == (b"t", b"BYTES", (2, 1))
    raw = [value for number, value in fields if number == 7]
    np.testing.assert_array_equal(np.frombuffer(raw[0], "<f2").reshape(3, 2), array.T)
    assert raw[1] == b"\x02\0\0\0ab\x02\0\0\0\xc3\xa9"


def test_typed_tensors():
    engine = HERE.model_copy(update={"binary": False, "outputs": ("y", "z"), "stream": True})
    values = {
        "FP32": np.array([1.5], np.float32), "FP64": np.array([2.5]), "INT8": np.array([-3], np.int8),
        "UINT64": np.array([2**63], np.uint64), "BOOL": np.array([True]),
    }  # fmt: skip
    headers, fields = split(build_call(engine, "m", [NamedTensor(n, v) for n, v in values.items()]))
    assert headers[":path"].endswith("ModelStreamInfer")
    assert not [value for number, value in fields if number == 7]
    assert [dict(read_fields(value))[1] for number, value in fields if number == 6] == [b"y", b"z"]
    contents = {
        dict(read_fields(value))[2].decode(): dict(read_fields(dict(read_fields(value))[5]))
        for number, value in fields
        if number == 5
    }
    assert np.frombuffer(contents["FP32"][6], "<f4").tolist() == [1.5]
    assert np.frombuffer(contents["FP64"][7], "<f8").tolist() == [2.5]
    assert unpack_numbers(contents["INT8"][2]) == (-3,)
    assert [value % 2**64 for value in unpack_numbers(contents["UINT64"][5])] == [2**63]
    assert unpack_numbers(contents["BOOL"][1]) == (1,)
    with pytest.raises(BadInput, match="FP16 has no typed form"):
        build_call(engine, "m", [NamedTensor("x", np.zeros(1, np.float16))])


def test_the_key_goes_along(monkeypatch):
    monkeypatch.setenv("KSERVE_TEST_KEY", "secret-key-1")
    engine = HERE.model_copy(update={"api_key_env": "KSERVE_TEST_KEY"})
    headers, _ = split(build_call(engine, "m", [NamedTensor("x", np.zeros(1, np.float32))]))
    assert headers["authorization"] == "Bearer secret-key-1"


def test_answers_whose_values_fill_their_shapes():
    reader = GrpcLanguage().reader(keep_text=False)
    for body in (
        output(),
        output("y") + output("z", "INT8", (3,), b"abc"),
        output(datatype="BYTES", shape=(2,), raw=b"\x01\0\0\0a\0\0\0\0"),
        output(raw=None, contents=protobuf.text(6, bytes(8))),
        output(shape=(0, 4), raw=None),
        output(datatype="BF16", shape=(2,), raw=bytes(4)),
        output(datatype="FUTURE", raw=b"any"),
    ):
        reader.begin()
        assert reader.event(body) == OUTPUT
        assert reader.finished
    reader.begin()
    assert reader.event(protobuf.text(1, "m")) == NOTHING


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (output(shape=(1, 3)), r"shape \[1, 3\] of FP32 is 12 bytes, 8 came"),
        (output(shape=(-1, 2)), r"a shape of \[-1, 2\]"),
        (output(raw=None), "without its values"),
        (output() + output(raw=None), "2 outputs with the values of 1"),
        (output(datatype="BYTES", shape=(2,), raw=b"\x01\0\0\0a"), "of texts, 1 came"),
        (output(datatype="BYTES", shape=(1,), raw=b"\x09\0\0\0a"), "of texts"),
        (output() + protobuf.number(6, 5), "a number where a text"),
        (b"\xff\xff", "number without an end"),
    ],
)
def test_answers_that_contradict_themselves_are_malformed(body, said):
    with pytest.raises(Malformed, match=said):
        GrpcLanguage().reader(keep_text=False).event(body)


def test_an_output_that_was_asked_for_must_come():
    assert check_answer(output("y"), ("y",)) == 1
    with pytest.raises(Malformed, match="without the output z"):
        check_answer(output("y"), ("y", "z"))


def test_a_second_answer_to_a_plain_call_is_malformed():
    reader = GrpcLanguage().reader(keep_text=False)
    assert reader.event(output()) == OUTPUT
    with pytest.raises(Malformed, match="second answer"):
        reader.event(output())


def test_streams_answer_several_times_and_say_their_errors():
    engine = HERE.model_copy(update={"stream": True, "outputs": ("y",)})
    reader = language_of_engine(engine).reader(keep_text=False)
    assert reader.event(protobuf.text(2, output())) == reader.event(protobuf.text(2, output())) == OUTPUT
    last = protobuf.text(2, protobuf.text(4, protobuf.text(1, "triton_final_response")))
    assert reader.event(last) == NOTHING
    assert reader.event(protobuf.text(1, "out of memory")) == FAILED
    assert reader.failure == "out of memory"
    reader.begin()
    assert reader.failure == ""
    assert reader.text() == ""


def test_a_stream_over_http_is_refused():
    with pytest.raises(ValueError, match="say protocol: grpc"):
        KserveEngine(name="kserve", url="http://h:8000", stream=True, inputs=INPUTS)
