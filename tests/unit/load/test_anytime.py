"""What a search can state at any moment: a lower bound by decided probes alone, never a change of the search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lynxbench.load.saturation import find_saturation
from lynxbench.load.saturation_judge import LatencyBound, ProbeOutcome
from lynxbench.load.saturation_result import Saturation
from lynxbench.load.search_rule import SearchRule
from lynxbench.model.samples import Float64

BOUND = LatencyBound(1.0, 0.05)
CAPACITY = 100.0


def rising(rate_per_s: float) -> float:
    """5 % are late at the capacity, more above it."""
    return float(min(1.0, 0.05 * (rate_per_s / CAPACITY) ** 8))


class Independent:
    """Requests that are late by themselves, with a probability that the rate decides."""

    def __init__(self, rate_per_s: float, late: Callable[[float], float], rng: np.random.Generator) -> None:
        self.rate_per_s, self.share, self.rng, self.taken = rate_per_s, late(rate_per_s), rng, 0

    def take(self, requests: int) -> Float64:
        self.taken += requests
        return np.where(self.rng.random(requests) < self.share, 5.0, self.rng.uniform(0.2, 0.9, requests))

    def end(self) -> float:
        return self.taken / self.rate_per_s


def watched(
    seed: int, rule: SearchRule | None = None, late: Callable[[float], float] = rising
) -> tuple[Saturation, list[Saturation]]:
    rng, states = np.random.default_rng(seed), []
    result = find_saturation(lambda rate: Independent(rate, late, rng), 130.0, BOUND, rule, states.append)
    return result, states


@pytest.fixture(scope="module")
def searches() -> list[tuple[Saturation, list[Saturation]]]:
    return [watched(seed) for seed in range(12)]


def test_what_is_stated_is_told_after_every_probe_and_ends_as_the_result(
    searches: list[tuple[Saturation, list[Saturation]]],
) -> None:
    for result, states in searches:
        assert [len(state.probes) for state in states] == list(range(1, len(result.probes) + 1))
        assert states[-1] == result
        assert all(state.at_least_per_s == state.passed_per_s for state in states if state.confirmed)


def test_telling_changes_nothing_of_the_search() -> None:
    rng = np.random.default_rng(4)
    alone = find_saturation(lambda rate: Independent(rate, rising, rng), 130.0, BOUND)
    assert alone == watched(4)[0]


def test_a_statement_rests_on_a_probe_that_passed_and_is_under_what_failed(
    searches: list[tuple[Saturation, list[Saturation]]],
) -> None:
    stated = 0
    for _, states in searches:
        for state in states:
            rate = state.at_least_per_s
            passed = {probe.rate_per_s for probe in state.probes if probe.outcome is ProbeOutcome.PASS}
            assert rate is None or rate in passed - {probe.rate_per_s for probe in state.probes if probe.scout}
            assert rate is None or state.failed_per_s is None or rate < state.failed_per_s
            if rate is not None and not state.confirmed:
                stated += 1
                assert f"holds at least {rate:.4g} /s, not shown beyond" in state.note
    assert stated > 5, "no search was ever seen between a pass and its follow-up"


def test_statements_stay_under_the_capacity(searches: list[tuple[Saturation, list[Saturation]]]) -> None:
    """Seeded, and promised in 95 % of searches; the whole of it is benchmarks/saturation_anytime.py."""
    over = [any((state.at_least_per_s or 0.0) > CAPACITY for state in states) for _, states in searches]
    assert sum(over) <= 1
    assert all(any(state.at_least_per_s for state in states) for _, states in searches)


def test_scouts_alone_state_nothing() -> None:
    result, states = watched(5, SearchRule(max_probes=3))
    assert all(probe.scout for probe in result.probes)
    assert all(state.at_least_per_s is None for state in states)
    assert "nothing is claimed" in result.note


def test_a_server_that_never_holds_is_never_said_to() -> None:
    for seed in range(4):
        _, states = watched(seed, late=lambda _: 0.2)
        assert all(state.at_least_per_s is None for state in states)


def test_a_budget_that_ends_after_the_claim_states_it(
    searches: list[tuple[Saturation, list[Saturation]]],
) -> None:
    """Stopped by its number of probes right after a pass: what was shown stands, and is not called confirmed."""
    for seed, (_, states) in enumerate(searches):
        places = [place for place, state in enumerate(states) if state.at_least_per_s and not state.confirmed]
        if places:
            cut, _ = watched(seed, SearchRule(max_probes=places[0] + 1))
            assert cut.at_least_per_s == states[places[0]].at_least_per_s
            assert not cut.confirmed
            return
    raise AssertionError("no search was ever seen between a pass and its follow-up")
