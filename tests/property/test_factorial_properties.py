"""Laws that the statistics of experiments must keep whatever the numbers are."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.model.experiment import Decomposability
from lynxbench.stats.contrasts import (
    FactorStep,
    additions,
    alone,
    effect_contrasts,
    gap,
    in_company,
    joint,
    shapley,
)
from lynxbench.stats.decomposing import decompose
from lynxbench.stats.designs import alias_classes, aliases_of, blocked_order, fractional_design, full_design
from lynxbench.stats.factorial import FactorialFit, Observation, holm, variation

LEVELS = st.lists(st.integers(2, 3), min_size=2, max_size=3)
RESPONSES = st.floats(-3, 3, allow_nan=False, width=32)


@st.composite
def experiments(draw: st.DrawFn) -> tuple[list[int], list[Observation]]:
    levels = draw(LEVELS)
    blocks = draw(st.integers(2, 4))
    cells = full_design(levels).cells
    values = draw(st.lists(RESPONSES, min_size=len(cells) * blocks, max_size=len(cells) * blocks))
    pairs = [(cell, block) for cell in cells for block in range(blocks)]
    return levels, [Observation(cell, block, v) for (cell, block), v in zip(pairs, values, strict=True)]


@settings(deadline=None, max_examples=50)
@given(experiments())
def test_shapley_values_add_up_to_the_joint_change_and_lie_within_their_range(
    drawn: tuple[list[int], list[Observation]],
) -> None:
    levels, observed = drawn
    fit = FactorialFit(observed)
    step = FactorStep((0,) * len(levels), tuple(count - 1 for count in levels))
    means = dict(zip(fit.cells, fit.coefficients, strict=False))
    values = [fit.estimate(shapley(step, factor)).value for factor in step.factors]
    assert math.fsum(values) == pytest.approx(fit.estimate(joint(step)).value, abs=1e-9)
    for factor, value in zip(step.factors, values, strict=True):
        added = [fit.estimate(contrast).value for _, contrast in additions(step, factor)]
        assert min(added) - 1e-9 <= value <= max(added) + 1e-9
        by_orders = []
        for order in permutations(step.factors):
            before = order[: order.index(factor)]
            by_orders.append(means[step.corner({*before, factor})] - means[step.corner(before)])
        assert np.mean(by_orders) == pytest.approx(value, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(experiments())
def test_the_gap_is_what_single_changes_miss_of_the_joint_one(drawn: tuple[list[int], list[Observation]]) -> None:
    levels, observed = drawn
    fit = FactorialFit(observed)
    step = FactorStep((0,) * len(levels), tuple(count - 1 for count in levels))
    singles = math.fsum(fit.estimate(alone(step, factor)).value for factor in step.factors)
    total = fit.estimate(joint(step)).value
    assert fit.estimate(gap(step)).value == pytest.approx(total - singles, abs=1e-9)
    last = step.factors[-1]
    means = dict(zip(fit.cells, fit.coefficients, strict=False))
    rest = means[step.corner(set(step.factors) - {last})] - means[step.baseline]
    assert fit.estimate(in_company(step, last)).value == pytest.approx(total - rest, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(experiments(), st.lists(st.floats(-5, 5), min_size=4, max_size=4))
def test_a_shift_of_a_whole_block_changes_no_contrast(
    drawn: tuple[list[int], list[Observation]], shifts: list[float]
) -> None:
    levels, observed = drawn
    moved = [Observation(one.cell, one.block, one.value + shifts[one.block]) for one in observed]
    before, after = FactorialFit(observed), FactorialFit(moved)
    for effect in effect_contrasts(full_design(levels), before.cells):
        assert math.isclose(math.fsum(effect.contrast.weights.values()), 0, abs_tol=1e-9)
        a, b = before.estimate(effect.contrast), after.estimate(effect.contrast)
        assert a.value == pytest.approx(b.value, abs=1e-7)
        assert a.error == pytest.approx(b.error, abs=1e-6)


@settings(deadline=None, max_examples=50)
@given(experiments())
def test_shares_of_variation_are_shares(drawn: tuple[list[int], list[Observation]]) -> None:
    levels, observed = drawn
    found = variation(full_design(levels), observed)
    assert found is not None
    parts = [*found.terms.values(), found.blocks, found.restarts]
    assert all(part >= -1e-9 for part in parts)
    constant = len({one.value for one in observed}) == 1
    assert math.fsum(parts) == pytest.approx(0.0 if constant else 1.0, abs=1e-6)
    assert variation(full_design(levels), observed[1:]) is None


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_a_p_and_keeps_their_order(probabilities: list[float]) -> None:
    adjusted = holm(probabilities)
    assert all(a >= p for a, p in zip(adjusted, probabilities, strict=True))
    assert all(a <= 1 for a in adjusted)
    for i, j in combinations(range(len(probabilities)), 2):
        if probabilities[i] < probabilities[j]:
            assert adjusted[i] <= adjusted[j]
    if probabilities:
        least = min(probabilities)
        assert adjusted[probabilities.index(least)] == min(1.0, least * len(probabilities))


@settings(deadline=None, max_examples=50)
@given(st.integers(3, 7), st.integers(1, 3))
def test_a_fraction_is_balanced_and_its_aliases_have_the_same_column(factors: int, generated: int) -> None:
    if factors - generated < 2 or generated > 2 ** (factors - generated) - (factors - generated) - 1:
        return
    design = fractional_design(factors, generated)
    assert len(set(design.cells)) == 2 ** (factors - generated)
    assert (0,) * factors in design.cells

    def column(word: frozenset[int]) -> list[int]:
        return [math.prod(2 * cell[i] - 1 for i in word) for cell in design.cells]

    for word, sign in design.defining:
        assert column(word) == [sign] * len(design.cells)
    for factor in range(factors):
        assert sum(column(frozenset({factor}))) == 0
    seen: list[frozenset[int]] = []
    for group in alias_classes(design):
        seen += group
        for alias, sign in aliases_of(design, group[0]):
            assert column(alias) == [sign * x for x in column(group[0])]
    assert len(seen) == len(set(seen)) == 2**factors - 2**generated


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 20), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_every_block_visits_every_cell_once(cells: int, blocks: int, seed: int) -> None:
    order = blocked_order(cells, blocks, seed)
    assert all(sorted(block) == list(range(cells)) for block in order)
    assert order == blocked_order(cells, blocks, seed)


@settings(deadline=None, max_examples=50)
@given(st.floats(-0.4, 0.4), st.integers(0, 10_000))
def test_a_word_is_never_against_a_truth_that_is_far_away(interaction: float, seed: int) -> None:
    """With little noise: far inside ±δ is never `not decomposable`, far outside is never `decomposable`."""
    delta, rng = 0.1, np.random.default_rng(seed)
    design = full_design([2, 2])
    observed = [
        Observation(cell, block, 0.3 * cell[0] + interaction * cell[0] * cell[1] + rng.normal(0, 1e-4))
        for cell in design.cells
        for block in range(5)
    ]
    word = decompose(design, FactorialFit(observed), FactorStep((0, 0), (1, 1)), delta).word
    if abs(interaction) < 0.05:
        assert word is Decomposability.DECOMPOSABLE
    if abs(interaction) > 0.2:
        assert word is Decomposability.NOT_DECOMPOSABLE
