"""What a model is asked: token windows that rotate through the bundled text, seeded images, labelled sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.workload.texts import HELD_OUT, PROMPTS, bundled_sha256, read_held_out, read_prompts

STRIDE = 37
"""Windows start so many tokens apart; a prime, so that the starts visit every token before they repeat."""
RANDOM_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as token ids, and where it came from."""

    ids: tuple[int, ...]
    origin: str

    def window(self, number: int, length: int) -> list[int]:
        """Exactly `length` tokens from the window of that number; the text goes round where it ends."""
        start = number * STRIDE % len(self.ids)
        rounds = -(-(start + length) // len(self.ids))
        return list((self.ids * rounds)[start : start + length])


def read_tokenizer(folder: Path | None) -> Any | None:
    """The model's own tokenizer, or None where it has none that can be read without its framework."""
    if folder is None or not (folder / "tokenizer.json").is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def prompt_tokens(tokenizer: Any | None, *, vocabulary: int, seed: int) -> Tokens:
    """The prompts as this model's tokens; seeded random ids for a model without a tokenizer."""
    return _tokens(tokenizer, read_prompts(), PROMPTS, vocabulary, seed)


def held_out_tokens(tokenizer: Any | None, *, vocabulary: int, seed: int) -> Tokens:
    """The held-out passage as this model's tokens; seeded random ids for a model without a tokenizer."""
    return _tokens(tokenizer, read_held_out(), HELD_OUT, vocabulary, seed + 1)


def _tokens(tokenizer: Any | None, text: str, name: str, vocabulary: int, seed: int) -> Tokens:
    if tokenizer is None:
        drawn = np.random.default_rng(seed).integers(0, vocabulary, RANDOM_TOKENS)
        return Tokens(tuple(int(number) for number in drawn), f"random token ids, seed {seed}")
    ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return Tokens(tuple(ids), f"{name} sha256:{bundled_sha256(name)}")


def seeded_images(number: int, count: int, shape: tuple[int, int, int], seed: int) -> npt.NDArray[np.float32]:
    """Images of standard normal pixels: no cache and no zero makes them cheaper than real ones."""
    return np.random.default_rng((seed, number)).standard_normal((count, *shape), dtype=np.float32)
