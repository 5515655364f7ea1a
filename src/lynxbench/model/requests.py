"""The requests of one load run as plain columns: what measuring needs of them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.model.samples import Float64, Int64

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Requests:
    """One row a request, by scheduled arrival. A moment of 0 never happened; tokens of −1 are unknown."""

    start_ns: int
    load_end_ns: int
    """From here on nothing more was asked: what follows is draining."""
    scheduled_ns: Int64
    sent_ns: Int64
    first_token_ns: Int64
    last_ns: Int64
    ok: Mask
    output_tokens: Int64
    input_tokens: Int64
    cached_tokens: Int64
    event_row: Int64
    """Output events of the good rows: whose they are …"""
    event_ns: Int64
    """… and when they arrived."""
    gap_row: Int64
    gap_s: Float64
    """Distances between two events of one answer that were both read alone; others were not seen one by one."""

    def __len__(self) -> int:
        return len(self.scheduled_ns)

    @property
    def knows_tokens(self) -> bool:
        """Whether every good answer's output tokens are known."""
        return bool(self.ok.any()) and bool((self.output_tokens[self.ok] >= 0).all())
