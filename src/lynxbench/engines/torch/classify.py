"""Classification of token sequences and images; inputs are prepared before the clock starts where they are drawn."""

from typing import Any

import numpy as np
import torch
from pydantic import JsonValue

from lynxbench.engines.torch.task_work import Batch, Feed, Loaded, TaskWork
from lynxbench.engines.torch.torch_inputs import prompt_tokens, seeded_images
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import FixedLength
from lynxbench.workload.lengths import AnyLength, sample_length
from lynxbench.workload.presets import ModelFamily

DEFAULT_TOKENS = 128
STAGED_BATCHES = 8
"""Images are drawn once and rotate: drawing them inside a step would time the random generator."""
JUDGED_INPUTS = 16


class Batches:
    """Rotating inputs for a model that classifies: windows of tokens, or images."""

    def __init__(self, loaded: Loaded) -> None:
        self._workload, self._device, self._dtype = loaded.workload, loaded.device, loaded.prepared.compute_dtype
        self.is_vision = loaded.source.family is ModelFamily.VISION
        self.length: AnyLength = self._workload.input_tokens or FixedLength(distribution="fixed", value=DEFAULT_TOKENS)
        self._images: list[torch.Tensor] = []
        if self.is_vision:
            config = loaded.model.config
            side = int(getattr(config, "image_size", 224))
            shape = (int(config.num_channels), side, side)
            batch, seed = self._workload.batch, self._workload.seed
            drawn = [seeded_images(number, batch, shape, seed) for number in range(STAGED_BATCHES)]
            self._images = [torch.from_numpy(pixels).to(self._device, self._dtype) for pixels in drawn]
            self.origin = f"{STAGED_BATCHES} staged batches of normal pixels {shape}, seed {seed}"
        else:
            self._prompts = prompt_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=self._workload.seed)
            self.origin = self._prompts.origin
        self.feed = None if self.is_vision else Feed(self._windows, self._device)

    def of(self, index: int) -> Batch:
        """The keyword arguments of the step of that index."""
        if self.feed is None:
            return {"pixel_values": self._images[index % STAGED_BATCHES]}
        return self.feed.at(index)

    def _windows(self, index: int) -> Batch:
        batch, length = self._workload.batch, sample_length(self.length, seed=self._workload.seed, index=index)
        rows = [self._prompts.window(index * batch + row, length) for row in range(batch)]
        return {"input_ids": torch.tensor(rows)}


class Classify(TaskWork):
    """Scores per class for a batch of sequences or images."""

    def __init__(self, loaded: Loaded) -> None:
        self._batches = Batches(loaded)
        super().__init__(loaded, self._batches.length)
        self.unit = "image" if self._batches.is_vision else "sample"
        self.feed = self._batches.feed

    def step(self, index: int, marks: list[int]) -> int:
        """Classify the next batch."""
        with torch.inference_mode():
            self._forward(**self._batches.of(index))
        self.pace.end_step()
        return self._loaded.workload.batch

    def outputs(self) -> Outputs:
        """Scores of the first few inputs; random weights carry no labels worth the name."""
        scores: list[Any] = []
        while sum(len(part) for part in scores) < JUDGED_INPUTS:
            with torch.inference_mode():
                scores.append(self._loaded.model(**self._batches.of(len(scores))).logits.float().cpu().numpy())
        first = np.concatenate(scores)[:JUDGED_INPUTS]
        return Outputs(kind="classes", arrays={"scores": first}, inputs=f"first {len(first)} of {self._batches.origin}")

    def facts(self) -> dict[str, JsonValue]:
        """Inputs and batching."""
        return {
            "demand.inputs": self._batches.origin,
            "serving.batching": f"static, {self._loaded.workload.batch} rows",
        }
