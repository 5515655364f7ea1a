"""Requests split by servers' own metrics: names as the servers export them."""

from __future__ import annotations

import json

import pytest

from lynxbench.attribute.prometheus import parse_prometheus, subtract
from lynxbench.attribute.served_split import attribute_serving, split_requests, split_triton
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import DEFAULT_OWNERS, Layer

OWNER = DEFAULT_OWNERS.__getitem__


def vllm(count: int, e2e: float, queue: float, prefill: float, decode: float) -> str:
    label = '{engine="0",model_name="m"}'
    return f"""# HELP vllm:e2e_request_latency_seconds Histogram of e2e request latency in seconds.
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="0.3",model_name="m"}} {count}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {count}
vllm:e2e_request_latency_seconds_count{label} {count}
vllm:e2e_request_latency_seconds_sum{label} {e2e}
vllm:request_queue_time_seconds_sum{label} {queue}
vllm:request_prefill_time_seconds_sum{label} {prefill}
vllm:request_decode_time_seconds_sum{label} {decode}
vllm:num_requests_waiting{label} 0.0
"""


def judge(before: str, after: str, client: float | None = None) -> Attribution:
    said = attribute_serving(split_requests(before, after, client_total_s=client), owner=OWNER)
    assert sum(said.shares.values()) == pytest.approx(1.0)
    return said


def test_decode_dominates_as_on_a_real_server() -> None:
    # The figures of a real run: 44 requests, 758 s, queue 0.002, prefill 213, decode 528, and 17 s in no phase.
    said = judge(vllm(0, 0, 0, 0, 0), vllm(44, 758.0, 0.002, 213.0, 528.0))
    assert (said.bottleneck, said.bound, said.owner) == (Category.MEMORY_BANDWIDTH, Bound.UNDETERMINED, None)
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(17 / 758, abs=1e-3)
    assert "points to layer accelerator" in said.sentence
    assert any("network is not in the split" in line for line in said.evidence)
    assert said.candidates[0].layer is Layer.ACCELERATOR


def test_queueing_is_demands() -> None:
    said = judge(vllm(10, 5, 1, 2, 2), vllm(110, 405.0, 301.0, 42.0, 62.0), client=4.1)
    assert (said.bottleneck, said.bound, said.layer) == (Category.QUEUEING, Bound.DEMAND, Layer.DEMAND)
    assert said.symptom_layer is Layer.SERVING
    assert said.shares[Category.NETWORK] == pytest.approx(0.1 / 4.1)
    assert Layer.SERVING in {candidate.layer for candidate in said.candidates}
    assert not said.weak


def test_a_slow_path_to_the_server_is_seen_by_the_client() -> None:
    said = judge(vllm(0, 0, 0, 0, 0), vllm(50, 50.0, 0.0, 20.0, 30.0), client=5.0)
    assert (said.bottleneck, said.layer) == (Category.NETWORK, Layer.SYSTEM)


def test_sglang_phases_are_derived_and_said() -> None:
    text = """sglang:e2e_request_latency_seconds_sum{model_name="m"} 100
sglang:e2e_request_latency_seconds_count{model_name="m"} 20
sglang:time_to_first_token_seconds_sum{model_name="m"} 30
sglang:queue_time_seconds_sum{model_name="m"} 10
"""
    split = split_requests("", text)
    assert (split.server, split.queue_s, split.prefill_s, split.decode_s) == ("SGLang", 0.5, 1.0, 3.5)
    assert split.unexplained_s == pytest.approx(0.0)
    assert len(split.approximate) == 2


def test_tgi_divides_inference_as_its_batches_were() -> None:
    text = """tgi_request_duration_sum 100
tgi_request_duration_count 10
tgi_request_queue_duration_sum 10
tgi_request_validation_duration_sum 5
tgi_request_inference_duration_sum 80
tgi_batch_inference_duration_sum{method="prefill"} 1
tgi_batch_inference_duration_sum{method="decode"} 3
"""
    split = split_requests("", text)
    assert (split.prefill_s, split.decode_s, split.batching_s) == (2.0, 6.0, 0.5)
    assert split.unexplained_s == pytest.approx(0.5)


def test_llama_cpp_needs_the_client_for_whole_requests() -> None:
    text = "llamacpp:prompt_seconds_total 4\nllamacpp:tokens_predicted_seconds_total 12\n"
    split = split_requests("", text, client_total_s=2.0, requests=10)
    assert (split.prefill_s, split.decode_s, split.unexplained_s) == pytest.approx((0.4, 1.2, 0.4))
    with pytest.raises(BadInput, match="finished no request"):
        split_requests("", text)


def triton(count: int, total: int, queue: int, infer: int, copies: int) -> str:
    parts = {"success": total, "queue": queue, "compute_infer": infer, "compute_input": copies, "compute_output": 0}
    stats = {name: {"count": count, "ns": ns} for name, ns in parts.items()}
    return json.dumps({"model_stats": [{"name": "m", "version": "1", "inference_stats": stats}]})


def test_triton_statistics_and_metrics_agree() -> None:
    split = split_triton(triton(10, 10**9, 0, 10**9, 0), triton(110, 21 * 10**9, 12 * 10**9, 7 * 10**9, 10**9))
    text = """nv_inference_request_success{model="m"} 100
nv_inference_request_duration_us{model="m"} 20000000
nv_inference_queue_duration_us{model="m"} 12000000
nv_inference_compute_infer_duration_us{model="m"} 6000000
nv_inference_compute_input_duration_us{model="m"} 1000000
nv_inference_compute_output_duration_us{model="m"} 0
"""
    other = split_requests("", text)
    for part in ("total_s", "queue_s", "decode_s", "batching_s", "unexplained_s"):
        assert getattr(split, part) == pytest.approx(getattr(other, part)), part
    assert attribute_serving(split, owner=OWNER).bound is Bound.DEMAND


def test_few_requests_and_level_phases_are_weak() -> None:
    assert judge("", vllm(2, 10, 9, 1, 0)).weak
    level = judge("", vllm(50, 100, 34, 33, 33))
    assert level.weak
    assert level.bound is Bound.UNDETERMINED


def test_phases_beyond_the_requests_are_scaled_and_said() -> None:
    split = split_requests("", vllm(10, 10, 0, 10, 10))
    assert split.prefill_s + split.decode_s == pytest.approx(1.0)
    assert any("scaled" in text for text in split.approximate)


@pytest.mark.parametrize("text", ["", "# nothing\n", "http_requests_total 5\n", "broken {{{ 5\n", "vllm:x NaN\n"])
def test_texts_without_known_metrics_are_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        split_requests(text, text)
    assert "\n" not in str(caught.value)


def test_a_restart_between_scrapes_is_refused() -> None:
    with pytest.raises(BadInput, match="restarted"):
        split_requests(vllm(50, 100, 1, 2, 3), vllm(5, 10, 1, 2, 3))


@pytest.mark.parametrize("text", ["", "[]", '{"model_stats": []}', '{"model_stats": [{"inference_stats": 5}]}'])
def test_foreign_statistics_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        split_triton(text, text)


def test_labels_with_braces_commas_and_quotes() -> None:
    text = 'a_total{path="/x,{y}",q="say \\"hi\\"",le_="1"} 3 1700000000\na_total{path="z"} 4\nh_bucket{le="+Inf"} 2\n'
    found = parse_prometheus(text)
    assert found.totals["a_total"] == 7
    assert found.buckets["h"] == {float("inf"): 2.0}
    grown, restarted = subtract(found, parse_prometheus("a_total 5\n"))
    assert grown.totals["a_total"] == 2
    assert not restarted
