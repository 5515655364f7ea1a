"""Answers as servers stream them: content, reasoning in both spellings, calls of tools in pieces."""

from __future__ import annotations

import json

from lynxbench.engines.openai import OpenAiReader
from lynxbench.engines.structured import StructuredLanguage


def event(**delta) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


def test_reasoning_is_output_and_no_answer():
    for name in ("reasoning_content", "reasoning"):
        reader = OpenAiReader(keep_text=False)
        reader.event(event(role="assistant", content=""))
        assert not reader.answering
        assert reader.event(event(**{name: "hm"})) == 1
        assert not reader.answering
        assert reader.event(event(content="so")) == 1
        assert reader.answering
        usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 5}}
        reader.event(json.dumps({"choices": [], "usage": usage}).encode())
        assert (reader.output_tokens, reader.reasoning_tokens) == (9, 5)
        reader.begin()
        assert (reader.answering, reader.reasoning_tokens) == (False, -1)


def test_pieces_of_calls_are_joined_by_their_place():
    reader = StructuredLanguage().reader(keep_text=True)
    reader.event(event(reasoning_content="which tool?"))
    reader.event(event(tool_calls=[{"index": 0, "function": {"name": "look", "arguments": ""}}]))
    assert reader.answering
    reader.event(event(tool_calls=[{"index": 0, "function": {"arguments": '{"a"'}}]))
    reader.event(event(tool_calls=[{"index": 1, "function": {"name": "jump", "arguments": "{}"}}]))
    reader.event(event(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}]))
    reader.event(event(tool_calls=[{"index": 10**6, "function": {"arguments": "x"}}]))
    reader.event(b"[DONE]")
    said = json.loads(reader.text())
    assert said["calls"][:2] == [["look", '{"a": 1}'], ["jump", "{}"]]
    assert len(said["calls"]) <= 128
    assert said["content"] == ""


def test_a_whole_answer_is_read_too_and_thoughts_are_no_answer():
    reader = StructuredLanguage().reader(keep_text=True)
    message = {"content": '{"a": 1}', "reasoning_content": "let me see"}
    reader.body(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())
    assert json.loads(reader.text()) == {"content": '{"a": 1}', "calls": []}
    reader.begin()
    assert json.loads(reader.text()) == {"content": "", "calls": []}
