from __future__ import annotations

import pytest

from lynxbench.stats.designs import alias_classes, fraction_of, fractional_design, full_design


def test_a_full_design_has_every_combination_in_standard_order() -> None:
    design = full_design([2, 3])
    assert design.cells == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))
    assert design.is_full
    assert design.resolution is None


@pytest.mark.parametrize(
    ("factors", "generated", "resolution"), [(3, 1, 3), (4, 1, 4), (5, 1, 5), (6, 2, 4), (7, 3, 4)]
)
def test_the_chosen_fraction_has_the_highest_resolution_of_the_tables(
    factors: int, generated: int, resolution: int
) -> None:
    # Box, Hunter and Hunter, Statistics for Experimenters, table of two-level fractions.
    assert fractional_design(factors, generated).resolution == resolution


def test_a_half_of_four_factors_confounds_pairs_with_pairs() -> None:
    classes = {frozenset(group) for group in alias_classes(fractional_design(4, 1))}
    assert frozenset({frozenset({0, 1}), frozenset({2, 3})}) in classes
    assert frozenset({frozenset({0}), frozenset({1, 2, 3})}) in classes


@pytest.mark.parametrize(
    ("generators", "says"),
    [
        ([(2, frozenset({0}))], "at least two"),
        ([(2, frozenset({0, 5}))], "does not exist"),
        ([(2, frozenset({0, 1})), (2, frozenset({0, 1}))], "twice"),
        ([(2, frozenset({0, 1})), (3, frozenset({0, 2}))], "not generated"),
    ],
)
def test_generators_that_make_no_fraction_are_refused(generators: list[tuple[int, frozenset[int]]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fraction_of(4, generators)


def test_too_small_designs_are_refused() -> None:
    with pytest.raises(ValueError, match="two levels"):
        full_design([2, 1])
    with pytest.raises(ValueError, match="no fraction"):
        fractional_design(3, 2)
