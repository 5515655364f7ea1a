"""A notice as OpenTelemetry gets it: once, at the run that showed it, and tried again where the collector refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from lynxbench.errors import BadInput
from lynxbench.watch.notifying import Contacts, Courier
from lynxbench.watch.regressions import Notice
from lynxbench.watch.sealed_secrets import SecretSealer
from lynxbench.watch.store import Store
from lynxbench.watch.store_tables import outbox

NOTICE = Notice(
    "n" * 32, "c" * 64, "chat\x1b[31m", "agent a", "fp32", "a" * 64, "b" * 32 + "d" * 32, "framework", "ops",
    0.79, 0.8, 0.81, "torch changed", "2026-11-15T09:00:00.250+00:00", None, None,
)  # fmt: skip


class Collector(BaseHTTPRequestHandler):
    """Takes what is posted, and answers as the test says."""

    taken: list[tuple[str, dict[str, object], str]] = []
    status, body = 200, b"{}"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.taken.append((self.path, json.loads(self.rfile.read(length)), self.headers.get("X-Token", "")))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *words: object) -> None:
        """Quiet."""


@pytest.fixture
def address() -> Iterator[str]:
    Collector.taken.clear()
    Collector.status, Collector.body = 200, b"{}"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path / 's.sqlite'}")
    yield opened
    opened.close()


def courier_with(store: Store, folder: Path, address: str) -> tuple[Courier, int]:
    contacts = Contacts(store, SecretSealer(folder))
    contacts.put("ops", "otlp", address)
    row = {"notice": NOTICE.notice, "channel": "otlp", "address": address, "state": "pending"}
    more = {"attempts": 0, "next_at": "2026-01-01T00:00:00.000+00:00", "said": ""}
    store.change(insert(outbox).values({**row, **more}))
    courier = Courier(store, contacts, "https://bench.example")
    return courier, courier.waiting()[0][0]


def test_a_collector_gets_a_log_record_once(
    store: Store, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Token=abc")
    courier, number = courier_with(store, tmp_path, address)
    assert courier.send(number, NOTICE, "text") == "sent"
    assert courier.send(number, NOTICE, "text") == "sent"
    ((path, document, token),) = Collector.taken
    assert (path, token) == ("/v1/logs", "abc")
    (record,) = document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]  # type: ignore[index]
    assert record["timeUnixNano"] == "1794733200250000000"
    assert record["severityNumber"] == 13
    assert (record["traceId"], record["spanId"]) == ("b" * 32, "d" * 16)
    assert "\x1b" not in record["body"]["stringValue"]
    values = {each["key"]: each["value"]["stringValue"] for each in record["attributes"]}
    assert values["event.name"] == "lynxbench.regression"
    assert values["lynxbench.estimate"] == "0.8"
    assert values["lynxbench.evidence.after"].endswith(NOTICE.result_id)
    assert "lynxbench.closed_at" not in values, "what is not known is not sent as a word"


@pytest.mark.parametrize(
    ("status", "body"), [(503, b""), (200, b'{"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "old"}}')]
)
def test_a_collector_that_does_not_take_it_is_asked_again(
    store: Store, tmp_path: Path, address: str, status: int, body: bytes
) -> None:
    Collector.status, Collector.body = status, body
    courier, number = courier_with(store, tmp_path, address)
    assert courier.send(number, NOTICE, "text") == "pending"
    row = store.row(select(outbox))
    assert row is not None
    assert "collector" in row.said


@pytest.mark.parametrize("address", ["ftp://host", "collector", "http://user:pass@host:4318", "http://host:port"])
def test_what_is_no_address_of_a_collector_is_refused(store: Store, tmp_path: Path, address: str) -> None:
    with pytest.raises(BadInput, match="is no collector"):
        Contacts(store, SecretSealer(tmp_path)).put("ops", "otlp", address)
