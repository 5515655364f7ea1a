"""What readers of answers have in common: the counts of one answer, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from lynxbench.load.response_reading import FAILED, MOST_TOKENS, UNKNOWN_TOKENS
from lynxbench.load.said_answers import is_sampled

TokenNumber = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class PlainReader:
    """Reads one connection's answers; those who derive from it say what an event and a body mean."""

    __slots__ = (
        "_always", "_keep", "_sampled", "_texts", "answering", "cached_tokens", "failure", "finished", "input_tokens",
        "number", "output_tokens", "reasoning_tokens",
    )  # fmt: skip

    def __init__(self, keep_text: bool = False) -> None:
        self._always = keep_text
        self._texts: list[str] = []
        self.begin()

    def begin(self, number: int = 0) -> None:
        """Forget the answer before; this one is to the arrival of that number."""
        self.number = number
        self.finished = self.answering = False
        self.output_tokens = self.input_tokens = self.cached_tokens = self.reasoning_tokens = UNKNOWN_TOKENS
        self.failure = ""
        self._sampled = is_sampled(number)
        self._keep = self._always or self._sampled
        if self._keep or self._texts:
            self._texts = []

    def text(self) -> str:
        """The answer so far, where texts are kept."""
        return "".join(self._texts) if self._always else ""

    def pieces(self) -> Sequence[str]:
        """What the events of an answer that is looked at said, one after the other; of others nothing."""
        return self._texts if self._sampled else ()

    def fail(self, why: object) -> int:
        """The answer is none, and why: the server's own words, or what it lacks."""
        self.failure = why if isinstance(why, str) else msgspec.json.encode(why).decode()
        return FAILED
