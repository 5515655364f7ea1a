"""Questions to an experiment as contrasts: weights on the logarithms of the cells' responses that sum to zero. Pure.

An effect is said in full differences: a main effect is after over before, an interaction of two factors is what both
together do over the product of what each does. On the scale of ratios that is what people ask.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from lynxbench.stats.designs import Cell, Design, Word, alias_classes, sign_at

MOST_ORDERED = 8
"""Factors up to which all orders are looked at: 2^8 corners; nobody changes more things at once and asks who did it."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Weights on cells; `contexts` of `contexts_possible` settings of the other factors had all the cells it needs."""

    weights: dict[Cell, float]
    contexts: int = 1
    contexts_possible: int = 1

    @property
    def estimable(self) -> bool:
        """Whether there is any context in which it can be seen."""
        return self.contexts > 0


@dataclass(frozen=True, slots=True)
class EffectContrast:
    """A main effect or an interaction of chosen levels against the first ones."""

    word: Word
    levels: tuple[int, ...]
    """The level looked at, for each factor of the word in order of position."""
    contrast: Contrast
    aliases: tuple[Word, ...] = ()


def effect_contrasts(design: Design, present: Collection[Cell]) -> tuple[EffectContrast, ...]:
    """Every main effect and interaction that the design has a contrast for, main effects first."""
    if not design.is_full:
        return tuple(_fraction_effects(design, frozenset(present)))
    factors = len(design.levels)
    return tuple(
        EffectContrast(frozenset(members), levels, difference(design, dict(zip(members, levels, strict=True)), present))
        for size in range(1, factors + 1)
        for members in combinations(range(factors), size)
        for levels in product(*(range(1, design.levels[member]) for member in members))
    )


def difference(design: Design, changed: dict[int, int], present: Collection[Cell]) -> Contrast:
    """The difference of differences over the changed factors, averaged over the contexts whose cells are all there."""
    others = [position for position in range(len(design.levels)) if position not in changed]
    contexts = list(product(*(range(design.levels[position]) for position in others)))
    here = frozenset(present)
    usable = []
    for context in contexts:
        fixed = dict(zip(others, context, strict=True))
        corner = _signed_corners(len(design.levels), fixed, changed)
        if all(cell in here for cell, _ in corner):
            usable.append(corner)
    weights: dict[Cell, float] = {}
    for corner in usable:
        for cell, sign in corner:
            weights[cell] = weights.get(cell, 0.0) + sign / len(usable)
    return Contrast(weights, len(usable), len(contexts))


def simple_effects(design: Design, factor: int, level: int, present: Collection[Cell]) -> dict[Cell, Contrast]:
    """What one factor's change does in each setting of the others; the key is the cell before the change."""
    here = frozenset(present)
    starts = [cell for cell in design.cells if cell[factor] == 0 and cell in here]
    pairs = [(cell, (*cell[:factor], level, *cell[factor + 1 :])) for cell in starts]
    return {cell: Contrast({after: 1.0, cell: -1.0}) for cell, after in pairs if after in here}


@dataclass(frozen=True, slots=True)
class FactorStep:
    """From the baseline cell to the target cell, factor by factor."""

    baseline: Cell
    target: Cell

    def corner(self, changed: Collection[int]) -> Cell:
        """The cell in which just these factors have their target level."""
        return tuple(t if i in changed else b for i, (b, t) in enumerate(zip(self.baseline, self.target, strict=True)))

    @property
    def factors(self) -> tuple[int, ...]:
        """Those that change at all."""
        return tuple(i for i, (b, t) in enumerate(zip(self.baseline, self.target, strict=True)) if b != t)


def alone(step: FactorStep, factor: int) -> Contrast:
    """What a factor's owner measures: everything else as it was."""
    return Contrast({step.corner({factor}): 1.0, step.baseline: -1.0})


def in_company(step: FactorStep, factor: int) -> Contrast:
    """What the same change adds where all the others are made already."""
    others = set(step.factors) - {factor}
    return Contrast({step.target: 1.0, step.corner(others): -1.0})


def joint(step: FactorStep) -> Contrast:
    """All changes together."""
    return Contrast({step.target: 1.0, step.baseline: -1.0})


def gap(step: FactorStep) -> Contrast:
    """The joint change over the product of the single ones; zero where effects only add up."""
    weights: dict[Cell, float] = {}
    _add(weights, joint(step), 1.0)
    for factor in step.factors:
        _add(weights, alone(step, factor), -1.0)
    return Contrast({cell: weight for cell, weight in weights.items() if weight != 0})


def shapley(step: FactorStep, factor: int) -> Contrast:
    """The mean of what the factor adds over all orders in which the changes could be made (Shapley, 1953)."""
    count = len(step.factors)
    weights: dict[Cell, float] = {}
    for before, contrast in additions(step, factor):
        share = math.factorial(len(before)) * math.factorial(count - len(before) - 1) / math.factorial(count)
        _add(weights, contrast, share)
    return Contrast(weights)


def additions(step: FactorStep, factor: int) -> Iterator[tuple[tuple[int, ...], Contrast]]:
    """What the factor adds after each set of others: the whole range that an order of changes can give it."""
    others = [other for other in step.factors if other != factor]
    for size in range(len(others) + 1):
        for before in combinations(others, size):
            yield before, Contrast({step.corner({*before, factor}): 1.0, step.corner(before): -1.0})


def _fraction_effects(design: Design, here: frozenset[Cell]) -> Iterator[EffectContrast]:
    # A fraction's contrast needs all of its cells: one that is missing takes every contrast with it.
    complete = all(cell in here for cell in design.cells)
    runs = len(design.cells)
    for group in alias_classes(design):
        word = group[0]
        # Coefficient of ±1 coding times 2^size is the full difference of a word of that size.
        scale = 2 ** len(word) / runs
        weights = {cell: scale * sign_at(cell, word) for cell in design.cells}
        contrast = Contrast(weights) if complete else Contrast({}, 0, 1)
        yield EffectContrast(word, (1,) * len(word), contrast, group[1:])


def _signed_corners(factors: int, fixed: dict[int, int], changed: dict[int, int]) -> list[tuple[Cell, int]]:
    members = sorted(changed)
    corners = []
    for made in product((0, 1), repeat=len(members)):
        at = {member: changed[member] if on else 0 for member, on in zip(members, made, strict=True)}
        cell = tuple(fixed.get(position, at.get(position, 0)) for position in range(factors))
        corners.append((cell, 1 if (len(members) - sum(made)) % 2 == 0 else -1))
    return corners


def _add(weights: dict[Cell, float], contrast: Contrast, factor: float) -> None:
    for cell, weight in contrast.weights.items():
        weights[cell] = weights.get(cell, 0.0) + factor * weight


def needed(contrasts: Sequence[Contrast]) -> frozenset[Cell]:
    """The cells that these contrasts rest on."""
    return frozenset(cell for contrast in contrasts for cell in contrast.weights)
