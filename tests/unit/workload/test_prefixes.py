"""The hit share of a cache without end, against a cache that is simulated token by token."""

from __future__ import annotations

import random

import pytest

from lynxbench.workload.prefixes import PrefixedRequest, SharedInputs, shared_prefixes

BLOCK = 4


def brute_force(requests: list[PrefixedRequest]) -> float:
    """Every prompt spelled out as tokens: the longest beginning that an earlier one had, in whole blocks of its own."""
    seen: list[list[tuple[int, int]]] = []
    hits = total = 0
    for request in requests:
        tokens = [(identifier, place) for identifier in request.blocks for place in range(BLOCK)][
            : request.input_tokens
        ]
        best = 0
        for other in seen:
            common = 0
            while common < min(len(tokens), len(other)) and tokens[common] == other[common]:
                common += 1
            best = max(best, common)
        whole = best if best == len(tokens) else best // BLOCK * BLOCK
        hits, total = hits + whole, total + request.input_tokens
        seen.append(tokens)
    return hits / total


@pytest.mark.parametrize("seed", range(20))
def test_the_share_is_that_of_a_cache_that_forgets_nothing(seed: int):
    draw = random.Random(seed)
    requests = []
    for _ in range(60):
        blocks = [draw.randrange(3) for _ in range(draw.randrange(1, 6))]
        requests.append(PrefixedRequest(blocks, len(blocks) * BLOCK))
    assert shared_prefixes(requests, BLOCK).share == pytest.approx(brute_force(requests))


def test_a_short_last_block_counts_as_far_as_it_goes():
    whole, part = PrefixedRequest([1, 2], 8), PrefixedRequest([1, 2], 6)
    assert shared_prefixes([part, part], BLOCK).share == 6 / 12
    assert shared_prefixes([whole, PrefixedRequest([1, 3], 8)], BLOCK).share == 4 / 16
    # More hashes than the input has room for are not there, and input beyond the hashes is nobody else's.
    assert shared_prefixes([PrefixedRequest([1, 2, 3], 4), PrefixedRequest([1], 10)], BLOCK).share == 4 / 14


def test_a_block_is_the_same_only_after_the_same_blocks():
    assert shared_prefixes([PrefixedRequest([1, 2], 8), PrefixedRequest([3, 2], 8)], BLOCK).share == 0
    assert shared_prefixes([PrefixedRequest([1], 4, cycle=0), PrefixedRequest([1], 4, cycle=1)], BLOCK).share == 0


def test_what_is_still_being_computed_is_told_apart():
    first = PrefixedRequest([1], 4, sent_ns=10, ready_ns=100)
    early, late = PrefixedRequest([1], 4, sent_ns=50, ready_ns=200), PrefixedRequest([1], 4, sent_ns=150, ready_ns=300)
    found = shared_prefixes([first, early, late], BLOCK)
    assert (found.share, found.in_flight) == (pytest.approx(8 / 12), pytest.approx(4 / 12))
    assert (found.distinct_tokens, found.input_tokens) == (4, 12)
    assert shared_prefixes([], BLOCK) is None


def test_a_set_share_is_what_prompts_have_in_common():
    shared = SharedInputs((100, 200), 16, common_tokens=(48, 80))
    assert shared.expected([0, 1, 0], [0, 0, 1], [1, 2, 3], [2, 3, 4]).share == pytest.approx(176 / 400)
