"""Log lines: one JSON document each, with the fields that came with it."""

from __future__ import annotations

import io
import json
import logging

from lynxbench.watch.json_log import make_log


def test_a_log_line_is_one_json_document() -> None:
    out = io.StringIO()
    log = make_log("test", out)
    log.info("request", extra={"path": "/a\nb", "status": 200})
    assert out.getvalue().count("\n") == 1
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"], line["path"], line["status"]) == ("request", "info", "/a\nb", 200)
    assert line["at"].endswith("+00:00")
    assert set(line) == {"at", "level", "event", "path", "status"}


def test_what_a_library_notes_on_every_record_is_not_shown() -> None:
    before = logging.getLogRecordFactory()

    def noting(*args: object, **fields: object) -> logging.LogRecord:
        record = before(*args, **fields)
        record.__dict__["_library_timestamp_ns"] = 1
        return record

    out = io.StringIO()
    logging.setLogRecordFactory(noting)
    try:
        make_log("test", out).info("request", extra={"path": "/"})
    finally:
        logging.setLogRecordFactory(before)
    assert json.loads(out.getvalue()).keys() == {"at", "level", "event", "path"}


def test_whoever_writes_is_named_on_each_line() -> None:
    out = io.StringIO()
    logging.LoggerAdapter(make_log("test", out), {"agent": "rack-1"}).warning("%s is late", "nightly")
    assert {"agent": "rack-1", "event": "nightly is late", "level": "warning"}.items() <= json.loads(
        out.getvalue()
    ).items()


def test_a_quiet_log_says_warnings_alone() -> None:
    out = io.StringIO()
    log = make_log("test", out, quiet=True)
    log.info("request")
    assert out.getvalue() == ""
    log.warning("not ready")
    assert json.loads(out.getvalue())["event"] == "not ready"
