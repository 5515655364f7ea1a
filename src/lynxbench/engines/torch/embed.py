"""Sentence embeddings: mean of the last hidden states over the tokens, normalised to length one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import JsonValue

from lynxbench.engines.torch.feeding import Batch, Feed
from lynxbench.engines.torch.pacing import Pace
from lynxbench.engines.torch.replay import Replay
from lynxbench.engines.torch.task_work import Loaded
from lynxbench.engines.torch.torch_inputs import prompt_tokens
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import FixedLength
from lynxbench.workload.lengths import sample_length
from lynxbench.workload.texts import POLARITY, bundled_sha256, read_polarity

JUDGED_BATCH = 20
MOST_TOKENS = 256
"""What all-MiniLM-L6-v2 was trained with; longer sentences are cut."""
RANDOM_SENTENCES = 64
RANDOM_LENGTH = 24
"""For models without a tokenizer: as many tokens as a bundled sentence has on average."""


class Embed:
    """Rotates through the bundled sentences, or through windows of exact length where the contract states lengths."""

    unit = "sentence"

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._forward: Any = loaded.model
        self._prompts = prompt_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=loaded.workload.seed)
        self._sentences = self._tokenised()
        self._frame = self._special_tokens()
        self.feed, self.pace = Feed(self._batch, loaded.device), Pace(loaded.device)

    def _tokenised(self) -> list[list[int]]:
        tokenizer = self._loaded.tokenizer
        if tokenizer is None:
            return [self._prompts.window(number, RANDOM_LENGTH) for number in range(RANDOM_SENTENCES)]
        texts = [sentence.text for sentence in read_polarity()]
        return [list(encoding.ids[:MOST_TOKENS]) for encoding in tokenizer.encode_batch(texts)]

    def _special_tokens(self) -> tuple[list[int], list[int]]:
        """What the tokenizer puts before and after every text ([CLS] and [SEP] for BERT)."""
        tokenizer = self._loaded.tokenizer
        if tokenizer is None:
            return [], []
        bare = len(tokenizer.encode("a", add_special_tokens=False).ids)
        framed = list(tokenizer.encode("a").ids)
        extra = len(framed) - bare
        return framed[: extra - extra // 2], framed[len(framed) - extra // 2 :] if extra > 1 else []

    def compile(self, mode: str) -> None:
        """Compile the model; lengths vary unless the contract fixes them."""
        fixed = isinstance(self._loaded.workload.input_tokens, FixedLength)
        self._forward = torch.compile(self._loaded.model, mode=mode, dynamic=not fixed)

    def replay(self) -> None:
        """The whole forward pass as a graph for each length that comes."""
        self._forward = Replay(self._loaded.model, self._loaded.device)

    def step(self, index: int, marks: list[int]) -> int:
        """Embed the next batch."""
        self._embed(self.feed.at(index), self._forward)
        self.pace.end_step()
        return self._loaded.workload.batch

    def _batch(self, index: int) -> Batch:
        batch = self._loaded.workload.batch
        first = index * batch
        length = self._loaded.workload.input_tokens
        if length is None:
            rows = [self._sentences[(first + row) % len(self._sentences)] for row in range(batch)]
        else:
            before, after = self._frame
            asked = sample_length(length, seed=self._loaded.workload.seed, index=index)
            inner = max(asked - len(before) - len(after), 0)
            rows = [(before + self._prompts.window(first + row, inner) + after)[:asked] for row in range(batch)]
        return _padded(rows)

    def _embed(self, batch: Batch, forward: Any) -> torch.Tensor:
        mask = batch["attention_mask"]
        with torch.inference_mode():
            hidden = forward(**batch).last_hidden_state.float()
            weight = mask.unsqueeze(-1).float()
            mean = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1e-9)
            return torch.nn.functional.normalize(mean, dim=-1)

    def _brought(self, rows: list[list[int]]) -> Batch:
        return {name: tensor.to(self._loaded.device) for name, tensor in _padded(rows).items()}

    def brief_step(self) -> None:
        """A step is brief enough."""
        self.step(0, [])

    def outputs(self) -> Outputs:
        """Vectors of all labelled sentences with their labels and split, sorted by length into batches and back."""
        order = sorted(range(len(self._sentences)), key=lambda number: len(self._sentences[number]))
        vectors: dict[int, Any] = {}
        for first in range(0, len(order), JUDGED_BATCH):
            chosen = order[first : first + JUDGED_BATCH]
            batch = self._brought([self._sentences[number] for number in chosen])
            embedded = self._embed(batch, self._loaded.model).cpu().numpy()
            vectors.update(zip(chosen, embedded, strict=True))
        arrays = {"vectors": np.stack([vectors[number] for number in range(len(order))])}
        if self._loaded.tokenizer is None:
            return Outputs(kind="embedding", arrays=arrays, inputs=f"{len(order)} windows of {self._prompts.origin}")
        labelled = read_polarity()
        arrays["labels"] = np.asarray([sentence.label for sentence in labelled], dtype=np.int64)
        arrays["split"] = np.asarray([int(sentence.is_test) for sentence in labelled], dtype=np.int64)
        asked = f"{len(order)} sentences of {POLARITY} sha256:{bundled_sha256(POLARITY)}"
        return Outputs(kind="embedding", arrays=arrays, inputs=asked)

    def facts(self) -> dict[str, JsonValue]:
        """Inputs and pooling."""
        stated = self._loaded.workload.input_tokens
        windows = f"windows of exact length from {self._prompts.origin}"
        sentences = f"{POLARITY} sha256:{bundled_sha256(POLARITY)}" if self._loaded.tokenizer else windows
        return {
            "demand.inputs": sentences if stated is None else windows,
            "demand.lengths": "padded to the longest of a batch" if stated is None else "exact, no padding",
            "application.pooling": "mean over tokens, normalised",
            "serving.batching": f"static, {self._loaded.workload.batch} rows",
        }


def _padded(rows: list[list[int]]) -> Batch:
    widest = max(len(row) for row in rows)
    ids = torch.zeros((len(rows), widest), dtype=torch.long)
    mask = torch.zeros((len(rows), widest), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}
