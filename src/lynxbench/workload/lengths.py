"""Lengths drawn from a contract's distribution: the same seed and index give the same length on every machine."""

import numpy as np

from lynxbench.model.workload import EmpiricalLength, FixedLength, LognormalLength, UniformLength

AnyLength = FixedLength | UniformLength | LognormalLength | EmpiricalLength

INPUT_STREAM = 1
OUTPUT_STREAM = 2
"""Separate streams, so that an input length says nothing about the output length of the same index."""

_MOST_DRAWS = 1000
"""Redraws before a log-normal falls back to its median; cut-offs that reject this often leave almost no mass."""


def sample_length(length: AnyLength, *, seed: int, index: int, stream: int = INPUT_STREAM) -> int:
    """The length of one request. It depends on (seed, stream, index) alone, never on what was drawn before."""
    if isinstance(length, FixedLength):
        return length.value
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, stream, index))))
    if isinstance(length, UniformLength):
        return int(random.integers(length.low, length.high, endpoint=True))
    if isinstance(length, EmpiricalLength):
        return length.values[int(random.integers(len(length.values)))]
    for _ in range(_MOST_DRAWS):  # cut off by redrawing: clipping would pile requests up at the two ends
        drawn = round(length.median * float(np.exp(length.sigma * random.standard_normal())))
        if length.low <= drawn <= length.high:
            return drawn
    return round(length.median)


def longest(length: AnyLength) -> int:
    """No draw is longer: what a fixed-size cache must hold."""
    if isinstance(length, FixedLength):
        return length.value
    if isinstance(length, EmpiricalLength):
        return max(length.values)
    return length.high


def shortest(length: AnyLength) -> int:
    """No draw is shorter."""
    if isinstance(length, FixedLength):
        return length.value
    if isinstance(length, EmpiricalLength):
        return min(length.values)
    return length.low


def typical(length: AnyLength) -> int:
    """A middle length, for estimates."""
    if isinstance(length, FixedLength):
        return length.value
    if isinstance(length, EmpiricalLength):
        return int(np.median(length.values))
    if isinstance(length, UniformLength):
        return (length.low + length.high) // 2
    return round(length.median)
