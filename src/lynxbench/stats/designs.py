"""Designs of experiments: full and fractional factorials, what a fraction confounds, and the order of the runs. Pure.

Fractions are regular two-level ones (Box and Hunter, Technometrics 3, 1961): a further factor takes the column of an
interaction of others, and every word of the group that these generators span is confounded with the mean.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from operator import xor

import numpy as np

Cell = tuple[int, ...]
"""The level of each factor, by position."""
Word = frozenset[int]
"""A main effect or an interaction: the positions of its factors."""

LARGEST_FRACTION_FACTORS = 10
"""Generators are searched for among all interactions; beyond this the search is no longer a moment's work."""


@dataclass(frozen=True, slots=True)
class Design:
    """The cells of an experiment, in standard order, and what they cannot tell apart."""

    levels: tuple[int, ...]
    """How many levels each factor has."""
    cells: tuple[Cell, ...]
    generators: tuple[tuple[int, Word], ...] = ()
    """Of a fraction: the factor that takes the column of an interaction."""
    defining: tuple[tuple[Word, int], ...] = ()
    """Words confounded with the mean, each with its sign."""

    @property
    def is_full(self) -> bool:
        """Whether every combination of levels is a cell."""
        return not self.generators

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word confounded with the mean; None for a full design."""
        return min((len(word) for word, _ in self.defining), default=None)


def full_design(levels: Sequence[int]) -> Design:
    """Every combination of levels; the first factor changes slowest."""
    if not levels or any(count < 2 for count in levels):
        raise ValueError("a design needs at least one factor, each with at least two levels")
    return Design(tuple(levels), tuple(product(*(range(count) for count in levels))))


def fractional_design(factors: int, generated: int) -> Design:
    """A two-level fraction of 2^-generated with the highest resolution and the fewest words of that length."""
    return fraction_of(factors, _best_generators(factors, generated))


def fraction_of(factors: int, generators: Sequence[tuple[int, Word]]) -> Design:
    """The fraction in which each generator's factor is the product of its word's columns, signed so that the cell with
    every factor at its first level, the baseline, is one of its cells."""
    _check_generators(factors, generators)
    taken = {factor for factor, _ in generators}
    basic = [factor for factor in range(factors) if factor not in taken]
    cells = []
    for settings in product((0, 1), repeat=len(basic)):
        cell = dict(zip(basic, settings, strict=True))
        for factor, word in generators:
            cell[factor] = (_sign_of(word) * sign_at(cell, word) + 1) // 2
        cells.append(tuple(cell[factor] for factor in range(factors)))
    return Design((2,) * factors, tuple(sorted(cells)), tuple(generators), _defining(generators))


def sign_at(cell: Mapping[int, int] | Cell, word: Word) -> int:
    """The column of a word at a cell: the product of its factors' levels as ±1."""
    return math.prod(2 * cell[position] - 1 for position in word)


def _check_generators(factors: int, generators: Sequence[tuple[int, Word]]) -> None:
    taken = {factor for factor, _ in generators}
    if len(taken) != len(generators):
        raise ValueError("a factor is generated twice")
    for factor, word in generators:
        if not 0 <= factor < factors or any(not 0 <= member < factors for member in word):
            raise ValueError("a generator names a factor that does not exist")
        if len(word) < 2:
            raise ValueError("a generated factor takes the column of an interaction of at least two others")
        if word & taken:
            raise ValueError("a generator may only use factors that are not generated themselves")


def aliases_of(design: Design, word: Word) -> tuple[tuple[Word, int], ...]:
    """What the contrast of a word also contains, shortest first; empty for a full design."""
    return _shortest_first((word ^ confounded, sign) for confounded, sign in design.defining)


def alias_classes(design: Design) -> tuple[tuple[Word, ...], ...]:
    """Effects that share one contrast, the shortest first in each; singletons where nothing is confounded."""
    factors = len(design.levels)
    words = [frozenset(c) for size in range(1, factors + 1) for c in combinations(range(factors), size)]
    with_mean = {word for word, _ in design.defining}
    seen: set[Word] = set(with_mean)
    classes = []
    for word in words:
        if word in seen:
            continue
        group = (word, *(other for other, _ in aliases_of(design, word)))
        seen.update(group)
        classes.append(group)
    return tuple(classes)


def blocked_order(cells: int, blocks: int, seed: int) -> tuple[tuple[int, ...], ...]:
    """Each block visits every cell once, in an order of its own: a drift in time falls on all cells alike."""
    generator = np.random.default_rng(seed)
    return tuple(tuple(int(index) for index in generator.permutation(cells)) for _ in range(blocks))


def _best_generators(factors: int, generated: int) -> tuple[tuple[int, Word], ...]:
    basic = factors - generated
    if not 2 <= factors <= LARGEST_FRACTION_FACTORS or generated < 1 or basic < 2:
        raise ValueError(f"no fraction of {factors} factors with {generated} of them generated")
    words = [frozenset(c) for size in range(basic, 1, -1) for c in combinations(range(basic), size)]
    best: tuple[tuple[int, int], tuple[tuple[int, Word], ...]] | None = None
    for chosen in combinations(words, generated):
        generators = tuple(zip(range(basic, factors), chosen, strict=True))
        lengths = [len(word) for word, _ in _defining(generators)]
        rank = (-min(lengths), lengths.count(min(lengths)))
        if best is None or rank < best[0]:
            best = (rank, generators)
    if best is None:
        raise ValueError(f"{basic} basic factors have too few interactions for {generated} generators")
    return best[1]


def _sign_of(word: Word) -> int:
    return 1 if len(word) % 2 else -1


def _defining(generators: Sequence[tuple[int, Word]]) -> tuple[tuple[Word, int], ...]:
    """All products of the generators' words, with the sign their columns multiply to."""
    words = [(word | {factor}, _sign_of(word)) for factor, word in generators]
    group: list[tuple[Word, int]] = []
    for size in range(1, len(words) + 1):
        for chosen in combinations(words, size):
            group.append((reduce(xor, (word for word, _ in chosen)), math.prod(sign for _, sign in chosen)))
    return _shortest_first(group)


def _shortest_first(words: Iterable[tuple[Word, int]]) -> tuple[tuple[Word, int], ...]:
    return tuple(sorted(words, key=lambda signed: (len(signed[0]), sorted(signed[0]))))
