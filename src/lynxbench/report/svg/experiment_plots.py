"""An experiment's pictures: effects with their intervals, interaction plots, and the cube of three factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lynxbench.model.experiment import EffectShown, ExperimentAnalysis, ExperimentDocument, FactorShown
from lynxbench.report.experiment_words import corner, effect_title, pair_mean
from lynxbench.report.markup import Safe, tag
from lynxbench.report.palette import SERIES_SLOTS
from lynxbench.report.svg.canvas import (
    NARROW,
    Scale,
    curve,
    padded,
    rule,
    svg,
    text,
    tick_step,
    ticks,
    whisker,
)
from lynxbench.report.words import NBSP, change_text, digits, percent

ROW = 26
INTERACTION_HEIGHT = 220
WIDE_AXIS = 4.0
"""Last over first: beyond this, values that are equally far apart crowd at one end of a logarithmic axis."""


def draw_effects(found: ExperimentAnalysis, title: str, width: int) -> Safe:
    """Every effect as a ratio on a log axis; what differs after Holm is filled."""
    shown = [one for one in found.effects if math.isfinite(one.ratio.estimate)]
    label = 250 if width > NARROW else 130
    top, bottom = 8, 8 + ROW * len(shown)
    ends = [math.log(x) for one in shown for x in (one.ratio.low, one.ratio.estimate, one.ratio.high) if x > 0]
    low, high = padded(min([*ends, 0.0]), max([*ends, 0.0]))
    x = Scale(low, high, label, width - 16)
    parts = [*_log_axis(x, bottom, top, 8 if width > NARROW else 4)]
    parts.append(rule(x(0.0), top, x(0.0), bottom, "axis"))
    band = math.log1p(found.delta)
    parts += [rule(x.clamped(edge), top, x.clamped(edge), bottom, "limit") for edge in (-band, band)]
    for index, one in enumerate(shown):
        parts += _effect_row(one, x, top + ROW * index + ROW / 2, label, width)
    said = "; ".join(f"{effect_title(one)}: {change_text(one.ratio)}" for one in shown).replace(NBSP, " ")
    return svg(width, bottom + 24, title, said, parts)


def _effect_row(one: EffectShown, x: Scale, middle: float, label: float, width: int) -> list[Safe]:
    longest = 40 if width > NARROW else 17
    title = effect_title(one)
    title = title if len(title) <= longest else title[: longest - 1] + "…"
    parts = [text(label - 8, middle + 4, title, css="tick strong" if one.sure else "tick", anchor="end")]
    if one.ratio.known:
        parts += whisker(x, middle, math.log(one.ratio.low), math.log(one.ratio.high), "whisker")
    tip = tag("title", f"{effect_title(one)}: {change_text(one.ratio)}".replace(NBSP, " "))
    css = "point" if one.sure else "point open"
    parts.append(tag("circle", tip, cx=x.clamped(math.log(one.ratio.estimate)), cy=middle, r=4.5, class_=css))
    return parts


def draw_interaction(
    document: ExperimentDocument, first: FactorShown, second: FactorShown, title: str, width: int
) -> Safe:
    """One line a level of the second factor over the levels of the first; parallel lines do not interact.

    The axis is logarithmic: equal ratios are equal distances, so that parallel means what the analysis means by it.
    """
    left, top, bottom = 64, 26, INTERACTION_HEIGHT - 30
    means = [
        [pair_mean(document, first, second, i, j) for i in range(len(first.levels))] for j in range(len(second.levels))
    ]
    known = [math.log(value) for row in means for value in row if value]
    if not known:
        return svg(width, 40, title, "no cell was measured", text(8, 24, "no cell was measured"))
    y = Scale(*padded(min(known), max(known), 0.12), bottom, top)
    x = Scale(0, max(len(first.levels) - 1, 1), left + 36, width - (150 if width > NARROW else 96))
    parts: list[Safe] = []
    for value in log_ticks(y.low, y.high, 5):
        parts += [
            rule(left, y(math.log(value)), width - 12, y(math.log(value)), "grid"),
            text(left - 7, y(math.log(value)) + 4, digits(value), anchor="end"),
        ]
    for i, level in enumerate(first.levels):
        parts.append(text(x(i), bottom + 18, f"{first.name} {level}", anchor="middle"))
    for j, row in enumerate(means):
        css = f"slot-{j % len(SERIES_SLOTS)}"
        ys = [y(math.log(value)) if value else math.nan for value in row]
        parts.append(curve([x(i) for i in range(len(row))], ys, f"curve {css}"))
        for i, mean in enumerate(row):
            if mean:
                tip = f"{first.name} {first.levels[i]}, {second.name} {second.levels[j]}: {digits(mean, 4)}"
                parts.append(tag("circle", tag("title", tip), cx=x(i), cy=ys[i], r=4, class_=f"swatch {css}"))
        last = next((i for i in reversed(range(len(row))) if row[i]), None)
        if last is not None:
            parts.append(
                text(x(last) + 9, ys[last] + 4 + 11 * _nudge(means, j, last), f"{second.name} {second.levels[j]}")
            )
    said = "; ".join(
        f"{second.name} {second.levels[j]}: "
        + ", ".join(f"{first.levels[i]} {digits(v, 4) if v else 'missing'}" for i, v in enumerate(row))
        for j, row in enumerate(means)
    )
    return svg(width, INTERACTION_HEIGHT, title, said, parts)


def _nudge(means: Sequence[Sequence[float | None]], row: int, at: int) -> float:
    """Labels at nearly the same height are moved apart."""
    mine = means[row][at]
    others = [other[at] for j, other in enumerate(means) if j != row]
    near = [value for value in others if value and mine and abs(math.log(value / mine)) < 0.04]
    if not near or not mine:
        return 0.0
    return -0.7 if mine > near[0] else 0.7


def draw_cube(document: ExperimentDocument, title: str, width: int) -> Safe:
    """Eight corners with their responses; circles grow with the response."""
    across, up, back = document.factors
    wide = width > NARROW
    x0, x1, y0, y1 = (150, 440, 270, 110) if wide else (66, 196, 250, 120)
    dx, dy = (170, -70) if wide else (92, -62)

    def at(i: int, j: int, k: int) -> tuple[float, float]:
        return (x1 if i else x0) + (dx if k else 0), (y1 if j else y0) + (dy if k else 0)

    corners = [(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    found = {one: corner(document, one) for one in corners}
    values = [c.response.estimate for c in found.values() if c is not None and c.response is not None]
    parts: list[Safe] = []
    for one in corners:
        for axis in range(3):
            if one[axis] == 0:
                other = tuple(1 if n == axis else v for n, v in enumerate(one))
                a, b = at(*one), at(other[0], other[1], other[2])
                parts.append(rule(a[0], a[1], b[0], b[1], "grid" if one[2] and axis < 2 else "axis"))
    said = []
    for one, cell in found.items():
        px, py = at(*one)
        levels = ", ".join(f"{f.name} {f.levels[v]}" for f, v in zip(document.factors, one, strict=True))
        if cell is None or cell.response is None:
            words = "not in the design" if cell is None else cell.status.value
            parts += [tag("circle", tag("title", levels), cx=px, cy=py, r=5, class_="peak")]
        else:
            words = digits(cell.response.estimate)
            size = 5 + 9 * (cell.response.estimate / max(values)) ** 0.5
            parts += [tag("circle", tag("title", f"{levels}: {words}"), cx=px, cy=py, r=size, class_="dot")]
        # away from the edges, which go up from the lower corners and down from the upper ones
        parts.append(text(px, py - 19 if one[1] else py + 28, words, css="tick strong", anchor="middle"))
        said.append(f"{levels}: {words}")
    parts += [
        text((x0 + x1) / 2, y0 + 34, f"{across.name}: {across.levels[0]} → {across.levels[1]}", anchor="middle"),
        *([text(x0 - 12, (y0 + y1) / 2, f"{up.name} ↑ {up.levels[1]}", anchor="end")] if wide else []),
        text(x1 + dx / 2 + 14, y0 + dy / 2 + 14, f"{back.name} → {back.levels[1]}"),
    ]
    if not wide:
        parts.append(text(8, 16, f"{up.name}: below {up.levels[0]}, above {up.levels[1]}"))
    return svg(width, 320, title, "; ".join(said), parts)


def log_ticks(low: float, high: float, about: int) -> list[float]:
    """Round values whose logarithms lie inside: equally far apart, or by 1, 2, 5 and powers of ten on a wide axis."""
    first, last = math.exp(low), math.exp(high)
    if last / first < WIDE_AXIS:
        return [value for value in ticks(first, last, about) if value > 0]
    powers = range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
    for kept in ((1, 2, 5), (1, 3), (1,)):
        marks = [digit * 10.0**power for power in powers for digit in kept]
        inside = [value for value in marks if first <= value <= last]
        if len(inside) <= about:
            break
    return inside[:: math.ceil(len(inside) / about)]


def _log_axis(x: Scale, y: float, top: float, about: int) -> list[Safe]:
    """Changes in percent; on a wide axis ratios, since -90 % and +900 % are the same distance from nothing."""
    first, last = math.expm1(x.low), math.expm1(x.high)
    if math.exp(x.high - x.low) >= WIDE_AXIS:
        marks = [(math.log(ratio), f"{ratio:g}×") for ratio in log_ticks(x.low, x.high, about)]
    else:
        decimals = max(0, -math.floor(math.log10(tick_step(first, last, about) * 100) + 1e-9))
        marks = [
            (math.log1p(value), percent(value, signed=value != 0, decimals=decimals))
            for value in ticks(first, last, about)
        ]
    parts: list[Safe] = [rule(x.start, y, x.end, y, "axis")]
    for at, words in marks:
        parts += [rule(x(at), top, x(at), y, "grid"), text(x(at), y + 15, words, anchor="middle")]
    return parts


def draw_values(document: ExperimentDocument, title: str, width: int) -> Safe:
    """Every process in the order of time blocks: a drift or an outlier is seen at once."""
    rows = [cell for cell in document.cells if any(value is not None for value in cell.values)]
    logs = [math.log(value) for cell in rows for value in cell.values if value]
    left, top, bottom = 64, 12, 210
    if not logs:
        return svg(width, 40, title, "no process was measured", text(8, 24, "no process was measured"))
    y = Scale(*padded(min(logs), max(logs)), bottom, top)
    x = Scale(-0.3, max(document.restarts - 0.7, 0.7), left, width - 14)
    parts: list[Safe] = []
    for value in log_ticks(y.low, y.high, 5):
        parts += [
            rule(left, y(math.log(value)), width - 14, y(math.log(value)), "grid"),
            text(left - 7, y(math.log(value)) + 4, digits(value), anchor="end"),
        ]
    for block in range(document.restarts):
        parts.append(text(x(block), bottom + 18, f"block {block + 1}", anchor="middle"))
    for index, cell in enumerate(rows):
        css = f"slot-{index % len(SERIES_SLOTS)}"
        ys = [y(math.log(value)) if value else math.nan for value in cell.values]
        parts.append(curve([x(block) for block in range(len(ys))], ys, f"curve {css}"))
        name = ", ".join(f"{n} {v}" for n, v in cell.levels.items())
        for block, taken in enumerate(cell.values):
            if taken:
                tip = tag("title", f"{name}, block {block + 1}: {digits(taken, 4)}")
                parts.append(tag("circle", tip, cx=x(block), cy=ys[block], r=3.2, class_=f"swatch {css}"))
    return svg(width, 240, title, f"{len(rows)} cells over {document.restarts} blocks of time", parts)
