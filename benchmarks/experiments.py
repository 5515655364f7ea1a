"""Planted responses: do intervals cover, does the word come out right, is `decomposable` ever said falsely?

    python benchmarks/experiments.py [--repetitions 1000] [--restarts 5] [--json]

Experiments of three factors (two levels, one with three) are simulated with known truth: fresh processes with their own
level, blocks of time that drift, cells that are not equally noisy. Coverage is that of the 95 % intervals over every
effect, simple change, Shapley value and the gap between single and joint changes. The words:

    additive      no interaction                                       -> decomposable is right
    synergistic   one interaction of 4 delta                           -> not decomposable is right
    sign flip     a change that gains 10 % here and loses 10 % there   -> not decomposable is right
    boundary      one interaction of 2 delta                           -> decomposable is false
    missing       additive, two cells cannot run                       -> undetermined is right
    heavy noise   additive, ten times the noise                        -> undetermined is right, decomposable is luck
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np

from lynxbench.model.experiment import Decomposability
from lynxbench.stats.contrasts import (
    Contrast,
    FactorStep,
    alone,
    effect_contrasts,
    gap,
    in_company,
    needed,
    shapley,
    simple_effects,
)
from lynxbench.stats.decomposing import decompose
from lynxbench.stats.designs import Cell, Design, fractional_design, full_design
from lynxbench.stats.factorial import FactorialFit, Observation

DELTA = math.log1p(0.05)
NOISE = 0.007
DRIFT = 0.02
COVERED = (0.93, 0.97)
FALSE_DECOMPOSABLE = 0.05
RIGHT_WORD = 0.95


@dataclass(frozen=True)
class Case:
    """A planted truth."""

    name: str
    truth: dict[Cell, float]
    present: tuple[Cell, ...]
    noise: float
    right: Decomposability | None
    design: Design


def additive(design: Design) -> dict[Cell, float]:
    """Main effects alone."""
    sizes = (0.35, 0.18, -0.12, 0.25, 0.08)
    return {cell: sum(size * level for size, level in zip(sizes, cell, strict=False)) for cell in design.cells}


def cases() -> list[Case]:
    """Everything that is planted."""
    cube, mixed = full_design([2, 2, 2]), full_design([2, 3, 2])
    half = fractional_design(5, 1)
    plain = additive(cube)
    with_pair = {cell: value + 4 * DELTA * cell[0] * cell[1] for cell, value in plain.items()}
    near = {cell: value + 2 * DELTA * cell[0] * cell[1] for cell, value in plain.items()}
    flip = {cell: 0.2 * cell[0] + (0.1 if cell[0] else -0.1) * cell[1] + 0.05 * cell[2] for cell in cube.cells}
    left = tuple(cell for cell in cube.cells if cell not in ((1, 1, 0), (1, 1, 1)))
    of_three = additive(mixed)
    three = {cell: value + 4 * DELTA * (cell[1] == 2) * cell[2] for cell, value in of_three.items()}
    pair_in_half = {cell: value + 4 * DELTA * cell[0] * cell[1] for cell, value in additive(half).items()}
    yes, no, open_ = Decomposability
    return [
        Case("additive", plain, cube.cells, NOISE, yes, cube),
        Case("additive, three levels", of_three, mixed.cells, NOISE, yes, mixed),
        Case("additive, half of 2^5", additive(half), half.cells, NOISE, yes, half),
        Case("synergistic", with_pair, cube.cells, NOISE, no, cube),
        Case("synergistic, three levels", three, mixed.cells, NOISE, no, mixed),
        Case("synergistic, half of 2^5", pair_in_half, half.cells, NOISE, no, half),
        Case("sign flip", flip, cube.cells, NOISE, no, cube),
        Case("boundary (2 delta)", near, cube.cells, NOISE, None, cube),
        Case("boundary, more noise", near, cube.cells, 3 * NOISE, None, cube),
        Case("missing cells", plain, left, NOISE, open_, cube),
        Case("heavy noise", plain, cube.cells, 10 * NOISE, open_, cube),
    ]


def draw(case: Case, restarts: int, rng: np.random.Generator) -> list[Observation]:
    """One simulated experiment; each cell has a noise of its own, between half and one and a half of the case's."""
    blocks = np.cumsum(rng.normal(0, DRIFT, restarts))
    spread = {cell: case.noise * float(rng.uniform(0.5, 1.5)) for cell in case.present}
    return [
        Observation(cell, block, case.truth[cell] + float(blocks[block]) + spread[cell] * float(rng.standard_normal()))
        for cell in case.present
        for block in range(restarts)
    ]


def contrasts(case: Case) -> list[Contrast]:
    """Every question whose interval is held against the truth."""
    design, here = case.design, set(case.present)
    found = [one.contrast for one in effect_contrasts(design, case.present) if one.contrast.estimable]
    if design.is_full:
        step = FactorStep((0,) * len(design.levels), tuple(levels - 1 for levels in design.levels))
        for factor in step.factors:
            found += simple_effects(design, factor, 1, case.present).values()
            found += [alone(step, factor), in_company(step, factor), shapley(step, factor)]
        found.append(gap(step))
    return [one for one in found if needed([one]) <= here]


def simulate(case: Case, repetitions: int, restarts: int, seed: int) -> dict[str, object]:
    """Coverage and words of one case."""
    rng = np.random.default_rng(seed)
    asked = contrasts(case)
    truths = [sum(weight * case.truth[cell] for cell, weight in one.weights.items()) for one in asked]
    step = FactorStep((0,) * len(case.design.levels), tuple(levels - 1 for levels in case.design.levels))
    covered = 0
    words: Counter[str] = Counter()
    for _ in range(repetitions):
        fit = FactorialFit(draw(case, restarts, rng))
        for one, truth in zip(asked, truths, strict=True):
            interval = fit.estimate(one).interval(0.95)
            covered += interval.low <= truth <= interval.high
        words[decompose(case.design, fit, step if case.design.is_full else None, DELTA).word.value] += 1
    shares = {word.value: words[word.value] / repetitions for word in Decomposability}
    right = None if case.right is None else shares[case.right.value]
    return {"coverage": covered / (repetitions * len(asked)), "words": shares, "right": right}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report: dict[str, dict[str, object]] = {}
    failed: list[str] = []
    for case in cases():
        found = simulate(case, options.repetitions, options.restarts, options.seed)
        report[case.name] = found
        failed += _misses(case, found)
        if not options.json:
            words = ", ".join(f"{word} {share:.1%}" for word, share in found["words"].items())  # type: ignore[attr-defined]
            right = "" if found["right"] is None else f"   right word {found['right']:.1%}"
            print(f"{case.name:<26} coverage {found['coverage']:.1%}   {words}{right}", flush=True)
    if options.json:
        print(json.dumps(report, indent=2))
    for line in failed:
        print(line, file=sys.stderr)
    if failed:
        sys.exit(1)


def _misses(case: Case, found: dict[str, object]) -> list[str]:
    coverage, words, right = found["coverage"], found["words"], found["right"]
    assert isinstance(coverage, float)
    assert isinstance(words, dict)
    missed = []
    if not COVERED[0] <= coverage <= COVERED[1]:
        missed.append(f"{case.name}: coverage {coverage:.1%} is outside {COVERED[0]:.0%} to {COVERED[1]:.0%}")
    if case.right is not Decomposability.DECOMPOSABLE and words["decomposable"] > FALSE_DECOMPOSABLE:
        missed.append(f"{case.name}: decomposable in {words['decomposable']:.1%}, at most {FALSE_DECOMPOSABLE:.0%}")
    if isinstance(right, float) and right < RIGHT_WORD:
        missed.append(f"{case.name}: the right word in {right:.1%}, at least {RIGHT_WORD:.0%}")
    return missed


if __name__ == "__main__":
    main()
