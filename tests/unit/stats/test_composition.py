"""Where a sequence of names changes: planted places are found, and random orders have none."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.stats.composition import FEWEST, find_shifts


@pytest.mark.parametrize(("before", "after"), [(4, 4), (30, 5), (6, 50), (40, 3)])
def test_a_clean_change_is_found_where_it_is(before: int, after: int) -> None:
    (shift,) = find_shifts(["launch"] * before + ["compute"] * after)
    assert shift.index == before
    assert shift.p <= 0.05


@pytest.mark.parametrize("names", [[], ["a"], ["a"] * 50, ["a"] * 3 + ["b"] * 3, ["a"] * 40 + ["b"]])
def test_too_few_of_either_say_nothing(names: list[str]) -> None:
    assert find_shifts(names) == ()


def test_a_mixture_that_changes_is_found_near_its_place() -> None:
    random = np.random.default_rng(5)
    names = [*random.choice(["a", "b"], 40, p=[0.85, 0.15]), *random.choice(["a", "b"], 40, p=[0.15, 0.85])]
    (shift,) = find_shifts(names)
    assert abs(shift.index - 40) <= 4


def test_there_and_back_are_two_places() -> None:
    shifts = find_shifts(["a"] * 12 + ["b"] * 12 + ["a"] * 12)
    assert [shift.index for shift in shifts] == [12, 24]


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.9, 0.1], [0.4, 0.3, 0.3]])
def test_random_orders_have_no_place(shares: list[float]) -> None:
    """At most about the stated error of 5 %: 60 sequences, so seven or more come in 3 of 100 such tests."""
    random = np.random.default_rng(11)
    names = [random.choice(list("abc")[: len(shares)], 24, p=shares).tolist() for _ in range(60)]
    assert sum(bool(find_shifts(each)) for each in names) <= 7


def test_an_answer_does_not_depend_on_the_words_or_on_chance() -> None:
    names = ["a"] * 9 + ["b", "a"] + ["b"] * 9
    assert find_shifts(names) == find_shifts([{"a": "zebra", "b": "ant"}[name] for name in names]) == find_shifts(names)
    assert all(shift.index >= FEWEST for shift in find_shifts(names))
