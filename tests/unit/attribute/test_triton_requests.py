"""Triton's trace files, written as the server documents them, with known truth: phases in microseconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import analyse, attribute, is_doubted, is_open, refusal
from lynxbench.attribute.attributing import TraceSettings, analyse_trace
from lynxbench.attribute.read.triton_requests import read_requests
from lynxbench.attribute.tile.traced_requests import split_traced
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.layers import Layer

Entries = list[dict[str, Any]]

BASE_NS = 2_356_425_054_587_444
HTTP = (
    ("HTTP_RECV_START", 0),
    ("HTTP_RECV_END", 40),
    ("REQUEST_START", 50),
    ("QUEUE_START", 50),
    ("INFER_RESPONSE_COMPLETE", 940),
    ("COMPUTE_START", 650),
    ("COMPUTE_INPUT_END", 700),
    ("COMPUTE_OUTPUT_START", 900),
    ("COMPUTE_END", 930),
    ("REQUEST_END", 950),
    ("HTTP_SEND_START", 960),
    ("HTTP_SEND_END", 1000),
)
"""600 of 1000 µs in the queue, 200 in the model, 80 in copies around it, 80 on the wire, 40 nobody's."""
MEAN_US = {"queueing": 600, "inference": 200, "batching": 80, "transport": 80, "unexplained": 40}


def request(number: int, stamps: tuple[tuple[str, int], ...], at_us: int = 0, **about: Any) -> Entries:
    named: dict[str, Any] = {"id": number, "model_name": "simple", "model_version": 1, "request_id": "", **about}
    marks = [{"id": number, "timestamps": [{"name": name, "ns": BASE_NS + (at_us + us) * 1000}]} for name, us in stamps]
    return [named, *marks]


def many(count: int = 8) -> Entries:
    return [entry for i in range(count) for entry in request(i + 1, HTTP, 5_000 * i)]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[object], Path]:
    def write(content: object) -> Path:
        path = tmp_path / "trace.json.0"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


def phases_us(path: Path) -> dict[str, float]:
    return {phase: seconds * 1e6 for phase, seconds in split_traced(read_requests(path)).seconds.items()}


def test_a_queue_that_takes_most_is_demand_s(write: Callable[..., Path]) -> None:
    path = write(many())
    assert phases_us(path) == pytest.approx(MEAN_US)
    said = attribute(path)
    assert (said.bottleneck, said.bound, said.layer) == (Category.QUEUEING, Bound.DEMAND, Layer.DEMAND)
    assert said.steps == 8
    assert said.wall_ms_per_step == pytest.approx(1.0)
    assert said.shares[Category.QUEUEING] == pytest.approx(0.6)
    assert sum(said.shares.values()) == pytest.approx(1.0)
    assert any("Triton's own trace of single requests" in line for line in said.evidence)
    assert any("which share of them, the file does not say" in line for line in said.evidence)


def test_a_model_that_takes_most_is_nobody_s_yet(write: Callable[..., Path]) -> None:
    stamps = tuple((name, {"COMPUTE_START": 60, "COMPUTE_INPUT_END": 70}.get(name, us)) for name, us in HTTP)
    said = attribute(write([e for i in range(6) for e in request(i, stamps, 3_000 * i)]))
    assert (said.bottleneck, said.bound) == (Category.UNATTRIBUTED, Bound.UNDETERMINED)
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.87)
    assert (said.layer, said.owner) == (None, None)


def test_grpc_has_no_stamp_for_receiving(write: Callable[..., Path]) -> None:
    stamps = (
        ("GRPC_WAITREAD_START", 0),
        ("GRPC_WAITREAD_END", 5_000),
        ("REQUEST_START", 5_010),
        ("QUEUE_START", 5_010),
        ("COMPUTE_START", 5_110),
        ("COMPUTE_END", 5_910),
        ("REQUEST_END", 5_910),
        ("GRPC_SEND_START", 5_920),
        ("GRPC_SEND_END", 6_000),
    )
    found = phases_us(write(request(1, stamps)))
    expected = {"queueing": 100, "inference": 800, "batching": 0, "transport": 80, "unexplained": 20}
    assert found == pytest.approx(expected)


def test_the_models_of_an_ensemble_are_its_phases_and_counted_once(write: Callable[..., Path]) -> None:
    """Two models side by side: the second waits in its queue while the first computes."""
    parent = (("REQUEST_START", 0), ("QUEUE_START", 0), ("REQUEST_END", 1_000))
    first = (("QUEUE_START", 100), ("COMPUTE_START", 200), ("COMPUTE_END", 600), ("REQUEST_START", 100))
    second = (("QUEUE_START", 100), ("COMPUTE_START", 500), ("COMPUTE_END", 900), ("REQUEST_END", 900))
    entries = [
        *request(1, parent, model_name="ensemble"),
        *request(2, first, parent_id=1, model_name="tokenise"),
        *request(3, second, parent_id=1, model_name="encode"),
    ]
    path = write(entries)
    split = split_traced(read_requests(path))
    assert split.requests == 1
    expected = {"queueing": 100, "inference": 700, "batching": 0, "transport": 0, "unexplained": 200}
    assert phases_us(path) == pytest.approx(expected)


def test_tensors_and_stamps_of_unknown_names_are_no_phases(write: Callable[..., Path]) -> None:
    entries = many()
    tensor = {"name": "input", "data": '"a",1', "shape": "1,2", "dtype": "FP32"}
    entries[3:3] = [{"id": 1, "activity": "TENSOR_QUEUE_INPUT", "tensor": tensor}]
    entries.append({"id": 1, "timestamps": [{"name": "CUSTOM_ACTIVITY", "ns": 1}]})
    assert phases_us(write(entries)) == pytest.approx(MEAN_US)


def test_answers_that_come_in_pieces_count_to_the_last(write: Callable[..., Path]) -> None:
    entries = request(1, (*HTTP, ("HTTP_SEND_END", 2_000), ("HTTP_SEND_START", 1_900)))
    assert phases_us(write(entries))["transport"] == pytest.approx(80 + 1_000)


def test_models_together_are_said(write: Callable[..., Path]) -> None:
    entries = [e for i in range(6) for e in request(i, HTTP, 5_000 * i, model_name=f"model {i % 2}")]
    said = attribute(write(entries))
    assert any("model 0 3, model 1 3" in line for line in said.evidence)


def test_a_trace_that_a_running_server_has_not_closed_blames_nobody(write: Callable[..., Path]) -> None:
    text = json.dumps(many()).encode()
    for share in (0.35, 0.7, 0.97):
        is_doubted(write(text[: int(len(text) * share)]))
    is_doubted(write(text[:-1]))


def changed(change: Callable[[Entries], object]) -> Entries:
    entries = many()
    change(entries)
    return entries


DAMAGED: dict[str, object] = {
    "a clock that jumps back": changed(lambda e: e[6]["timestamps"][0].update(ns=BASE_NS)),
    "stamps beyond any clock": changed(lambda e: e[6]["timestamps"][0].update(ns=10**40)),
    "negative stamps": changed(lambda e: e[6]["timestamps"][0].update(ns=-5)),
    "stamps in words": changed(lambda e: e[6]["timestamps"][0].update(ns="soon")),
    "ids in words": changed(lambda e: e[0].update(id="first")),
    "requests without end": [e for e in many() if "REQUEST_END" not in json.dumps(e) or e["id"] > 4],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_traces_blame_nobody(name: str, write: Callable[..., Path]) -> None:
    is_doubted(write(DAMAGED[name]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([{"id": 1, "model_name": "simple", "model_version": 1}], "level=TIMESTAMPS"),
        ([{"id": 1, "activity": "TENSOR_QUEUE_INPUT", "tensor": {}}], "level=TIMESTAMPS"),
        (request(1, HTTP[:4]), "no request has a beginning and an end"),
        (request(2, HTTP, parent_id=1), "no request has a beginning and an end"),
        (b'[{"id":1,"timestamps":[{"name":"REQUEST_START","ns":' + b"9" * 5_000 + b"}]}]", "level=TIMESTAMPS"),
    ],
)
def test_what_holds_no_request_is_refused(content: object, words: str, write: Callable[..., Path]) -> None:
    assert words in refusal(write(content))


def test_requests_that_hold_each_other_end(write: Callable[..., Path]) -> None:
    entries = [*many(), *request(20, HTTP, parent_id=21), *request(21, HTTP, parent_id=20)]
    assert phases_us(write(entries)) == pytest.approx(MEAN_US)


def test_an_ensemble_of_thousands_takes_no_thousand_times_as_long(write: Callable[..., Path]) -> None:
    entries = request(0, (("REQUEST_START", 0), ("REQUEST_END", 20_001)))
    for i in range(10_000):
        entries += request(i + 1, (("COMPUTE_START", 2 * i), ("COMPUTE_END", 2 * i + 1)), parent_id=0)
    assert phases_us(write(entries))["inference"] == pytest.approx(10_000)


def test_few_requests_are_weak(write: Callable[..., Path]) -> None:
    analysis = analyse(write(many(2)))
    assert analysis.attribution.weak
    assert analysis.account.unit == "request"


def test_perfetto_has_nothing_to_show(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no timeline"):
        analyse_trace(write(many()), TraceSettings(), perfetto=tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_a_damaged_trace_names_no_suspects(write: Callable[..., Path]) -> None:
    said = attribute(write(DAMAGED["a clock that jumps back"]))
    is_open(said)
    assert "trace again" in said.next_step
