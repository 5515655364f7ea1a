"""Where the composition of a sequence of names changes, as the causes that lead one result after another.

The place is that of the largest likelihood ratio of two compositions against one; whether there is one at all is asked
of the same names in random order (a permutation test over the largest ratio, so that looking everywhere is paid for).
Further places are looked for on both sides of one that was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.model.samples import Float64, Int64

FEWEST = 3
"""Names on each side of a place."""
ORDERS = 999
AT_ONCE = 111
"""Orders whose ratios are made at once: a long sequence of many names stays within some megabytes."""
ERROR = 0.05
SEED = 20261116


@dataclass(frozen=True, slots=True)
class Shift:
    """The first name of another composition, and how often chance alone would show as clear a place."""

    index: int
    p: float


def find_shifts(names: Sequence[str]) -> tuple[Shift, ...]:
    """Every place at which the composition changes, in order."""
    _, codes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
    return tuple(sorted(_shifts(codes.astype(np.int64), 0), key=lambda shift: shift.index))


def _shifts(codes: Int64, offset: int) -> list[Shift]:
    if len(codes) < 2 * FEWEST or len(np.unique(codes)) < 2:
        return []
    gains = _gains(codes[np.newaxis])[0]
    place = int(np.argmax(gains))
    random = np.random.default_rng(SEED)
    as_clear = 0
    for begin in range(0, ORDERS, AT_ONCE):
        orders = np.stack([random.permutation(codes) for _ in range(min(AT_ONCE, ORDERS - begin))])
        as_clear += int(np.count_nonzero(_gains(orders).max(axis=1) >= gains[place] - 1e-9))
    p = (1 + as_clear) / (1 + ORDERS)
    if p > ERROR:
        return []
    index = place + FEWEST
    before, after = _shifts(codes[:index], offset), _shifts(codes[index:], offset + index)
    return [*before, Shift(offset + index, p), *after]


def _gains(orders: Int64) -> Float64:
    """The log-likelihood ratio of every place of each order, a row each."""
    counts = np.cumsum(np.eye(int(orders.max()) + 1)[orders], axis=1)
    left, whole = counts[:, FEWEST - 1 : orders.shape[1] - FEWEST], counts[:, -1:]
    return _log_likelihood(left) + _log_likelihood(whole - left) - _log_likelihood(whole)


def _log_likelihood(counts: Float64) -> Float64:
    """Of each row of counts under its own composition; a name that does not occur adds nothing."""
    whole = counts.sum(axis=-1, keepdims=True)
    logs = np.log(np.where(counts > 0, counts / whole, 1.0))
    return np.asarray((counts * logs).sum(axis=-1))
