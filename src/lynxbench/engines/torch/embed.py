"""Sentence embeddings: mean of the last hidden states over the tokens, normalised to length one."""

from typing import Any

import numpy as np
import torch
from pydantic import JsonValue

from lynxbench.engines.torch.task_work import Batch, Feed, Loaded, TaskWork
from lynxbench.engines.torch.torch_inputs import prompt_tokens
from lynxbench.model.samples import Outputs
from lynxbench.workload.lengths import sample_length
from lynxbench.workload.texts import POLARITY, bundled_sha256, read_polarity

JUDGED_BATCH = 20
MOST_TOKENS = 256
"""What all-MiniLM-L6-v2 was trained with; longer sentences are cut."""
RANDOM_SENTENCES = 64
RANDOM_LENGTH = 24
"""For models without a tokenizer: as many tokens as a bundled sentence has on average."""


class Embed(TaskWork):
    """Rotates through the bundled sentences, or through windows of exact length where the contract states lengths."""

    unit = "sentence"
    feed: Feed

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded, loaded.workload.input_tokens)
        self._prompts = prompt_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=loaded.workload.seed)
        self._sentences = self._tokenised()
        self._frame = self._special_tokens()
        self.feed = Feed(self._batch, loaded.device)

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

    def step(self, index: int, marks: list[int]) -> int:
        """Embed the next batch."""
        self._embed(self.feed.at(index), self._forward)
        self.pace.end_step()
        return self._loaded.workload.batch

    def _batch(self, index: int) -> Batch:
        batch = self._loaded.workload.batch
        numbers = range(index * batch, (index + 1) * batch)
        if self._length is None:
            return padded([self._sentences[number % len(self._sentences)] for number in numbers])
        before, after = self._frame
        length = sample_length(self._length, seed=self._loaded.workload.seed, index=index)
        inner = max(length - len(before) - len(after), 0)
        return padded([(before + self._prompts.window(number, inner) + after)[:length] for number in numbers])

    def _embed(self, batch: Batch, forward: Any) -> torch.Tensor:
        mask = batch["attention_mask"]
        with torch.inference_mode():
            hidden = forward(**batch).last_hidden_state.float()
            weight = mask.unsqueeze(-1).float()
            mean = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1e-9)
            return torch.nn.functional.normalize(mean, dim=-1)

    def outputs(self) -> Outputs:
        """Vectors of all labelled sentences with their labels and split, sorted by length into batches and back."""
        order = sorted(range(len(self._sentences)), key=lambda number: len(self._sentences[number]))
        vectors: dict[int, Any] = {}
        for first in range(0, len(order), JUDGED_BATCH):
            chosen = order[first : first + JUDGED_BATCH]
            batch = padded([self._sentences[number] for number in chosen], self._loaded.device)
            embedded = self._embed(batch, self._loaded.model).cpu().numpy()
            vectors.update(zip(chosen, embedded, strict=True))
        arrays = {"vectors": np.stack([vectors[number] for number in range(len(order))])}
        if self._loaded.tokenizer is None:
            return Outputs(kind="embedding", arrays=arrays, inputs=f"{len(order)} windows of {self._prompts.origin}")
        labelled = read_polarity()
        arrays["labels"] = np.asarray([sentence.label for sentence in labelled], dtype=np.int64)
        arrays["split"] = np.asarray([int(sentence.is_test) for sentence in labelled], dtype=np.int64)
        inputs = f"{len(order)} sentences of {POLARITY} sha256:{bundled_sha256(POLARITY)}"
        return Outputs(kind="embedding", arrays=arrays, inputs=inputs)

    def facts(self) -> dict[str, JsonValue]:
        """Inputs and pooling."""
        windows = f"windows of exact length from {self._prompts.origin}"
        sentences = f"{POLARITY} sha256:{bundled_sha256(POLARITY)}" if self._loaded.tokenizer else windows
        return {
            "demand.inputs": sentences if self._length is None else windows,
            "demand.lengths": "padded to the longest of a batch" if self._length is None else "exact, no padding",
            "application.pooling": "mean over tokens, normalised",
            "serving.batching": f"static, {self._loaded.workload.batch} rows",
        }


def padded(rows: list[list[int]], device: torch.device | None = None) -> Batch:
    """Rows of tokens to the length of the longest, with the mask that leaves the padding out."""
    widest = max(len(row) for row in rows)
    ids = torch.zeros((len(rows), widest), dtype=torch.long)
    mask = torch.zeros((len(rows), widest), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = 1
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
