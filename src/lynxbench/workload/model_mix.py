"""Which of several models a request goes to: shares met as exactly as the number of prepared requests allows."""

from collections.abc import Sequence

import numpy as np

from lynxbench.model.asked_work import ModelShare

_STREAM = 0x310DE1


def assigned_models(models: Sequence[ModelShare], size: int, seed: int) -> tuple[int, ...]:
    """The place of each prepared request's model; largest remainders, in a seeded order."""
    if not models:
        return ()
    exact = np.array([model.share for model in models]) * size
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: size - int(counts.sum())]] += 1
    places = np.repeat(np.arange(len(models)), counts)
    np.random.default_rng((seed, _STREAM)).shuffle(places)
    return tuple(int(place) for place in places)
