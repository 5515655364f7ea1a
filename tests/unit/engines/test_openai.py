"""The OpenAI language: bodies by dialect, events as they really come, keys that stay secret."""

import json
import pickle

import pytest

from lynxbench.engines.openai import (
    ChatScript,
    Endpoint,
    OpenAiLanguage,
    OpenAiReader,
    Service,
    build_body,
    build_request,
    count_tokens,
)
from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.response_reading import END, FAILED, NOTHING, OUTPUT, UNKNOWN_TOKENS
from lynxbench.model.dialect import Dialect


def body(service, prompt="hello", tokens=8, **more):
    return json.loads(build_body(service, prompt, tokens, **more))


def service(**changes):
    return Service(**({"url": "http://h:1/v1", "model": "m"} | changes))


def test_bodies_by_endpoint():
    chat = body(service())
    assert chat["messages"] == [{"role": "user", "content": "hello"}]
    assert (chat["max_tokens"], chat["stream"], chat["stream_options"]) == (8, True, {"include_usage": True})
    plain = body(service(endpoint=Endpoint.COMPLETIONS, stream=False), [1, 2, 3])
    assert plain["prompt"] == [1, 2, 3]
    assert "stream_options" not in plain
    vectors = body(service(endpoint=Endpoint.EMBEDDINGS, stream=False), "text", None)
    assert vectors == {"model": "m", "input": "text"}
    turns = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))]
    assert [m["content"] for m in body(service(), turns)["messages"]] == ["a", "b", "c"]
    with pytest.raises(BadInput):
        body(service(), [1, 2])
    with pytest.raises(BadInput):
        body(service(endpoint=Endpoint.COMPLETIONS), turns)
    with pytest.raises(BadInput):
        service(endpoint=Endpoint.EMBEDDINGS)


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        (Dialect.VLLM, {"ignore_eos": True, "min_tokens": 8}),
        (Dialect.SGLANG, {"ignore_eos": True, "min_tokens": 8}),
        (Dialect.LLAMACPP, {"ignore_eos": True, "cache_prompt": True}),
        (Dialect.TGI, {}),
        (Dialect.OLLAMA, {}),
        (Dialect.GENERIC, {}),
    ],
)
def test_each_dialect_gets_only_what_it_understands(dialect, fields):
    ours = {"model", "messages", "temperature", "stream", "stream_options", "max_tokens"}
    got = body(service(dialect=dialect))
    assert {k: v for k, v in got.items() if k not in ours} == fields
    assert dialect.forces_length == ("ignore_eos" in fields)


def test_the_prefix_cache_is_bypassed_where_it_can_be():
    assert body(service(dialect=Dialect.LLAMACPP, bypass_cache=True))["cache_prompt"] is False
    vllm = service(dialect=Dialect.VLLM, bypass_cache=True)
    assert body(vllm, cache_salt="s1")["cache_salt"] == "s1"
    with pytest.raises(BadInput):
        body(vllm)
    with pytest.raises(BadInput, match="cannot bypass"):
        service(dialect=Dialect.OLLAMA, bypass_cache=True)


def test_extra_fields_win():
    assert body(service(extra={"temperature": 1.0, "top_k": 5}))["temperature"] == 1.0


def test_the_request_and_its_key(monkeypatch):
    monkeypatch.setenv("THE_KEY", "s3cret")
    asked = service(url="https://models.example/api/v1/", api_key_env="THE_KEY")
    raw = build_request(asked, b"{}")
    head, _, rest = raw.partition(b"\r\n\r\n")
    assert rest == b"{}"
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /api/v1/chat/completions HTTP/1.1"
    assert b"Host: models.example" in lines
    assert b"Authorization: Bearer s3cret" in lines
    assert b"Content-Length: 2" in lines
    assert "s3cret" not in repr(asked)
    assert b"POST /v1/embeddings " in build_request(
        service(url="http://h:1", endpoint=Endpoint.EMBEDDINGS, stream=False), b""
    )
    for key in ("", "a\r\nX: y"):
        monkeypatch.setenv("THE_KEY", key)
        with pytest.raises(CannotRun) as caught:
            build_request(asked, b"")
        assert "THE_KEY" in str(caught.value)
        assert "X: y" not in str(caught.value)


def event(reader, **answer):
    return reader.event(json.dumps(answer).encode())


def test_what_is_and_is_not_output():
    reader = OpenAiReader(True)
    assert event(reader, choices=[{"delta": {"role": "assistant", "content": ""}}]) == NOTHING
    assert event(reader, choices=[{"delta": {"role": "assistant", "content": None}}]) == NOTHING
    assert event(reader, choices=[{"delta": {}}]) == NOTHING
    assert event(reader, choices=[{"delta": {"reasoning_content": "hm"}}]) == OUTPUT
    assert event(reader, choices=[{"delta": {"reasoning": "hm"}}]) == OUTPUT
    assert event(reader, choices=[{"delta": {"content": " two words"}}]) == OUTPUT
    assert event(reader, choices=[{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": ""}}]}}]) == OUTPUT
    assert event(reader, choices=[{"delta": {"tool_calls": [{"index": 0}]}}]) == NOTHING
    assert event(reader, choices=[{"text": "plain"}]) == OUTPUT
    assert event(reader, choices=[{"text": ""}]) == NOTHING
    assert not reader.finished
    assert event(reader, choices=[{"delta": {}, "finish_reason": "stop"}]) == NOTHING
    assert reader.finished
    assert reader.output_tokens == UNKNOWN_TOKENS, "events are never counted as tokens"
    assert event(reader, choices=[], usage={"prompt_tokens": 3, "completion_tokens": 9}) == NOTHING
    assert (reader.output_tokens, reader.input_tokens, reader.cached_tokens) == (9, 3, UNKNOWN_TOKENS)
    assert reader.event(b"[DONE]") == END
    assert reader.text() == "hmhm two wordsplain"
    assert event(reader, error={"message": "no memory"}) == FAILED
    assert "no memory" in reader.failure
    assert event(reader, choices=[{"delta": {"content": "x"}}], error=None) == OUTPUT
    reader.begin()
    assert (reader.output_tokens, reader.finished, reader.text(), reader.failure) == (UNKNOWN_TOKENS, False, "", "")
    with pytest.raises(ValueError, match="JSON"):
        reader.event(b"{nope")


def test_running_usage_totals_are_not_added_up():
    reader = OpenAiReader(False)
    for total in (1, 2, 3):
        event(reader, choices=[{"delta": {"content": "x"}}], usage={"completion_tokens": total})
    assert reader.output_tokens == 3
    assert reader.text() == ""


def test_whole_answers():
    reader = OpenAiReader(True)
    chat = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}
    assert reader.body(json.dumps(chat).encode()) == OUTPUT
    assert (reader.output_tokens, reader.text()) == (1, "hi")
    assert reader.body(b'{"data":[{"embedding":[1,2]}],"usage":{"prompt_tokens":4}}') == OUTPUT
    assert reader.input_tokens == 4
    assert reader.body(b'{"error":"bad"}') == FAILED


def test_tokens_come_from_usage_then_the_tokenizer_then_nowhere():
    def words(text):
        return len(text.split())

    assert count_tokens([5, -1, -1], ["a b", "a b c", ""], words) == [5, 3, UNKNOWN_TOKENS]
    assert count_tokens([5, -1], ["a", "b"], None) == [5, UNKNOWN_TOKENS]


def test_conversations_carry_what_was_said():
    script = ChatScript(service(), [["hi", "and then?"], ["only this"]], 4)
    assert json.loads(script.first(1).partition(b"\r\n\r\n")[2])["messages"] == [
        {"role": "user", "content": "only this"}
    ]
    following = script.follow(2, ("well",))
    sent = json.loads(following.partition(b"\r\n\r\n")[2])["messages"]
    assert [(m["role"], m["content"]) for m in sent] == [("user", "hi"), ("assistant", "well"), ("user", "and then?")]
    assert script.follow(0, ("a", "b")) is None
    assert script.follow(1, ("a",)) is None
    again = pickle.loads(pickle.dumps(script))
    assert again.first(0) == script.first(0)
    with pytest.raises(BadInput):
        ChatScript(service(endpoint=Endpoint.COMPLETIONS), [["a"]], 4)
    with pytest.raises(BadInput):
        ChatScript(service(), [], 4)


def test_languages_travel_to_other_processes():
    assert isinstance(pickle.loads(pickle.dumps(OpenAiLanguage())).reader(False), OpenAiReader)


def test_vectors_are_no_tokens_whatever_usage_counts() -> None:
    reader = OpenAiReader(keep_text=False)
    usage = {"prompt_tokens": 9, "total_tokens": 9, "completion_tokens": 0}
    assert reader.body(json.dumps({"data": [{"embedding": [0.1]}], "usage": usage}).encode()) == OUTPUT
    assert (reader.output_tokens, reader.input_tokens) == (-1, 9)
