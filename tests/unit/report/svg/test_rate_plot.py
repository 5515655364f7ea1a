"""The rate strips show what was excluded and where the figure lies."""

from __future__ import annotations

import re

from lynxbench.model.figures import Figure
from lynxbench.report.drawn_series import rate_series
from lynxbench.report.svg.rate_plot import MOST_STRIPS, draw_rates


def test_each_process_has_a_strip_with_shaded_phases_and_the_interval(build) -> None:
    series = tuple(rate_series(p, 1.0) for p in build.processes() if p.samples.precision == "fp32")
    picture = draw_rates(series, Figure(low=18.6, estimate=18.9, high=19.2, unit="token/s"), "token/s", "Rate", 920)
    assert picture.count("phase-warmup") == 3
    assert picture.count("phase-transient") == 3
    assert picture.count('class="interval"') == 3
    assert picture.count('class="mean"') == 3
    assert "process 0" in picture


def test_many_processes_are_capped(build) -> None:
    series = tuple(rate_series(p, 1.0) for p in build.processes(restarts=8))
    picture = draw_rates(series, None, "token/s", "Rate", 350)
    assert picture.count('class="curve"') == MOST_STRIPS


def test_everything_stays_inside_the_picture(build) -> None:
    series = tuple(rate_series(p, 1.0) for p in build.processes())
    for width in (920, 350):
        picture = draw_rates(series, None, "token/s", "Rate", width)
        height = float(re.search(r'viewBox="0 0 \d+ ([\d.]+)"', picture).group(1))
        points = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", picture)]
        assert points
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
