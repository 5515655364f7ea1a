"""How answers in the form of Anthropic's Messages are read: blocks of content, then a delta with usage, then a stop.

An answer counts when it ends as `message_stop` after a `message_delta` that gave its output tokens. What the first
event says of output tokens is a place-holder and never taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lynxbench.engines.plain_reader import PlainReader, TokenNumber
from lynxbench.load.response_reading import END, NOTHING, OUTPUT, UNKNOWN_TOKENS


class _Usage(msgspec.Struct, gc=False):
    input_tokens: TokenNumber | None = None
    output_tokens: TokenNumber | None = None
    cache_read_input_tokens: TokenNumber | None = None
    cache_creation_input_tokens: TokenNumber | None = None


class _Block(msgspec.Struct, gc=False):
    """A block of content, or a piece of one."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    name: str | None = None
    stop_reason: str | None = None


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    content: list[_Block] | None = None
    usage: _Usage | None = None
    error: Any = None
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: _Block | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_decode_event: Callable[[bytes], _Event] = msgspec.json.Decoder(_Event).decode
_decode_whole: Callable[[bytes], _Message] = msgspec.json.Decoder(_Message).decode


class MessagesReader(PlainReader):
    """Reads one connection's answers. What a model thinks is output before its answer; usage does not tell the two."""

    __slots__ = ("_came", "_counted")

    def begin(self, number: int = 0) -> None:
        """Forget the answer before."""
        super().begin(number)
        self._came = False
        self._counted: int = UNKNOWN_TOKENS

    def event(self, data: bytes) -> int:
        """One streamed event."""
        if data == b"[DONE]":
            return END  # some servers send it; it is not what ends this form
        event = _decode_event(data)
        kind = event.type
        if kind == "error" or event.error is not None:
            return self.fail(event.error or "an error event")
        if kind in ("content_block_delta", "content_block_start"):
            piece = event.delta if kind == "content_block_delta" else event.content_block
            return NOTHING if piece is None else self._piece(piece)
        if kind == "message_stop":
            self.finished = True
            return self._end()
        if kind == "message_start" and event.message is not None and event.message.usage is not None:
            self._read_input(event.message.usage)
        elif kind == "message_delta" and event.usage is not None:
            self._read_input(event.usage)
            if event.usage.output_tokens is not None:  # running totals: the last one stands
                self._counted = event.usage.output_tokens
        return NOTHING

    def body(self, data: bytes, inference_header_bytes: int = -1) -> int:
        """A whole answer."""
        answer = _decode_whole(data)
        self.finished = True
        if answer.error is not None or answer.type == "error":
            return self.fail(answer.error or "an error")
        if answer.content is None:
            raise ValueError("an answer without content")
        pieces = [self._piece(block) for block in answer.content]
        if answer.usage is not None:
            self._read_input(answer.usage)
            self._counted = UNKNOWN_TOKENS if answer.usage.output_tokens is None else answer.usage.output_tokens
        return self._end() or (OUTPUT if OUTPUT in pieces else NOTHING)

    def _piece(self, piece: _Block) -> int:
        text = piece.text or piece.partial_json or (piece.name if piece.type == "tool_use" else "")
        if text:
            self.answering = True
        else:
            text = piece.thinking
        if not text:
            return NOTHING
        self._came = True
        if self._keep:
            self._texts.append(text)
        return OUTPUT

    def _read_input(self, usage: _Usage) -> None:
        if usage.input_tokens is None:
            return
        # The form counts what came from a cache apart from the rest of the input.
        cached = usage.cache_read_input_tokens
        total = usage.input_tokens + (cached or 0) + (usage.cache_creation_input_tokens or 0)
        if total == 0:  # a prompt has tokens: who counts it at the start fills the last event with a place-holder
            return
        self.input_tokens = total
        if cached is not None:
            self.cached_tokens = cached

    def _end(self) -> int:
        if self._counted == UNKNOWN_TOKENS:
            return self.fail("no usage: its tokens are not known")
        if self._counted == 0 and self._came:
            return self.fail("usage counts no token of an answer that has output")
        self.output_tokens = self._counted
        return NOTHING


class MessagesLanguage:
    """What makes readers for the driver."""

    def reader(self, keep_text: bool) -> MessagesReader:
        """A reader for one connection."""
        return MessagesReader(keep_text)
