"""Tasks of language models: whole generation, and its two halves (reading a prompt, adding one token to a context)."""

from importlib import import_module
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch
from pydantic import JsonValue

from lynxbench.engines.torch.graphs import WARM_UPS, Compilation, Replay
from lynxbench.engines.torch.narrow_cache import narrow_static_cache
from lynxbench.engines.torch.recorded_prompts import RecordedPrompts, can_be_padded, recorded_lengths
from lynxbench.engines.torch.task_work import Batch, Feed, Loaded, TaskWork
from lynxbench.engines.torch.torch_inputs import held_out_tokens, prompt_tokens
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.precision import KvCache
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import FixedLength
from lynxbench.workload.lengths import OUTPUT_STREAM, AnyLength, longest, sample_length, shortest

BRIEF_INPUT, BRIEF_OUTPUT = 16, 2
REWOUND_AFTER = 64
"""Tokens that decoding adds before it goes back to the context it began with: rewinding in every step would be seen."""
JUDGED_POSITIONS = 192
"""Positions of held-out text that accuracy is judged on: about one second of a small model on two cores."""
JUDGED_POSITIONS_RANDOM = 64
"""Random weights have no perplexity to speak of; fewer positions show their numerical error as well."""
LARGE_VOCABULARY, JUDGED_SCORES = 65_536, 2_048
"""… and so does a part of a large vocabulary: all scores of a Llama 3 at 64 positions would be 33 MB of evidence."""


def next_scores(forward: Any, input_ids: torch.Tensor, cache: Any) -> torch.Tensor:
    """Scores of the token after the inputs, whose keys and values are added to the cache."""
    logits = forward(input_ids=input_ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    scores: torch.Tensor = logits[:, -1]
    return scores


def next_token(forward: Any, input_ids: torch.Tensor, cache: Any) -> torch.Tensor:
    """The likeliest token after the inputs, whose keys and values are added to the cache."""
    return next_scores(forward, input_ids, cache).argmax(dim=-1, keepdim=True)


class LanguageTask(TaskWork):
    """Prompts of the contract's lengths, within the model's positions; accuracy by next-token scores."""

    unit = "token"

    def __init__(self, loaded: Loaded, output: AnyLength | None = None) -> None:
        workload = loaded.workload
        assert workload.input_tokens is not None
        super().__init__(loaded, workload.input_tokens)
        self._input = workload.input_tokens
        self._positions = longest(self._input) + (longest(output) if output is not None else 0)
        positions = int(loaded.model.config.max_position_embeddings)
        if self._positions > positions:
            reach = "the input reaches" if output is None else "input and output reach"
            raise BadInput(f"workload: {reach} {self._positions} tokens, the model has {positions} positions")
        self._prompts = prompt_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=workload.seed)
        self._caches = import_module("transformers.cache_utils")

    def _prompt(self, index: int) -> Batch:
        workload = self._loaded.workload
        length = sample_length(self._input, seed=workload.seed, index=index)
        rows = [self._prompts.window(index * workload.batch + row, length) for row in range(workload.batch)]
        return {"input_ids": torch.tensor(rows)}

    def _dynamic_cache(self) -> Any:
        return self._caches.DynamicCache(config=self._loaded.model.config)

    def _static_cache(self, positions: int) -> Any:
        config = self._loaded.model.config
        if self._loaded.kv_cache is KvCache.FP8:
            return narrow_static_cache(config, positions)
        return self._caches.StaticCache(config=config, max_cache_len=positions)

    def _kept_in(self) -> str:
        return ", e4m3 without a scale" if self._loaded.kv_cache is KvCache.FP8 else ""

    def outputs(self) -> Outputs:
        """Next-token scores on the held-out text, and the tokens that really followed."""
        loaded = self._loaded
        random = not loaded.source.has_weights
        count = JUDGED_POSITIONS_RANDOM if random else JUDGED_POSITIONS
        text = held_out_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=loaded.workload.seed)
        ids = text.window(0, count + 1)
        with torch.inference_mode():
            logits = self._scores(ids[:-1])
        targets = np.asarray(ids[1:], dtype=np.int64)
        inputs = f"first {count} tokens of {text.origin}"
        if random and loaded.vocabulary > LARGE_VOCABULARY:
            apart = loaded.vocabulary // JUDGED_SCORES
            logits, targets = logits[:, ::apart], targets // apart
            inputs += f", every {apart}th score of the vocabulary"
        return Outputs(kind="logits", arrays={"logits": logits.cpu().numpy(), "targets": targets}, inputs=inputs)

    def _scores(self, ids: list[int]) -> torch.Tensor:
        """Next-token scores after each token of a text: the whole text at once through the model."""
        loaded = self._loaded
        scores: torch.Tensor = loaded.model(input_ids=torch.tensor([ids], device=loaded.device)).logits[0].float()
        return scores


class Generate(LanguageTask):
    """Prefill, then greedy decoding of exactly the asked number of tokens; an end-of-text token does not end it."""

    feed: Feed

    def __init__(self, loaded: Loaded) -> None:
        assert loaded.workload.output_tokens is not None
        self._output = loaded.workload.output_tokens
        super().__init__(loaded, self._output)
        self._static: Any = None
        self._cache: Any = None
        self._compiled = False
        self._read_forward: Any = loaded.model
        self._recorded: RecordedPrompts | None = None
        self._replayed: Replay | None = None
        self.feed = Feed(self._prompt, loaded.device)
        self.last_tokens: list[list[int]] = []
        """What the last step produced, one list a row."""

    def compile(self, compilation: Compilation) -> None:
        """Compile the decode step over a cache of fixed size; prompts only where they are recorded as well."""
        self._static, self._compiled = self._static_cache(self._positions), not compilation.recorded
        self._recorded = self._replayed = None
        self._forward = compilation(self._loaded.model, dynamic=False)
        if compilation.recorded:
            self._read_forward = compilation(self._loaded.model, dynamic=not isinstance(self._input, FixedLength))

    def replay(self) -> None:
        """The decode step as a graph over a cache of fixed size, and prompts as graphs of a few lengths.

        Prompts stay as they are where the cache keeps only a window of its positions.
        """
        device, batch = self._loaded.device, self._loaded.workload.batch
        self._static = self._static_cache(self._positions)
        # The prompt, every warm-up call and the first replay each take a position of the cache.
        warm_ups = min(WARM_UPS, max(0, self._positions - 2))
        with torch.inference_mode():
            first = self._prompt(0)["input_ids"][:, :1].to(device)
            next_token(self._loaded.model, first, self._static)  # the first keys give the cache its shape
            if can_be_padded(self._static, self._caches.StaticLayer):
                lengths = recorded_lengths(shortest(self._input), longest(self._input))
                self._recorded = RecordedPrompts(self._read_forward, self._static, self._dynamic_cache, lengths, device)
                self._recorded.record(batch)
            self._cache = self._fresh_cache()
            token = next_token(self._loaded.model, first, self._cache)
            self._replayed = Replay(self._add_token, device, warm_ups)
            self._replayed(input_ids=token)

    def step(self, index: int, marks: list[int]) -> int:
        """Prefill the prompts of that index and decode; the first mark is the first token."""
        workload = self._loaded.workload
        outputs = sample_length(self._output, seed=workload.seed, index=index, stream=OUTPUT_STREAM)
        with torch.inference_mode():
            self.last_tokens = self._run(self.feed.at(index)["input_ids"], outputs, marks)
        return outputs * workload.batch

    def brief_step(self) -> None:
        """A short prefill and one decoding step."""
        length = min(BRIEF_INPUT, longest(self._input))  # within the capacity of a fixed cache
        rows = [self._prompts.window(row, length) for row in range(self._loaded.workload.batch)]
        with torch.inference_mode():
            self._run(torch.tensor(rows, device=self._loaded.device), min(BRIEF_OUTPUT, longest(self._output)), [])

    def _run(self, prompt: torch.Tensor, outputs: int, marks: list[int]) -> list[list[int]]:
        clock = self._loaded.clock
        token = prompt
        columns: list[Any] = []
        for number in range(outputs):
            token = self._add(token) if number else self._begin(prompt)
            if clock is not None:
                clock.mark()  # the device's own stamp: the host reads nothing
            elif self.pace.waits:
                columns.append(token.tolist())  # the host has the token: on a device this waits for it
                marks.append(perf_counter_ns())
            else:
                columns.append(token if self._replayed is None else token.clone())  # the next replay writes over it
        if clock is not None:
            return []
        if not self.pace.waits:  # the host reads the whole answer once, and single tokens have no stamp
            return [[int(number) for number in row] for row in torch.cat(columns, dim=1).tolist()]
        return [[column[row][0] for column in columns] for row in range(prompt.shape[0])]

    def _begin(self, prompt: torch.Tensor) -> torch.Tensor:
        """The first token of an answer."""
        if self._recorded is not None:
            return self._recorded(prompt)
        self._cache = self._fresh_cache()
        return next_token(self._loaded.model, prompt, self._cache)

    def _add(self, token: torch.Tensor) -> torch.Tensor:
        """The token after that one."""
        if self._replayed is not None:
            added: torch.Tensor = self._replayed(input_ids=token)
            return added
        if self._compiled:
            torch.compiler.cudagraph_mark_step_begin()
        return self._add_token(token)

    def _add_token(self, input_ids: torch.Tensor) -> torch.Tensor:
        return next_token(self._forward, input_ids, self._cache)

    def _fresh_cache(self) -> Any:
        if self._static is None:
            return self._dynamic_cache()
        self._static.reset()
        return self._static

    def facts(self) -> dict[str, JsonValue]:
        """Prompts, cache and batching."""
        fixed, padded = self._static is not None, "no padding"
        scope = "decode step (prefill eager)" if fixed else "none"
        if self._recorded is not None:
            scope = "decode step, and prompts"
            padded = f"read padded to the next of {len(self._recorded.lengths)} recorded lengths"
        return {
            "demand.prompts": self._prompts.origin,
            "demand.lengths": "exact; one input length a batch, no padding"
            if isinstance(self._input, FixedLength)
            else f"drawn per step and shared by the batch, {padded}",
            "serving.batching": f"static, {self._loaded.workload.batch} rows",
            "serving.streaming": "each token is read by the host when it is produced"
            if self._loaded.clock is None
            else "tokens stay on the device, which stamps each",
            "application.decoding": "greedy, end of text ignored",
            "runtime.kv_cache": f"static, {self._positions} positions{self._kept_in()}" if fixed else "dynamic",
            "runtime.graph_scope": scope,
        }


class Prefill(LanguageTask):
    """Prompts in, key-value cache and first token out; the unit is a token of the prompt."""

    feed: Feed

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded)
        self._read: Any = self._read_prompt
        self.feed = Feed(self._prompt, loaded.device)

    def replay(self) -> None:
        """The whole prefill as a graph for each length that comes."""
        self._read = Replay(self._read_prompt, self._loaded.device)

    def step(self, index: int, marks: list[int]) -> int:
        """Read the prompts of that index."""
        prompt = self.feed.at(index)["input_ids"]
        with torch.inference_mode():
            self._read(input_ids=prompt)
        self.pace.end_step()
        return int(prompt.numel())

    def _read_prompt(self, input_ids: torch.Tensor) -> torch.Tensor:
        return next_token(self._forward, input_ids, self._dynamic_cache())

    def facts(self) -> dict[str, JsonValue]:
        """Prompts, cache and batching."""
        return {
            "demand.prompts": self._prompts.origin,
            "serving.batching": f"static, {self._loaded.workload.batch} rows, no padding",
            "application.decoding": "none: one token after the prompt, greedy",
            "runtime.kv_cache": "dynamic, new for every prompt",
        }


class Decode(LanguageTask):
    """One token more on contexts of a fixed length, from a cache of fixed size; the unit is a token."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded)
        self._context, self._capacity = self._positions, self._positions + REWOUND_AFTER
        self._add: Any = self._add_token
        self._compiled = False
        self._cache = self._static_cache(self._capacity)
        rows = [self._prompts.window(row, self._context) for row in range(loaded.workload.batch)]
        with torch.inference_mode():
            self._token = self._add_token(torch.tensor(rows, device=loaded.device)).clone()
        lengths = [getattr(layer, "cumulative_length", None) for layer in self._cache.layers]
        if not all(isinstance(length, torch.Tensor) for length in lengths):
            raise CannotRun("task decode needs a transformers whose static cache counts on the device (5.0 or newer)")
        self._lengths: list[torch.Tensor] = [length for length in lengths if length is not None]
        self._starts = [length.clone() for length in self._lengths]
        self._added = 0

    def compile(self, compilation: Compilation) -> None:
        """Compile the step over the cache of fixed size."""
        self._forward, self._compiled = compilation(self._loaded.model, dynamic=False), not compilation.recorded

    def replay(self) -> None:
        """The step as a graph over the cache of fixed size."""
        self._add = Replay(self._add_token, self._loaded.device)
        with torch.inference_mode():
            self._add(input_ids=self._token)
            self._rewind()

    def step(self, index: int, marks: list[int]) -> int:
        """Add one token to every context."""
        if self._added == REWOUND_AFTER:
            self._rewind()
        if self._compiled:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.inference_mode():
            token = self._add(input_ids=self._token)
            self._token = token.clone() if self._compiled else token
        self._added += 1
        self.pace.end_step()
        return self._loaded.workload.batch

    def _add_token(self, input_ids: torch.Tensor) -> torch.Tensor:
        return next_token(self._forward, input_ids, self._cache)

    def _scores(self, ids: list[int]) -> torch.Tensor:
        """Where the step is compiled, token by token through what was timed; the cache is left as it was."""
        if self._forward is self._loaded.model or len(ids) > self._capacity:
            return super()._scores(ids)
        parts = [kept[:, :, : len(ids)] for layer in self._cache.layers for kept in (layer.keys, layer.values)]
        before = [part.clone() for part in parts]
        torch._foreach_zero_(self._lengths)
        rows, scores = self._loaded.workload.batch, []
        for token in ids:
            column = torch.full((rows, 1), token, device=self._loaded.device)
            if self._compiled:
                torch.compiler.cudagraph_mark_step_begin()
            scores.append(next_scores(self._forward, column, self._cache)[0].float())
        torch._foreach_copy_(parts, before)
        self._rewind()
        return torch.stack(scores)

    def _rewind(self) -> None:
        """Back to the first position after the context; the tokens behind it are overwritten, never read."""
        with torch.inference_mode():
            torch._foreach_copy_(self._lengths, self._starts)
        self._added = 0

    def facts(self) -> dict[str, JsonValue]:
        """Contexts, cache and batching."""
        return {
            "demand.prompts": self._prompts.origin,
            "demand.lengths": f"contexts of {self._context} tokens and up to {REWOUND_AFTER} more, then back",
            "serving.batching": f"static, {self._loaded.workload.batch} rows, no padding",
            "application.decoding": "greedy, each token fed back on the device",
            "runtime.kv_cache": f"static, {self._capacity} positions{self._kept_in()}",
        }
