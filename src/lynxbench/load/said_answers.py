"""What a few answers of a run said, as numbers alone: whether they depend on the prompts, and how much came first.

Texts are held while such an answer comes, hashed after its last byte was stamped, and kept nowhere. The others, which
are nearly all, cost nothing.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from lynxbench.model.samples import Int64

FIRST_ARRIVALS: Final = 64
"""Looked at in every run, so that a short one shows it too;"""
EVERY: Final = 61
"""of the others one in so many: prime, so that prompts asked in turn have their turn here too."""
WIDTH: Final = 8
"""Numbers an answer: its arrival's, its turn, a digest, of how many characters, those of the first event, all of them,
events, tokens."""
WHOLE: Final = 128
"""Characters up to which answers are held against each other whole; of longer ones the largest power of two that they
fill, since canned texts are cut to the length that was asked for."""


def is_sampled(number: int) -> bool:
    """Whether the answer to this arrival is looked at."""
    return number < FIRST_ARRIVALS or number % EVERY == 0


def sketch(number: int, turn: int, pieces: Sequence[str], events: int, tokens: int) -> tuple[int, ...]:
    """An answer as numbers; empty where it said nothing."""
    text = "".join(pieces)
    if not text:
        return ()
    at = len(text) if len(text) < WHOLE else 1 << (len(text).bit_length() - 1)
    hashed = blake2b(text[:at].encode("utf-8", "surrogatepass"), digest_size=8).digest()
    digest = int.from_bytes(hashed, "little", signed=True)
    return (number, turn, digest, at, len(pieces[0]), len(text), events, tokens)


def first_share(said: Int64) -> float | None:
    """The mean share of an answer's characters in its first event, of answers with several tokens an event."""
    first, characters, events, tokens = (said[:, place] for place in (4, 5, 6, 7))
    several = (events >= 2) & (events < tokens - 1)
    return float(np.mean(first[several] / characters[several])) if several.any() else None
