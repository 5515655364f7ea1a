"""What-if estimates over any shares: ranges in order, never beyond the factor, and faster hardware never slower."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.attribute.judge.faster_hardware import Swap, estimate_swap
from lynxbench.model.attribution import Category

FACTOR = st.floats(1.0, 50.0)
SWAPS = st.builds(Swap, compute=FACTOR, bandwidth=FACTOR, link=FACTOR, host=FACTOR)


@st.composite
def shares(draw: st.DrawFn) -> dict[Category, float]:
    weights = draw(st.dictionaries(st.sampled_from(Category), st.floats(0.01, 1.0), min_size=1))
    total = sum(weights.values())
    return {category: weight / total for category, weight in weights.items()}


@given(shares(), SWAPS)
def test_a_gain_is_a_range_within_the_fastest_factor(spent: dict[Category, float], swap: Swap) -> None:
    gain = estimate_swap(spent, swap).gain
    most = max(swap.compute, swap.bandwidth, swap.link, swap.host)
    assert 1.0 - 1e-9 <= gain.low <= gain.estimate + 1e-9
    assert gain.estimate <= gain.high + 1e-9
    assert gain.high <= most + 1e-6


@given(shares(), SWAPS, st.floats(1.0, 4.0))
def test_faster_hardware_is_never_slower(spent: dict[Category, float], swap: Swap, more: float) -> None:
    faster = Swap(swap.compute * more, swap.bandwidth * more, swap.link * more, swap.host * more)
    first, second = estimate_swap(spent, swap).gain, estimate_swap(spent, faster).gain
    assert second.estimate >= first.estimate - 1e-9
    assert second.high >= first.high - 1e-9


@given(shares())
def test_the_same_machine_gains_nothing(spent: dict[Category, float]) -> None:
    assert estimate_swap(spent, Swap()).gain.high == pytest.approx(1.0)
