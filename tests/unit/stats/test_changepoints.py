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
from lynxbench.stats.changepoints import find_changes, separation

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
    find_changes(next(iter(data.values()))["x"])
    start = time.process_time()
    found = [[c.index for c in find_changes(d["x"])] for d in data.values()]
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
        bool(find_changes(100 + lfilter([1.0], [1.0, -phi], rng.standard_normal(500))[200:])) for _ in range(200)
    )
    assert flagged / 200 <= at_most


@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_is_found_where_it_is(sign: int) -> None:
    rng = np.random.default_rng(2)
    x = 100 + 5 * sign * (np.arange(200) >= 120) + rng.standard_normal(200)
    (change,) = find_changes(x)
    assert abs(change.index - 120) <= 2
    assert change.change == pytest.approx(0.05 * sign, abs=0.01)
    assert change.p < 1e-6
    assert change.after - change.before == pytest.approx(5 * sign, abs=0.7)


def test_there_and_back() -> None:
    rng = np.random.default_rng(3)
    t = np.arange(300)
    x = 50 + 4 * ((t >= 100) & (t < 130)) + 0.5 * rng.standard_normal(300)
    assert [abs(c.index - at) <= 2 for c, at in zip(find_changes(x), (100, 130), strict=True)] == [True, True]


def test_noise_free_step() -> None:
    (change,) = find_changes([100.0] * 20 + [110.0] * 20)
    assert (change.index, change.before, change.after) == (20, 100.0, 110.0)


def test_a_change_from_zero_has_no_ratio() -> None:
    (change,) = find_changes([0.0] * 20 + [1.0] * 20)
    assert math.isnan(change.change)


def test_a_rise_from_a_negative_level_is_a_rise() -> None:
    (change,) = find_changes([-2.0] * 20 + [-1.0] * 20)
    assert change.change == pytest.approx(0.5)


def test_spikes_are_no_change() -> None:
    rng = np.random.default_rng(4)
    x = 100 + rng.standard_normal(300)
    x[[40, 41, 150, 290]] *= 5
    assert find_changes(x) == ()


def test_a_small_change_is_not_hidden_by_a_huge_one() -> None:
    rng = np.random.default_rng(5)
    t = np.arange(300)
    x = np.where(t < 100, 100.0, np.where(t < 200, 400.0, 428.0)) + rng.standard_normal(300)
    assert [round(c.index, -1) for c in find_changes(x)] == [100, 200]


@pytest.mark.parametrize("values", [[], [1.0], [3.0] * 100, [0.1] * 100, list(range(10))])
def test_nothing_to_find(values: list[float]) -> None:
    assert find_changes(values) == ()


def test_nan_is_an_error() -> None:
    with pytest.raises(BadSeries):
        find_changes([1.0, math.nan] * 20)


def test_a_segment_has_two_values() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        find_changes([1.0] * 20, min_segment=1)


def test_separation() -> None:
    assert separation(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1
    assert separation(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0
