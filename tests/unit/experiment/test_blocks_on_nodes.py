"""What a node is takes no part in any effect when blocks stay whole; it would if visits went wherever there is room."""

from __future__ import annotations

import math
import random

import pytest

from experiments import planted_definition, planted_values
from lynxbench.experiment.analysing import analyse
from lynxbench.model.experiment import EffectShown, ExperimentAnalysis
from lynxbench.stats.designs import Cell

SPEED = {"fast": 1.31, "slow": 0.62, "usual": 1.0}
HOMES = ("fast", "slow", "usual", "slow", "fast")


def effects(values: dict[tuple[Cell, int], float]) -> tuple[EffectShown, ...]:
    found = analyse(planted_definition(), values)
    assert isinstance(found, ExperimentAnalysis)
    return found.effects


def test_nodes_of_any_speed_give_the_effects_and_intervals_of_equal_ones() -> None:
    values = planted_values(planted_definition(), interaction=0.1)
    on_nodes = {(cell, block): value * SPEED[HOMES[block]] for (cell, block), value in values.items()}
    for missing in ((), ((1, 1, 0),)):
        one = effects({key: value for key, value in values.items() if key[0] not in missing})
        two = effects({key: value for key, value in on_nodes.items() if key[0] not in missing})
        assert [effect.name for effect in one] == [effect.name for effect in two]
        for alike, unlike in zip(one, two, strict=True):
            for bound in ("low", "estimate", "high"):
                assert getattr(unlike.ratio, bound) == pytest.approx(getattr(alike.ratio, bound), rel=1e-9, nan_ok=True)
            assert unlike.p_holm == pytest.approx(alike.p_holm, rel=1e-6, abs=1e-12)


def test_visits_that_go_anywhere_would_spoil_them() -> None:
    """Why a block is never shared by nodes: the same visits on the same nodes, dealt out cell by cell."""
    values = planted_values(planted_definition(), interaction=0.1)
    draw = random.Random(3)
    dealt = {key: value * SPEED[draw.choice(HOMES)] for key, value in values.items()}
    whole, spoilt = effects(values), effects(dealt)
    widths = [[math.log(one.ratio.high / one.ratio.low) for one in found] for found in (whole, spoilt)]
    wider = [spoilt_width > 10 * width for width, spoilt_width in zip(*widths, strict=True)]
    assert all(wider)
    assert [one.name for one in whole if one.sure] != [one.name for one in spoilt if one.sure]
