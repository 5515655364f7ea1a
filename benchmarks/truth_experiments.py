"""Experiments on known truth: what a cell's interval covers, and that effects stay as sharp as blocks allow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lynxbench.experiment.analysing import cell_intervals, observe
from lynxbench.stats.contrasts import Contrast
from lynxbench.stats.designs import Cell, full_design
from lynxbench.stats.factorial import FactorialFit
from truth_promise import Promise, rare_enough, usual_enough

LOWEST, HIGHEST = 0.93, 0.97
AS_SHARP = 0.02
"""By how much the mean width of an effect's interval may depend on the blocks."""
EXPERIMENTS = 16
"""Simulated experiments for each run that was asked for: cells of one experiment share their blocks."""
Visits = dict[tuple[Cell, int], float]


@dataclass(frozen=True)
class Shape:
    """One kind of experiment; spreads are standard deviations of logarithms."""

    name: str
    blocks: int
    between: float
    """Spread between blocks."""
    within: float = 0.007
    levels: tuple[int, ...] = (2, 2)
    missing: float = 0.0
    """Chance of a visit to be missing; a cell keeps at least `fewest`."""
    fewest: int = 2
    uneven: float = 1.0
    """How much noisier the last cell is than the first."""
    tails: float = math.inf
    """Degrees of freedom of Student's noise."""
    law: str = "normal"
    """Of the blocks."""
    conservative: bool = False
    """Covers more than it says: only the lower bound is promised."""

    def draw(self, rng: np.random.Generator) -> tuple[Visits, dict[Cell, float]]:
        """Visits, and the true level of each cell."""
        cells = full_design(list(self.levels)).cells
        truth = {cell: 4.0 + 0.3 * cell[0] - 0.15 * cell[-1] for cell in cells}
        spread = np.linspace(1.0, self.uneven, len(cells)) * self.within
        noise = rng.standard_normal((len(cells), self.blocks))
        if math.isfinite(self.tails):
            noise = rng.standard_t(self.tails, noise.shape) / math.sqrt(self.tails / (self.tails - 2))
        block = self.between * self._block_noise(rng)
        here = rng.random(noise.shape) >= self.missing
        for row in here:
            row[rng.permutation(self.blocks)[: self.fewest]] = True
        visits = {
            (cell, b): math.exp(truth[cell] + block[b] + spread[c] * noise[c, b])
            for c, cell in enumerate(cells)
            for b in range(self.blocks)
            if here[c, b]
        }
        return visits, truth

    def _block_noise(self, rng: np.random.Generator) -> np.ndarray:
        if self.law == "uniform":
            return rng.uniform(-math.sqrt(3), math.sqrt(3), self.blocks)
        if self.law == "student":
            return rng.standard_t(5, self.blocks) / math.sqrt(5 / 3)
        if self.law == "drift":  # a machine that warms up from block to block: the experiment's own mean is asked for
            return np.linspace(-1.0, 1.0, self.blocks)
        return rng.standard_normal(self.blocks)


SHAPES = (
    *(Shape(f"{share} % between {blocks} blocks", blocks, share / 100) for share in (0, 2, 5) for blocks in (3, 4, 6)),
    Shape("2 % between 12 blocks", 12, 0.02),
    Shape("2 % between 2 blocks", 2, 0.02),
    Shape("2 % between 6 blocks, one factor", 6, 0.02, levels=(2,)),
    Shape("5 % between 4 blocks, 2x3x2", 4, 0.05, levels=(2, 3, 2)),
    Shape("5 % between 6 blocks, a third of the visits missing", 6, 0.05, missing=0.33),
    Shape("no spread between 6 blocks, a third of the visits missing", 6, 0.0, missing=0.33),
    Shape("2 % between 4 blocks, half of the visits missing", 4, 0.02, missing=0.5),
    Shape("2 % between 5 blocks, some cells visited once", 5, 0.02, missing=0.7, fewest=1, conservative=True),
    Shape("2 % between 5 blocks, a cell five times as noisy", 5, 0.02, uneven=5.0),
    Shape("no spread between 4 blocks, a cell five times as noisy", 4, 0.0, uneven=5.0),
    Shape("2 % between 5 blocks, heavy tails within", 5, 0.02, tails=4.0),
    Shape("3 % between 5 blocks with heavy tails", 5, 0.03, law="student", conservative=True),
    Shape("3 % between 5 blocks, uniform", 5, 0.03, law="uniform"),
    Shape("blocks that drift by 4 % in all", 5, 0.02, law="drift", conservative=True),
)


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """Coverage of cells and effects, and how wide effects are beside noisy blocks."""
    for number, shape in enumerate(SHAPES):
        rng = np.random.default_rng([seed, 6, number])
        hits = total = 0
        for _ in range(EXPERIMENTS * runs):
            visits, truth = shape.draw(rng)
            for cell, interval in cell_intervals(visits, 0.95).items():
                hits += interval.low <= math.exp(truth[cell]) <= interval.high
                total += 1
        share = hits / total
        drawn = EXPERIMENTS * runs  # the cells of one experiment share its blocks
        holds = usual_enough(share, drawn, LOWEST) and (shape.conservative or rare_enough(share, drawn, HIGHEST))
        words = "in 93 % or more" if shape.conservative else "in 93 to 97 %"
        yield Promise(f"cell, {shape.name}", f"the interval holds the truth {words}", share, LOWEST, holds)
    yield from _effects(seed, runs)


def _effects(seed: int, runs: int) -> Iterator[Promise]:
    """The effect of the first factor within blocks."""
    widths = {}
    for blocks, missing in ((4, 0.0), (6, 0.0), (6, 0.2)):
        for between in (0.0, 0.05):
            rng = np.random.default_rng([seed, 7, blocks, round(100 * missing)])  # the same noise beside both
            shape = Shape("", blocks, between, missing=missing)
            hits, width = 0, 0.0
            for _ in range(2 * runs):
                visits, truth = shape.draw(rng)
                contrast = Contrast({(1, 0): 0.5, (1, 1): 0.5, (0, 0): -0.5, (0, 1): -0.5})
                interval = FactorialFit(observe(visits)).estimate(contrast).interval(0.95)
                hits += interval.low <= sum(w * truth[c] for c, w in contrast.weights.items()) <= interval.high
                width += interval.half_width / (2 * runs)
            share = hits / (2 * runs)
            widths[between] = width
            name = f"effect, {between:.0%} between {blocks} blocks, {missing:.0%} missing"
            yield Promise(
                name, "the interval holds the truth in 91 % or more", share, 0.91, usual_enough(share, 2 * runs, 0.91)
            )
        change = abs(widths[0.05] / widths[0.0] - 1)
        name = f"effect, width beside {blocks} blocks, {missing:.0%} missing"
        yield Promise(name, "5 % between blocks widen it by at most 2 %", change, AS_SHARP, change <= AS_SHARP)
