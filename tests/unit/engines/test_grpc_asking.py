"""Questions over gRPC to a server whose answers are known."""

import json
import socket

import numpy as np
import pytest

from lynxbench.engines.grpc_asking import (
    ask_inference,
    is_ready,
    named_model,
    parse_metadata,
    parse_model,
    statistics_document,
    tell,
)
from lynxbench.engines.kserve import NamedTensor, parse_triton_stats
from lynxbench.engines.kserve_grpc import build_call
from lynxbench.errors import CannotRun
from lynxbench.load import protobuf
from lynxbench.load.ground_truth import Behaviour
from lynxbench.model.serving import KserveEngine, TensorInput, Timeouts
from truth_thread import truth_in_thread


def engine_at(url, **options):
    inputs = (TensorInput(name="x", datatype="FP32", shape=(1,)),)
    return KserveEngine(name="kserve", url=url, protocol="grpc", inputs=inputs, **options)


def ask(engine):
    ask_inference(engine, build_call(engine, "m", [NamedTensor("x", np.zeros(1, np.float32))]))


def closed_port():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return closed.getsockname()[1]


def test_a_server_tells_of_itself_and_of_its_model():
    with truth_in_thread(Behaviour()) as (url, _):
        engine = engine_at(url)
        ask(engine)
        ask(engine_at(url, stream=True))
        assert is_ready(engine, timeout_s=600)
        assert parse_metadata(tell(engine, "ServerMetadata"))["name"] == "ground-truth"
        model = parse_model(tell(engine, "ModelMetadata", named_model("m", "1")))
        assert model["name"] == "m"
        assert model["outputs"] == [{"name": "output", "datatype": "FP32", "shape": [1]}]
        stats = parse_triton_stats(statistics_document(tell(engine, "ModelStatistics", named_model("m", None))), "m")
        assert stats["requests"] == stats["inferences"] == 2
        assert stats["compute_infer_ns"] == stats["total_ns"] > 0
        assert tell(engine, "Absent").startswith("Absent: gRPC status 12 UNIMPLEMENTED")


def test_metadata_keeps_open_shapes():
    tensor = protobuf.text(1, "x") + protobuf.text(2, "FP32") + protobuf.numbers(3, (-1, 4))
    data = protobuf.text(1, "m") + protobuf.text(2, "1") + protobuf.text(2, "2") + protobuf.text(4, tensor)
    model = parse_model(data)
    assert model["versions"] == ["1", "2"]
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert json.loads(json.dumps(model)) == model


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (Behaviour(http500=1), "gRPC status 13 INTERNAL: a fault on demand"),
        (Behaviour(drop=1), r"is this the server's gRPC port\?"),
        (Behaviour(wrong=1, fault="shape"), "the answer cannot be read: output output: shape"),
        (Behaviour(wrong=1, fault="empty"), "the answer has no output"),
    ],
)
def test_what_is_wrong_with_a_server_is_said_in_one_line(behaviour, said):
    with truth_in_thread(behaviour) as (url, _), pytest.raises(CannotRun, match=said) as error:
        ask(engine_at(url))
    assert "\n" not in str(error.value)


def test_an_error_within_a_stream_is_the_servers_failure():
    behaviour, said = Behaviour(wrong=1, fault="error-event"), "the server fails: a fault on demand"
    with truth_in_thread(behaviour) as (url, _), pytest.raises(CannotRun, match=said):
        ask(engine_at(url, stream=True))


def test_nobody_listens_or_answers():
    engine = engine_at(f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(CannotRun, match="is it running"):
        ask(engine)
    assert not is_ready(engine, timeout_s=1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = engine_at(f"http://127.0.0.1:{silent.getsockname()[1]}", timeouts=Timeouts(first_byte="200 ms"))
        with pytest.raises(CannotRun, match=r"no answer within 0\.2 s"):
            ask(slow)
        assert tell(slow, "ServerLive", timeout_s=0.2) == "ServerLive: no answer within 0.2 s"
