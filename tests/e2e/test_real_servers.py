"""The driver and its languages against servers that people run: llama.cpp with SmolLM2-135M, and Triton.

The servers share the machine with the client and with whatever else runs there. So every request is accounted for, and
times are held against the server's own account of the same requests; that any of them is quick is asked of nobody.
"""

import json
import urllib.request

import numpy as np
import pytest

from lynxbench.engines.kserve import KserveLanguage, NamedTensor, parse_triton_stats, triton_between
from lynxbench.engines.kserve import build_request as build_inference
from lynxbench.engines.openai import Dialect, Endpoint, OpenAiLanguage, OpenAiReader, Service, build_body, build_request
from lynxbench.load.driver import run_probe
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, parse_target
from lynxbench.load.response_reading import NOTHING, OUTPUT, PlainRotation
from lynxbench.load.send_schedule import constant
from lynxbench.model.serving import KserveEngine, TensorInput

pytestmark = [pytest.mark.servers, pytest.mark.slow]

TOKENS = 4
PROMPTS = (
    "Name three rivers in Europe and the cities on their banks.",
    "Explain to a child why the sky is blue.",
    "Write two sentences about a lynx in the snow.",
    "What should one check before buying an old bicycle?",
)


class WatchedReader(OpenAiReader):
    """The engine's reader, which also keeps what the server says of itself."""

    def __init__(self, watch):
        super().__init__(keep_text=True)
        self.watch = watch

    def event(self, data):
        what = super().event(data)
        self.watch.kinds.append(what)
        if data != b"[DONE]":
            said = json.loads(data)
            if said.get("timings"):
                self.watch.timings.append(said["timings"])
        return what


class Watch:
    """A language for one process that remembers every event's reading and the server's timings."""

    def __init__(self):
        self.kinds = []
        self.timings = []

    def reader(self, keep_text):
        return WatchedReader(self)


def service_of(server, **options):
    defaults = {"dialect": Dialect.LLAMACPP, "bypass_cache": True, "extra": {"seed": 7}}
    return Service(url=f"{server.url}/v1", model="smollm2", **(defaults | options))


def drive(service, load, *, language=None, prompts=PROMPTS, tokens=TOKENS, seconds=120, **options):
    requests = tuple(build_request(service, build_body(service, prompt, tokens)) for prompt in prompts)
    return run_probe(
        LoadPlan(
            parse_target(service.url), PlainRotation(requests), language or OpenAiLanguage(), load, seconds, **options
        )
    )


def test_every_request_is_answered_and_every_token_counted(llamacpp):
    watch = Watch()
    record = drive(service_of(llamacpp), ClosedLoop(4, requests=8), language=watch)
    assert record.counts()["ok"] == record.sent == len(record) == 8
    assert record.stop_reason == "done"
    # The length is forced, so usage must say exactly that; events may be fewer, never more.
    assert record.output_tokens.tolist() == [TOKENS] * 8
    assert [timing["predicted_n"] for timing in watch.timings] == [TOKENS] * 8
    assert (record.events <= TOKENS).all()
    assert sorted(record.input_tokens.tolist()) == sorted(
        timing["prompt_n"] + timing["cache_n"] for timing in watch.timings
    )


def test_empty_deltas_are_not_output(llamacpp):
    watch = Watch()
    record = drive(service_of(llamacpp), ClosedLoop(1, requests=3), language=watch)
    assert watch.kinds.count(OUTPUT) == record.events.sum()
    # At least the opening role, the finish reason and the usage of each answer carry no text.
    assert watch.kinds.count(NOTHING) >= 2 * 3
    assert (record.first_token_ns >= record.first_byte_ns).all()
    assert record.event_ns[record.event_offsets[:-1]].tolist() == record.first_token_ns.tolist()


def test_times_agree_with_the_servers_own(whole_llamacpp):
    watch = Watch()
    record = drive(service_of(whole_llamacpp), ClosedLoop(1, requests=4), language=watch, tokens=16)
    prompt_ms = np.array([timing["prompt_ms"] for timing in watch.timings])
    decode_ms = np.array([timing["predicted_ms"] for timing in watch.timings])
    # One at a time, so rows and timings are in the same order. From outside a token cannot be earlier than inside.
    ttft_ms = record.server_first_token_s() * 1e3
    assert (ttft_ms > 0.9 * prompt_ms).all()
    assert np.median(ttft_ms - prompt_ms) < 0.5 * np.median(prompt_ms) + 100
    span_ms = (record.last_ns - record.first_token_ns) / 1e6
    assert np.median(span_ms) == pytest.approx(np.median(decode_ms), rel=0.3)
    gaps = record.gaps()
    per_token_ms = np.median(decode_ms) / 16
    assert gaps.seconds.mean() * 1e3 == pytest.approx(per_token_ms, rel=0.5)
    assert record.latency_s().min() > 0


def test_connections_closed_after_a_stream_cost_no_request(llamacpp):
    """The server offers keep-alive and closes all the same; that is its right, and no error."""
    record = drive(service_of(llamacpp), ClosedLoop(2, requests=6), tokens=2)
    assert record.counts() == {kind.word: 6 if kind is RequestEnd.OK else 0 for kind in RequestEnd}
    later = drive(service_of(llamacpp), OpenLoop(constant(2.0, 3.0)), tokens=2, preconnect=2)
    assert later.counts()["ok"] == later.sent == 6


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.COMPLETIONS])
def test_whole_answers_are_counted_as_streams_are(llamacpp, endpoint):
    record = drive(service_of(llamacpp, endpoint=endpoint, stream=False), ClosedLoop(2, requests=4), keep_text=True)
    assert record.counts()["ok"] == 4
    assert record.output_tokens.tolist() == [TOKENS] * 4
    assert record.events.tolist() == [1] * 4
    assert all(record.texts)
    streamed = drive(service_of(llamacpp, endpoint=endpoint), ClosedLoop(2, requests=4), keep_text=True)
    assert streamed.output_tokens.tolist() == [TOKENS] * 4
    assert streamed.input_tokens.tolist() == record.input_tokens.tolist()


def test_prompts_may_be_token_ids(llamacpp):
    ids = llamacpp.post("/tokenize", {"content": "The capital of France is"})["tokens"]
    record = drive(service_of(llamacpp, endpoint=Endpoint.COMPLETIONS), ClosedLoop(1, requests=2), prompts=(ids,))
    assert record.counts()["ok"] == 2
    assert record.input_tokens.tolist() == [len(ids)] * 2


def test_prefix_cache_is_seen_and_can_be_bypassed(llamacpp):
    long = "Count the birds in this list. " + "A robin, a wren and a jay sat on a branch. " * 8
    service, load, kept, worked = service_of(llamacpp, bypass_cache=False), ClosedLoop(1, requests=3), Watch(), Watch()
    warm = drive(service, load, prompts=(long,), tokens=2, language=kept)
    assert warm.cached_tokens[1:].min() > 0.5 * warm.input_tokens[0]
    cold = drive(service_of(llamacpp), ClosedLoop(1, requests=2), prompts=(long,), tokens=2, language=worked)
    assert cold.cached_tokens.max() <= 0
    assert [timing["cache_n"] for timing in worked.timings] == [0, 0]
    # By the server's own account it read the whole prompt again, or half of it at the most.
    assert [timing["prompt_n"] for timing in worked.timings] == cold.input_tokens.tolist()
    assert max(timing["prompt_n"] for timing in kept.timings[1:]) < 0.5 * warm.input_tokens[0]


def test_wrong_requests_are_counted_and_quoted(llamacpp):
    record = drive(service_of(llamacpp, extra={"messages": "not a list"}), ClosedLoop(2, requests=4))
    assert record.counts()["http_error"] == record.sent == 4
    assert set(record.http_status.tolist()) <= {400, 500}
    assert sum(record.notes.values()) == 4
    assert "messages" in " ".join(record.notes)


def inference(server, rows, *, model="double", **options):
    values = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    inputs = (TensorInput(name="values", datatype="FP32", shape=(rows, 4)),)
    engine = KserveEngine(name="kserve", url=server.url, inputs=inputs, **options)
    return build_inference(engine, model, [NamedTensor("values", values)])


def stats_of(server):
    return parse_triton_stats(server.get("/v2/models/double/stats"), "double")


@pytest.mark.parametrize("binary", [True, False])
def test_triton_answers_and_its_statistics_account_for_it(triton, binary):
    before = stats_of(triton)
    script = PlainRotation((inference(triton, 1, binary=binary), inference(triton, 2, binary=binary)))
    record = run_probe(LoadPlan(parse_target(triton.url), script, KserveLanguage(), ClosedLoop(8, requests=200), 60))
    assert record.counts()["ok"] == record.sent == 200
    done = triton_between(before, stats_of(triton))
    assert done["requests"] == 200
    assert done["inferences"] == 300  # a request of two rows is two inferences
    assert 1 < done["inferences"] / done["executions"] <= 16  # the dynamic batcher merged requests
    # What the server accounts for is part of what the client waited for, and most of it.
    inside_s = done["total_ns"] / 200 / 1e9
    parts_ns = done["queue_ns"] + done["compute_input_ns"] + done["compute_infer_ns"] + done["compute_output_ns"]
    assert inside_s < record.latency_s().mean()
    assert 0.5 * done["total_ns"] < parts_ns <= 1.05 * done["total_ns"]
    assert done["compute_infer_ns"] / 200 > 2e6  # the model's own wait


def test_triton_faults_are_counted(triton):
    record = run_probe(
        LoadPlan(
            parse_target(triton.url),
            PlainRotation((inference(triton, 1), inference(triton, 1, model="absent"))),
            KserveLanguage(),
            ClosedLoop(2, requests=20),
            60,
        )
    )
    assert record.counts()["ok"] == record.counts()["http_error"] == 10
    assert "absent" in " ".join(record.notes)


def test_triton_metrics_are_prometheus_text(triton):
    with urllib.request.urlopen(triton.metrics_url, timeout=600) as answer:
        text = answer.read().decode()
    assert 'nv_inference_request_success{model="double"' in text
