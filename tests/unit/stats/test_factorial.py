from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.model.experiment import Decomposability
from lynxbench.stats.contrasts import Contrast, FactorStep, difference, effect_contrasts, simple_effects
from lynxbench.stats.decomposing import Ground, decompose
from lynxbench.stats.designs import Cell, Design, fractional_design, full_design
from lynxbench.stats.factorial import ContrastEstimate, FactorialFit, Observation, holm, variation

CUBE = full_design([2, 2, 2])
STEP = FactorStep((0, 0, 0), (1, 1, 1))
DELTA = math.log1p(0.05)


def observed(
    truth: dict[Cell, float], *, noise: float, blocks: int = 5, seed: int = 0, present: tuple[Cell, ...] | None = None
) -> list[Observation]:
    rng = np.random.default_rng(seed)
    drift = rng.normal(0, 0.05, blocks)
    return [
        Observation(cell, block, truth[cell] + drift[block] + rng.normal(0, noise))
        for cell in present or tuple(truth)
        for block in range(blocks)
    ]


def planted(design: Design, interaction: float = 0.0) -> dict[Cell, float]:
    return {cell: 0.3 * cell[0] - 0.2 * cell[1] + interaction * cell[0] * cell[1] for cell in design.cells}


def test_effects_are_full_differences_of_the_cells() -> None:
    fit = FactorialFit(observed(planted(CUBE, 0.4), noise=0.0))
    found = {tuple(sorted(one.word)): fit.estimate(one.contrast).value for one in effect_contrasts(CUBE, fit.cells)}
    assert found[0,] == pytest.approx(0.3 + 0.2)
    assert found[1,] == pytest.approx(-0.2 + 0.2)
    assert found[0, 1] == pytest.approx(0.4)
    assert found[0, 1, 2] == pytest.approx(0.0, abs=1e-12)


def test_an_interval_of_two_cells_is_that_of_their_pairs() -> None:
    """Two cells over blocks are pairs: the interval must be Student's on their differences."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 6), rng.normal(0.5, 2, 6)
    fit = FactorialFit([Observation((i,), k, v) for i, row in enumerate((a, b)) for k, v in enumerate(row)])
    found = fit.estimate(Contrast({(1,): 1.0, (0,): -1.0}))
    apart = b - a
    assert found.value == pytest.approx(apart.mean())
    assert found.error == pytest.approx(apart.std(ddof=1) / math.sqrt(6))
    assert found.degrees == pytest.approx(5)


def test_a_noisy_cell_widens_only_the_contrasts_that_rest_on_it() -> None:
    rng = np.random.default_rng(1)
    data = [
        Observation(cell, block, rng.normal(0, 0.2 if cell == (1, 1, 1) else 0.01))
        for cell in CUBE.cells
        for block in range(8)
    ]
    fit = FactorialFit(data)
    quiet = fit.estimate(Contrast({(1, 0, 0): 1.0, (0, 0, 0): -1.0}))
    loud = fit.estimate(Contrast({(1, 1, 1): 1.0, (0, 1, 1): -1.0}))
    assert loud.error > 4 * quiet.error
    assert loud.degrees < 12


def test_one_block_has_estimates_and_no_interval() -> None:
    fit = FactorialFit(observed(planted(CUBE), noise=0.0, blocks=1))
    found = fit.estimate(difference(CUBE, {0: 1}, fit.cells))
    assert found.value == pytest.approx(0.3)
    assert math.isnan(found.interval(0.95).low)
    assert found.p == 1.0
    assert decompose(CUBE, fit, STEP, DELTA).word is Decomposability.UNDETERMINED


def test_missing_cells_leave_means_over_what_is_there() -> None:
    here = tuple(cell for cell in CUBE.cells if cell != (1, 1, 1))
    found = difference(CUBE, {0: 1, 1: 1}, here)
    assert (found.contexts, found.contexts_possible) == (1, 2)
    assert not difference(CUBE, {0: 1, 1: 1, 2: 1}, here).estimable
    assert (0, 1, 1) not in simple_effects(CUBE, 0, 1, here)
    fit = FactorialFit(observed(planted(CUBE), noise=0.001, present=here))
    verdict = decompose(CUBE, fit, STEP, DELTA)
    assert verdict.word is Decomposability.UNDETERMINED
    assert {one.ground for one in verdict.findings} == {Ground.MISSING}


@pytest.mark.parametrize(
    ("interaction", "word"),
    [
        (0.0, Decomposability.DECOMPOSABLE),
        (0.3, Decomposability.NOT_DECOMPOSABLE),
        (-0.3, Decomposability.NOT_DECOMPOSABLE),
    ],
)
def test_clear_cases_get_their_word(interaction: float, word: Decomposability) -> None:
    fit = FactorialFit(observed(planted(CUBE, interaction), noise=0.005))
    assert decompose(CUBE, fit, STEP, DELTA).word is word


def test_a_change_of_sign_is_named_with_both_settings() -> None:
    truth = {cell: (0.04 if cell[1] else -0.04) * cell[0] for cell in CUBE.cells}
    found = decompose(CUBE, FactorialFit(observed(truth, noise=0.002)), STEP, 0.06)
    assert found.word is Decomposability.NOT_DECOMPOSABLE
    flips = [one for one in found.findings if one.ground is Ground.SIGN and one.factor == 0]
    assert flips[0].contexts is not None
    gains, loses = flips[0].contexts
    assert (gains[1], loses[1]) == (1, 0)


def test_noise_is_undetermined_and_says_how_many_restarts_would_do() -> None:
    found = decompose(CUBE, FactorialFit(observed(planted(CUBE), noise=0.03)), STEP, DELTA)
    assert found.word is Decomposability.UNDETERMINED
    assert found.restarts_needed is not None
    assert found.restarts_needed > 5


def test_a_fraction_of_low_resolution_never_proves_decomposability() -> None:
    half = fractional_design(4, 1)
    truth = {cell: 0.2 * cell[0] for cell in half.cells}
    found = decompose(half, FactorialFit(observed(truth, noise=0.001)), None, DELTA)
    assert found.word is Decomposability.UNDETERMINED
    assert Ground.ALIASED in {one.ground for one in found.findings}
    truth = {cell: 0.2 * cell[0] + 0.4 * cell[0] * cell[1] for cell in half.cells}
    assert (
        decompose(half, FactorialFit(observed(truth, noise=0.001)), None, DELTA).word
        is Decomposability.NOT_DECOMPOSABLE
    )


def test_a_missing_cell_of_a_fraction_takes_every_contrast_with_it() -> None:
    half = fractional_design(4, 1)
    assert not any(one.contrast.estimable for one in effect_contrasts(half, half.cells[1:]))


def test_variation_names_what_was_planted() -> None:
    found = variation(CUBE, observed(planted(CUBE), noise=1e-6))
    assert found is not None
    assert found.terms[frozenset({0})] / found.terms[frozenset({1})] == pytest.approx((0.3 / 0.2) ** 2, rel=1e-3)
    assert found.blocks > 0.001


def test_holm_is_the_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_tests_against_a_bound_are_one_sided_each() -> None:
    found = ContrastEstimate(0.10, 0.01, 20)
    assert found.p_beyond(0.05) < 0.001 < found.p_within(0.05)
    assert ContrastEstimate(0.0, 0.01, 20).p_within(0.05) < 0.001
    assert ContrastEstimate(math.nan, math.nan, 0).p_within(0.05) == 1.0
    assert ContrastEstimate(0.1, 0.0, 3).p_beyond(0.05) == 0.0


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    """A quick guard; benchmarks/experiments.py measures it."""
    contrast = difference(CUBE, {0: 1, 1: 1}, CUBE.cells)
    truth = planted(CUBE, 0.1)
    inside = 0
    for seed in range(200):
        interval = FactorialFit(observed(truth, noise=0.02, seed=seed)).estimate(contrast).interval(0.95)
        inside += interval.low <= 0.1 <= interval.high
    assert 180 <= inside <= 199


def test_nothing_observed_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        FactorialFit([])
    with pytest.raises(ValueError, match="finite"):
        FactorialFit([Observation((0,), 0, math.nan)])
