from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lynxbench.engines.torch.torch_inputs import Tokens
from lynxbench.model.workload import EmpiricalLength, LognormalLength, UniformLength
from lynxbench.workload.lengths import longest, sample_length

bounds = st.tuples(st.integers(1, 5000), st.integers(0, 5000)).map(lambda pair: (pair[0], pair[0] + pair[1]))
seeds = st.integers(0, 2**32 - 1)
indices = st.integers(0, 10**9)


@given(bounds, seeds, indices)
def test_uniform_stays_within_its_bounds(bound: tuple[int, int], seed: int, index: int) -> None:
    low, high = bound
    length = UniformLength(distribution="uniform", low=low, high=high)
    assert low <= sample_length(length, seed=seed, index=index) <= high <= longest(length)


@given(bounds, st.floats(0, 1), st.floats(0.01, 5), seeds, indices)
def test_lognormal_stays_within_its_cut_offs(
    bound: tuple[int, int], place: float, sigma: float, seed: int, index: int
) -> None:
    low, high = bound
    median = low + place * (high - low)
    length = LognormalLength(distribution="lognormal", median=median, sigma=sigma, low=low, high=high)
    assert low <= sample_length(length, seed=seed, index=index) <= high


@given(st.lists(st.integers(1, 9999), min_size=1, max_size=50), seeds, indices)
def test_empirical_draws_are_recorded_values(values: list[int], seed: int, index: int) -> None:
    length = EmpiricalLength(distribution="empirical", values=tuple(values))
    assert sample_length(length, seed=seed, index=index) in values
    assert longest(length) == max(values)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=200), st.integers(0, 10**6), st.integers(0, 1000))
def test_windows_have_exactly_the_asked_length_and_follow_the_text(ids: list[int], number: int, length: int) -> None:
    window = Tokens(tuple(ids), "x").window(number, length)
    start = number * 37 % len(ids)
    assert window == [ids[(start + place) % len(ids)] for place in range(length)]
