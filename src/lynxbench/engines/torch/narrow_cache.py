"""Keys and values of a cache of fixed size in eight bits: half of what a long context costs to read.

They are widened before attention reads them. No kernel of PyTorch's attention takes e4m3, so what is saved is memory;
whether it is also time is for the run to say.
"""

from importlib import import_module
from typing import Any

import torch

from lynxbench.engines.torch.linear import FP8_LARGEST
from lynxbench.errors import CannotRun


def narrow(states: torch.Tensor) -> torch.Tensor:
    """As bytes: what a cache does with its contents is not implemented for e4m3 itself."""
    return states.clamp(-FP8_LARGEST, FP8_LARGEST).to(torch.float8_e4m3fn).view(torch.uint8)


def widen(stored: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The numbers that the bytes stand for."""
    return stored.view(torch.float8_e4m3fn).to(dtype)


def narrow_static_cache(config: Any, positions: int) -> Any:
    """The model library's cache of fixed size with every layer's keys and values in e4m3."""
    caches = import_module("transformers.cache_utils")

    class NarrowLayer(caches.StaticLayer):  # type: ignore[misc, name-defined]
        def store(self, keys: torch.Tensor, values: torch.Tensor, *others: Any, **named: Any) -> Any:
            return super().update(narrow(keys), narrow(values), *others, **named)

        def update(self, keys: torch.Tensor, values: torch.Tensor, *others: Any, **named: Any) -> Any:
            return tuple(widen(part, keys.dtype) for part in self.store(keys, values, *others, **named))

    cache = caches.StaticCache(config=config, max_cache_len=positions)
    if strange := {type(layer).__name__ for layer in cache.layers if type(layer) is not caches.StaticLayer}:
        raise CannotRun(
            f"engine.kv_cache: fp8 has no form for {', '.join(sorted(strange))} of this model; use computed"
        )
    cache.layers = [NarrowLayer(max_cache_len=positions) for _ in cache.layers]
    return cache
