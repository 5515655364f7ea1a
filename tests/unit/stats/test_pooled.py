"""Several restarts judged together: narrower than each alone, and no cover for a change."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.pooled import judge_together
from lynxbench.stats.steady import SteadyJudgement, judge_steady

BOUND = 0.05
POINTS, SIGMA = 22, 0.035
"""Like the quickstart on a shared machine: one process alone is nearly always too short."""


@cache  # the same restarts are judged one by one, and then together
def restarts(seed: int, changes: tuple[float, ...], *, step: bool = False) -> list[SteadyJudgement]:
    noise = np.random.default_rng(seed)
    along = np.linspace(-0.5, 0.5, POINTS)
    shape = np.where(along > 0.2, 0.5, -0.5) if step else along  # beyond half of the run: no warm-up
    return [
        judge_steady(100 * (1 + change * shape + SIGMA * noise.standard_normal(POINTS)), drift_bound=BOUND)
        for change in changes
    ]


def share_steady(changes: tuple[float, ...], *, step: bool = False, pooled: bool = True) -> float:
    def steady(seed: int) -> bool:
        found = restarts(seed, changes, step=step)
        alone = all(one.verdict is SteadyVerdict.STEADY for one in found)
        return judge_together(found, BOUND).verdict is SteadyVerdict.STEADY if pooled else alone

    return sum(steady(seed) for seed in range(400)) / 400


def test_flat_restarts_prove_together_what_each_is_too_short_for() -> None:
    assert share_steady((0.0, 0.0, 0.0), pooled=False) < 0.1
    assert share_steady((0.0, 0.0, 0.0)) > 0.4


@pytest.mark.parametrize("step", [False, True])
def test_a_common_change_beyond_the_bound_does_not_pass(step: bool) -> None:
    assert share_steady((0.08, 0.08, 0.08), step=step) <= 0.01


def test_opposite_drifts_do_not_cancel() -> None:
    assert share_steady((0.15, -0.15, 0.0)) <= 0.01


def test_one_process_with_a_large_step_is_not_outvoted() -> None:
    assert share_steady((0.0, 0.0, 0.20), step=True) <= 0.01


def test_the_worst_process_decides_where_something_changed() -> None:
    flat = judge_steady(100 + np.random.default_rng(1).standard_normal(200), drift_bound=BOUND)
    drifting = judge_steady(np.linspace(80, 120, 200), drift_bound=BOUND)
    both = judge_together([flat, drifting], BOUND)
    assert (flat.verdict, both.verdict, both.pooled) == (SteadyVerdict.STEADY, SteadyVerdict.NOT_STEADY, False)
    assert both.drift == drifting.drift


def test_all_steady_needs_no_pooling() -> None:
    found = [judge_steady(100 + np.random.default_rng(s).standard_normal(200), drift_bound=BOUND) for s in range(3)]
    both = judge_together(found, BOUND)
    assert (both.verdict, both.pooled, both.reason) == (SteadyVerdict.STEADY, False, "")


def test_one_process_alone_is_its_own_verdict() -> None:
    (short,) = restarts(3, (0.0,))
    both = judge_together([short], BOUND)
    assert (both.verdict, both.drift, both.pooled) == (short.verdict, short.drift, False)


def test_too_few_points_to_know_anything_stay_inconclusive() -> None:
    none = judge_steady([1.0, 2.0, 3.0], drift_bound=BOUND)
    flat = judge_steady(100 + np.random.default_rng(1).standard_normal(200), drift_bound=BOUND)
    assert judge_together([flat, none], BOUND).verdict is SteadyVerdict.INCONCLUSIVE
