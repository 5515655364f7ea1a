"""A promise of lynxbench held against known truth: what the adversarial suites yield."""

from __future__ import annotations

from dataclasses import dataclass

from lynxbench.stats.tails import clopper_pearson

SURE = 0.998
"""Two-sided: of a thousand promises that are just kept, one looks broken by chance. More runs make it sharper."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of the table of promise against measured."""

    name: str
    promise: str
    """In words, with its bound."""
    measured: float
    bound: float
    holds: bool


def rare_enough(share: float, runs: int, bound: float) -> bool:
    """Whether so many runs do not contradict that something happens in at most this share of them."""
    return clopper_pearson(round(share * runs), runs, SURE).low <= bound


def usual_enough(share: float, runs: int, bound: float) -> bool:
    """Whether so many runs do not contradict that something happens in at least this share of them."""
    return clopper_pearson(round(share * runs), runs, SURE).high >= bound
