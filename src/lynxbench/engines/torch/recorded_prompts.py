"""Prompts of any length as recorded graphs: a few lengths are recorded, and a prompt is padded to the next of them.

The padding stands behind the prompt, where no token of it looks. Its keys and values lie in the cache behind the
prompt's, and the answer overwrites each before anything reads it. So it costs work, and changes no answer; only where a
format has one scale for all rows of a product does that scale see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad

from lynxbench.engines.torch.graphs import Replay

STEPS_AN_OCTAVE = 8
"""Recorded lengths between one power of two and the next: padding adds an eighth at the most …"""
LEAST_STEP = 8
"""… or, to short prompts, fewer tokens than this."""


def recorded_lengths(shortest: int, longest: int) -> tuple[int, ...]:
    """The lengths that prompts from the shortest to the longest are padded to; the longest is never padded."""
    lengths: list[int] = []
    length = 0
    while True:
        octave = 1 << max(0, length.bit_length() - 1)
        length += max(LEAST_STEP, octave // STEPS_AN_OCTAVE)
        if length >= longest:
            return (*lengths, longest)
        if length >= shortest:
            lengths.append(length)


def can_be_padded(cache: Any, plain: Any) -> bool:
    """Whether every layer of a cache of fixed size keeps all positions, and counts them on the device.

    A window that slides would keep the padding in place of the prompt.
    """
    return all(
        isinstance(layer, plain)
        and not layer.is_sliding
        and isinstance(getattr(layer, "cumulative_length", None), torch.Tensor)
        for layer in cache.layers
    )


class RecordedPrompts:
    """Reads a prompt into a cache of fixed size, whatever lay in it before, and gives the token after it.

    Attention is over the prompt alone, in a cache of its own, from which keys and values are copied: over the fixed
    one it would need a mask, and work on all of its positions.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        cache: Any,
        own_cache: Callable[[], Any],
        lengths: tuple[int, ...],
        device: torch.device,
    ) -> None:
        self._forward, self._cache, self._own_cache = forward, cache, own_cache
        self._counts: list[torch.Tensor] = [layer.cumulative_length for layer in cache.layers]
        self._replay = Replay(self._read, device)
        self.lengths = lengths

    def record(self, batch: int) -> None:
        """All lengths, the longest first: the others find their memory where it worked."""
        for length in reversed(self.lengths):
            self(torch.zeros((batch, length), dtype=torch.long, device=self._counts[0].device))

    def __call__(self, prompt: torch.Tensor) -> torch.Tensor:
        """The likeliest token after the prompt."""
        length = prompt.shape[1]
        padded = next(recorded for recorded in self.lengths if recorded >= length)
        count = torch.full((1,), length, device=prompt.device)  # written by the device: the host waits for nothing
        token: torch.Tensor = self._replay(input_ids=pad(prompt, (0, padded - length)), length=count)
        return token

    def _read(self, input_ids: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        read = self._own_cache()
        scores = self._forward(
            input_ids=input_ids, past_key_values=read, use_cache=True, logits_to_keep=length - 1
        ).logits
        torch._foreach_zero_(self._counts)
        for fixed, own in zip(self._cache.layers, read.layers, strict=True):
            getattr(fixed, "store", fixed.update)(own.keys, own.values)
        for count in self._counts:
            count.copy_(length[0])
        token: torch.Tensor = scores[:, -1].argmax(dim=-1, keepdim=True)
        return token
