"""Results for OpenTelemetry: OTLP over HTTP in its JSON form, a span a run and gauges of its figures.

Nothing but the standard library is needed. Ids come from the result's own, so that the same run sent twice is the same
span; figures carry their interval and their context, as everywhere.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from lynxbench import __version__
from lynxbench.errors import BadInput
from lynxbench.https import request
from lynxbench.model.result import Result, ValidityVerdict

TRACES, METRICS, LOGS = "/v1/traces", "/v1/metrics", "/v1/logs"
WARN = 13
"""OpenTelemetry's SeverityNumber for WARN."""
TIMEOUT_S = 30.0
HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
"""OpenTelemetry's own name: `key=value` pairs between commas, values escaped as in an address."""
_SCOPE = {"name": "lynxbench", "version": __version__}
_REJECTED = ("rejectedSpans", "rejectedDataPoints", "rejectedLogRecords")
_STATUS = {ValidityVerdict.VALID: 1, ValidityVerdict.VOID: 2}
"""Ok and error; a doubtful run is neither, and says why."""
_GAUGES = (
    (
        "lynxbench.throughput",
        "",
        "bound",
        {"low": "throughput_low", "estimate": "throughput", "high": "throughput_high"},
    ),
    ("lynxbench.latency", "ms", "percentile", {"50": "latency_p50_ms", "99": "latency_p99_ms"}),
    ("lynxbench.counted", "s", "", {"": "counted_s"}),
)

Rows = Sequence[Mapping[str, Any]]


def render_traces(results: Iterable[Result], contexts: Rows) -> dict[str, Any]:
    """A span for each run, from its registration to its seal, with its context and its verdict."""
    spans = []
    for result, context in zip(results, contexts, strict=True):
        validity = result.validity
        judged = {"validity": validity.verdict.value, "validity_reasons": "; ".join(validity.reasons) or None}
        status: dict[str, Any] = {"code": _STATUS.get(validity.verdict, 0)}
        if validity.verdict is ValidityVerdict.VOID:
            status["message"] = "; ".join(validity.reasons)
        spans.append(
            {
                "traceId": result.result_id[:32],
                "spanId": result.result_id[32:48],
                "name": f"lynxbench run {result.contract.name}",
                "kind": 1,
                "startTimeUnixNano": _nanoseconds(result.started_at),
                "endTimeUnixNano": _nanoseconds(result.finished_at),
                "attributes": _attributes(
                    {f"lynxbench.{name}": value for name, value in {**context, **judged}.items()}
                ),
                "status": status,
            }
        )
    return {"resourceSpans": [{"resource": _resource(), "scopeSpans": [{"scope": _SCOPE, "spans": spans}]}]}


def render_metrics(rows: Rows, labels: Sequence[str]) -> dict[str, Any]:
    """Gauges at the end of each run: every point with its context and which bound or percentile it is."""
    metrics = []
    for name, unit, which, columns in _GAUGES:
        for unit_here in dict.fromkeys(unit or str(row["unit"]) for row in rows):
            points = [
                {
                    "timeUnixNano": _nanoseconds(str(row["finished_at"])),
                    "asDouble": row[column],
                    "attributes": _attributes(
                        {**{key: row[key] for key in labels}, **({which: word} if which else {})}
                    ),
                }
                for row in rows
                if unit or str(row["unit"]) == unit_here
                for word, column in columns.items()
                if row[column] is not None
            ]
            if points:
                metrics.append({"name": name, "unit": unit_here, "gauge": {"dataPoints": points}})
    return {"resourceMetrics": [{"resource": _resource(), "scopeMetrics": [{"scope": _SCOPE, "metrics": metrics}]}]}


def render_event(name: str, body: str, at: str, values: Mapping[str, object], result_id: str) -> dict[str, Any]:
    """A log record of something that was noticed, tied to the span of the run that showed it."""
    record = {
        "timeUnixNano": _nanoseconds(at),
        "severityNumber": WARN,
        "severityText": "WARN",
        "eventName": name,
        "body": {"stringValue": body},
        "attributes": _attributes({"event.name": name, **values}),
        "traceId": result_id[:32],
        "spanId": result_id[32:48],
    }
    return {"resourceLogs": [{"resource": _resource(), "scopeLogs": [{"scope": _SCOPE, "logRecords": [record]}]}]}


def send_otlp(address: str, traces: object, metrics: object, environment: Mapping[str, str]) -> None:
    """Send runs and their figures to a collector; BadInput where it does not take all of them."""
    post_otlp(address, {TRACES: traces, METRICS: metrics}, environment)


def post_otlp(
    address: str, documents: Mapping[str, object], environment: Mapping[str, str], timeout_s: float = TIMEOUT_S
) -> None:
    """Send documents by their paths to a collector; BadInput where it does not take all of them."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"{address}: no address of a collector; write http://HOST:4318")
    headers = {"Content-Type": "application/json", **_headers(environment.get(HEADERS_VARIABLE, ""))}
    for path, document in documents.items():
        url = address.rstrip("/") + path
        try:
            answer = request("POST", url, json.dumps(document).encode(), headers, timeout_s=timeout_s)
        except (OSError, ValueError) as error:
            raise BadInput(f"{url}: no collector answers: {error}") from None
        said = answer.body[:300].decode("utf-8", errors="replace")
        if not answer.is_good:
            raise BadInput(f"{url}: the collector refuses with {answer.status}: {said}")
        if rejected := _rejected(answer.body):
            raise BadInput(f"{url}: the collector left out {rejected}: {said}")


def _rejected(body: bytes) -> int:
    """How many the collector says it did not take; a collector may say nothing at all."""
    try:
        partial = json.loads(body or b"{}").get("partialSuccess") or {}
        return sum(
            int(partial.get(name) or 0) for name in ("rejectedSpans", "rejectedDataPoints", "rejectedLogRecords")
        )
    except (ValueError, AttributeError):
        return 0


def _headers(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if "=" in pair]
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    broken = [name for name, value in headers.items() if re.search(r"[\r\n]", name + value)]
    if broken:
        raise BadInput(f"{HEADERS_VARIABLE}: a header holds a line break; write key=value pairs between commas")
    return headers


def _resource() -> dict[str, Any]:
    return {"attributes": _attributes({"service.name": "lynxbench", "service.version": __version__})}


def _attributes(values: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": str(value)}} for key, value in values.items() if value is not None]


def _nanoseconds(stamp: str) -> str:
    """A time as OTLP's JSON has it: a 64-bit number in quotes."""
    moment = datetime.fromisoformat(stamp)
    return str(int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000)
