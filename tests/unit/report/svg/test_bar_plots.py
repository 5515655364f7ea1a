"""Bars are as long as what they stand for."""

from __future__ import annotations

import math
import re

import pytest

from lynxbench.model.attribution import Category
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.report.svg.bar_plots import (
    Dots,
    draw_counted,
    draw_efficiency,
    draw_interval,
    draw_peak_and_sustained,
    draw_shares,
)


def widths(picture: str, css: str) -> list[float]:
    return [float(w) for w in re.findall(rf'width="([\d.]+)" height="[\d.]+" class="{css}', picture)]


def test_shares_fill_the_bar_and_skip_what_is_absent() -> None:
    shares = {Category.COMPUTE: 0.6, Category.LAUNCH: 0.3, Category.UNATTRIBUTED: 0.1, Category.IDLE: 0.0}
    picture = draw_shares((("fp32", shares),), "Shares", 920)
    found = widths(picture, "fill")
    assert len(found) == 3
    assert found[0] / found[1] == pytest.approx(2, rel=0.02)
    assert sum(found) == pytest.approx(920 - 10 - 58, abs=6)
    assert "compute 60\u00a0%" in picture
    assert picture.index("cat-launch") < picture.index("cat-unattributed")


def test_counted_and_excluded_are_to_scale() -> None:
    picture = draw_counted((("fp32", (("setup", 10.0), ("warm-up", 0.0), ("counted", 30.0))),), "Phases", 920)
    assert widths(picture, "counted")[0] / widths(picture, "phase phase-setup")[0] == pytest.approx(3, rel=0.02)
    assert "phase-warmup" not in picture


def test_an_operator_beyond_its_ceiling_stays_in_the_outline() -> None:
    picture = draw_efficiency((("aten::mm", Category.COMPUTE, 0.5, 1.4),), "Roofline", 920)
    assert widths(picture, "fill")[0] == pytest.approx(widths(picture, "outline")[0])
    assert "140\u00a0%" in picture


def test_peak_and_sustained_draw_what_is_known() -> None:
    full = Dots("fp32", Interval(18.6, 18.9, 19.2), 20.4, (18.8, 18.9, 19.0), steady=True)
    empty = Dots("int8", UNKNOWN_INTERVAL, math.nan, (math.nan,), steady=False)
    picture = draw_peak_and_sustained((full, empty), "token/s", "Peak", 920)
    assert picture.count('class="dot"') == 1
    assert picture.count('class="peak"') == 1
    assert picture.count('class="run"') == 3
    assert "nan" not in picture
    assert "nan" not in draw_peak_and_sustained((empty,), "token/s", "Peak", 350)


def test_the_small_interval_starts_at_zero() -> None:
    picture = draw_interval(Interval(90, 100, 110), math.nan, "one", 240)
    x = float(re.search(r'<rect x="([\d.]+)"', picture).group(1))
    assert x == pytest.approx(2 + 236 * 90 / (110 * 1.04), abs=0.1)
