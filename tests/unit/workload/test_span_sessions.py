"""Sessions out of spans: known programs are spelled as spans, and their graphs come back without a word of text."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.errors import BadInput
from lynxbench.workload.session_files import parse_sessions
from lynxbench.workload.span_sessions import capture_sessions, parse_span_sessions

CANARY = "ultramarine"


def span(trace, name, parent, begin, end, tokens=None, text=None, **attributes):
    """An OTLP span; times in milliseconds."""
    told = {**attributes}
    if tokens is not None:
        told |= {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
        told |= {"gen_ai.operation.name": "chat", "gen_ai.request.model": CANARY}
    if text is not None:
        told["gen_ai.input.messages"] = text
    values = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in told.items()
    ]
    return {
        "traceId": trace,
        "spanId": f"{trace}-{name}",
        "parentSpanId": f"{trace}-{parent}" if parent else "",
        "name": f"{name} {CANARY}",
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + begin * 1_000_000),
        "endTimeUnixNano": str(1_700_000_000_000_000_000 + end * 1_000_000),
        "attributes": values,
    }


def otlp(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})


AGENT = (
    span("t", "root", "", 0, 1000, **{"gen_ai.operation.name": "invoke_agent"}),
    span("t", "plan", "root", 10, 100, (50, 5)),
    span("t", "sub1", "root", 150, 500),
    span("t", "a1", "sub1", 160, 200, (10, 1)),
    span("t", "tool", "sub1", 200, 300, **{"gen_ai.operation.name": "execute_tool"}),
    span("t", "a2", "sub1", 320, 480, (20, 2)),
    span("t", "sub2", "root", 150, 460),
    span("t", "b1", "sub2", 150, 260, (11, 1)),
    span("t", "b2", "sub2", 270, 460, (21, 2)),
    span("t", "join", "root", 530, 900, (99, 9)),
)


def test_sub_agents_beside_each_other_do_not_wait_for_each_other():
    rows = {row["input_tokens"]: row for row in parse_span_sessions(otlp(*AGENT)).rows}
    place = {tokens: row["call"] for tokens, row in rows.items()}
    waits = {tokens: {one for one in place if place[one] in row["after"]} for tokens, row in rows.items()}
    # b2 began after a1 had ended, and did not wait for it: they are of different sub-agents.
    assert waits == {50: set(), 10: {50}, 11: {50}, 20: {10}, 21: {11}, 99: {20, 21}}
    gaps = {tokens: round(row["gap"] * 1000) for tokens, row in rows.items()}
    assert gaps == {50: 0, 10: 60, 11: 50, 20: 120, 21: 10, 99: 50}


def test_turns_of_one_conversation_are_one_session_with_the_time_people_think():
    conversation = {"gen_ai.conversation.id": f"c-{CANARY}"}
    spans = [
        span("t1", "one", "", 0, 400, (10, 3), **conversation),
        span("t2", "two", "", 5400, 6000, (25, 4), **conversation),
        span("t3", "else", "", 100, 200, (7, 1)),
    ]
    captured = parse_span_sessions("\n".join(otlp(one) for one in spans))
    assert captured.sessions == 2
    talk = [row for row in captured.rows if row["session"] == 0]
    assert [(row["after"], row["gap"]) for row in talk] == [([], 0.0), ([0], 5.0)]
    assert [row["at"] for row in captured.rows if "at" in row] == [0.0, 0.1]


def test_no_word_of_what_was_captured_is_kept(tmp_path: Path):
    text = json.dumps([{"role": "user", "content": f"{CANARY} " * 600}])
    spans = [
        span("t", "one", "", 0, 100, (1500, 5), text=text),
        span("t", "two", "", 200, 300, (1600, 5), text=f"{text[:-1]}, {{}}]"),
        span("t", "three", "", 400, 500, (1500, 5), text=text.replace(CANARY, "elsewhere")),
    ]
    (tmp_path / "spans.json").write_text(otlp(*spans))
    captured = capture_sessions(tmp_path / "spans.json")
    written = captured.render()
    assert CANARY not in written
    assert not any(word in written for word in ("t-one", "chat", "1700000000"))
    one, two, three = (row["hash_ids"] for row in captured.rows)
    assert one[:2] == two[:2]
    assert not set(three) & set(one)
    assert all(len(ids) <= 4 for ids in (one, two, three))
    assert [call.hash_ids for call in parse_sessions(written)[0].calls] == [tuple(one), tuple(two), tuple(three)]


def test_a_request_told_twice_is_one():
    spans = [
        span("t", "outer", "", 0, 100, (10, 5)),
        span("t", "inner", "outer", 10, 90, (10, 5)),
    ]
    assert len(parse_span_sessions(otlp(*spans)).rows) == 1


def test_the_console_exporter_is_read_too():
    rows = [
        {
            "name": "chat",
            "context": {"trace_id": "0x1", "span_id": f"0x{place}"},
            "parent_id": None,
            "start_time": f"2026-01-01T00:00:0{2 * place}.250000Z",
            "end_time": f"2026-01-01T00:00:0{2 * place + 1}.500000Z",
            "attributes": {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2},
        }
        for place in range(2)
    ]
    captured = parse_span_sessions("\n".join(json.dumps(row, indent=1) for row in rows))
    assert [(row["after"], row["gap"]) for row in captured.rows] == [([], 0.0), ([0], 0.75)]


@pytest.mark.parametrize("seed", range(30))
def test_a_program_played_by_its_captured_graph_takes_the_time_it_took(seed: int):
    """Random nested programs: replayed with the recorded durations, every call begins when it had begun."""
    draw = random.Random(seed)
    spans, truth = [], {}

    def run(parent: str, begin: int, depth: int) -> int:
        """A stretch of work: calls and sub-agents one after the other, or sub-agents side by side; when it ended."""
        at = begin
        for step in range(draw.randrange(1, 4)):
            at += draw.randrange(0, 30)
            name = f"{parent}.{step}"
            if depth and draw.random() < 0.4:
                ends = []
                for child in range(draw.randrange(1, 4)):
                    agent = f"{name}{chr(97 + child)}"
                    end = run(agent, at, depth - 1)
                    spans.append(span("t", agent, parent, at, end))
                    ends.append(end)
                at = max(ends)
                continue
            end = at + draw.randrange(5, 50)
            spans.append(span("t", name, parent, at, end, (len(truth) + 1, 1)))
            truth[len(truth) + 1] = (at, end)
            at = end
        return at

    spans.append(span("t", "r", "", 0, run("r", 0, 2)))
    rows = parse_span_sessions(otlp(*spans)).rows
    start, played = min(begin for begin, _ in truth.values()), {}
    for row in rows:
        begin, end = truth[row["input_tokens"]]
        since = max((played[one] for one in row["after"]), default=start)
        assert round(since + row["gap"] * 1000) == begin
        played[row["call"]] = end


def test_what_holds_no_request_is_said(tmp_path: Path):
    with pytest.raises(BadInput, match=r"gen_ai\.usage\.input_tokens"):
        parse_span_sessions(otlp(span("t", "one", "", 0, 1)))
    with pytest.raises(BadInput, match="start and an end"):
        parse_span_sessions(otlp(span("t", "one", "", 5, 1)))
    with pytest.raises(BadInput, match="no such file"):
        capture_sessions(tmp_path / "none.json")


def test_the_command_writes_the_file_and_does_not_overwrite_one(tmp_path: Path):
    (tmp_path / "spans.json").write_text(otlp(*AGENT))
    done = lynxbench_here("contract", "sessions", "spans.json", "--json", cwd=tmp_path)
    assert (done.code, json.loads(done.out)) == (
        0,
        {"file": "sessions.jsonl", "sessions": 1, "calls": 6, "spans": len(AGENT)},
    )
    assert len(parse_sessions((tmp_path / "sessions.jsonl").read_text())[0].calls) == 6
    assert lynxbench_here("contract", "sessions", "spans.json", cwd=tmp_path).code == 2
    assert lynxbench_here("contract", "sessions", "spans.json", "--force", cwd=tmp_path).code == 0
