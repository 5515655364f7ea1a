"""Prefixes that requests have in common, by the hashes of their blocks: what a cache without end would hold of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefixedRequest:
    """One request in the order of sending."""

    blocks: Sequence[int]
    """The hash of each block of its input; equal leading ones are equal text."""
    input_tokens: int
    cycle: int = 0
    """Requests of different cycles have nothing in common."""
    sent_ns: int = 0
    ready_ns: int = 0
    """When its first token came: from then on its blocks are in a cache."""


@dataclass(frozen=True, slots=True)
class PrefixShare:
    """What the requests have in common, of all their input tokens."""

    share: float
    """Tokens of leading blocks that an earlier request had too."""
    in_flight: float
    """The part of them whose first request had no token yet: a cache cannot hold what is not computed."""
    input_tokens: int
    distinct_tokens: int
    """Tokens of all different blocks: a smaller cache must evict."""


@dataclass(frozen=True, slots=True)
class SharedInputs:
    """What prepared requests have in common: hashed blocks at their beginning, or so many tokens with all others."""

    input_tokens: tuple[int, ...]
    block: int
    blocks: tuple[tuple[int, ...], ...] = ()
    common_tokens: tuple[int, ...] = ()

    def expected(
        self, places: Sequence[int], rounds: Sequence[int], sent_ns: Sequence[int], ready_ns: Sequence[int]
    ) -> PrefixShare | None:
        """What a cache without end holds of requests in the order of sending."""
        if self.blocks:
            rows = zip(places, rounds, sent_ns, ready_ns, strict=True)
            asked = (PrefixedRequest(self.blocks[p], self.input_tokens[p], r, s, t) for p, r, s, t in rows)
            return shared_prefixes(asked, self.block)
        total = sum(self.input_tokens[place] for place in places)
        common = sum(self.common_tokens[place] for place in places)
        return PrefixShare(common / total, 0.0, total, total - common) if total else None


def shared_prefixes(requests: Iterable[PrefixedRequest], block: int) -> PrefixShare | None:
    """The hit share of an infinite prefix cache, block by block; None where nothing was asked."""
    ready: dict[int, int] = {}
    total = hits = in_flight = distinct = 0
    for request in requests:
        total += request.input_tokens
        chain, leading = hash((request.cycle, block)), True
        for place, identifier in enumerate(request.blocks):
            tokens = min(block, request.input_tokens - place * block)
            if tokens <= 0:
                break
            chain = hash((chain, identifier))  # a block is the same only after the same blocks
            known = ready.get(chain)
            leading = leading and known is not None
            if leading and known is not None:
                hits += tokens
                in_flight += tokens if known > request.sent_ns else 0
            else:
                ready[chain] = request.ready_ns
                distinct += tokens
        distinct += max(0, request.input_tokens - len(request.blocks) * block)
    return PrefixShare(hits / total, in_flight / total, total, distinct) if total else None
