"""Requests that the client gives up by itself: which, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lynxbench.model.asked_work import Cancelling

ROUND = 4096
"""Requests in which the share is met exactly; which of them leave is a seeded draw."""
_STREAM = 0x1EA7E


@dataclass(frozen=True, slots=True)
class LeavingRule:
    """Who leaves, and after how much."""

    leaves: bytes
    """A byte a request of a round: 1 where it is given up."""
    after_events: int
    after_ns: int

    def is_left(self, number: int, turn: int) -> bool:
        """Whether the client gives this request up."""
        return self.leaves[(number + 31 * turn) % len(self.leaves)] == 1


def leaving_rule(cancel: Cancelling | None, seed: int) -> LeavingRule | None:
    """A contract's share of cancelled requests, drawn."""
    if cancel is None:
        return None
    chosen = np.arange(ROUND) < round(cancel.share * ROUND)
    np.random.default_rng((seed, _STREAM)).shuffle(chosen)
    return LeavingRule(
        leaves=chosen.astype(np.uint8).tobytes(),
        after_events=cancel.after_events or 0,
        after_ns=0 if cancel.after_s is None else int(cancel.after_s * 1e9),
    )
