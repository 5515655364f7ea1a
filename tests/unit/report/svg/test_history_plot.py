"""A history drawn: dates below, intervals as error bars, changes where they were, whatever its moments are."""

from itertools import pairwise

import pytest

from compared import make_executor, make_result
from lynxbench.compare.levels import point_of, read_history
from lynxbench.model.history import History, HistoryPoint
from lynxbench.model.precision import Precision
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.history_plot import draw_levels, is_clustered, level_lines, moments_of


def history_at(stamps: list[str], level: float = 100.0) -> History:
    points = []
    for place, stamp in enumerate(stamps):
        means = tuple(level + place + each for each in (-0.2, -0.1, 0.0, 0.1, 0.2))
        changed = make_executor({"framework.torch": "2.6.0"} if place >= len(stamps) // 2 else {})
        point = point_of(make_result(run_means=means, started_at=stamp, executor=changed), Precision.FP32)
        assert isinstance(point, HistoryPoint)
        points.append(point)
    return read_history(points, contract_id="ab" * 32, contract="c", precision=Precision.FP32)


DAYS = [f"2026-11-{day:02}T00:00:00+00:00" for day in range(1, 9)]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_dates_stand_below_and_every_interval_has_its_caps(width: int) -> None:
    drawn = draw_levels(history_at(DAYS), "title", width)
    assert ">2026-11-0" in drawn
    assert drawn.count('class="bars"') == len(DAYS)
    bar = drawn.split('class="bars"')[0].rsplit('d="', 1)[1]
    assert bar.count("h6") == 2
    assert "V" in bar
    assert "layer-framework" in drawn


def test_sittings_with_months_between_them_stand_evenly() -> None:
    stamps = ["2026-01-01T00:00:00+00:00", *(f"2026-11-01T{hour:02}:00:00+00:00" for hour in range(9))]
    found = history_at(stamps)
    moments = moments_of(found.points)
    assert moments is not None
    assert is_clustered(moments)
    assert not is_clustered(moments_of(history_at(DAYS).points) or [])
    drawn = draw_levels(found, "title", WIDE)
    places = [float(piece.split('"')[0]) for piece in drawn.split('cx="')[1:]]
    gaps = [b - a for a, b in pairwise(places)]
    assert max(gaps) - min(gaps) < 0.1
    assert ">26-01-01<" in drawn
    assert ">26-11-01<" in drawn


def test_a_moment_that_is_none_leaves_the_order() -> None:
    found = history_at(DAYS)
    points = (found.points[0].model_copy(update={"started_at": "yesterday"}), *found.points[1:])
    broken = found.model_copy(update={"points": points})
    assert moments_of(broken.points) is None
    assert "results</text>" in draw_levels(broken, "title", WIDE)


def test_a_level_lies_at_the_mean_of_its_segment() -> None:
    found = history_at(DAYS)
    (line,) = level_lines(found, moments_of(found.points) or [])
    assert line.first == line.last == pytest.approx(sum(point.estimate for point in found.points) / len(DAYS))
