"""The bundled prose in pieces of a wanted number of tokens, as bytes that stand inside a JSON text.

Tokens are counted word by word: vocabularies in use do not join words, so the counts of words add up to that of the
text. Without a tokenizer every word counts as the server's mean of our prose.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from lynxbench.engines.asking import TokenCalibration
from lynxbench.workload.texts import read_prompts

USUAL_TOKENS_A_WORD = 1.3
"""English prose in the usual vocabularies; only used where neither a tokenizer nor the server's usage tells."""
OPENING_WORDS = 5
"""Words that stand for a block's number at its beginning: 250 words to the fifth tell a trillion apart."""
BODIES = 64
"""Bodies of whole blocks, made once; a block is one of them after words of its own."""
_STRIDE = 2_654_435_761


class Prose:
    """Pieces of prose; each begins with a space, so that pieces joined are words joined."""

    def __init__(self, count: Callable[[str], int] | None, calibration: TokenCalibration) -> None:
        words = read_prompts().split()
        known = calibration.tokens_a_word or USUAL_TOKENS_A_WORD
        cost = {word: float(count(f" {word}")) if count else known for word in dict.fromkeys(words)}
        self._unit = min(cost.values())
        # Words of the least cost: with a tokenizer one token each, so that a length can be met exactly.
        self._plain = [_inside(f" {word}") for word, tokens in cost.items() if tokens == self._unit and word.isalpha()]
        self._exact = count is not None
        pieces = [_inside(f" {word}") for word in words] * 2
        self._ends = [0, *np.cumsum([len(piece) for piece in pieces]).tolist()]
        self._text = b"".join(pieces)
        self._spent = np.concatenate(([0.0], np.cumsum([cost[word] for word in words] * 2)))
        self._words = len(words)

    def text(self, start: int, tokens: float) -> bytes:
        """So many tokens of prose from a word on, to the token with a tokenizer, to the word without."""
        start %= self._words
        rounds, rest = divmod(max(0.0, tokens), float(self._spent[self._words]))
        nearest = 0.0 if self._exact else self._unit / 2
        end = int(np.searchsorted(self._spent, self._spent[start] + rest + nearest, side="right")) - 1
        left = rest - float(self._spent[end] - self._spent[start])
        fill = self._plain[start % len(self._plain)] * round(left / self._unit) if self._exact else b""
        around = self._text[self._ends[start] : self._ends[start + self._words]] * int(rounds)
        return around + self._text[self._ends[start] : self._ends[end]] + fill

    def opening(self, number: int) -> bytes:
        """Words that stand for a number and for no other."""
        value, words = number * _STRIDE % len(self._plain) ** OPENING_WORDS, []
        for _ in range(OPENING_WORDS):
            value, place = divmod(value, len(self._plain))
            words.append(self._plain[place])
        return b"".join(words)

    def block(self, number: int, tokens: float) -> bytes:
        """A text of that many tokens which is that number's alone, where it has room for the number's words."""
        if tokens <= OPENING_WORDS * self._unit:
            return self.text(number * _STRIDE, tokens)
        return self.opening(number) + self.body(number, tokens)

    def body(self, number: int, tokens: float) -> bytes:
        """What follows the number's words in such a text."""
        return self.text(number % BODIES * 131, tokens - OPENING_WORDS * self._unit)


def _inside(text: str) -> bytes:
    """A text as it stands inside the quotes of JSON."""
    return msgspec.json.encode(text)[1:-1]
