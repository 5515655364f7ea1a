"""Splits from counters that a run kept, as servers name them."""

from __future__ import annotations

import pytest

from lynxbench.attribute.served_split import attribute_serving
from lynxbench.attribute.serving_counted import split_counted
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.layers import DEFAULT_OWNERS, Layer

OWNER = DEFAULT_OWNERS.__getitem__
VLLM = {
    "vllm:e2e_request_latency_seconds_sum": 400.0,
    "vllm:e2e_request_latency_seconds_count": 100.0,
    "vllm:request_queue_time_seconds_sum": 300.0,
    "vllm:request_prefill_time_seconds_sum": 40.0,
    "vllm:request_decode_time_seconds_sum": 60.0,
}


def test_kept_counters_of_vllm_name_demand() -> None:
    split = split_counted(VLLM, client_total_s=4.1, requests=99)
    assert (split.requests, split.network_s) == (100, pytest.approx(0.1))
    said = attribute_serving(split, owner=OWNER)
    assert (said.bottleneck, said.bound, said.layer) == (Category.QUEUEING, Bound.DEMAND, Layer.DEMAND)
    assert said.owner == OWNER(Layer.DEMAND)
    assert sum(said.shares.values()) == pytest.approx(1.0)


def test_triton_statistics_keep_copies_apart_from_inference() -> None:
    counted = {
        "triton_inferences": 10.0,
        "triton_queue_s": 0.1,
        "triton_compute_input_s": 0.2,
        "triton_compute_infer_s": 3.0,
        "triton_compute_output_s": 0.3,
    }
    split = split_counted(counted, client_total_s=0.5, requests=10)
    assert split.queue_s == pytest.approx(0.01)
    assert split.decode_s == pytest.approx(0.3)
    assert split.batching_s == pytest.approx(0.05)
    assert split.network_s == pytest.approx(0.14)


def test_tgi_without_batches_says_that_inference_is_one() -> None:
    counted = {
        "tgi_request_duration_sum": 10.0,
        "tgi_request_duration_count": 10.0,
        "tgi_request_queue_duration_sum": 1.0,
        "tgi_request_inference_duration_sum": 8.0,
    }
    split = split_counted(counted, client_total_s=1.0, requests=10)
    assert (split.prefill_s, split.decode_s) == (0.0, pytest.approx(0.8))
    assert "all of it is shown as decode" in split.approximate[0]


@pytest.mark.parametrize(
    ("counted", "why"),
    [
        ({"process_cpu_seconds_total": 3.0}, "none of the metrics is known"),
        ({"vllm:prompt_tokens_total": 9.0}, "counted none of"),
        ({"triton_inferences": 0.0}, "finished no request"),
    ],
)
def test_counters_that_tell_nothing_are_refused(counted: dict[str, float], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        split_counted(counted, client_total_s=1.0, requests=10)


def test_inference_without_phases_is_not_called_decode() -> None:
    counted = {"triton_inferences": 10.0, "triton_compute_infer_s": 3.0}
    said = attribute_serving(split_counted(counted, client_total_s=0.35, requests=10), owner=OWNER)
    assert (said.bottleneck, said.bound, said.owner) == (Category.UNATTRIBUTED, Bound.UNDETERMINED, None)
    assert "inference takes 86%" in said.sentence
    assert said.candidates[0].layer is Layer.ACCELERATOR
