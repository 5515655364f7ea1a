"""Answers kept as what they say and which tools they call, so that their form can be looked at after the run."""

from __future__ import annotations

from typing import Any

import msgspec

from lynxbench.engines.openai import OpenAiReader
from lynxbench.load.response_reading import NOTHING


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    function: _Function | None = None


class _Said(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Said | None = None
    message: _Said | None = None
    text: str | None = None


class _Piece(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = []


_decode = msgspec.json.Decoder(_Piece).decode


class StructuredReader(OpenAiReader):
    """Reads as its parent does, and keeps the answer apart from what was thought aloud before it."""

    __slots__ = ("_calls", "_content")

    def begin(self, number: int = 0) -> None:
        """Forget the answer before."""
        super().begin(number)
        self._content: list[str] = []
        self._calls: list[list[str]] = []

    def event(self, data: bytes) -> int:
        """One streamed event, or a whole answer; events without output are not looked at again."""
        what = super().event(data)
        if what != NOTHING and data != b"[DONE]":
            for choice in _decode(data).choices or ():
                said = choice.delta or choice.message
                text = choice.text if said is None else said.content
                if text:
                    self._content.append(text)
                for place, call in enumerate((said.tool_calls if said is not None else None) or ()):
                    self._keep_call(place if call.index is None else call.index, call.function)
        return what

    def text(self) -> str:
        """The answer as one JSON text: `{"content": …, "calls": [[name, arguments], …]}`."""
        said: dict[str, Any] = {"content": "".join(self._content), "calls": self._calls}
        return msgspec.json.encode(said).decode()

    def _keep_call(self, place: int, function: _Function | None) -> None:
        while len(self._calls) <= place < 128:
            self._calls.append(["", ""])
        if function is not None and 0 <= place < len(self._calls):
            self._calls[place][0] += function.name or ""
            self._calls[place][1] += function.arguments or ""


class StructuredLanguage:
    """What makes such readers for the driver."""

    def reader(self, keep_text: bool) -> StructuredReader:
        """A reader for one connection; it keeps no second copy of the text."""
        return StructuredReader(keep_text=False)
