"""How answers in the form of OpenAI's Responses are read: typed events, and a last one that holds status and usage.

An answer counts when it ends as `response.completed`, or as `response.incomplete` at the asked length, with usage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lynxbench.engines.plain_reader import PlainReader, TokenNumber
from lynxbench.load.response_reading import END, NOTHING, OUTPUT

ANSWER_DELTAS = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
)
THOUGHT_DELTAS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta")
AT_LENGTH = ("max_output_tokens", "max_tokens")
"""Why an answer may be incomplete and yet whole: it has the length that it was asked for."""

BROKEN_OFF = ("failed", "cancelled")
"""What a response may say of itself whatever the event is called that it came in."""


class _Cached(msgspec.Struct, gc=False):
    cached_tokens: TokenNumber | None = None


class _Thought(msgspec.Struct, gc=False):
    reasoning_tokens: TokenNumber | None = None


class _Usage(msgspec.Struct, gc=False):
    output_tokens: TokenNumber
    input_tokens: TokenNumber | None = None
    input_tokens_details: _Cached | None = None
    output_tokens_details: _Thought | None = None


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    arguments: str | None = None


class _Why(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Why | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: Any = None
    response: _Response | None = None
    error: Any = None
    message: str | None = None


_decode_event: Callable[[bytes], _Event] = msgspec.json.Decoder(_Event).decode
_decode_whole: Callable[[bytes], _Response] = msgspec.json.Decoder(_Response).decode


class ResponsesReader(PlainReader):
    """Reads one connection's answers. Tokens come from the last event's usage alone."""

    __slots__ = ("_came",)

    def begin(self, number: int = 0) -> None:
        """Forget the answer before."""
        super().begin(number)
        self._came = False

    def event(self, data: bytes) -> int:
        """One streamed event."""
        if data == b"[DONE]":
            return END  # some servers send it; it is not what ends this form
        event = _decode_event(data)
        kind = event.type
        if kind in ANSWER_DELTAS or kind in THOUGHT_DELTAS:
            return self._delta(event.delta, answers=kind in ANSWER_DELTAS)
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            if event.response is None:
                raise ValueError(f"{kind} without its response")
            own = event.response.status
            return self._end(event.response, own if own in BROKEN_OFF else kind.removeprefix("response."))
        if kind == "error" or event.error is not None:
            return self.fail(event.error or event.message or "an error event")
        return NOTHING

    def body(self, data: bytes, inference_header_bytes: int = -1) -> int:
        """A whole answer."""
        answer = _decode_whole(data)
        if answer.error is None and answer.status is None and answer.output is None:
            raise ValueError("an answer without status and output")
        return self._end(answer, answer.status or "without a status")

    def _delta(self, delta: object, *, answers: bool) -> int:
        text = delta if isinstance(delta, str) else ""
        if not text:
            return NOTHING
        self._came = True
        self.answering = self.answering or answers
        if self._keep:
            self._texts.append(text)
        return OUTPUT

    def _end(self, answer: _Response, status: str) -> int:
        self.finished = True
        if answer.error is not None:
            return self.fail(answer.error)
        why = answer.incomplete_details.reason if answer.incomplete_details is not None else None
        if status != "completed" and not (status == "incomplete" and why in AT_LENGTH):
            return self.fail(f"the response is {status}{f' ({why})' if why else ''}")
        if not self._came:
            what = self._whole(answer)
        else:
            what = NOTHING  # its pieces have come already
        usage = answer.usage
        if usage is None:
            return self.fail("no usage: its tokens are not known")
        if usage.output_tokens == 0 and self._came:
            return self.fail("usage counts no token of an answer that has output")
        self.output_tokens = usage.output_tokens
        if usage.input_tokens is not None:
            self.input_tokens = usage.input_tokens
        cached = None if usage.input_tokens_details is None else usage.input_tokens_details.cached_tokens
        if cached is not None and cached <= self.input_tokens:  # no more can come from a cache than was read
            self.cached_tokens = cached
        if usage.output_tokens_details is not None and usage.output_tokens_details.reasoning_tokens is not None:
            self.reasoning_tokens = usage.output_tokens_details.reasoning_tokens
        return what

    def _whole(self, answer: _Response) -> int:
        """Output that came all at once: a body's, or that of a server which streams no pieces."""
        what = NOTHING
        for item in answer.output or ():
            parts = [*(item.content or ()), *(item.summary or ())]
            text = (item.arguments or "") + "".join((part.text or "") + (part.refusal or "") for part in parts)
            if self._delta(text, answers=item.type != "reasoning") == OUTPUT:
                what = OUTPUT
        return what


class ResponsesLanguage:
    """What makes readers for the driver."""

    def reader(self, keep_text: bool) -> ResponsesReader:
        """A reader for one connection."""
        return ResponsesReader(keep_text)
