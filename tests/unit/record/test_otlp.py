"""Runs as OTLP: read back by OpenTelemetry's own messages, sent to a collector that listens, refuses or leaves out."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from compared import make_precision, make_result
from lynxbench.errors import BadInput
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.record.exporting import LABELS, contexts_of, rows_of
from lynxbench.record.otlp import HEADERS_VARIABLE, render_metrics, render_traces, send_otlp


def _results() -> list[Result]:
    void = Validity(verdict=ValidityVerdict.VOID, reasons=("the clock was set back",))
    both = (make_precision(), make_precision(Precision.INT8))
    return [make_result(per_precision=both), make_result(started_at="2026-02-01T00:00:00+00:00", validity=void)]


def test_spans_are_opentelemetrys_and_carry_ids_context_and_verdict() -> None:
    results = _results()
    document = render_traces(results, contexts_of(results))
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:  # OTLP's JSON has ids in hex, protobuf's not
        for name in ("traceId", "spanId"):
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    message = ParseDict(document, ExportTraceServiceRequest())
    spans = message.resource_spans[0].scope_spans[0].spans
    assert [span.trace_id.hex() + span.span_id.hex() for span in spans] == [r.result_id[:48] for r in results]
    assert [(len(span.trace_id), len(span.span_id)) for span in spans] == [(16, 8)] * 2
    assert [span.status.code for span in spans] == [1, 2]
    assert spans[1].status.message == "the clock was set back"
    assert spans[1].start_time_unix_nano == 1769904000 * 10**9
    attributes = {pair.key: pair.value.string_value for pair in spans[0].attributes}
    assert attributes["lynxbench.contract_id"] == results[0].contract_id
    assert attributes["lynxbench.validity"] == "valid"
    assert "lynxbench.precision" not in attributes, "a run has two of them; figures say of which they are"


def test_every_figure_carries_its_interval_its_unit_and_its_context() -> None:
    rows = rows_of(_results())
    message = ParseDict(render_metrics(rows, LABELS), ExportMetricsServiceRequest())
    metrics = {metric.name: metric for metric in message.resource_metrics[0].scope_metrics[0].metrics}
    assert metrics["lynxbench.throughput"].unit == "sequences/s"
    points = metrics["lynxbench.throughput"].gauge.data_points
    assert len(points) == 3 * len(rows)
    for at, row in enumerate(rows):
        figures = {}
        for point in points[3 * at : 3 * at + 3]:
            labels = {pair.key: pair.value.string_value for pair in point.attributes}
            assert labels["precision"] == row["precision"]
            assert labels["result_id"] == row["result_id"]
            figures[labels["bound"]] = point.as_double
        assert figures == {"low": row["throughput_low"], "estimate": row["throughput"], "high": row["throughput_high"]}


def test_figures_of_two_units_are_two_metrics() -> None:
    rows = [dict(row) for row in rows_of(_results())]
    rows[0]["unit"] = "tokens/s"
    metrics = render_metrics(rows, LABELS)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    throughput = [metric for metric in metrics if metric["name"] == "lynxbench.throughput"]
    assert [metric["unit"] for metric in throughput] == ["tokens/s", "sequences/s"]
    assert [len(metric["gauge"]["dataPoints"]) for metric in throughput] == [3, 6]


class _Collector(HTTPServer):
    """Keeps what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kept: list[tuple[str, dict[str, str], Any]] = []
        self.answer: tuple[int, bytes] = (200, b"{}")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.kept.append((self.path, dict(self.headers), json.loads(body)))
        code, answer = self.server.answer
        self.send_response(code)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def collector() -> Iterator[_Collector]:
    with _Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_collector_gets_both_with_the_headers_of_the_environment(collector: _Collector) -> None:
    headers = {HEADERS_VARIABLE: "authorization=Bearer%20abc, x-team = search"}
    send_otlp(collector.address + "/", {"a": 1}, {"b": 2}, headers)
    assert [(path, body) for path, _, body in collector.kept] == [("/v1/traces", {"a": 1}), ("/v1/metrics", {"b": 2})]
    for _, sent, _ in collector.kept:
        lower = {name.lower(): value for name, value in sent.items()}
        assert lower["content-type"] == "application/json"
        assert (lower["authorization"], lower["x-team"]) == ("Bearer abc", "search")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((401, b"who are you"), "refuses with 401: who are you"),
        ((200, b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "old"}}'), "left out 3"),
    ],
)
def test_what_is_not_taken_is_one_line(collector: _Collector, answer: tuple[int, bytes], says: str) -> None:
    collector.answer = answer
    with pytest.raises(BadInput, match=says):
        send_otlp(collector.address, {}, {}, {})


@pytest.mark.parametrize("body", [b"", b"{}", b'{"partialSuccess": {}}', b"thanks", b"[]"])
def test_a_collector_that_says_nothing_has_taken_it(collector: _Collector, body: bytes) -> None:
    collector.answer = (200, body)
    send_otlp(collector.address, {}, {}, {})


@pytest.mark.parametrize("address", ["results.json", "ftp://x", "http://", "grpc://h:4317"])
def test_no_address_and_no_collector_are_one_line(address: str) -> None:
    with pytest.raises(BadInput, match=r"write http://HOST:4318"):
        send_otlp(address, {}, {}, {})
    with pytest.raises(BadInput, match="no collector answers"):
        send_otlp("http://127.0.0.1:1", {}, {}, {})
    with pytest.raises(BadInput, match="line break"):
        send_otlp("http://127.0.0.1:1", {}, {}, {HEADERS_VARIABLE: "a=b%0d%0ac: d"})
