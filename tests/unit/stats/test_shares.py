"""Shares and their paired changes cover the truth, also where nothing was seen to change."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.stats.shares import paired_share_change, share_interval


def test_no_change_in_few_questions_is_not_certainty() -> None:
    few, many = paired_share_change(0, 0, 20), paired_share_change(0, 0, 2000)
    assert few.estimate == many.estimate == 0
    assert few.low < -0.05
    assert few.high > 0.05
    assert many.high < 0.002


def test_a_change_is_signed() -> None:
    assert paired_share_change(30, 5, 100).low > 0
    assert paired_share_change(5, 30, 100).high < 0


@pytest.mark.parametrize(("gain", "loss"), [(0.0, 0.02), (0.05, 0.05), (0.01, 0.15)])
def test_the_paired_interval_covers_the_truth(gain: float, loss: float) -> None:
    random = np.random.default_rng(5)
    for size in (30, 200):
        drawn = random.multinomial(size, [gain, loss, 1 - gain - loss], 1500)
        bounds = [paired_share_change(int(up), int(down), size) for up, down, _ in drawn]
        covered = np.mean([bound.low <= gain - loss <= bound.high for bound in bounds])
        assert covered >= 0.94, (size, covered)


def test_wilson_covers_the_truth_near_one() -> None:
    random = np.random.default_rng(6)
    right = random.binomial(80, 0.97, 4000)
    covered = np.mean([(b := share_interval(int(r), 80)).low <= 0.97 <= b.high for r in right])
    assert covered >= 0.93
