"""Effects of a factorial experiment on log response: fresh processes as replicates, time as blocks. Pure.

Least squares on cells and blocks; every cell keeps a variance of its own, since a compiled cell is not as noisy as an
eager one. Those variances are estimated without bias from the residuals (Rao's MINQUE, 1970) and combined as Welch
(1947) and Satterthwaite (1946) do, so that a contrast's interval rests on the cells that it weighs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.stats.arrays import Floats
from lynxbench.stats.contrasts import Contrast
from lynxbench.stats.designs import Cell, Design, Word, alias_classes, sign_at
from lynxbench.stats.intervals import student_quantile

LEAST_VARIANCE = 0.05
"""Of the mean variance: an unbiased estimate of a quiet cell can come out below zero, and no cell is noiseless."""
SINGULAR = 1e-9


@dataclass(frozen=True, slots=True)
class Observation:
    """One fresh process: the logarithm of its response, in its cell, in its stretch of time."""

    cell: Cell
    block: int
    value: float


@dataclass(frozen=True, slots=True)
class ContrastEstimate:
    """A contrast's value with its error; NaN error where there is nothing to estimate it from."""

    value: float
    error: float
    degrees: float

    def interval(self, confidence: float) -> Interval:
        """Student's interval."""
        if not math.isfinite(self.value):
            return UNKNOWN_INTERVAL
        reach = student_quantile((1 + confidence) / 2, self.degrees) * self.error
        if not math.isfinite(reach):
            return Interval(math.nan, self.value, math.nan)
        return Interval(self.value - reach, self.value, self.value + reach)

    @property
    def p(self) -> float:
        """Two-sided against no effect at all."""
        return self.p_beyond(0.0)

    def p_beyond(self, bound: float) -> float:
        """Against an effect of at most ±bound: small where the effect is surely larger."""
        from scipy.special import stdtr

        if not (math.isfinite(self.value) and math.isfinite(self.error) and self.degrees > 0):
            return 1.0
        if self.error == 0:
            return 0.0 if abs(self.value) > bound else 1.0
        near, far = (abs(self.value) - bound) / self.error, (abs(self.value) + bound) / self.error
        return min(1.0, float(stdtr(self.degrees, -near) + stdtr(self.degrees, -far)))

    def p_within(self, bound: float) -> float:
        """Against an effect of at least ±bound: small where the effect is surely smaller (two one-sided tests)."""
        from scipy.special import stdtr

        if not (math.isfinite(self.value) and math.isfinite(self.error) and self.degrees > 0):
            return 1.0
        if self.error == 0:
            return 0.0 if abs(self.value) < bound else 1.0
        return float(stdtr(self.degrees, (abs(self.value) - bound) / self.error))


class FactorialFit:
    """Cells and blocks fitted to observations; answers contrasts."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        if not observations:
            raise ValueError("nothing was observed")
        self.cells = tuple(sorted({observation.cell for observation in observations}))
        self.counts = {cell: sum(observation.cell == cell for observation in observations) for cell in self.cells}
        self.values = np.array([observation.value for observation in observations], dtype=np.float64)
        if not np.all(np.isfinite(self.values)):
            raise ValueError("every observed value must be finite")
        cell_of = {cell: index for index, cell in enumerate(self.cells)}
        self._cell = np.array([cell_of[observation.cell] for observation in observations])
        blocks = sorted({observation.block for observation in observations})
        block = np.array([blocks.index(observation.block) for observation in observations])
        x = np.zeros((len(observations), len(self.cells) + len(blocks) - 1))
        x[np.arange(len(observations)), self._cell] = 1.0
        for column in range(1, len(blocks)):  # sum to zero: a cell's coefficient is its mean over all blocks
            x[:, len(self.cells) + column - 1] = (block == column).astype(float) - (block == 0).astype(float)
        self._pseudo = np.linalg.pinv(x)
        self.coefficients = self._pseudo @ self.values
        hat = x @ self._pseudo
        self._rest = np.eye(len(observations)) - hat
        self.residuals = self._rest @ self.values
        self.free = float(np.trace(self._rest))
        self.blocks = len(blocks)
        self._variances, self._degrees = self._cell_variances()

    @property
    def noise(self) -> float:
        """Standard deviation between restarts of one cell, over all cells; NaN without any replicate."""
        return math.sqrt(self._pooled) if self.free > 0.5 else math.nan

    @property
    def _pooled(self) -> float:
        return float(self.residuals @ self.residuals) / self.free if self.free > 0.5 else math.nan

    def estimate(self, contrast: Contrast) -> ContrastEstimate:
        """A contrast of cells; unknown where one of them was never observed."""
        if not contrast.estimable or any(cell not in self.counts for cell in contrast.weights):
            return ContrastEstimate(math.nan, math.nan, 0.0)
        wanted = np.zeros(len(self.coefficients))
        for cell, weight in contrast.weights.items():
            wanted[self.cells.index(cell)] = weight
        value = float(wanted @ self.coefficients)
        if self.free <= 0.5:
            return ContrastEstimate(value, math.nan, 0.0)
        on_each = (wanted @ self._pseudo) ** 2
        on_cells = np.bincount(self._cell, on_each, len(self.cells))
        parts = on_cells * self._variances
        total = float(parts.sum())
        if total <= 0:
            return ContrastEstimate(value, 0.0, self.free)
        # Squares of estimated variances are too large on average; + 2 and - 2 mend it (Satterthwaite's own correction).
        degrees = total**2 / float((parts**2 / (self._degrees + 2)).sum()) - 2
        least = float(self._degrees[parts > 0].min())
        return ContrastEstimate(value, math.sqrt(total), min(max(degrees, least), self.free))

    def _cell_variances(self) -> tuple[Floats, Floats]:
        count = len(self.cells)
        if self.free <= 0.5:
            return np.full(count, math.nan), np.zeros(count)
        squares = np.bincount(self._cell, self.residuals**2, count)
        left = np.diag(self._rest)
        degrees = np.maximum(np.bincount(self._cell, left, count), SINGULAR)
        # E[e_i^2] = sum_j M_ij^2 sigma_j^2: solved for the cells' own variances.
        mixing = np.zeros((count, count))
        np.add.at(mixing, (self._cell[:, None], self._cell[None, :]), self._rest**2)
        if count > 2 and np.linalg.cond(mixing) < 1 / SINGULAR:
            variances = np.linalg.solve(mixing, squares)
        else:  # two cells share their residuals: only their mean variance can be seen
            variances = np.full(count, self._pooled)
        return np.maximum(variances, LEAST_VARIANCE * self._pooled), degrees


def holm(probabilities: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment (1979): each p as small as the whole family's error allows."""
    order = sorted(range(len(probabilities)), key=lambda index: probabilities[index])
    adjusted = [1.0] * len(probabilities)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, probabilities[index] * (len(order) - rank)))
        adjusted[index] = highest
    return tuple(adjusted)


@dataclass(frozen=True, slots=True)
class Variation:
    """Where the differences between all measured processes come from, as shares that add up to one."""

    terms: dict[Word, float]
    blocks: float
    restarts: float
    """What differs between processes of one cell within a block of time: noise."""


def variation(design: Design, observations: Sequence[Observation]) -> Variation | None:
    """Jain's allocation of variation (The Art of Computer Systems Performance Analysis, 1991, chapter 17).

    None where a cell or a visit is missing: the terms then overlap, and no share is anybody's.
    """
    seen = {(observation.cell, observation.block): observation.value for observation in observations}
    blocks = sorted({observation.block for observation in observations})
    if len(seen) != len(observations) or len(seen) != len(design.cells) * len(blocks):
        return None
    table = np.array([[seen[cell, block] for block in blocks] for cell in design.cells])
    centred = table - table.mean()
    total = float((centred**2).sum())
    means = centred.mean(axis=1)
    terms = _full_terms(design, means) if design.is_full else _fraction_terms(design, means)
    if total == 0:
        return Variation(dict.fromkeys(terms, 0.0), 0.0, 0.0)
    by_term = {word: square * len(blocks) / total for word, square in terms.items()}
    by_block = float((centred.mean(axis=0) ** 2).sum()) * len(design.cells) / total
    rest = max(0.0, 1.0 - math.fsum(by_term.values()) - by_block)
    return Variation(by_term, by_block, rest)


def _full_terms(design: Design, means: Floats) -> dict[Word, float]:
    grid = means.reshape(design.levels)
    factors = range(len(design.levels))
    terms = {}
    for size in range(1, len(design.levels) + 1):
        for members in combinations(factors, size):
            part = grid
            for axis in factors:
                mean = part.mean(axis=axis, keepdims=True)
                part = part - mean if axis in members else np.broadcast_to(mean, part.shape)
            terms[frozenset(members)] = float((part**2).sum())
    return terms


def _fraction_terms(design: Design, means: Floats) -> dict[Word, float]:
    terms = {}
    for group in alias_classes(design):
        column = np.array([sign_at(cell, group[0]) for cell in design.cells])
        terms[group[0]] = float(column @ means) ** 2 / len(design.cells)
    return terms
