"""The saturation search on servers of known capacity: stationary, varying, short of time, and never looked at before.

    python benchmarks/truth.py --topic saturation [--seeds 1] [--runs 200]
    python benchmarks/truth_saturation.py [--seed 1] [--searches 10] [--only NAME] [--highest] [--keep-seconds]

Each shape of saturation_shapes.py is searched `runs` / 40 times, with a completion-rate ceiling that is wrong by 2 %
(standard deviation). The promises are over all searches of a kind of server, and a share breaks its promise where it
does so by more than chance (99 %) in that many searches. A claim is a confirmed rate. Where
disturbances come less often than the search says that it could have seen (`rarest_s`), a claim is not held against
them. `--keep-seconds` writes what the searches of each stationary shape took into saturation_truth.json: the time that
later rules are held against. With `--highest` the ceiling is that of two closed loops that completed as much, each
wrong by 2 %, and is the upper end of a pair where no rate failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lynxbench.load.completion_ceiling import CEILING_ERROR
from lynxbench.load.saturation import find_saturation
from lynxbench.load.saturation_result import Saturation
from lynxbench.load.search_rule import SearchRule
from lynxbench.stats.tails import clopper_pearson
from saturation_shapes import SHAPES, TRUTH_FILE, true_capacity
from simulated_servers import Shape, World
from truth_promise import Promise

SECONDS = "seconds before"
"""The key of the mean seconds that a search by the rule before this one took, by shape."""
MOST_OVERCLAIMS, LEAST_HELD, MOST_TIME, MOST_UNDER = 0.05, 0.90, 1.2, 0.35
FOR_A_MEDIAN = 40
"""Searches of one shape: over four of them a median says little."""
KINDS = ("stationary", "varying", "short", "unseen stationary", "unseen varying")
WORDS = {
    "stationary": "stationary servers",
    "varying": "servers that vary",
    "short": "budgets of 90 to 600 s",
    "unseen stationary": "stationary servers never looked at",
    "unseen varying": "varying servers never looked at",
}


@dataclass(frozen=True)
class Searched:
    """One search of a shape, beside the truth."""

    shape: Shape
    result: Saturation
    truth: float
    highest_per_s: float | None = None
    """The ceiling, where it is an upper end."""

    @property
    def overclaims(self) -> bool:
        """Whether it claims too much, and could have seen what makes it too much."""
        return self.claims_too_much and self.shape.every_s <= (self.result.rarest_s or 0.0)

    @property
    def claims_too_much(self) -> bool:
        """Whether a confirmed rate is above the capacity."""
        return self.result.confirmed and (self.result.passed_per_s or 0.0) > self.truth

    @property
    def upper_per_s(self) -> float | None:
        """The upper end of the pair: a rate that failed, or the ceiling."""
        return min((rate for rate in (self.result.failed_per_s, self.highest_per_s) if rate), default=None)

    @property
    def holds_truth(self) -> bool:
        """Whether the capacity lies between the two ends that are printed; a missing end bounds nothing."""
        passed, failed = self.result.passed_per_s or 0.0, self.upper_per_s or np.inf
        return bool(passed <= self.truth <= failed)

    @property
    def error(self) -> float:
        """Of the rate that is printed, confirmed or not; -1 where there is none."""
        return (self.result.passed_per_s or 0.0) / self.truth - 1 if self.truth else 0.0


def search(shape: Shape, seed: int, *, is_highest: bool = False) -> Searched:
    """One search, on a server with random numbers of its own."""
    world = World(shape, seed)
    # two loops of a shape are wrong by themselves: one that is low for all shapes would count once for each
    own = (seed, 13, zlib.crc32(shape.name.encode())) if is_highest else (seed, 13)
    loops = np.random.default_rng(own).normal(1, CEILING_ERROR, 2 if is_highest else 1)
    ceiling_per_s = float(shape.ceiling_per_s * loops.max())
    rule = SearchRule(tolerance=shape.tolerance, max_seconds=shape.budget_s)
    result = find_saturation(world.start, ceiling_per_s, shape.bounds, rule, is_highest=is_highest)
    return Searched(shape, result, true_capacity(shape), ceiling_per_s * (1 + CEILING_ERROR) if is_highest else None)


def search_all(tag: str, seed: int, searches: int) -> list[Searched]:
    """Every shape of a kind, so many times each."""
    shapes = [shape for shape in SHAPES if tag in shape.tags]
    return [search(shape, 1000 * seed + number) for shape in shapes for number in range(searches)]


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """What the pair, the claim and the time of a search promise, by kind of server."""
    searches = max(4, runs // 40)
    for tag in KINDS:
        searched = search_all(tag, seed, searches)
        kind = WORDS[tag]
        over = [each.overclaims for each in searched]
        words = f"confirmed claims above the capacity ≤ {MOST_OVERCLAIMS:.0%}"
        holds = not _is_beyond_chance(sum(over), len(over), MOST_OVERCLAIMS)
        yield Promise(f"saturation, {kind}", words, float(np.mean(over)), MOST_OVERCLAIMS, holds)
        missed = [not each.holds_truth for each in searched]
        words = f"pairs that hold the capacity ≥ {LEAST_HELD:.0%}"
        holds = not _is_beyond_chance(sum(missed), len(missed), 1 - LEAST_HELD)
        yield Promise(f"saturation, {kind}", words, 1 - float(np.mean(missed)), LEAST_HELD, holds)
        if tag == "stationary":
            ratio = time_ratio(searched)
            words = f"time ≤ {MOST_TIME}× that of the rule before"
            yield Promise(f"saturation, {kind}", words, ratio, MOST_TIME, ratio <= MOST_TIME)
            off = float(np.median([abs(each.error) for each in searched]))
            yield _at_most(f"saturation, {kind}", "median error of the claim", off, 0.07)
        if tag == "short":
            says = [each.result.confirmed or "budget" in each.result.note or not each.truth for each in searched]
            silent = 1 - float(np.mean(says))
            yield _at_most(f"saturation, {kind}", "neither confirmed nor told how much more is needed", silent, 0.0)
            (constant,) = {each.shape for each in searched if each.shape.name.startswith("constant")}
            under = [-search(constant, 1000 * seed + number).error for number in range(FOR_A_MEDIAN)]
            low = sum(each > MOST_UNDER for each in under)  # more than half of them: so is the median
            words = f"median underclaim ≤ {MOST_UNDER:.0%}"
            holds = not _is_beyond_chance(low, len(under), 0.5)
            name = "saturation, near-constant 20 s answers in 600 s"
            yield Promise(name, words, float(np.median(under)), MOST_UNDER, holds)
    rare = search_all("rare", seed, searches)
    over = float(np.mean([each.overclaims for each in rare]))
    yield _at_most("saturation, disturbances rarer than the search", "too much claimed without saying so", over, 0.0)


def _is_beyond_chance(count: int, searches: int, share: float) -> bool:
    """Whether more than this share is shown (99 %) by so few searches."""
    return clopper_pearson(count, searches, 0.99).low > share


def _at_most(name: str, what: str, measured: float, bound: float) -> Promise:
    return Promise(name, f"{what} ≤ {bound:.0%}", measured, bound, measured <= bound)


def time_ratio(searched: list[Searched]) -> float:
    """The geometric mean over shapes of the mean seconds, over those that the rule before took."""
    before = json.loads(TRUTH_FILE.read_text())[SECONDS]
    # late bursts are no queue, and the rule before claimed too much of them in a fraction of the time
    names = dict.fromkeys(each.shape.name for each in searched if "bursts" not in each.shape.name)
    ratios = [np.mean([e.result.seconds for e in searched if e.shape.name == name]) / before[name] for name in names]
    return float(np.exp(np.mean(np.log(ratios))))


def main() -> None:
    """A line for every shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--only", default="", help="shapes whose name or kind holds this")
    parser.add_argument("--keep-seconds", action="store_true", help="as the time that later rules are held against")
    parser.add_argument("--highest", action="store_true", help="two loops show the ceiling to be the highest")
    options = parser.parse_args()
    heads = (("over", 6), ("not seen", 10), ("held", 6), ("claims", 8), ("error", 8), ("width", 7), ("seconds", 9))
    print(f"{'shape':<36}" + "".join(f"{name:>{width}}" for name, width in (*heads, ("cpu s", 7))))
    took = {}
    for shape in SHAPES:
        if options.only not in shape.name and options.only not in shape.tags:
            continue
        began = time.perf_counter()
        seeds = range(1000 * options.seed, 1000 * options.seed + options.searches)
        searched = [search(shape, seed, is_highest=options.highest) for seed in seeds]
        results = [each.result for each in searched]
        pairs = [(each.upper_per_s, each.result.passed_per_s) for each in searched]
        widths = [upper / passed - 1 for upper, passed in pairs if upper and passed]
        took[shape.name] = float(np.mean([result.seconds for result in results]))
        print(
            f"{shape.name:<36}{np.mean([each.overclaims for each in searched]):>6.0%}"
            f"{np.mean([each.claims_too_much and not each.overclaims for each in searched]):>10.0%}"
            f"{np.mean([each.holds_truth for each in searched]):>6.0%}"
            f"{np.mean([result.confirmed for result in results]):>8.0%}"
            f"{np.median([each.error for each in searched]):>8.1%}{np.median(widths or [np.nan]):>7.1%}"
            f"{took[shape.name]:>9.0f}{(time.perf_counter() - began) / options.searches:>7.2f}",
            flush=True,
        )
    if options.keep_seconds:
        known = json.loads(TRUTH_FILE.read_text())
        known[SECONDS] = known.get(SECONDS, {}) | took
        TRUTH_FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
