"""The OpenAI-style HTTP language in the dialects of its servers: how requests are made and answers are read.

What a dialect cannot do is said (`forces_length`, `bypasses_cache`), not guessed at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import msgspec

from lynxbench.engines.answer_usage import Usage, count_usage
from lynxbench.engines.generation_bodies import messages_fields, responses_fields
from lynxbench.engines.plain_reader import PlainReader
from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.response_reading import END, FAILED, NOTHING, OUTPUT, UNKNOWN_TOKENS
from lynxbench.model.dialect import Dialect


class Endpoint(StrEnum):
    """What is asked of the server."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    RESPONSES = "responses"
    MESSAGES = "messages"
    RERANK = "rerank"
    TRANSCRIPTIONS = "transcriptions"

    @property
    def path(self) -> str:
        """Below the base address's `/v1`."""
        return {"chat": "/chat/completions", "transcriptions": "/audio/transcriptions"}.get(self.value, f"/{self}")

    @property
    def streams(self) -> bool:
        """Whether answers can come in pieces."""
        return self not in (Endpoint.EMBEDDINGS, Endpoint.RERANK, Endpoint.TRANSCRIPTIONS)


@dataclass(frozen=True, slots=True)
class Service:
    """A server's address and how to talk to it. The key itself is never part of it, only the variable that holds it."""

    url: str
    model: str
    endpoint: Endpoint = Endpoint.CHAT
    dialect: Dialect = Dialect.GENERIC
    stream: bool = True
    api_key_env: str | None = None
    bypass_cache: bool = False
    forces_length: bool = True
    """Whether an answer goes on to the asked length where the server can be told so; else that length is a bound."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Fields added to every body as they are; they win over ours."""
    path: str | None = None
    """Where requests go on that host, instead of the endpoint's usual place."""

    def __post_init__(self) -> None:
        if self.bypass_cache and not self.dialect.bypasses_cache:
            able = ", ".join(dialect for dialect in Dialect if dialect.bypasses_cache)
            raise BadInput(
                f"dialect {self.dialect} cannot bypass its prefix cache per request (these can: {able}); leave it on"
            )
        if self.stream and not self.endpoint.streams:
            raise BadInput(f"{self.endpoint} are not streamed; set stream to false")


ChatMessage = Mapping[str, Any]
"""One turn of a chat: its role and its content."""


def build_body(
    service: Service,
    prompt: str | Sequence[int] | Sequence[ChatMessage],
    output_tokens: int | None,
    cache_salt: str = "",
) -> bytes:
    """The JSON body of one request. Prompts are text, token ids (plain completions) or a chat's messages."""
    body: dict[str, object] = {"model": service.model}
    dialect, endpoint = service.dialect, service.endpoint
    if endpoint in (Endpoint.RESPONSES, Endpoint.MESSAGES):
        fields = responses_fields if endpoint is Endpoint.RESPONSES else messages_fields
        return msgspec.json.encode({**body, **fields(prompt, output_tokens, stream=service.stream), **service.extra})
    if endpoint is Endpoint.CHAT:
        body["messages"] = _messages(prompt)
    elif prompt and not isinstance(prompt, str) and isinstance(prompt[0], Mapping):
        raise BadInput(f"endpoint {endpoint} takes text or token ids, not chat messages")
    elif endpoint is Endpoint.COMPLETIONS:
        body["prompt"] = prompt if isinstance(prompt, str) else list(prompt)
    else:
        body["input"] = prompt if isinstance(prompt, str) else list(prompt)
    if endpoint is not Endpoint.EMBEDDINGS:
        body["temperature"] = 0.0
        body["stream"] = service.stream
        if service.stream:
            body["stream_options"] = {"include_usage": True}
        if output_tokens is not None:
            body["max_tokens"] = output_tokens
            if dialect.forces_length and service.forces_length:
                body["ignore_eos"] = True
            if dialect in (Dialect.VLLM, Dialect.SGLANG) and service.forces_length:
                body["min_tokens"] = output_tokens
        if dialect is Dialect.LLAMACPP:
            body["cache_prompt"] = not service.bypass_cache
        if dialect is Dialect.VLLM and service.bypass_cache:
            if not cache_salt:
                raise BadInput("bypassing vLLM's prefix cache needs a cache salt of its own for every request")
            body["cache_salt"] = cache_salt
    body.update(service.extra)
    return msgspec.json.encode(body)


def build_request(service: Service, body: bytes) -> bytes:
    """The whole HTTP/1.1 request, ready for the socket."""
    return build_head(service, str(len(body))) + body


def build_head(service: Service, length: str, kind: str = "application/json") -> bytes:
    """A request's head, with the length of its body."""
    parts = urlsplit(service.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"server address {service.url!r} must look like http://host:port/v1")
    prefix = parts.path.rstrip("/") or "/v1"
    lines = [
        f"POST {service.path or prefix + service.endpoint.path} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        f"Content-Type: {kind}",
        f"Accept: {'text/event-stream' if service.stream else 'application/json'}",
        f"Content-Length: {length}",
    ]
    messages = service.endpoint is Endpoint.MESSAGES
    if messages:
        lines.append("anthropic-version: 2023-06-01")
    if service.api_key_env is not None:
        key = read_key(service.api_key_env)
        if messages:
            lines.append(f"x-api-key: {key}")
        if not messages or service.dialect is not Dialect.GENERIC:  # servers of other forms know this one alone
            lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"


def build_probe(url: str, tokens: int) -> bytes:
    """A request to the bundled server, by which the instrument itself is measured."""
    service = Service(url=url, model="ground-truth")
    return build_request(service, build_body(service, "How fast is the instrument itself?", tokens))


def read_key(variable: str) -> str:
    """The key an environment variable holds; CannotRun where it holds none."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise CannotRun(f"environment variable {variable} is not set; it should hold the server's API key")
    if not key.isascii() or not key.isprintable():
        raise CannotRun(f"environment variable {variable} holds characters that a header cannot carry")
    return key


def _messages(prompt: str | Sequence[int] | Sequence[ChatMessage]) -> list[ChatMessage]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    messages = [message for message in prompt if isinstance(message, Mapping)]
    if len(messages) < len(prompt):
        raise BadInput("a chat takes text or messages, not token ids; use the completions endpoint for those")
    return messages


class ChatScript:
    """Conversations of several turns: each next request carries what was said and answered so far."""

    stands_alone = False

    def __init__(
        self,
        service: Service,
        conversations: Sequence[Sequence[str]],
        output_tokens: int | Sequence[int] | None,
        *,
        opening: Callable[[int, int], str] | None = None,
        run: int = 0,
    ) -> None:
        """`opening` gives the text a conversation begins with, by run and number, which keeps prefix caches apart."""
        if service.endpoint is not Endpoint.CHAT:
            raise BadInput("conversations need the chat endpoint")
        if not conversations or not all(conversations):
            raise BadInput("conversations need at least one turn each")
        self._service = service
        self._conversations = [tuple(turns) for turns in conversations]
        self._output_tokens = output_tokens
        self._opening, self._run = opening, run
        self._firsts = (
            [] if opening else [self._request(turns, (), place) for place, turns in enumerate(self._conversations)]
        )

    def of_run(self, run: int) -> ChatScript:
        """The same conversations, opened as those of another run."""
        other = copy(self)
        other._run = run
        return other

    def first(self, number: int) -> bytes:
        """The opening turn; conversations rotate."""
        if self._firsts:
            return self._firsts[number % len(self._firsts)]
        return self._request(self._conversations[number % len(self._conversations)], (), number)

    def follow(self, number: int, answers: tuple[str, ...]) -> bytes | None:
        """The next turn with the whole history, or None after the last."""
        turns = self._conversations[number % len(self._conversations)]
        return self._request(turns, answers, number) if len(answers) < len(turns) else None

    def _request(self, turns: tuple[str, ...], answers: tuple[str, ...], number: int) -> bytes:
        if self._opening is not None:
            turns = (f"{self._opening(self._run, number)} {turns[0]}", *turns[1:])
        messages = []
        for turn, answer in zip(turns, answers, strict=False):
            messages += [{"role": "user", "content": turn}, {"role": "assistant", "content": answer}]
        messages.append({"role": "user", "content": turns[len(answers)]})
        salt = f"conversation-{number}" if self._service.bypass_cache else ""
        lengths = self._output_tokens
        length = lengths[number % len(lengths)] if isinstance(lengths, Sequence) else lengths
        return build_request(self._service, build_body(self._service, messages, length, salt))


# --- reading answers -------------------------------------------------------------------------------------------------


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct, gc=False):
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    """A delta or a message. The role says nothing that a reader waits for, so it is not decoded."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = []
    """Some servers write an empty list as null."""
    usage: Usage | None = None
    error: Any = None
    detail: Any = None
    """What web frameworks say in place of an answer."""
    data: list[msgspec.Raw] | None = None
    """Embedding vectors; not decoded, only counted."""


_decode: Callable[[bytes], _Answer] = msgspec.json.Decoder(_Answer).decode
BROKEN_OFF = ("abort", "error")
"""Reasons to finish that are none of an answer: the server gave it up."""
_SAYS_ERROR = re.compile(rb':\s*"error"')
"""An event that is an error by its type or object, without a key of that name."""


class OpenAiReader(PlainReader):
    """Reads one connection's answers. Tokens come from usage alone: an event is not a token."""

    __slots__ = ()

    def event(self, data: bytes) -> int:
        """One streamed event."""
        if data == b"[DONE]":
            self.finished = True
            return END
        answer = _decode(data)
        what, failure = NOTHING, ""
        for choice in answer.choices or ():
            if choice.finish_reason:  # some servers send an empty one with every piece
                self.finished = True
                if choice.finish_reason in BROKEN_OFF:
                    failure = f"finish_reason {choice.finish_reason}"
            delta = choice.delta or choice.message
            text = choice.text if delta is None else delta.content
            if text:
                self.answering = True
            elif delta is not None:
                text = delta.reasoning_content or delta.reasoning or delta.thinking
                if delta.tool_calls and any(map(_calls, delta.tool_calls)):
                    what, self.answering = OUTPUT, True
            if text:
                what = OUTPUT
                if self._keep:
                    self._texts.append(text)
        if answer.usage is not None:
            count_usage(self, answer.usage)
            # What it comes to stands after the last choice; a count of none, or of the prompt alone, comes before it.
            self.finished = self.finished or (not answer.choices and self.output_tokens > 0)
        if answer.data:
            what = OUTPUT
            self.output_tokens = UNKNOWN_TOKENS  # vectors are no tokens; some servers count zero of them
        empty = what == NOTHING and answer.usage is None and not answer.choices
        if answer.error is not None:
            failure = msgspec.json.encode(answer.error).decode()
        elif empty and (answer.detail or _SAYS_ERROR.search(data)):
            failure = data.decode("utf-8", "replace")
        if failure:
            self.failure, what = failure, FAILED
        return what

    def body(self, data: bytes, inference_header_bytes: int = -1) -> int:
        """A whole answer: the same fields, all at once."""
        what = self.event(data)
        self.finished = True
        return what


def _calls(call: _ToolCall) -> bool:
    return call.function is not None and bool(call.function.name or call.function.arguments)


class OpenAiLanguage:
    """What makes readers for the driver."""

    def reader(self, keep_text: bool) -> OpenAiReader:
        """A reader for one connection."""
        return OpenAiReader(keep_text)


def count_tokens(usage_tokens: Sequence[int], texts: Sequence[str], count: Callable[[str], int] | None) -> list[int]:
    """Output tokens a row: from usage, else from the tokenizer over the kept text, else UNKNOWN_TOKENS."""
    if count is None or len(texts) != len(usage_tokens):
        return list(usage_tokens)
    return [
        known if known != UNKNOWN_TOKENS else (count(text) if text else UNKNOWN_TOKENS)
        for known, text in zip(usage_tokens, texts, strict=True)
    ]
