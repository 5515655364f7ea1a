"""The room's door for served requests: planted phases come back as shares, and what is not told is a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.attribute.attributing import SHOWN_COLUMNS, attribute_requests
from lynxbench.attribute.tile.request_split import SERVERS, TGI_BATCHES
from lynxbench.contract.loader import parse_contract
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import Layer
from lynxbench.model.requests import Requests
from lynxbench.model.samples import Telemetry
from served import served_contract

CONTRACT = parse_contract(served_contract("http://127.0.0.1:8000/v1") + 'owners: {demand: "the product people"}\n')
TRITON = ("triton_queue_s", "triton_compute_input_s", "triton_compute_infer_s", "triton_compute_output_s")
COUNTERS = sorted({
    name
    for server in SERVERS
    for name in (*server.total, *server.queue, *server.prefill, *server.decode, *server.other, *server.first_token)
} | {server.count for server in SERVERS if server.count} | {"triton_inferences", *TRITON, *TGI_BATCHES})  # fmt: skip


def attribute(counted: dict[str, float], *served: Requests, telemetry: Telemetry | None = None) -> Attribution | str:
    return attribute_requests(served, counted, telemetry, engine=CONTRACT.engine.name, owner=CONTRACT.owner)


def answered(latency_ns: np.ndarray, *, every_ns: int = 10_000_000, failed: int = 0, start: int = 10**9) -> Requests:
    """Requests sent at an even pace, each answered after its own time; the last `failed` never were."""
    count = len(latency_ns)
    sent = start + every_ns * np.arange(count, dtype=np.int64)
    ok = np.arange(count) < count - failed
    none = np.zeros(0, dtype=np.int64)
    return Requests(
        start_ns=start,
        load_end_ns=int(sent[-1]) + 1 if count else start,
        scheduled_ns=sent - 1_000_000,  # sent a millisecond late: the client's delay is not the server's time
        sent_ns=sent,
        first_token_ns=np.where(ok, sent + latency_ns // 2, 0),
        last_ns=np.where(ok, sent + latency_ns, 0),
        ok=ok,
        output_tokens=np.full(count, 4),
        input_tokens=np.full(count, 10),
        cached_tokens=np.zeros(count, dtype=np.int64),
        event_row=none,
        event_ns=none,
        gap_row=none,
        gap_s=np.zeros(0),
    )


def vllm(count: int, queue: float, prefill: float, decode: float, rest: float = 0.0) -> dict[str, float]:
    """What vLLM counts for requests with these mean seconds."""
    return {
        "vllm:e2e_request_latency_seconds_sum": count * (queue + prefill + decode + rest),
        "vllm:e2e_request_latency_seconds_count": float(count),
        "vllm:request_queue_time_seconds_sum": count * queue,
        "vllm:request_prefill_time_seconds_sum": count * prefill,
        "vllm:request_decode_time_seconds_sum": count * decode,
    }


def attributed(counted: dict[str, float], *served: Requests, telemetry: Telemetry | None = None) -> Attribution:
    found = attribute(counted, *served, telemetry=telemetry)
    assert isinstance(found, Attribution), found
    return found


@pytest.mark.parametrize(
    ("parts_ms", "bottleneck", "bound", "layer", "owner"),
    [
        ((70, 10, 15, 5), Category.QUEUEING, Bound.DEMAND, Layer.DEMAND, "the product people"),
        ((10, 70, 15, 5), Category.COMPUTE, Bound.UNDETERMINED, None, None),
        ((10, 15, 70, 5), Category.MEMORY_BANDWIDTH, Bound.UNDETERMINED, None, None),
        ((10, 5, 15, 70), Category.NETWORK, Bound.SOFTWARE, Layer.SYSTEM, CONTRACT.owner(Layer.SYSTEM)),
    ],
)
def test_planted_phases_come_back_with_layer_and_owner(
    parts_ms: tuple[int, ...], bottleneck: Category, bound: Bound, layer: Layer | None, owner: str | None
) -> None:
    queue, prefill, decode, network = (ms / 1e3 for ms in parts_ms)
    latency = np.full(200, sum(parts_ms) * 1_000_000)
    found = attributed(vllm(200, queue, prefill, decode), answered(latency[:120]), answered(latency[120:]))
    assert found.shares == {
        Category.QUEUEING: pytest.approx(queue / 0.1),
        Category.COMPUTE: pytest.approx(prefill / 0.1),
        Category.MEMORY_BANDWIDTH: pytest.approx(decode / 0.1),
        Category.NETWORK: pytest.approx(network / 0.1),
    }
    assert (found.bottleneck, found.bound, found.layer, found.owner) == (bottleneck, bound, layer, owner)
    assert (found.steps, found.wall_ms_per_step, found.weak) == (200, pytest.approx(100.0), False)
    most = 1.0 / (1.0 - 0.7)
    assert found.gain_if_removed.high == pytest.approx(most if layer is not None else 1.0), "a ceiling is not removed"


def test_requests_that_failed_lengthen_nothing() -> None:
    """The client's mean is of answered requests only: a row without an answer has no last moment."""
    latency = np.full(50, 100_000_000)
    found = attributed(vllm(40, 0.02, 0.03, 0.04), answered(latency, failed=10))
    assert found.shares[Category.NETWORK] == pytest.approx(0.1)
    assert found.wall_ms_per_step == pytest.approx(100.0)


def test_a_client_that_saw_less_than_the_server_counts_has_no_network() -> None:
    found = attributed(vllm(20, 0.05, 0.05, 0.1), answered(np.full(20, 150_000_000)))
    assert Category.NETWORK not in found.shares
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_what_no_phase_explains_keeps_the_verdict_weak() -> None:
    found = attributed(vllm(50, 0.05, 0.01, 0.01, rest=0.03), answered(np.full(50, 100_000_000)))
    assert found.shares[Category.UNATTRIBUTED] == pytest.approx(0.3)
    assert found.bottleneck is Category.QUEUEING
    assert found.weak


def test_a_server_without_whole_requests_is_held_against_the_client() -> None:
    """llama.cpp counts two phases and no requests: the client's count and latency stand for them."""
    counted = {"llamacpp:prompt_seconds_total": 2.0, "llamacpp:tokens_predicted_seconds_total": 6.0}
    found = attributed(counted, answered(np.full(100, 100_000_000)))
    assert found.shares == {
        Category.COMPUTE: pytest.approx(0.2),
        Category.MEMORY_BANDWIDTH: pytest.approx(0.6),
        Category.UNATTRIBUTED: pytest.approx(0.2),
    }
    assert any("the client's latency stands for them" in line for line in found.evidence)


@pytest.mark.parametrize(
    ("counted", "served", "why"),
    [
        ({}, [answered(np.full(9, 10**8))], "engine openai is not profiled from outside"),
        (vllm(9, 0.1, 0.1, 0.1), [answered(np.full(9, 10**8), failed=9)], "no request was answered"),
        ({"process_cpu_seconds_total": 3.0}, [answered(np.full(9, 10**8))], "none of the metrics is known"),
        ({"vllm:prompt_tokens_total": 3.0}, [answered(np.full(9, 10**8))], "counted none of"),
        (vllm(9, 0.0, 0.0, 0.0), [answered(np.zeros(9, dtype=np.int64))], "counts no time"),
    ],
)
def test_without_the_servers_word_the_reason_stands_instead(
    counted: dict[str, float], served: list[Requests], why: str
) -> None:
    found = attribute(counted, *served)
    assert isinstance(found, str)
    assert why in found


def test_telemetry_that_moves_with_latency_is_named_the_closest_first() -> None:
    chance = np.random.default_rng(7)
    count = 600
    wave = np.sin(np.arange(count) / 9.0) + 0.3 * chance.standard_normal(count)
    latency = (100_000_000 * (1.0 + 0.2 * wave)).astype(np.int64)
    served = answered(latency, every_ns=100_000_000)
    columns = {f"hot{n}": wave + noise * chance.standard_normal(count) for n, noise in enumerate((0.05, 0.2, 0.4, 0.6))}
    columns["unrelated"] = chance.standard_normal(count)
    found = attributed(vllm(count, 0.0, 0.02, 0.08), served, telemetry=Telemetry(at_ns=served.sent_ns, columns=columns))
    lines = [line for line in found.evidence if line.startswith("telemetry: ")]
    assert len(lines) == SHOWN_COLUMNS
    assert [line.split()[1] for line in lines] == ["hot0", "hot1", "hot2"]
    plain = attributed(vllm(count, 0.0, 0.02, 0.08), served)
    assert plain.evidence == found.evidence[: -len(lines)], "telemetry adds words and changes no share"
    assert plain.shares == found.shares


milliseconds = st.integers(0, 60_000)


@given(parts_ms=st.tuples(*[milliseconds] * 5).filter(any), count=st.integers(5, 400))
def test_any_split_comes_back_and_sums_to_one(parts_ms: tuple[int, ...], count: int) -> None:
    queue, prefill, decode, rest, network = (ms / 1e3 for ms in parts_ms)
    whole = sum(parts_ms) / 1e3
    found = attributed(vllm(count, queue, prefill, decode, rest), answered(np.full(count, sum(parts_ms) * 10**6)))
    truth = {
        Category.QUEUEING: queue,
        Category.COMPUTE: prefill,
        Category.MEMORY_BANDWIDTH: decode,
        Category.UNATTRIBUTED: rest,
        Category.NETWORK: network,
    }
    for category, seconds in truth.items():
        assert found.shares.get(category, 0.0) == pytest.approx(seconds / whole, abs=1e-9)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.shares[found.bottleneck] == pytest.approx(max(truth.values()) / whole)
    assert found.wall_ms_per_step == pytest.approx(whole * 1e3)


@given(
    counted=st.dictionaries(st.sampled_from(COUNTERS), st.floats(0, 1e7), max_size=12),
    latency_ms=st.lists(milliseconds, min_size=1, max_size=40),
)
def test_whatever_a_server_counts_no_time_is_lost_or_invented(counted: dict[str, float], latency_ms: list[int]) -> None:
    """Phases that contradict the whole, missing sums, another server's names: shares of one whole, or a sentence."""
    served = answered(np.array(latency_ms, dtype=np.int64) * 10**6)
    found = attribute(counted, served)
    if isinstance(found, str):
        assert len(found) > 20
        return
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert all(0.0 <= share <= 1.0 + 1e-9 for share in found.shares.values())
    assert found.bottleneck in found.shares
    assert found.gain_if_removed.low >= 1.0
