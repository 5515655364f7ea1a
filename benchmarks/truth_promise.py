"""A promise of lynxbench held against known truth: what the adversarial suites yield."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of the table of promise against measured."""

    name: str
    promise: str
    """In words, with its bound."""
    measured: float
    bound: float
    holds: bool
