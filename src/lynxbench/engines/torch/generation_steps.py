"""The two halves of generation, each a step of its own: reading a prompt, and adding one token to a context."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from pydantic import JsonValue

from lynxbench.engines.torch.feeding import Batch, Feed
from lynxbench.engines.torch.judged import judged_scores
from lynxbench.engines.torch.pacing import Pace
from lynxbench.engines.torch.replay import WARM_UPS, Replay
from lynxbench.engines.torch.task_work import Loaded
from lynxbench.engines.torch.torch_inputs import prompt_tokens
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import FixedLength
from lynxbench.workload.lengths import longest, sample_length

REWOUND_AFTER = 64
"""Tokens that decoding adds before it goes back to the context it began with: rewinding in every step would be seen."""


def _prompts(loaded: Loaded) -> tuple[Any, int]:
    """The prompts of a language task and the longest of them; BadInput where the model has no place for it."""
    length = loaded.workload.input_tokens
    assert length is not None
    positions, needed = int(loaded.model.config.max_position_embeddings), longest(length)
    if needed > positions:
        raise BadInput(f"workload: the input reaches {needed} tokens, the model has {positions} positions")
    return prompt_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=loaded.workload.seed), needed


class Prefill:
    """Prompts in, key-value cache and first token out; the unit is a token of the prompt."""

    unit = "token"

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._prompts, self._longest = _prompts(loaded)
        self._caches = import_module("transformers.cache_utils")
        self._forward: Any = loaded.model
        self._read: Any = self._plain
        self.feed, self.pace = Feed(self._prompt, loaded.device), Pace(loaded.device)

    def compile(self, mode: str) -> None:
        """Compile the forward pass; lengths vary unless they are fixed."""
        fixed = isinstance(self._loaded.workload.input_tokens, FixedLength)
        self._forward = torch.compile(self._loaded.model, mode=mode, dynamic=not fixed)

    def replay(self) -> None:
        """The whole prefill as a graph for each length that comes."""
        self._read = Replay(self._plain, self._loaded.device)

    def step(self, index: int, marks: list[int]) -> int:
        """Read the prompts of that index."""
        prompt = self.feed.at(index)["input_ids"]
        with torch.inference_mode():
            self._read(input_ids=prompt)
        self.pace.end_step()
        return int(prompt.numel())

    def _plain(self, input_ids: torch.Tensor) -> torch.Tensor:
        cache = self._caches.DynamicCache(config=self._loaded.model.config)
        asked = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
        first: torch.Tensor = self._forward(input_ids=input_ids, **asked).logits[:, -1].argmax(dim=-1, keepdim=True)
        return first

    def _prompt(self, index: int) -> Batch:
        workload = self._loaded.workload
        assert workload.input_tokens is not None
        length = sample_length(workload.input_tokens, seed=workload.seed, index=index)
        rows = [self._prompts.window(index * workload.batch + row, length) for row in range(workload.batch)]
        return {"input_ids": torch.tensor(rows)}

    def brief_step(self) -> None:
        """A step is brief enough."""
        self.step(0, [])

    def outputs(self) -> Outputs:
        """Next-token scores on the held-out text."""
        return judged_scores(self._loaded)

    def facts(self) -> dict[str, JsonValue]:
        """Prompts, cache and batching."""
        return {
            "demand.prompts": self._prompts.origin,
            "serving.batching": f"static, {self._loaded.workload.batch} rows, no padding",
            "application.decoding": "none: one token after the prompt, greedy",
            "runtime.kv_cache": "dynamic, new for every prompt",
        }


class Decode:
    """One token more on contexts of a fixed length, from a cache of fixed size; the unit is a token."""

    unit = "token"
    feed = None

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._prompts, self._context = _prompts(loaded)
        self._capacity = self._context + REWOUND_AFTER
        self._forward: Any = loaded.model
        self._next: Any = self._plain
        self._compiled = False
        self.pace = Pace(loaded.device)
        static = import_module("transformers.cache_utils").StaticCache
        self._cache = static(config=loaded.model.config, max_cache_len=self._capacity)
        rows = [self._prompts.window(row, self._context) for row in range(loaded.workload.batch)]
        with torch.inference_mode():
            self._token = self._plain(torch.tensor(rows, device=loaded.device)).clone()
        lengths = [getattr(layer, "cumulative_length", None) for layer in self._cache.layers]
        if not all(isinstance(length, torch.Tensor) for length in lengths):
            raise CannotRun("task decode needs a transformers whose static cache counts on the device (5.0 or newer)")
        self._lengths: list[torch.Tensor] = [length for length in lengths if length is not None]
        self._starts = [length.clone() for length in self._lengths]
        self._added = 0

    def compile(self, mode: str) -> None:
        """Compile the step over the cache of fixed size."""
        self._forward, self._compiled = torch.compile(self._loaded.model, mode=mode, dynamic=False), True

    def replay(self) -> None:
        """The step as a graph over the cache of fixed size."""
        self._next = Replay(self._plain, self._loaded.device, WARM_UPS)
        with torch.inference_mode():
            self._next(input_ids=self._token)
            self._rewind()

    def step(self, index: int, marks: list[int]) -> int:
        """Add one token to every context."""
        if self._added == REWOUND_AFTER:
            self._rewind()
        if self._compiled:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.inference_mode():
            following = self._next(input_ids=self._token)
            self._token = following.clone() if self._compiled else following
        self._added += 1
        self.pace.end_step()
        return self._loaded.workload.batch

    def _plain(self, input_ids: torch.Tensor) -> torch.Tensor:
        asked = {"past_key_values": self._cache, "use_cache": True, "logits_to_keep": 1}
        following: torch.Tensor = self._forward(input_ids=input_ids, **asked).logits[:, -1].argmax(-1, keepdim=True)
        return following

    def _rewind(self) -> None:
        """Back to the first position after the context; the tokens behind it are overwritten, never read."""
        with torch.inference_mode():
            torch._foreach_copy_(self._lengths, self._starts)
        self._added = 0

    def brief_step(self) -> None:
        """A step is brief enough."""
        self.step(0, [])

    def outputs(self) -> Outputs:
        """Next-token scores on the held-out text."""
        return judged_scores(self._loaded)

    def facts(self) -> dict[str, JsonValue]:
        """Contexts, cache and batching."""
        return {
            "demand.prompts": self._prompts.origin,
            "demand.lengths": f"contexts of {self._context} tokens and up to {REWOUND_AFTER} more, then back",
            "serving.batching": f"static, {self._loaded.workload.batch} rows, no padding",
            "application.decoding": "greedy, each token fed back on the device",
            "runtime.kv_cache": f"static, {self._capacity} positions",
        }
