"""How a batch is scored and ranked."""

import numpy as np

ROUNDS = 200
"""Refinements of a batch: the work of one call."""

# numbers that neither grow nor vanish, so that every refinement costs the same
WEIGHTS = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32) / 5


def rank(batch: np.ndarray) -> np.ndarray:
    """Refine a batch, then give its rows in order."""
    scores = batch
    for _ in range(ROUNDS):
        scores = np.tanh(WEIGHTS @ scores)
    return np.argsort(scores[:, 0])
