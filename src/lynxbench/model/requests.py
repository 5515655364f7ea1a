"""The requests of one load run as plain columns: what measuring needs of them."""

from dataclasses import dataclass, field

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
    cancelled: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Given up by the client itself: neither good nor failed."""
    first_answer_ns: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The first output that is the answer, after what a model thinks aloud; 0 where it is not known."""

    unpaced: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Several tokens that were not seen to come one after the other: they show no time per token."""

    first_share: float = 0.0
    """Of an answer, what its first event held, where events hold several tokens; 0 where that is not known."""

    def __post_init__(self) -> None:
        for name in ("cancelled", "first_answer_ns", "unpaced"):
            if len(getattr(self, name)) != len(self.scheduled_ns):  # unsaid: no request was or has any
                nothing = np.zeros(len(self.scheduled_ns), dtype=getattr(self, name).dtype)
                object.__setattr__(self, name, nothing)

    def __len__(self) -> int:
        return len(self.scheduled_ns)

    def tokens_after_first(self) -> Float64:
        """Tokens that came after the first event of each row."""
        events = np.bincount(self.event_row, minlength=len(self))
        return tokens_after_first(self.output_tokens, events, self.first_share)

    @property
    def knows_tokens(self) -> bool:
        """Whether every good answer's output tokens are known."""
        return bool(self.ok.any()) and bool((self.output_tokens[self.ok] >= 0).all())


def tokens_after_first(tokens: Int64, events: Int64, first_share: float) -> Float64:
    """Tokens that came after the first event of answers: all but one, or but those that it held with others.

    Where events are fewer than tokens, the first held its share of the answer; every later one holds a token at least.
    """
    most = np.maximum(tokens - events + 1, 1)
    held = np.clip(first_share * tokens, 1, most)
    several = (events >= 2) & (events < tokens - 1)  # an end-of-text token has no event of its own
    return np.asarray(tokens - np.where(several, held, 1), dtype=np.float64)
