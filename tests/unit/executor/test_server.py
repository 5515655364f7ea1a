"""A server as an executor: what it tells, its process, and nothing secret."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.attribute.read.launch_arguments import slots_of
from lynxbench.executor import server as server_module
from lynxbench.executor.host import Host
from lynxbench.executor.server import (
    Address,
    CapturedServer,
    capture_server,
    counted_between,
    describe_metrics,
    is_this_host,
    parse_metrics,
    read_metrics,
    sum_counters,
    with_server,
    without_changing,
)
from lynxbench.executor.server_on_host import ProcessHost, find_server_process, read_server_command, redact_command
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from lynxbench.model.executor import Executor, Status, Tier, difference, measured
from lynxbench.model.layers import Layer

METRICS = """\
# HELP vllm:request_success_total done
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="stop",model_name="m"} 3.0
vllm:request_success_total{finished_reason="length",model_name="m"} 4.0
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_sum{model_name="m"} 0.5
vllm:request_queue_time_seconds_bucket{le="0.3",model_name="m"} 7.0
vllm:request_queue_time_seconds_count{model_name="m"} 7.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 2.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",enable_prefix_caching="True",token="hf_abcdefghijkl"} 1.0
broken line without a number
"""


def test_metrics_of_fifty_megabytes_are_not_read_and_say_so():
    """A run announced its end for the next minute, and spent two in reading what no server of models needs."""
    page = b"".join(b'other_metric{a="%d"} 1\n' % number for number in range(1_000_000)) + METRICS.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page if self.path == "/metrics" else b"{}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = Address(f"http://127.0.0.1:{server.server_port}/v1")
        captured, scraped = capture_server(address, model="m"), read_metrics(address)
        server.shutdown()
        thread.join()
    assert captured.counters == {}
    assert captured.layers[Layer.SERVING]["server_metrics_unavailable"].source == (
        "GET /metrics: longer than 4 MiB, and not read"
    )
    assert scraped is None


def test_one_torn_line_among_many_costs_no_reading_of_each(monkeypatch: pytest.MonkeyPatch):
    parsed = []
    inner = server_module._parse_families
    monkeypatch.setattr(server_module, "_parse_families", lambda text: parsed.append(text) or inner(text))
    lines = [f'other_metric{{a="{number}"}} 1' for number in range(1000)]
    metrics = parse_metrics("\n".join([*lines[:700], "torn{", *lines[700:]]))
    assert (sum(len(family.samples) for family in metrics.families), metrics.left_out) == (1000, 1)
    assert len(parsed) < 30


def test_counters_are_summed_and_info_is_read():
    metrics = parse_metrics(METRICS)
    assert sum_counters(metrics) == {
        "vllm:request_success_total": 7.0,
        "vllm:request_queue_time_seconds_sum": 0.5,
        "vllm:request_queue_time_seconds_count": 7.0,
    }
    fields = describe_metrics(metrics, METRICS)
    assert fields["server_info"].value == {
        "vllm:cache_config_info": {"block_size": "16", "enable_prefix_caching": "True"}
    }
    assert fields["server_metrics_sha256"].tier is Tier.STATE
    assert fields["server_metrics_damaged"].status is Status.UNREADABLE
    assert fields["server_metrics_damaged"].source.endswith("format: 1")


TGI = """\
# HELP tgi_request_success Number of successful requests
# TYPE tgi_request_success counter
tgi_request_success 109

# HELP tgi_batch_inference_count Inference calls per method (prefill or decode)
# TYPE tgi_batch_inference_count counter
tgi_batch_inference_count{method="decode"} 1509
tgi_batch_inference_count{method="prefill"} 16

# TYPE tgi_request_skipped_tokens summary
tgi_request_skipped_tokens{quantile="0.5"} 3
tgi_request_skipped_tokens_sum 0
tgi_request_skipped_tokens_count 3423

# TYPE tgi_batch_inference_duration histogram
tgi_batch_inference_duration_bucket{method="prefill",le="0.15"} 12
tgi_batch_inference_duration_bucket{method="prefill",le="+Inf"} 16
tgi_batch_inference_duration_sum{method="prefill"} 1.5
tgi_batch_inference_duration_count{method="prefill"} 16
tgi_batch_inference_duration_bucket{method="decode",le="+Inf"} 1509
tgi_batch_inference_duration_sum{method="decode"} 90.25
tgi_batch_inference_duration_count{method="decode"} 1509
"""
"""As TGI 3 writes it: counters without a suffix, blank lines between families, phases told apart by a label alone."""


def test_a_text_of_very_many_families_is_read_in_time() -> None:
    """Its text was searched once more for every family."""
    text = "".join(f"# TYPE made_{n} counter\nmade_{n}_total 1\n# TYPE own_{n}_total counter\nown_{n}_total 2\n"
                   for n in range(10_000))  # fmt: skip
    began_s = time.process_time()
    metrics = parse_metrics(text)
    assert time.process_time() - began_s < 5
    assert {family.name for family in metrics.families if family.name.startswith("own_1")} >= {"own_1_total"}


def test_counters_keep_the_names_they_are_sent_under_and_the_label_that_tells_phases_apart():
    assert sum_counters(parse_metrics(TGI)) == {
        "tgi_request_success": 109.0,
        "tgi_batch_inference_count": 1525.0,
        "tgi_request_skipped_tokens_sum": 0.0,  # a quantile can fall, and is no counter
        "tgi_request_skipped_tokens_count": 3423.0,
        "tgi_batch_inference_duration_sum": 91.75,
        'tgi_batch_inference_duration_sum{method="prefill"}': 1.5,
        'tgi_batch_inference_duration_sum{method="decode"}': 90.25,
        "tgi_batch_inference_duration_count": 1525.0,
    }


@pytest.mark.parametrize(
    ("text", "counted", "left_out"),
    [
        ("", {}, 0),
        ("<html>no metrics here</html>\n", {}, 1),
        ('# TYPE a_total counter\na_total{path="/x,{y}",q="say \\"hi\\""} 3 17000\na_total 4\n', {"a_total": 7.0}, 0),
        ("# TYPE a counter\na{x=\"unfinished} 3\na 4\n", {"a": 4.0}, 1),
        ("# TYPE a counter\na NaN\n# TYPE b counter\nb 5\nb five\n", {"b": 5.0}, 1),
        ("# TYPE a\n# TYPE b counter\nb 5\nuntyped_total 9\n", {"b": 5.0}, 1),
    ],
)  # fmt: skip
def test_a_line_that_is_no_metric_costs_that_line(text, counted, left_out):
    metrics = parse_metrics(text)
    assert sum_counters(metrics) == counted
    assert metrics.left_out == left_out


@given(st.text(alphabet=st.sampled_from('# TYPEHLacounter_total{}="\\,.0123456789 \n\t+-eNaInf'), max_size=200))
def test_no_text_is_too_strange_to_be_read(text):
    assert all(math.isfinite(value) for value in sum_counters(parse_metrics(text)).values())


def test_a_counter_that_went_back_is_a_restart():
    assert counted_between({"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 2.0}) == {"a": 3.0}
    assert counted_between({"a": 5.0}, {"a": 4.0}) == {}


def test_what_only_says_when_is_left_out():
    told = {"data": [{"id": "m", "created": 17, "permission": [1]}]}
    assert without_changing(told) == {"data": [{"id": "m"}]}


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["serve", "--api-key", "topsecret", "--port", "1"], ["serve", "--api-key", "<withheld>", "--port", "1"]),
        (["serve", "--api-key=topsecret"], ["serve", "--api-key=<withheld>"]),
        (["serve", "--hf-token", "abc", "--dtype", "bf16"], ["serve", "--hf-token", "<withheld>", "--dtype", "bf16"]),
        (["x", "https://me:pw@host/"], ["x", "<withheld>"]),
        (["x", "--max-tokens-per-batch", "--flag"], ["x", "--max-tokens-per-batch", "--flag"]),
    ],
)
def test_command_lines_carry_no_secrets(words, kept):
    assert redact_command(words) == kept


def test_a_server_on_this_host_is_captured_with_its_process():
    with running_server(Behaviour()) as server:
        address = Address(server.url)
        first = capture_server(address, model="ground-truth", launch=["--slots", "4"])
        second = capture_server(address, model="ground-truth", launch=["--slots", "4"])
        host = Executor(
            layers={Layer.FRAMEWORK: {"python_version": measured("3", "x")}, Layer.SYSTEM: {"os": measured("l", "x")}}
        )
        before, after = with_server(host, first), with_server(host, second)
    assert first.is_local
    assert first.process is not None
    assert first.process.pid == server.pid
    serving = before.layers[Layer.SERVING]
    assert serving["server_launch"].status is Status.DECLARED
    assert "lynxbench.load.truth_process" in serving["server_command"].value
    assert serving["server_models"].value["data"][0]["id"] == "ground-truth"
    assert serving["server_properties"].status is Status.UNREADABLE
    libraries = before.layers[Layer.RUNTIME]["server_libraries"].value
    assert any(name.startswith("numpy") for name in libraries)
    assert "numpy" in before.layers[Layer.FRAMEWORK]["server_frameworks"].value
    assert before.layers[Layer.FRAMEWORK]["client_python_version"].tier is Tier.STATE
    assert "os" in before.layers[Layer.SYSTEM]
    assert "server_affinity" in before.layers[Layer.SYSTEM]
    assert difference(before, after, (Tier.CONFIGURATION,)) == ()
    assert first.counters == {"ground_truth_requests_total": 0.0}


def test_a_server_elsewhere_leaves_its_layers_unreadable():
    elsewhere = CapturedServer({layer: {} for layer in Layer}, {}, None, False)
    host = Executor(
        layers={Layer.SYSTEM: {"os": measured("linux", "x")}, Layer.FACILITY: {"cooling": measured("air", "y")}}
    )
    merged = with_server(host, elsewhere)
    assert merged.layers[Layer.SYSTEM]["client_os"].tier is Tier.STATE
    assert merged.layers[Layer.SYSTEM]["server_host"].status is Status.UNREADABLE
    assert merged.get(Layer.FACILITY, "cooling") == "air"


def test_a_server_that_does_not_answer_is_said():
    silent = capture_server(Address("http://127.0.0.1:9"), model="m", kserve=True)
    assert silent.process is None
    assert silent.layers[Layer.SERVING]["server_metadata"].status is Status.UNREADABLE
    assert silent.layers[Layer.SERVING]["server_command"].status is Status.UNREADABLE
    assert silent.counters == {}


def test_who_is_this_host():
    assert is_this_host("127.0.0.1")
    assert is_this_host("localhost")
    assert not is_this_host("192.0.2.1")
    assert not is_this_host("no-such-host.invalid")


def test_another_process_s_files_are_read():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        host = ProcessHost(pid=other.pid)
        assert host.text("/proc/self/comm").startswith("python")
        assert host.path("/proc/self/cgroup").as_posix() == f"/proc/{other.pid}/cgroup"
        assert Host().path("/proc/self/cgroup").as_posix() == "/proc/self/cgroup"
        other.communicate(b"\n")
    assert find_server_process(9) is None
    assert read_server_command(9) == ()


def test_the_words_that_a_server_was_started_with_are_read_from_who_listens():
    listens = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    )
    command = [sys.executable, "-c", listens, "--max-num-seqs", "7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        words = read_server_command(int(server.stdout.readline()))
        server.communicate(b"\n")
    assert slots_of("vllm", words) == 7
