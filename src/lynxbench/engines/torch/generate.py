"""Text generation: prefill, then one token after another from a key-value cache, each stamped when the host has it."""

from __future__ import annotations

from importlib import import_module
from time import perf_counter_ns
from typing import Any

import torch
from pydantic import JsonValue

from lynxbench.engines.torch.feeding import Batch, Feed
from lynxbench.engines.torch.judged import judged_scores
from lynxbench.engines.torch.pacing import Pace
from lynxbench.engines.torch.replay import WARM_UPS, Replay
from lynxbench.engines.torch.task_work import Loaded
from lynxbench.engines.torch.torch_inputs import prompt_tokens
from lynxbench.errors import BadInput
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import FixedLength
from lynxbench.workload.lengths import OUTPUT_STREAM, longest, sample_length

BRIEF_INPUT, BRIEF_OUTPUT = 16, 2


class Generate:
    """Greedy decoding of exactly the asked number of tokens; an end-of-text token does not end it."""

    unit = "token"

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        workload = loaded.workload
        assert workload.input_tokens is not None
        assert workload.output_tokens is not None
        self._input, self._output = workload.input_tokens, workload.output_tokens
        self._capacity = longest(self._input) + longest(self._output)
        positions = int(loaded.model.config.max_position_embeddings)
        if self._capacity > positions:
            raise BadInput(
                f"workload: input and output reach {self._capacity} tokens, the model has {positions} positions"
            )
        self._prompts = prompt_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=workload.seed)
        self._decode: Any = loaded.model
        self._static: Any = None
        self._caches = import_module("transformers.cache_utils")
        self.feed, self.pace = Feed(self._prompt, loaded.device), Pace(loaded.device)
        self._replayed = False
        self.last_tokens: list[list[int]] = []
        """What the last step produced, one list a row."""

    def compile(self, mode: str) -> None:
        """Compile the decode step over a cache of fixed size; prefill stays eager, since its length may vary."""
        self._static = self._caches.StaticCache(config=self._loaded.model.config, max_cache_len=self._capacity)
        self._decode = torch.compile(self._loaded.model, mode=mode, dynamic=False)

    def replay(self) -> None:
        """The decode step as a graph over a cache of fixed size; prefill stays eager, since its length may vary."""
        self._static = self._caches.StaticCache(config=self._loaded.model.config, max_cache_len=self._capacity)
        self._replayed = True
        # The prompt, every warm-up call and the first replay each take a position of the cache.
        warm_ups = min(WARM_UPS, max(0, self._capacity - 2))
        self._decode = Replay(self._loaded.model, self._loaded.device, warm_ups)
        with torch.inference_mode():
            prompt = self._prompt(0)["input_ids"][:, :1].to(self._loaded.device)
            asked = {"past_key_values": self._fresh_cache(), "use_cache": True, "logits_to_keep": 1}
            token = self._loaded.model(input_ids=prompt, **asked).logits[:, -1].argmax(dim=-1, keepdim=True)
            self._decode(input_ids=token, **asked)

    def step(self, index: int, marks: list[int]) -> int:
        """Prefill the prompts of that index and decode; the first mark is the first token."""
        workload = self._loaded.workload
        outputs = sample_length(self._output, seed=workload.seed, index=index, stream=OUTPUT_STREAM)
        with torch.inference_mode():
            self.last_tokens = self._run(self.feed.at(index)["input_ids"], outputs, marks)
        return outputs * workload.batch

    def _prompt(self, index: int) -> Batch:
        workload = self._loaded.workload
        inputs = sample_length(self._input, seed=workload.seed, index=index)
        rows = [self._prompts.window(index * workload.batch + row, inputs) for row in range(workload.batch)]
        return {"input_ids": torch.tensor(rows)}

    def brief_step(self) -> None:
        """A short prefill and one decoding step."""
        length = min(BRIEF_INPUT, longest(self._input))  # within the capacity of a fixed cache
        rows = [self._prompts.window(row, length) for row in range(self._loaded.workload.batch)]
        with torch.inference_mode():
            self._run(torch.tensor(rows, device=self._loaded.device), min(BRIEF_OUTPUT, longest(self._output)), [])

    def _run(self, prompt: torch.Tensor, outputs: int, marks: list[int]) -> list[list[int]]:
        cache = self._fresh_cache()
        forward, token, produced = self._loaded.model, prompt, []
        compiled = self._static is not None and not self._replayed
        kept: list[torch.Tensor] = []
        for _ in range(outputs):
            if forward is self._decode and compiled:
                torch.compiler.cudagraph_mark_step_begin()
            logits = forward(input_ids=token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            token = logits[:, -1].argmax(dim=-1, keepdim=True)
            if self._loaded.clock is not None:
                self._loaded.clock.mark()  # the device's own stamp: the host reads nothing
            elif self.pace.waits:
                produced.append(token.tolist())  # the host has the token: on a device this waits for it
                marks.append(perf_counter_ns())
            else:
                kept.append(token)
            forward = self._decode
        if self._loaded.clock is not None:
            return []
        if kept:  # synchronisation removed: the host reads the whole answer once, and single tokens have no stamp
            return [[int(number) for number in row] for row in torch.cat(kept, dim=1).tolist()]
        return [[column[row][0] for column in produced] for row in range(prompt.shape[0])]

    def _fresh_cache(self) -> Any:
        if self._static is None:
            return self._caches.DynamicCache(config=self._loaded.model.config)
        self._static.reset()
        return self._static

    def outputs(self) -> Outputs:
        """Next-token scores on the held-out text, and the tokens that really followed."""
        return judged_scores(self._loaded)

    def facts(self) -> dict[str, JsonValue]:
        """Prompts, cache and batching."""
        fixed = self._static is not None
        return {
            "demand.prompts": self._prompts.origin,
            "demand.lengths": "exact; one input length a batch, no padding"
            if isinstance(self._input, FixedLength)
            else "drawn per step and shared by the batch, no padding",
            "serving.batching": f"static, {self._loaded.workload.batch} rows",
            "serving.streaming": "each token is read by the host when it is produced"
            if self._loaded.clock is None
            else "tokens stay on the device, which stamps each",
            "application.decoding": "greedy, end of text ignored",
            "runtime.kv_cache": f"static, {self._capacity} positions" if fixed else "dynamic",
            "runtime.graph_scope": "decode step (prefill eager)" if fixed else "none",
        }
