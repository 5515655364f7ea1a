"""A cell's interval holds the spread between blocks; effects do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.experiment.analysing import cell_intervals
from lynxbench.stats.designs import full_design

CELLS = full_design([2, 2]).cells


def _visits(rng: np.random.Generator, blocks: int, between: float) -> dict[tuple[tuple[int, ...], int], float]:
    levels = rng.normal(0, between, blocks)
    return {
        (cell, block): 100 * math.exp(levels[block] + rng.normal(0, 0.007)) for cell in CELLS for block in range(blocks)
    }


@pytest.mark.parametrize(("blocks", "between"), [(3, 0.0), (3, 0.05), (4, 0.02), (6, 0.02)])
def test_a_cell_s_interval_holds_its_level_whatever_blocks_do(blocks: int, between: float) -> None:
    rng = np.random.default_rng(3)
    hits = [
        interval.low <= 100 <= interval.high
        for _ in range(600)
        for interval in cell_intervals(_visits(rng, blocks, between), 0.95).values()
    ]
    assert 0.92 <= np.mean(hits) <= 0.975


def test_the_earlier_rule_is_kept_for_earlier_analyses() -> None:
    rng = np.random.default_rng(4)
    visits = _visits(rng, 6, 0.05)
    today, before = cell_intervals(visits, 0.95), cell_intervals(visits, 0.95, within_blocks=True)
    for cell in CELLS:
        assert today[cell].estimate == pytest.approx(before[cell].estimate)
        assert today[cell].half_width > 3 * before[cell].half_width


def test_a_cell_visited_once_takes_the_spread_of_the_others() -> None:
    rng = np.random.default_rng(5)
    visits = {key: value for key, value in _visits(rng, 5, 0.02).items() if key[0] != CELLS[0] or key[1] == 0}
    once = cell_intervals(visits, 0.95)[CELLS[0]]
    assert once.low < once.estimate < once.high
    assert once.estimate == pytest.approx(visits[CELLS[0], 0])
    alone = cell_intervals({(CELLS[0], 0): 100.0}, 0.95)[CELLS[0]]
    assert alone.estimate == pytest.approx(100)
    assert not alone.known
    assert cell_intervals({}, 0.95) == {}
