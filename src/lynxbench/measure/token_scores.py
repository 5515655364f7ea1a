"""Scores of next tokens, and what of them is kept: all that accuracy is computed from, in a hundredth of their size.

A text of 200 positions over a vocabulary of 49 152 is 38 MB at one precision. What speaks of a position by itself is
kept exactly: which token came first, the logarithm of the sum, the score of the text's own token. What two precisions
differ by is kept as a count sketch (Charikar, Chen, Farach-Colton 2002): every token is added, with a sign, to one of
512 sums. Sketches are linear and keep lengths and angles on average, so the relative error and the cosine of two
sketches are those of the scores, to a few per cent of themselves.
"""

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt

from lynxbench.model.samples import Float64, Int64, Outputs

SKETCHED: Final = "sketched logits"
WIDTH: Final = 512
SMALL: Final = 8 * WIDTH
"""Vocabularies up to this are kept whole."""
SEED: Final = 20261116
ROWS_AT_ONCE: Final = 256
"""Rows of logits widened to float64 at a time: a vocabulary of 150 000 then takes 300 MB, not the whole text's."""

Array = npt.NDArray[np.generic]


def condense(outputs: Outputs) -> Outputs:
    """The same answers in what accuracy needs of them; anything but the scores of a large vocabulary as it is."""
    if outputs.kind != "logits" or outputs.arrays["logits"].ndim != 2 or outputs.arrays["logits"].shape[1] <= SMALL:
        return outputs
    logits, targets = outputs.arrays["logits"], outputs.arrays["targets"]
    columns = logits.shape[1]
    finite = np.isfinite(logits)
    plain = np.where(finite, logits, 0.0) if not finite.all() else logits
    log_total, own = _own_scores(plain, targets)
    arrays: dict[str, Array] = {
        "sketch": _sketches(plain),
        "first": np.argmax(plain, axis=1).astype(np.int32),
        "log_total": log_total,
        "own": own,
        "targets": targets,
        "vocabulary": np.array([columns], dtype=np.int64),
        "non_finite": np.array([1.0 - float(finite.mean())]),
        "digest": np.frombuffer(hashlib.sha256(np.ascontiguousarray(logits).tobytes()).digest(), dtype=np.uint8),
    }
    arrays |= {name: outputs.arrays[name] for name in ("marks",) if name in outputs.arrays}
    return Outputs(kind=SKETCHED, arrays=arrays, inputs=outputs.inputs)


def alike(reference: Outputs, candidate: Outputs) -> tuple[Outputs, Outputs]:
    """Both in the same form: scores that an earlier version kept whole are condensed beside condensed ones."""
    kinds = {reference.kind, candidate.kind}
    return (condense(reference), condense(candidate)) if kinds == {"logits", SKETCHED} else (reference, candidate)


def losses_of(outputs: Outputs) -> Float64:
    """−log p of each position's own token, in nats."""
    arrays = outputs.arrays
    if outputs.kind == SKETCHED:
        return np.asarray(arrays["log_total"], dtype=np.float64) - np.asarray(arrays["own"], dtype=np.float64)
    return negative_log_likelihood(arrays["logits"], arrays["targets"])


def firsts_of(outputs: Outputs) -> Int64:
    """Which token each position puts first."""
    arrays = outputs.arrays
    first = arrays["first"] if outputs.kind == SKETCHED else np.argmax(arrays["logits"], axis=1)
    return np.asarray(first, dtype=np.int64)


def negative_log_likelihood(logits: Array, targets: Array) -> Float64:
    """−log p of each position's own token, in nats."""
    log_total, own = _own_scores(logits, targets)
    return log_total - own


def _own_scores(logits: Array, targets: Array) -> tuple[Float64, Float64]:
    """By position: the logarithm of the sum of exponentials, and the score of its own token."""
    totals, owns = [], []
    index = np.asarray(targets, dtype=np.int64)
    for start in range(0, len(logits), ROWS_AT_ONCE):
        rows = np.asarray(logits[start : start + ROWS_AT_ONCE], dtype=np.float64)
        highest = rows.max(axis=1, keepdims=True)
        totals.append(np.log(np.exp(rows - highest).sum(axis=1)) + highest[:, 0])
        owns.append(rows[np.arange(len(rows)), index[start : start + len(rows)]])
    return np.concatenate(totals), np.concatenate(owns)


def _sketches(logits: Array) -> npt.NDArray[np.float32]:
    """Every token into one of WIDTH sums with a sign, both fixed by the size of the vocabulary alone."""
    random = np.random.default_rng((SEED, logits.shape[1]))
    place = random.integers(0, WIDTH, logits.shape[1])
    sign = random.integers(0, 2, logits.shape[1]) * 2.0 - 1.0
    rows = [np.bincount(place, weights=sign * np.asarray(row, dtype=np.float64), minlength=WIDTH) for row in logits]
    return np.asarray(rows, dtype=np.float32)
