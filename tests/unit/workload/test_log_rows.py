"""Logs as they come: nested, packed, as spans, as access logs; and the one line that a wrong one gets."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from lynxbench import plain_files
from lynxbench.errors import BadInput
from lynxbench.workload.production import fit_log
from lynxbench.workload.request_log import parse_columns, parse_log, read_arrivals, read_log

OPENAI = """\
{"created": 1700000000, "model": "m", "usage": {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}}
{"created": 1700000002, "model": "m", "usage": {"prompt_tokens": 13, "completion_tokens": 8, "total_tokens": 21}}
{"created": 1700000003, "model": "m", "error": {"message": "overloaded"}, "status": 503}
{"created": 1700000005, "model": "m", "usage": {"prompt_tokens": 14, "completion_tokens": null}, "status": 499}
"""
GATEWAY = """\
{"request": {"ts": "2026-11-16T10:00:00.250Z", "user": "a"}, "r": {"usage": {"input_tokens": 5, "output_tokens": 2}}}
{"request": {"ts": "2026-11-16T10:00:01.750Z", "user": "b"}, "r": {"usage": {"input_tokens": 6, "output_tokens": 3}}}
"""
NGINX = """\
10.0.0.1 - - [16/Nov/2026:10:00:00 +0000] "POST /v1/chat/completions HTTP/1.1" 200 512 "-" "curl/8.5.0" rt=1.204
10.0.0.1 - - [16/Nov/2026:10:00:00 +0000] "GET /health HTTP/1.1" 200 2 "-" "kube-probe/1.30"
10.0.0.2 - - [16/Nov/2026:10:00:03 +0000] "POST /v1/chat/completions HTTP/1.1" 502 0 "-" "curl/8.5.0" rt=0.001
10.0.0.2 - - [16/Nov/2026:11:00:07 +0100] "POST /v1/completions HTTP/1.1" 200 99 "-" "curl/8.5.0"
"""
VLLM = """\
2026-11-16 10:00:00,100 INFO:     Started server process [1]
2026-11-16 10:00:01,500 INFO:     127.0.0.1:52344 - "POST /v1/completions HTTP/1.1" 200 OK
2026-11-16 10:00:02,000 INFO:     127.0.0.1:52345 - "POST /v1/completions HTTP/1.1" 400 Bad Request
"""


def span(
    start: int, *, tokens: tuple[int, int] | None, code: int = 0, more: dict[str, str] | None = None
) -> dict[str, object]:
    attributes = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]
    if tokens is not None:
        for name, value in zip(("input", "output"), tokens, strict=True):
            attributes.append({"key": f"gen_ai.usage.{name}_tokens", "value": {"intValue": str(value)}})
    attributes += [{"key": key, "value": {"stringValue": value}} for key, value in (more or {}).items()]
    return {
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1_500_000_000),
        "attributes": attributes,
        "status": {"code": code},
    }


def traces(*spans: dict[str, object]) -> dict[str, object]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
SPANS = traces(
    span(BEGIN, tokens=(10, 3), more={"gen_ai.conversation.id": "a"}),
    {"startTimeUnixNano": str(BEGIN), "endTimeUnixNano": str(BEGIN), "attributes": [], "name": "GET /health"},
    span(BEGIN + 2 * SECOND, tokens=(11, 4), more={"gen_ai.conversation.id": "a"}),
    span(BEGIN + 3 * SECOND, tokens=None, code=2),
)


def test_usage_is_found_where_it_is_nested_and_failures_are_counted() -> None:
    log = parse_log(OPENAI)
    assert log.input_tokens.tolist() == [12, 13, 14]
    assert log.output_tokens is not None
    assert log.output_tokens.tolist() == [7, 8, 0]
    assert log.arrival_s.tolist() == [0.0, 2.0, 5.0]
    assert log.failed == 2
    assert any("2 requests failed" in line for line in fit_log(log).remarks())


def test_an_iso_time_two_objects_deep() -> None:
    log = parse_log(GATEWAY)
    assert log.arrival_s.tolist() == pytest.approx([0.0, 1.5])
    assert log.input_tokens.tolist() == [5, 6]
    assert log.session is not None
    assert log.session[0] != log.session[1]


def test_what_is_further_out_keeps_its_name() -> None:
    rows = [{"time": 0, "prompt_tokens": 4, "inner": {"prompt_tokens": 9}}, {"time": 1, "prompt_tokens": 5}]
    assert parse_log("\n".join(map(json.dumps, rows))).input_tokens.tolist() == [4, 5]


def test_a_packed_log_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl.gz"
    file.write_bytes(gzip.compress(OPENAI.encode()))
    assert read_log(file).input_tokens.tolist() == parse_log(OPENAI).input_tokens.tolist()
    file.write_bytes(gzip.compress(OPENAI.encode())[:-12])
    with pytest.raises(BadInput, match="no whole gzip file"):
        read_log(file)


def test_a_packed_log_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, line = tmp_path / "log.jsonl.gz", OPENAI.splitlines()[0] + "\n"
    monkeypatch.setattr(plain_files, "UNFOLDS_FREELY_BYTES", 4 << 20)
    file.write_bytes(gzip.compress(line.encode() * 40_000, 9))
    with pytest.raises(BadInput, match=r"unpacks to over [\d,]+ bytes from [\d,]+; no log does"):
        read_log(file)
    numbered = "".join(line.replace("1700000000", f"170{number}0") for number in range(100_000, 140_000))
    assert len(numbered) > 4 << 20
    file.write_bytes(gzip.compress(numbered.encode(), 9))
    assert len(read_log(file).input_tokens) == 40_000


def test_an_array_is_a_log() -> None:
    rows = [json.loads(line) for line in OPENAI.splitlines()]
    assert parse_log(json.dumps(rows, indent=1)).input_tokens.tolist() == [12, 13, 14]
    with pytest.raises(BadInput, match="element 1 is no JSON object"):
        parse_log("[1, 2]")


@pytest.mark.parametrize("form", ["one document", "pretty", "a line each"])
def test_spans_of_the_genai_conventions(form: str) -> None:
    text = json.dumps(SPANS, indent=2 if form == "pretty" else None)
    if form == "a line each":
        resource = SPANS["resourceSpans"]
        assert isinstance(resource, list)
        each = resource[0]["scopeSpans"][0]["spans"]
        text = "\n".join(json.dumps(traces(one)) for one in each)
    log = parse_log(text)
    assert log.input_tokens.tolist() == [10, 11]
    assert log.arrival_s.tolist() == [0.0, 2.0]
    assert log.duration_s is not None
    assert log.duration_s.tolist() == [1.5, 1.5]
    assert log.session is not None
    assert log.session[0] == log.session[1]
    assert log.failed == 1


@pytest.mark.parametrize(
    ("text", "moments", "failed"),
    [(NGINX, [0.0, 3.0, 7.0], 1), (VLLM, [0.0, 0.5], 1), (OPENAI, [0.0, 2.0, 3.0, 5.0], 2)],
)
def test_an_access_log_is_a_demand(tmp_path: Path, text: str, moments: list[float], failed: int) -> None:
    file = tmp_path / "access.log"
    file.write_text(text)
    arrivals, failures = read_arrivals(file)
    assert (arrivals - arrivals[0]).tolist() == pytest.approx(moments)
    assert failures == failed


def test_an_access_log_has_no_lengths() -> None:
    with pytest.raises(BadInput, match="can be a --demand-log"):
        parse_log(NGINX, "access.log")


def test_requests_without_a_time_are_refused_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    file.write_text('INFO:     127.0.0.1:52344 - "POST /v1/completions HTTP/1.1" 200 OK\n')
    with pytest.raises(BadInput, match=r"access\.log:1: a request without a time"):
        read_arrivals(file)


def test_a_column_of_another_name_is_given() -> None:
    text = "when,tokens_in,out\n1,5,6\n2,7,8\n"
    columns = parse_columns(["arrival=when", "input=Tokens_In", "output=out"])
    log = parse_log(text, "log.csv", columns)
    assert log.input_tokens.tolist() == [5, 7]
    with pytest.raises(BadInput, match=r"--column input=NAME"):
        parse_log(text.replace("when", "time"), "log.csv")
    with pytest.raises(BadInput, match=r"log\.csv:2 has no elsewhere; it has out, tokens_in, when"):
        parse_log(text, "log.csv", {"input": "elsewhere"})
    for wrong in ("input", "inputs=x", "input=", "=x"):
        with pytest.raises(BadInput, match="write what it holds and its name"):
            parse_columns([wrong])


# --- other spellings of the same forms --------------------------------------------------------------------------------

CHAT: dict[str, int | str] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": 11,
    "gen_ai.usage.output_tokens": 4,
}
SECOND = 10**9
BEGIN = 1_763_287_200 * SECOND


def otlp(number: int, attributes: dict[str, int | str]) -> dict[str, object]:
    told = [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in attributes.items()
    ]
    begin = BEGIN + number * SECOND
    times = {"startTimeUnixNano": str(begin), "endTimeUnixNano": str(begin + SECOND // 2)}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat", "attributes": told, **times}]}]}]}


def snake(text: str) -> str:
    """As an exporter writes it that keeps the names of the protocol's own files."""
    names = ("resourceSpans", "scopeSpans", "startTimeUnixNano", "endTimeUnixNano", "intValue", "stringValue")
    for name in names:
        text = text.replace(name, re.sub(r"([A-Z])", lambda match: f"_{match[0].lower()}", name))
    return text


def console(number: int) -> dict[str, object]:
    """A span as the SDK of Python prints it."""
    moment = f"2026-11-16T10:00:0{number}"
    times = {"start_time": f"{moment}.000000Z", "end_time": f"{moment}.500000Z"}
    return {"name": "chat", **times, "status": {"status_code": "UNSET"}, "attributes": CHAT}


AGENT = {**CHAT, "gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 33}
TOOL: dict[str, int | str] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([otlp(number, CHAT) for number in range(3)]),
        snake(json.dumps(otlp(0, CHAT)) + "\n" + json.dumps(otlp(1, CHAT)) + "\n" + json.dumps(otlp(2, CHAT))),
        "\n".join(json.dumps(otlp(0, about)) for about in (AGENT, TOOL))
        + "\n"
        + "\n".join(json.dumps(otlp(number, CHAT)) for number in range(3)),
        "\n".join(json.dumps(console(number)) for number in range(3)),
        "\n".join(json.dumps(console(number), indent=4) for number in range(3)),
    ],
    ids=["array", "names with underscores", "an agent and a tool around", "console", "console over many lines"],
)
def test_spans_are_requests_however_they_are_written(text: str) -> None:
    log = parse_log(text)
    assert log.arrival_s.tolist() == [0.0, 1.0, 2.0]
    assert log.input_tokens.tolist() == [11, 11, 11], "an agent's total is that of its requests, not one more"
    assert log.output_tokens is not None
    assert log.output_tokens.tolist() == [4, 4, 4]
    assert log.duration_s is not None
    assert log.duration_s.tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    "moment",
    [
        {"time_local": "16/Nov/2026:10:00:0{} +0200"},
        {"time_iso8601": "2026-11-16T10:00:0{}+02:00"},
        {"msec": "176328720{}.250"},
    ],
    ids=lambda part: next(iter(part)),
)
def test_an_access_log_in_json_has_its_posted_requests(moment: dict[str, str], tmp_path: Path) -> None:
    (name, form), file = next(iter(moment.items())), tmp_path / "access.json"
    rows = [{name: form.format(i), "request": "POST /v1 HTTP/1.1", "status": "502" if i else "200"} for i in range(3)]
    rows.append({name: form.format(5), "request": "GET /health HTTP/1.1", "status": "200"})
    file.write_text("\n".join(map(json.dumps, rows)))
    moments, failed = read_arrivals(file)
    assert (moments - moments[0]).tolist() == [0.0, 1.0, 2.0]
    assert failed == 2


@pytest.mark.parametrize(
    "line",
    [
        '2026-11-16T10:00:0{}.123456789Z stdout F INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        '2026-11-16T10:00:0{}+0000 host vllm[12]: INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        '2001:db8::1 - alice [16/Nov/2026:10:00:0{} +0200] "POST /v1/completions HTTP/2.0" 200 81 "-" "c" rt="0.25"',
    ],
    ids=["container runtime", "journal", "nginx over IPv6"],
)
def test_access_logs_with_a_prefix_have_their_times(line: str, tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    file.write_text("\n".join(line.format(number) for number in range(3)))
    moments, failed = read_arrivals(file)
    assert (moments - moments[0]).tolist() == [0.0, 1.0, 2.0]
    assert failed == 0
