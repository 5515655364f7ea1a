"""Offsets of clocks: found within their own bound, whatever the way there and back takes."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.fleet.clocks import Offset, joined, measure_offset


class Wire:
    """Two clocks and a way between them, in simulated time."""

    def __init__(self, offset_ns: int, seed: int, slowest_ns: int) -> None:
        self.now = 1_000_000_000
        self.offset_ns = offset_ns
        self._random = np.random.default_rng(seed)
        self._slowest_ns = slowest_ns

    def clock(self) -> int:
        return self.now

    def ask(self) -> int:
        self.now += 100_000 + int(self._random.exponential(self._slowest_ns))
        theirs = self.now + self.offset_ns
        self.now += 100_000 + int(self._random.exponential(self._slowest_ns))
        return theirs


@pytest.mark.parametrize("offset_ns", [50_000_000, -50_000_000, 0, 86_400_000_000_000])
@pytest.mark.parametrize("seed", range(5))
def test_an_offset_is_within_its_bound_and_a_millisecond(offset_ns: int, seed: int) -> None:
    wire = Wire(offset_ns, seed, slowest_ns=2_000_000)
    found = measure_offset(wire.ask, clock=wire.clock)
    assert abs(found.offset_ns - offset_ns) <= found.bound_ns
    assert abs(found.offset_ns - offset_ns) <= 1_000_000
    assert found.theirs(123) == 123 + found.offset_ns


def test_a_slow_way_is_asked_longer_and_says_how_little_it_knows() -> None:
    wire = Wire(7, 1, slowest_ns=200_000_000)
    found = measure_offset(wire.ask, clock=wire.clock, exchanges=5, most=40)
    assert 5 < found.exchanges <= 40
    assert found.bound_ns > 500_000


def test_a_clock_that_drifts_has_a_wider_bound() -> None:
    one = joined(Offset(1_000_000, 100, 5), Offset(1_004_000, 300, 5))
    assert one == Offset(1_002_000, 300 + 2_000, 10)
