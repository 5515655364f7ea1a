"""What a saturation search could state if it were stopped after any of its probes, held against known capacities.

    python benchmarks/saturation_anytime.py [--kind stationary] [--seed 1] [--searches 4] [--budget S]

Each shape of saturation_shapes.py of that kind is searched so many times, with a ceiling that is wrong by 2 % (standard
deviation). After every probe the highest rate that is shown to hold (`at_least_per_s`) is compared with the capacity.
One that is too high counts as in truth_saturation.py: not where what makes it so comes less often than a third of the
seconds for which that rate was watched.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np

from lynxbench.load.saturation import find_saturation
from lynxbench.load.saturation_result import UNSEEN, Saturation
from lynxbench.load.search_rule import SearchRule
from saturation_shapes import SHAPES, true_capacity
from simulated_servers import Shape, World

PARTS = (0.25, 0.5, 0.75, 1.0)
"""Of a search's seconds, at which it is asked what it could state."""


@dataclass
class Watched:
    """One search, as it stood after each of its probes."""

    truth: float
    shape: Shape
    states: list[Saturation] = field(default_factory=list)

    def over(self, state: Saturation) -> bool:
        """Whether it states too much, and could have seen what makes it too much."""
        rate = state.at_least_per_s
        if rate is None or rate <= self.truth:
            return False
        watched_s = sum(probe.seconds for probe in state.probes if probe.rate_per_s == rate and not probe.scout)
        return self.shape.every_s <= watched_s / UNSEEN

    def at(self, part: float) -> float | None:
        """What it stated after that part of its seconds, over the capacity."""
        whole = self.states[-1].seconds
        stated = [state.at_least_per_s for state in self.states if state.seconds <= part * whole * 1.0001]
        rate = stated[-1] if stated else None
        return None if rate is None else rate / self.truth


def watch(shape: Shape, seed: int, budget_s: float | None) -> Watched:
    """One search with what it said on its way."""
    world, watched = World(shape, seed), Watched(true_capacity(shape), shape)
    ceiling_per_s = shape.ceiling_per_s * np.random.default_rng((seed, 13)).normal(1, 0.02)
    rule = SearchRule(tolerance=shape.tolerance, max_seconds=budget_s or shape.budget_s)
    find_saturation(world.start, ceiling_per_s, shape.bounds, rule, watched.states.append)
    return watched


def main() -> None:
    """Search, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="stationary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--searches", type=int, default=4)
    parser.add_argument("--budget", type=float)
    given = parser.parse_args()
    shapes = [shape for shape in SHAPES if given.kind in shape.tags and true_capacity(shape)]
    seeds = range(1000 * given.seed, 1000 * given.seed + given.searches)
    searches = [watch(shape, seed, given.budget) for shape in shapes for seed in seeds]
    states = [(search, state) for search in searches for state in search.states]
    early = [(search, state) for search, state in states if not state.confirmed]
    stated = [(search, state) for search, state in early if state.at_least_per_s is not None]
    over = [search for search, state in stated if search.over(state)]
    ever = sum(any(search.over(state) for state in search.states) for search in searches)
    once = [(search, state) for search, state in early if state.passed_per_s is not None]
    once_over = sum((state.passed_per_s or 0.0) > search.truth for search, state in once)
    print(f"{given.kind}, seed {given.seed}: {len(searches)} searches, {len(states)} moments after a probe")
    print(f"  not confirmed yet: {len(early)}; at least X is stated in {len(stated)}, too high in {len(over)}")
    print(f"  a rate that passed once is there in {len(once)}, too high in {once_over}")
    print(f"  searches that ever stated too much: {ever} ({ever / len(searches):.1%})")
    for part in PARTS:
        ratios = [ratio for search in searches if (ratio := search.at(part)) is not None]
        middle = f"{np.median(ratios):.2f} of the capacity (median)" if ratios else "nothing"
        print(f"  after {part:.0%} of its seconds: {len(ratios) / len(searches):.0%} of searches state {middle}")


if __name__ == "__main__":
    main()
