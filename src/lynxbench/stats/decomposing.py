"""Whether effects of several changes may be told apart at all: decomposable, not decomposable, undetermined. Pure.

Decomposable is a claim of equivalence and has to be shown: every interaction, and what the single changes miss of the
joint one, must lie inside ±δ by two one-sided tests. Not decomposable has to be shown as well, with Holm's correction
over all that was looked at. What is neither is undetermined; absence of proof proves nothing here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lynxbench.model.experiment import Decomposability
from lynxbench.stats.contrasts import EffectContrast, FactorStep, effect_contrasts, gap, needed, simple_effects
from lynxbench.stats.designs import Cell, Design
from lynxbench.stats.factorial import ContrastEstimate, FactorialFit, holm
from lynxbench.stats.intervals import student_quantile

ERROR = 0.05
"""Of either claim, over everything that was looked at."""
CLEAR_RESOLUTION = 5
"""From here on no interaction of two factors is confounded with another one (Box and Hunter, 1961)."""
MOST_RESTARTS = 1000


class Ground(StrEnum):
    """What a word rests on."""

    INTERACTION = "interaction"
    SIGN = "sign"
    GAP = "gap"
    MISSING = "missing"
    ALIASED = "aliased"
    NOISE = "noise"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class DecompositionReason:
    """One reason for the word."""

    ground: Ground
    effect: EffectContrast | None = None
    factor: int | None = None
    contexts: tuple[Cell, Cell] | None = None
    """Of a sign change: the cell in which the change gains, and the one in which it loses."""
    estimate: ContrastEstimate | None = None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The word with its reasons."""

    word: Decomposability
    findings: tuple[DecompositionReason, ...]
    restarts_needed: int | None = None
    """About how many restarts a cell would settle it, where noise is all that is in the way."""


def decompose(design: Design, fit: FactorialFit, step: FactorStep | None, delta: float) -> Decomposition:
    """The word for an experiment; `delta` is the largest interaction, in log response, that would change nothing."""
    effects = effect_contrasts(design, fit.cells)
    interactions = [effect for effect in effects if len(effect.word) > 1]
    estimates = [fit.estimate(effect.contrast) for effect in interactions]
    missed = _gap(fit, step)
    against = _beyond(interactions, estimates, missed, delta) + _flips(design, fit, delta)
    if against:
        return Decomposition(Decomposability.NOT_DECOMPOSABLE, tuple(against))
    if not interactions:
        return Decomposition(Decomposability.UNDETERMINED, (DecompositionReason(Ground.ALONE),))
    doubts = _doubts(design, interactions, estimates, missed, delta)
    if not doubts:
        return Decomposition(Decomposability.DECOMPOSABLE, ())
    noisy = [doubt.estimate for doubt in doubts if doubt.ground is Ground.NOISE and doubt.estimate is not None]
    more = _restarts(noisy, min(fit.counts.values()), delta) if len(noisy) == len(doubts) else None
    return Decomposition(Decomposability.UNDETERMINED, tuple(doubts), more)


def _gap(fit: FactorialFit, step: FactorStep | None) -> ContrastEstimate | None:
    if step is None or len(step.factors) < 2:
        return None
    contrast = gap(step)
    return fit.estimate(contrast) if needed([contrast]) <= set(fit.cells) else None


def _beyond(
    interactions: Sequence[EffectContrast],
    estimates: Sequence[ContrastEstimate],
    missed: ContrastEstimate | None,
    delta: float,
) -> list[DecompositionReason]:
    named: list[DecompositionReason] = [
        DecompositionReason(Ground.INTERACTION, effect=effect, estimate=estimate)
        for effect, estimate in zip(interactions, estimates, strict=True)
        if all(len(alias) > 1 for alias in effect.aliases)  # a main effect in the sum is no interaction
    ]
    if missed is not None:
        named.append(DecompositionReason(Ground.GAP, estimate=missed))
    adjusted = holm([reason.estimate.p_beyond(delta) for reason in named if reason.estimate is not None])
    return [reason for reason, p in zip(named, adjusted, strict=True) if p < ERROR]


def _flips(design: Design, fit: FactorialFit, delta: float) -> list[DecompositionReason]:
    """A change that surely gains in one setting and surely loses in another, further apart than δ."""
    if not design.is_full:
        return []
    tried: list[tuple[int, Cell, ContrastEstimate]] = []
    groups: dict[tuple[int, int], list[int]] = {}
    for factor, levels in enumerate(design.levels):
        for level in range(1, levels):
            for cell, contrast in simple_effects(design, factor, level, fit.cells).items():
                groups.setdefault((factor, level), []).append(len(tried))
                tried.append((factor, cell, fit.estimate(contrast)))
    adjusted = holm([estimate.p for _, _, estimate in tried])
    reasons = []
    for (factor, _), members in groups.items():
        sure = [index for index in members if adjusted[index] < ERROR]
        if not sure:
            continue
        gains = max(sure, key=lambda index: tried[index][2].value)
        loses = min(sure, key=lambda index: tried[index][2].value)
        high, low = tried[gains][2], tried[loses][2]
        if high.value > 0 > low.value and high.value - low.value > delta:
            reasons.append(DecompositionReason(Ground.SIGN, factor=factor, contexts=(tried[gains][1], tried[loses][1])))
    return reasons


def _doubts(
    design: Design,
    interactions: Sequence[EffectContrast],
    estimates: Sequence[ContrastEstimate],
    missed: ContrastEstimate | None,
    delta: float,
) -> list[DecompositionReason]:
    doubts = []
    for effect, estimate in zip(interactions, estimates, strict=True):
        if not effect.contrast.estimable or effect.contrast.contexts < effect.contrast.contexts_possible:
            doubts.append(DecompositionReason(Ground.MISSING, effect=effect, estimate=estimate))
        elif estimate.p_within(delta) >= ERROR:
            doubts.append(DecompositionReason(Ground.NOISE, effect=effect, estimate=estimate))
    if design.resolution is not None and design.resolution < CLEAR_RESOLUTION:
        doubts.append(DecompositionReason(Ground.ALIASED))
    if missed is not None and missed.p_within(delta) >= ERROR:
        doubts.append(DecompositionReason(Ground.NOISE, estimate=missed))
    return doubts


def _restarts(doubtful: Sequence[ContrastEstimate], restarts: int, delta: float) -> int | None:
    """Restarts at which every doubtful effect, if it is what it seems to be, would leave ±δ or come to lie inside."""
    most = restarts + 1
    for estimate in doubtful:
        if not math.isfinite(estimate.error):
            return None
        # An estimate that happens to lie on the bound would ask for ever more; half of δ is as near as is planned for.
        room = max(abs(delta - abs(estimate.value)), delta / 2)
        # Twice the quantile: once for the test itself, once for the chance that the next estimate is less kind.
        reach = 2 * student_quantile(1 - ERROR, max(estimate.degrees, 1.0)) * estimate.error
        most = max(most, math.ceil(restarts * (reach / room) ** 2))
    return most if most <= MOST_RESTARTS else None
