"""Variance by level: figures by hand, coverage with known truth, and doubt where little is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.stats.intervals import ratio_interval
from lynxbench.stats.sessions import (
    FEWEST_NODES,
    FEWEST_SITTINGS,
    TAILS,
    learn_variance,
    ratio_assumed,
    ratio_between,
)


def _sittings(
    rng: np.random.Generator, many: int, restart: float, sitting: float, level: float = 0.0, restarts: int = 5
) -> list[np.ndarray]:
    own = level + sitting * rng.normal(size=many)
    return [np.exp(value + restart * rng.normal(size=restarts)) for value in own]


def test_the_mean_squares_are_those_of_the_textbook() -> None:
    sittings = [np.exp([0.0, 0.02]), np.exp([0.04, 0.06]), np.exp([0.02, 0.04])]
    learned = learn_variance([sittings])
    assert learned.restart == pytest.approx(0.0002)
    assert learned.sitting_means == pytest.approx(np.var([0.01, 0.05, 0.03], ddof=1))
    assert (learned.restart_degrees, learned.sitting_degrees, learned.sittings, learned.share) == (3, 2, 3, 0.5)
    assert learned.sitting == pytest.approx(learned.sitting_means - 0.0001)
    assert not learned.known


def test_each_executor_varies_about_its_own_level() -> None:
    rng = np.random.default_rng(1)
    here, there = _sittings(rng, 6, 0.001, 0.002), _sittings(rng, 6, 0.001, 0.002, level=1.0)
    learned = learn_variance([here, there])
    assert learned.sitting_degrees == 10
    assert math.sqrt(learned.sitting_means) < 0.005, "the step between the two is no noise"


def test_variances_are_never_negative() -> None:
    flat = [np.exp([0.0, 0.1, -0.1])] * 9
    assert learn_variance([flat]).sitting == 0.0
    assert learn_variance([]).sittings == 0


def test_too_few_sittings_have_no_interval() -> None:
    rng = np.random.default_rng(2)
    few = learn_variance([_sittings(rng, FEWEST_SITTINGS - 1, 0.001, 0.001)])
    assert not ratio_between([1.0, 1.1], [1.0, 1.1], few).known
    enough = learn_variance([_sittings(rng, FEWEST_SITTINGS, 0.001, 0.001)])
    assert ratio_between([1.0, 1.1], [1.0, 1.1], enough).known
    assert not ratio_between([1.0, 1.1], [1.0, 1.1], enough, nodes=True).known, "one node says nothing of another"


def test_equal_restarts_give_students_interval_on_the_sittings() -> None:
    from scipy.special import stdtrit

    rng = np.random.default_rng(3)
    sittings = _sittings(rng, 10, 0.01, 0.004)
    learned = learn_variance([sittings])
    a, b = _sittings(rng, 2, 0.01, 0.004)
    interval = ratio_between(a, b, learned, 0.9)
    means = [float(np.mean(np.log(values))) for values in sittings]
    reach = TAILS * float(stdtrit(9, 0.95)) * math.sqrt(2 * float(np.var(means, ddof=1)))
    assert math.log(interval.high / interval.estimate) == pytest.approx(reach)
    assert interval.estimate == pytest.approx(math.exp(np.mean(np.log(b)) - np.mean(np.log(a))))


@pytest.mark.parametrize(
    ("restart", "sitting", "restarts", "pair"),
    [(0.005, 0.005, 5, 5), (0.0005, 0.005, 5, 5), (0.01, 0.0, 5, 5), (0.01, 0.003, 3, 20), (0.0, 0.004, 1, 1)],
)
def test_ten_sittings_cover_the_true_ratio(restart: float, sitting: float, restarts: int, pair: int) -> None:
    rng = np.random.default_rng(7)
    held, pairs, ratio = 0, 400, 1.03
    for _ in range(pairs):
        learned = learn_variance([_sittings(rng, FEWEST_SITTINGS, restart, sitting, restarts=restarts)])
        (a,) = _sittings(rng, 1, restart, sitting, restarts=pair)
        (b,) = _sittings(rng, 1, restart, sitting, math.log(ratio), pair)
        interval = ratio_between(a, b, learned)
        held += interval.low <= ratio <= interval.high
    assert 0.905 <= held / pairs <= 0.995, "93 to 97 %, with three standard errors of 400 pairs"


def test_restarts_of_one_sitting_do_not_cover_another() -> None:
    rng = np.random.default_rng(8)
    held = 0
    for _ in range(300):
        a, b = _sittings(rng, 2, 0.001, 0.005)
        interval = ratio_interval(a, b)
        held += interval.low <= 1 <= interval.high
    assert held / 300 < 0.4, "what the interval of one sitting is worth across two"


def test_nodes_are_a_level_of_their_own() -> None:
    rng = np.random.default_rng(9)
    held = wide = 0
    for _ in range(300):
        nodes = [_sittings(rng, 3, 0.002, 0.002, 0.01 * rng.normal()) for _ in range(8)]
        learned = learn_variance(nodes, nodes)
        assert learned.nodes_known
        a, b = (_sittings(rng, 1, 0.002, 0.002, 0.01 * rng.normal())[0] for _ in range(2))
        across, within = ratio_between(a, b, learned, nodes=True), ratio_between(a, b, learned)
        held += across.low <= 1 <= across.high
        wide += across.half_width > within.half_width
    assert held / 300 > 0.9
    assert wide == 300
    few = [_sittings(rng, 3, 0.002, 0.002) for _ in range(FEWEST_NODES - 1)]
    assert not learn_variance(few, few).nodes_known


def test_a_declared_noise_widens_what_restarts_show() -> None:
    a, b = [100.0, 101.0, 99.0, 100.5, 99.5], [97.0, 98.0, 96.0, 97.5, 96.5]
    welch, assumed = ratio_interval(a, b), ratio_assumed(a, b, 0.01)
    assert assumed.estimate == pytest.approx(welch.estimate)
    assert assumed.low < welch.low < welch.high < assumed.high
    tiny = ratio_assumed(a, b, 1e-9)
    assert tiny.low == pytest.approx(welch.low, rel=1e-6)
    assert not ratio_assumed([1.0], [1.0, 2.0], 0.01).known
    still = ratio_assumed([1.0, 1.0], [1.0, 1.0], 0.01)
    assert still.high == pytest.approx(math.exp(1.959964 * math.sqrt(2) * math.log1p(0.01)), rel=1e-4)


def test_without_any_scatter_the_interval_is_a_point() -> None:
    learned = learn_variance([[[1.0, 1.0]] * 10])
    assert ratio_between([2.0, 2.0], [3.0, 3.0], learned).half_width == 0
