"""Percentiles with intervals on the distribution."""

from __future__ import annotations

import re

from lynxbench.report.drawn_series import counted_ms, histogram
from lynxbench.report.svg.distribution_plot import draw_distribution


def drawn(build, limit_ms: float | None, width: int = 920) -> str:
    parts = [counted_ms(p, "time-per-token") for p in build.processes() if p.samples.precision == "fp32"]
    found = histogram(parts, "time-per-token")
    assert found is not None
    return draw_distribution(found, build.percentiles(52.8), limit_ms, "Time per token", width)


def test_resolved_percentiles_are_drawn_with_whiskers_and_unresolved_ones_said(build) -> None:
    picture = drawn(build, None)
    assert picture.count('class="dot"') == 4
    assert picture.count('class="whisker"') == 4 * 3
    assert "p99 61.0 ms" in picture
    assert "p99.9 unresolved" in picture


def test_a_near_limit_is_a_line_and_a_far_one_is_not(build) -> None:
    assert 'class="limit"' in drawn(build, 60.0)
    assert 'class="limit"' not in drawn(build, 500.0)


def test_labels_do_not_stand_on_each_other(build) -> None:
    for width in (920, 350):
        labels = re.findall(
            r'<text x="([\d.]+)" y="([\d.]+)" class="tick strong">(p[\d.]+ [^<]+)</text>', drawn(build, None, width)
        )
        boxes = [(float(x), float(x) + 6 * len(words), float(y)) for x, y, words in labels]
        assert len(boxes) == 4
        for index, (a, b, row) in enumerate(boxes):
            for c, d, other in boxes[index + 1 :]:
                assert abs(row - other) >= 13 or b <= c or d <= a
