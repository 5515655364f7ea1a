"""Requests split by what servers counted during a run: names as the servers export them."""

from __future__ import annotations

import pytest

from lynxbench.attribute.judge.served_requests import judge_phases
from lynxbench.attribute.say.verdict_lines import say_requests
from lynxbench.attribute.tile.request_split import TGI_BATCHES, RequestSplit, split_requests
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.stats.lagged_correlation import Correlation

OWNER = DEFAULT_OWNERS.__getitem__


def vllm(count: int, e2e: float, queue: float, prefill: float, decode: float) -> dict[str, float]:
    return {
        "vllm:e2e_request_latency_seconds_count": float(count),
        "vllm:e2e_request_latency_seconds_sum": e2e,
        "vllm:request_queue_time_seconds_sum": queue,
        "vllm:request_prefill_time_seconds_sum": prefill,
        "vllm:request_decode_time_seconds_sum": decode,
    }


def split(counted: dict[str, float], client_s: float = 0.0, requests: int = 10) -> RequestSplit:
    return split_requests(counted, client_s=client_s, requests=requests)


def judge(counted: dict[str, float], client_s: float = 0.0) -> Attribution:
    parts = split(counted, client_s)
    attribution = say_requests(parts, judge_phases(parts), owner=OWNER)
    assert sum(attribution.shares.values()) == pytest.approx(1.0)
    return attribution


def test_decode_dominates_as_on_a_real_server() -> None:
    # The figures of a real run: 44 requests, 758 s, queue 0.002, prefill 213, decode 528, and 17 s in no phase.
    attribution = judge(vllm(44, 758.0, 0.002, 213.0, 528.0))
    assert (attribution.bottleneck, attribution.bound) == (Category.MEMORY_BANDWIDTH, Bound.UNDETERMINED)
    assert attribution.owner is None
    assert attribution.shares[Category.UNATTRIBUTED] == pytest.approx(17 / 758, abs=1e-3)
    assert "points to layer accelerator" in attribution.sentence
    assert attribution.candidates[0].layer is Layer.ACCELERATOR


def test_queueing_is_demands() -> None:
    parts = split(vllm(100, 400.0, 300.0, 40.0, 60.0), client_s=4.1, requests=99)
    assert (parts.requests, parts.seconds["network"]) == (100, pytest.approx(0.1))
    attribution = say_requests(parts, judge_phases(parts), owner=OWNER)
    assert (attribution.bottleneck, attribution.bound) == (Category.QUEUEING, Bound.DEMAND)
    assert (attribution.layer, attribution.owner) == (Layer.DEMAND, OWNER(Layer.DEMAND))
    assert attribution.symptom_layer is Layer.SERVING
    assert attribution.shares[Category.NETWORK] == pytest.approx(0.1 / 4.1)
    assert Layer.SERVING in {candidate.layer for candidate in attribution.candidates}
    assert not attribution.weak


def test_a_slow_path_to_the_server_is_seen_by_the_client() -> None:
    attribution = judge(vllm(50, 50.0, 0.0, 20.0, 30.0), client_s=5.0)
    assert (attribution.bottleneck, attribution.layer) == (Category.NETWORK, Layer.SYSTEM)


def test_sglang_phases_are_derived_and_said() -> None:
    parts = split(
        {
            "sglang:e2e_request_latency_seconds_sum": 100.0,
            "sglang:e2e_request_latency_seconds_count": 20.0,
            "sglang:time_to_first_token_seconds_sum": 30.0,
            "sglang:queue_time_seconds_sum": 10.0,
        }
    )
    assert (parts.server, parts.seconds["queueing"], parts.seconds["prefill"], parts.seconds["decode"]) == (
        "SGLang",
        0.5,
        1.0,
        3.5,
    )
    assert parts.seconds["unexplained"] == pytest.approx(0.0)
    assert len(parts.approximate) == 2


TGI = {
    "tgi_request_duration_sum": 100.0,
    "tgi_request_duration_count": 10.0,
    "tgi_request_queue_duration_sum": 10.0,
    "tgi_request_validation_duration_sum": 5.0,
    "tgi_request_inference_duration_sum": 80.0,
}


def test_tgi_divides_inference_as_its_batches_were() -> None:
    parts = split(TGI | dict(zip(TGI_BATCHES, (1.0, 3.0), strict=True)))
    assert (parts.seconds["prefill"], parts.seconds["decode"], parts.seconds["batching"]) == (2.0, 6.0, 0.5)
    assert parts.seconds["unexplained"] == pytest.approx(0.5)


def test_tgi_without_batches_says_that_inference_is_one() -> None:
    parts = split(TGI)
    assert (parts.seconds["prefill"], parts.seconds["decode"]) == (0.0, pytest.approx(8.0))
    assert "all of it is shown as decode" in parts.approximate[0]


def test_llama_cpp_needs_the_client_for_whole_requests() -> None:
    counted = {"llamacpp:prompt_seconds_total": 4.0, "llamacpp:tokens_predicted_seconds_total": 12.0}
    parts = split(counted, client_s=2.0, requests=10)
    assert (parts.seconds["prefill"], parts.seconds["decode"], parts.seconds["unexplained"]) == pytest.approx(
        (0.4, 1.2, 0.4)
    )
    with pytest.raises(BadInput, match="finished no request"):
        split(counted, requests=0)


TRITON = {
    "triton_inferences": 40.0,
    "triton_requests": 10.0,
    "triton_total_s": 5.0,
    "triton_queue_s": 0.1,
    "triton_compute_input_s": 0.2,
    "triton_compute_infer_s": 3.0,
    "triton_compute_output_s": 0.3,
}


def test_triton_statistics_keep_copies_apart_from_inference() -> None:
    parts = split(TRITON, client_s=0.6)
    assert parts.requests == 10, "a request of four rows is four inferences, and one request"
    expected = {
        "queueing": 0.01,
        "prefill": 0.0,
        "inference": 0.3,
        "batching": 0.05,
        "network": 0.1,
        "unexplained": 0.14,
    }
    assert parts.seconds == pytest.approx(expected)


def test_triton_statistics_of_earlier_runs_still_split() -> None:
    """They kept neither requests nor their whole time; their results must verify all the same."""
    kept = {name: value for name, value in TRITON.items() if name not in ("triton_requests", "triton_total_s")}
    parts = split(kept | {"triton_inferences": 10.0}, client_s=0.5)
    expected = {
        "queueing": 0.01,
        "prefill": 0.0,
        "inference": 0.3,
        "batching": 0.05,
        "network": 0.14,
        "unexplained": 0.0,
    }
    assert parts.seconds == pytest.approx(expected)
    assert "its front end included" in parts.approximate[1]


def test_tritons_statistics_and_metrics_agree() -> None:
    metrics = {
        "nv_inference_request_success": 10.0,
        "nv_inference_request_duration_us": 5.0e6,
        "nv_inference_queue_duration_us": 0.1e6,
        "nv_inference_compute_infer_duration_us": 3.0e6,
        "nv_inference_compute_input_duration_us": 0.2e6,
        "nv_inference_compute_output_duration_us": 0.3e6,
    }
    ours, theirs = split(TRITON, client_s=0.6).seconds, split(metrics, client_s=0.6).seconds
    assert ours["inference"] == pytest.approx(theirs["decode"])
    for phase in ("network", "queueing", "batching", "unexplained"):
        assert ours[phase] == pytest.approx(theirs[phase]), phase


def test_inference_without_phases_is_not_called_decode() -> None:
    attribution = judge({"triton_inferences": 10.0, "triton_compute_infer_s": 3.0}, client_s=0.35)
    assert (attribution.bottleneck, attribution.bound) == (Category.UNATTRIBUTED, Bound.UNDETERMINED)
    assert attribution.owner is None
    assert "inference takes 86%" in attribution.sentence
    assert attribution.candidates[0].layer is Layer.ACCELERATOR


@pytest.mark.parametrize(
    ("lag_s", "words"),
    [(3.0, "rises with the latency of requests, 3 s after it"), (-4.0, "4 s before"), (0.0, "at the same")],
)
def test_telemetry_that_moves_with_requests_is_said_with_its_order_in_time(lag_s: float, words: str) -> None:
    parts = split(vllm(50, 100, 10, 20, 70))
    moving = (Correlation("power", 0.9, lag_s, 60), Correlation("clock", -0.8, 0.0, 60))
    *_, power, clock = say_requests(parts, judge_phases(parts), moving, owner=OWNER).evidence
    assert words in power
    assert clock == "telemetry: clock falls with the latency of requests, at the same time (r -0.80, 60 bins)"


def test_few_requests_and_level_phases_are_weak() -> None:
    assert judge(vllm(2, 10, 9, 1, 0)).weak
    level = judge(vllm(50, 100, 34, 33, 33))
    assert level.weak
    assert level.bound is Bound.UNDETERMINED


def test_phases_beyond_the_requests_are_scaled_and_said() -> None:
    parts = split(vllm(10, 10, 0, 10, 10))
    assert parts.seconds["prefill"] + parts.seconds["decode"] == pytest.approx(1.0)
    assert any("scaled" in text for text in parts.approximate)


@pytest.mark.parametrize(
    ("counted", "why"),
    [
        ({}, "none of the metrics is known"),
        ({"process_cpu_seconds_total": 3.0}, "none of the metrics is known"),
        ({"vllm:prompt_tokens_total": 9.0}, "counted none of"),
        ({"triton_inferences": 0.0}, "finished no request"),
    ],
)
def test_counters_that_tell_nothing_are_refused(counted: dict[str, float], why: str) -> None:
    with pytest.raises(BadInput, match=why) as caught:
        split(counted)
    assert "\n" not in str(caught.value)
