"""The rule against LoadGen's own words: floors, what real runs of it discarded, and what it asked for beyond."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.stats.early_stopping import early_estimate, fewest_within, further_queries, most_over


@pytest.mark.parametrize(("percentile", "floor"), [(90, 64), (95, 130), (99, 662), (99.9, 6636)])
def test_the_published_floors(percentile: float, floor: int) -> None:
    assert fewest_within(percentile, 1) + 1 == floor
    assert early_estimate(range(floor - 1), percentile).value is None
    assert early_estimate(range(floor), percentile).value == floor - 1
    assert early_estimate(range(floor - 1), percentile).needed == floor


@pytest.mark.parametrize(("queries", "discarded"), [(185, 8), (201, 9), (659, 47), (708, 51)])
def test_what_loadgen_said_it_would_discard(queries: int, discarded: int) -> None:
    """Summaries of real SingleStream runs; in the last the 99th percentile's estimate was the largest latency."""
    values = np.arange(queries, dtype=float)
    estimate = early_estimate(list(values), 90)
    assert estimate.discarded == discarded
    assert estimate.value == queries - 1 - discarded
    if queries == 708:
        assert early_estimate(list(values), 99).value == queries - 1


def test_what_loadgen_asked_for_beyond_a_short_server_run() -> None:
    assert further_queries(99, 100, 0) == 359
    assert further_queries(99, 459, 0) == 0


def test_no_more_may_be_over_than_the_queries_bear() -> None:
    assert most_over(99, 458) == -1
    assert most_over(99, 459) == 0
    over = most_over(99, 5000)
    assert fewest_within(99, over) + over <= 5000 < fewest_within(99, over + 1) + over + 1


def test_a_service_at_its_percentile_passes_once_in_a_hundred_at_most() -> None:
    random = np.random.default_rng(4)
    queries, passed = 1000, 0
    bearable = most_over(95, queries)
    over = random.binomial(queries, 0.05, 20_000)
    passed = int((over <= bearable).sum())
    assert 0.004 < passed / 20_000 < 0.0115


@pytest.mark.parametrize("percentile", [0, 100, -1])
def test_a_percentile_that_is_none(percentile: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        fewest_within(percentile, 0)
