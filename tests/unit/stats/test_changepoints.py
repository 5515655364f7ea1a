"""Change points: steps found, noise and spikes not, and the annotated histories."""

from __future__ import annotations

import gzip
import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from lynxbench.errors import BadSeries
from lynxbench.model.history import Motion
from lynxbench.stats.changepoints import read_course, separation

DATA = Path(__file__).parents[2] / "data" / "changepoints" / "mozilla_dev86.json.gz"


def agreed(annotations: dict[str, list[int]]) -> list[int]:
    marks = sorted(i for indices in annotations.values() for i in indices)
    centres = [c for c in marks if sum(any(abs(i - c) <= 5 for i in v) for v in annotations.values()) >= 3]
    clusters: list[list[int]] = []
    for centre in centres:
        if clusters and centre - clusters[-1][0] <= 5:
            clusters[-1].append(centre)
        else:
            clusters.append([centre])
    return [round(float(np.median(cluster))) for cluster in clusters]


def matches(predicted: list[int], true: list[int]) -> int:
    pairs = sorted((abs(p - t), p, t) for p in predicted for t in true if abs(p - t) <= 5)
    taken: tuple[set[int], set[int]] = (set(), set())
    for _, p, t in pairs:
        if p not in taken[0] and t not in taken[1]:
            taken[0].add(p)
            taken[1].add(t)
    return len(taken[0])


def test_f1_on_annotated_histories_and_speed() -> None:
    with gzip.open(DATA, "rt") as file:
        data = json.load(file)
    hits = said = there = 0
    read_course(next(iter(data.values()))["x"])
    start = time.process_time()
    found = [[c.index for c in read_course(d["x"]).changes] for d in data.values()]
    spent = (time.process_time() - start) / len(data)
    for points, d in zip(found, data.values(), strict=True):
        true = agreed(d["annotations"])
        hits, said, there = hits + matches(points, true), said + len(points), there + len(true)
    assert 2 * hits / (said + there) >= 0.68
    assert spent < 0.1  # about 8 ms; a bound that a busy machine keeps too


@pytest.mark.parametrize(("phi", "at_most"), [(0.0, 0.03), (0.3, 0.05)])
def test_pure_noise_is_left_alone(phi: float, at_most: float) -> None:
    rng = np.random.default_rng(11)
    flagged = sum(
        bool(read_course(100 + lfilter([1.0], [1.0, -phi], rng.standard_normal(500))[200:]).changes) for _ in range(200)
    )
    assert flagged / 200 <= at_most


@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_is_found_where_it_is(sign: int) -> None:
    rng = np.random.default_rng(2)
    x = 100 + 5 * sign * (np.arange(200) >= 120) + rng.standard_normal(200)
    (change,) = read_course(x).changes
    assert abs(change.index - 120) <= 2
    assert change.change == pytest.approx(0.05 * sign, abs=0.01)
    assert change.p < 1e-6
    assert change.after - change.before == pytest.approx(5 * sign, abs=0.7)


def test_there_and_back() -> None:
    rng = np.random.default_rng(3)
    t = np.arange(300)
    x = 50 + 4 * ((t >= 100) & (t < 130)) + 0.5 * rng.standard_normal(300)
    assert [abs(c.index - at) <= 2 for c, at in zip(read_course(x).changes, (100, 130), strict=True)] == [True, True]


def test_noise_free_step() -> None:
    (change,) = read_course([100.0] * 20 + [110.0] * 20).changes
    assert (change.index, change.before, change.after) == (20, 100.0, 110.0)


def test_a_change_from_zero_has_no_ratio() -> None:
    (change,) = read_course([0.0] * 20 + [1.0] * 20).changes
    assert math.isnan(change.change)


def test_a_rise_from_a_negative_level_is_a_rise() -> None:
    (change,) = read_course([-2.0] * 20 + [-1.0] * 20).changes
    assert change.change == pytest.approx(0.5)


def test_spikes_are_no_change() -> None:
    rng = np.random.default_rng(4)
    x = 100 + rng.standard_normal(300)
    x[[40, 41, 150, 290]] *= 5
    assert read_course(x).changes == ()


def test_a_small_change_is_not_hidden_by_a_huge_one() -> None:
    rng = np.random.default_rng(5)
    t = np.arange(300)
    x = np.where(t < 100, 100.0, np.where(t < 200, 400.0, 428.0)) + rng.standard_normal(300)
    assert [round(c.index, -1) for c in read_course(x).changes] == [100, 200]


@pytest.mark.parametrize("values", [[], [1.0], [3.0] * 100, [0.1] * 100, list(range(10))])
def test_nothing_to_find(values: list[float]) -> None:
    assert read_course(values).changes == ()


def test_nan_is_an_error() -> None:
    with pytest.raises(BadSeries):
        read_course([1.0, math.nan] * 20)


def test_a_segment_has_two_values() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        read_course([1.0] * 20, min_segment=1)


def test_separation() -> None:
    assert separation(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1
    assert separation(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0


def _moving(kind: str, rng: np.random.Generator) -> np.ndarray:
    noise, t = rng.standard_normal(300), np.linspace(0, 1, 300)
    shapes = {
        "slope": noise + 10 * t,
        "cycle": noise + 4 * np.sin(4 * np.pi * (t + rng.random())),
        "walk": np.cumsum(noise),
        "parabola": noise + 32 * t * (1 - t),
    }
    return np.asarray(100 + shapes[kind])


@pytest.mark.parametrize("kind", ["slope", "cycle", "walk", "parabola"])
def test_what_moves_without_a_step_is_said_in_another_word(kind: str) -> None:
    rng = np.random.default_rng(12)
    courses = [read_course(_moving(kind, rng)) for _ in range(40)]
    assert sum(bool(course.changes) for course in courses) <= 6
    assert sum(course.motion is not Motion.LEVELS for course in courses) >= 36


def test_a_slowdown_that_drifts_keeps_its_size() -> None:
    rng = np.random.default_rng(13)
    course = read_course(np.linspace(100, 90, 200) + rng.standard_normal(200))
    assert course.motion is Motion.DRIFT
    assert course.changes == ()
    assert course.trend.low < 0.9 < course.trend.high < 0.93


def test_a_step_on_a_slope_is_a_step_and_a_drift() -> None:
    rng = np.random.default_rng(14)
    course = read_course(np.linspace(100, 103, 300) - 6 * (np.arange(300) >= 150) + rng.standard_normal(300))
    (change,) = course.changes
    assert abs(change.index - 150) <= 2
    assert change.after - change.before == pytest.approx(-6, abs=1.5), "the step alone, not the slope with it"
    assert course.motion is Motion.DRIFT
    jump = course.jump(150, 0.95)
    assert jump.low < 1 - 6 / 101.5 < jump.high < 1


def test_a_step_in_correlated_noise_is_found() -> None:
    rng = np.random.default_rng(15)
    found = 0
    for _ in range(30):
        noise = lfilter([1.0], [1.0, -0.5], rng.standard_normal(400))[200:]
        changes = read_course(100 + noise + 5 * (np.arange(200) >= 120)).changes
        found += [abs(change.index - 120) <= 3 for change in changes] == [True]
    assert found >= 27


def test_what_wanders_below_zero_has_no_ratio() -> None:
    course = read_course(np.cumsum(np.random.default_rng(16).standard_normal(200)))
    assert course.motion is Motion.WANDERING
    assert not course.trend.known


def test_a_step_from_nothing_has_no_ratio_and_no_error() -> None:
    course = read_course([0.0] * 20 + [1.0] * 20)
    (change,) = course.changes
    assert math.isnan(course.jump(change.index, 0.95).estimate)
