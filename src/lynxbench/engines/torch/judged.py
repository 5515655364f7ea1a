"""What a language model's precisions are compared by: next-token scores on held-out text."""

from __future__ import annotations

import numpy as np
import torch

from lynxbench.engines.torch.task_work import Loaded
from lynxbench.engines.torch.torch_inputs import held_out_tokens
from lynxbench.model.samples import Outputs

JUDGED_POSITIONS = 192
"""Positions of held-out text that accuracy is judged on: about one second of a small model on two cores."""
JUDGED_POSITIONS_RANDOM = 64
"""Random weights have no perplexity to speak of; fewer positions show their numerical error as well."""
LARGE_VOCABULARY, KEPT_SCORES = 65_536, 2_048
"""… and so does a part of a large vocabulary: all scores of a Llama 3 at 64 positions would be 33 MB of evidence."""


def judged_scores(loaded: Loaded) -> Outputs:
    """Next-token scores on the held-out text, and the tokens that really followed."""
    real = loaded.source.has_weights
    count = JUDGED_POSITIONS if real else JUDGED_POSITIONS_RANDOM
    text = held_out_tokens(loaded.tokenizer, vocabulary=loaded.vocabulary, seed=loaded.workload.seed)
    ids = text.window(0, count + 1)
    with torch.inference_mode():
        logits = loaded.model(input_ids=torch.tensor([ids[:-1]], device=loaded.device)).logits[0].float()
    targets = np.asarray(ids[1:], dtype=np.int64)
    asked = f"first {count} tokens of {text.origin}"
    if not real and loaded.vocabulary > LARGE_VOCABULARY:
        apart = loaded.vocabulary // KEPT_SCORES
        logits, targets = logits[:, ::apart], targets // apart
        asked += f", every {apart}th score of the vocabulary"
    return Outputs(kind="logits", arrays={"logits": logits.cpu().numpy(), "targets": targets}, inputs=asked)
