"""Requests whose text is put together from shared pieces when they are sent: joined bytes, nothing is encoded then.

A trace of long prompts has more text than a machine's memory; its blocks are few words of their own and a body that
many have, so that a script is as small as the trace's hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum

from lynxbench.engines import openai
from lynxbench.engines.marked_requests import PLACE, PLACE_IN_JSON, mark
from lynxbench.engines.prose import BODIES, Prose

UNIQUE = 1 << 38
"""Blocks from this number on are nobody else's: a request's own rest, after what it shares."""
LETTERS_TOKENS = 5
"""Ten random letters in the usual vocabularies; they are part of what the server counted of the first questions."""


class Letters(Enum):
    """Where letters stand that keep requests apart in a cache."""

    NONE = 0
    """Nowhere: requests repeat as they are."""
    EACH = 1
    """Before every request, its own."""
    ROUND = 2
    """Before every request, the same in one round through the requests of one run."""
    REST = 3
    """After what a request shares, before the rest, its own."""


class RequestFrame:
    """A request around its text."""

    def __init__(self, service: openai.Service, output_tokens: int | None) -> None:
        body = openai.build_body(service, PLACE, output_tokens)
        self._before, self._after = body.split(PLACE_IN_JSON)
        head = openai.build_request(service, body)[: -len(body)]
        start, name, rest = head.partition(b"Content-Length: ")
        self._start, self._end = start + name, rest[rest.index(b"\r\n") :]

    def filled(self, text: bytes) -> bytes:
        """The whole request with that text in place."""
        length = len(self._before) + len(text) + len(self._after)
        return b"".join((self._start, b"%d" % length, self._end, self._before, text, self._after))


@dataclass(frozen=True, slots=True)
class SharedText:
    """The input of one request: hashed blocks at its beginning, then text of its own."""

    frame: RequestFrame
    blocks: tuple[int, ...]
    input_tokens: int
    block: int
    """Tokens of a block."""


class PiecedRotation:
    """Prepared requests in turn, put together as they are sent."""

    stands_alone = True

    def __init__(
        self, texts: Sequence[SharedText], prose: Prose, *, overhead: float, letters: Letters, run: int
    ) -> None:
        """`overhead` tokens are the template's and the letters': what stands first is shorter by as many."""
        self._texts, self._prose, self._run = list(texts), prose, run
        self._letters, self._overhead = letters, overhead
        whole = {text.block for text in texts if len(text.blocks) > 1}
        self._bodies = {tokens: [prose.body(number, tokens) for number in range(BODIES)] for tokens in whole}

    def of_run(self, run: int) -> PiecedRotation:
        """The same requests with other letters."""
        other = copy(self)
        other._run = run
        return other

    def first(self, number: int) -> bytes:
        """The request, put together."""
        round_, place = divmod(number, len(self._texts))
        text = self._texts[place]
        pieces = self._pieces(text, UNIQUE + place)
        if self._letters is Letters.REST:
            pieces.insert(len(text.blocks), f" {mark(self._run, number)}".encode())
        elif self._letters is not Letters.NONE:
            pieces.insert(0, mark(self._run, round_ if self._letters is Letters.ROUND else number).encode())
        return text.frame.filled(b"".join(pieces))

    def follow(self, number: int, answers: tuple[str, ...]) -> bytes | None:
        """Every request stands alone."""
        return None

    def _pieces(self, text: SharedText, own: int) -> list[bytes]:
        prose, block = self._prose, text.block
        pieces: list[bytes] = []
        # Where the letters come last, the template alone stands before the first block.
        ahead = max(0.0, self._overhead - (LETTERS_TOKENS if self._letters is Letters.REST else 0))
        left = float(text.input_tokens)
        for number in text.blocks:
            tokens = min(float(block), left)
            left -= tokens
            if not pieces:
                pieces.append(prose.block(number, max(1.0, tokens - ahead)))
            elif tokens == block:
                pieces.append(prose.opening(number) + self._bodies[block][number % BODIES])
            elif tokens > 0:
                pieces.append(prose.block(number, tokens))
        left -= self._overhead if not pieces else self._overhead - ahead
        if left >= 1 or not pieces:
            pieces.append(prose.block(own, max(1.0, left)))
        return pieces
