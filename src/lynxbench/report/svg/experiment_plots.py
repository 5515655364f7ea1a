"""Pictures of experiments and tunings: effects with intervals, interactions, the cube of three factors, trials."""

import math
from collections.abc import Sequence

from lynxbench.model.experiment import EffectShown, ExperimentAnalysis, ExperimentDocument, FactorShown
from lynxbench.model.tuning import TrialStatus, TuningDocument
from lynxbench.report.experiment_words import corner, effect_title, pair_mean, setting_words
from lynxbench.report.markup import Safe, tag
from lynxbench.report.palette import SERIES_SLOTS
from lynxbench.report.svg.canvas import (
    NARROW,
    Scale,
    axis_x,
    axis_y,
    curve,
    padded,
    rule,
    svg,
    text,
    tick_step,
    ticks,
    whisker,
)
from lynxbench.report.words import NBSP, change_text, digits, percent, shortened

ROW = 26
LINES_HEIGHT = 230
LINE = 13
WIDE_AXIS = 4.0
"""Last over first: beyond this, values that are equally far apart crowd at one end of a logarithmic axis."""


def draw_effects(analysis: ExperimentAnalysis, title: str, width: int) -> Safe:
    """Every effect as a ratio on a log axis; what differs after Holm is filled."""
    shown = [effect for effect in analysis.effects if math.isfinite(effect.ratio.estimate)]
    label = 250 if width > NARROW else 130
    top, bottom = 8, 8 + ROW * len(shown)
    ends = [
        math.log(x) for effect in shown for x in (effect.ratio.low, effect.ratio.estimate, effect.ratio.high) if x > 0
    ]
    low, high = padded(min([*ends, 0.0]), max([*ends, 0.0]))
    x = Scale(low, high, label, width - 16)
    parts = [*_log_axis(x, bottom, top, 8 if width > NARROW else 4)]
    parts.append(rule(x(0.0), top, x(0.0), bottom, "axis"))
    band = math.log1p(analysis.delta)
    parts += [rule(x.clamped(edge), top, x.clamped(edge), bottom, "limit") for edge in (-band, band)]
    for index, effect in enumerate(shown):
        parts += _effect_row(effect, x, top + ROW * index + ROW / 2, label, width)
    described = "; ".join(f"{effect_title(effect)}: {change_text(effect.ratio)}" for effect in shown).replace(NBSP, " ")
    return svg(width, bottom + 24, title, described, parts)


def _effect_row(effect: EffectShown, x: Scale, middle: float, label: float, width: int) -> list[Safe]:
    longest = 40 if width > NARROW else 17
    title = shortened(effect_title(effect), longest)
    parts = [text(label - 8, middle + 4, title, css="tick strong" if effect.sure else "tick", anchor="end")]
    if effect.ratio.known:
        parts += whisker(x, middle, math.log(effect.ratio.low), math.log(effect.ratio.high), "whisker")
    tip = tag("title", f"{effect_title(effect)}: {change_text(effect.ratio)}".replace(NBSP, " "))
    css = "point" if effect.sure else "point open"
    parts.append(tag("circle", tip, cx=x.clamped(math.log(effect.ratio.estimate)), cy=middle, r=4.5, class_=css))
    return parts


def draw_interaction(
    document: ExperimentDocument, first: FactorShown, second: FactorShown, title: str, width: int
) -> Safe:
    """One line a level of the second factor over the levels of the first; parallel lines do not interact.

    The axis is logarithmic: equal ratios are equal distances, so that parallel means what the analysis means by it.
    """
    lines = [
        (f"{second.name} {level}", [pair_mean(document, first, second, i, j) for i in range(len(first.levels))])
        for j, level in enumerate(second.levels)
    ]
    described = "; ".join(
        f"{name}: " + ", ".join(f"{first.levels[i]} {digits(v, 4) if v else 'missing'}" for i, v in enumerate(values))
        for name, values in lines
    )
    places = [f"{first.name} {level}" for level in first.levels]
    return _draw_lines(places, lines, title, described, width, right=150 if width > NARROW else 96)


def draw_values(document: ExperimentDocument, title: str, width: int) -> Safe:
    """Every process in the order of time blocks: a drift or an outlier is seen at once."""
    lines = [
        (", ".join(f"{n} {v}" for n, v in cell.levels.items()), list(cell.values))
        for cell in document.cells
        if any(value is not None for value in cell.values)
    ]
    described = f"{len(lines)} cells over {document.restarts} blocks of time"
    return _draw_lines([f"block {block + 1}" for block in range(document.restarts)], lines, title, described, width)


def _draw_lines(
    places: Sequence[str],
    lines: Sequence[tuple[str, Sequence[float | None]]],
    title: str,
    described: str,
    width: int,
    right: int = 0,
) -> Safe:
    """Lines over named places on a log axis; with room on the `right` each has its name at its end."""
    known = [math.log(value) for _, values in lines for value in values if value]
    if not known:
        return svg(width, 40, title, "nothing was measured", text(8, 24, "nothing was measured"))
    left, top, bottom = 64, 20, LINES_HEIGHT - 30
    y = Scale(*padded(min(known), max(known), 0.12), bottom, top)
    x = Scale(0, max(len(places) - 1, 1), left + 36, width - (right or 50))
    parts: list[Safe] = []
    for value in log_ticks(y.low, y.high, 5):
        at = y(math.log(value))
        parts += [rule(left, at, width - 12, at, "grid"), text(left - 7, at + 4, digits(value), anchor="end")]
    parts += [text(x(place), bottom + 18, name, anchor="middle") for place, name in enumerate(places)]
    ends: list[float] = []
    for index, (name, values) in enumerate(lines):
        css = f"slot-{index % len(SERIES_SLOTS)}"
        ys = [y(math.log(value)) if value else math.nan for value in values]
        parts.append(curve([x(place) for place in range(len(ys))], ys, f"curve {css}"))
        for place, taken in enumerate(values):
            if taken:
                tip = tag("title", f"{name}, {places[place]}: {digits(taken, 4)}")
                parts.append(tag("circle", tip, cx=x(place), cy=ys[place], r=3.6, class_=f"swatch {css}"))
        last = max((place for place, taken in enumerate(values) if taken), default=None)
        if right and last is not None:
            crowded = sum(abs(ys[last] - end) < LINE for end in ends)  # labels at nearly the same height move apart
            parts.append(text(x(last) + 9, ys[last] + 4 + LINE * crowded, name))
            ends.append(ys[last])
    return svg(width, LINES_HEIGHT, title, described, parts)


def draw_cube(document: ExperimentDocument, title: str, width: int) -> Safe:
    """Eight corners with their responses; circles grow with the response."""
    across, up, back = document.factors
    wide = width > NARROW
    x0, x1, y0, y1 = (150, 440, 270, 110) if wide else (66, 196, 250, 120)
    dx, dy = (170, -70) if wide else (92, -62)

    def at(i: int, j: int, k: int) -> tuple[float, float]:
        return (x1 if i else x0) + (dx if k else 0), (y1 if j else y0) + (dy if k else 0)

    corners = [(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    cells = {place: corner(document, place) for place in corners}
    values = [c.response.estimate for c in cells.values() if c is not None and c.response is not None]
    parts: list[Safe] = []
    for place in corners:
        for axis in range(3):
            if place[axis] == 0:
                other = tuple(1 if n == axis else v for n, v in enumerate(place))
                a, b = at(*place), at(other[0], other[1], other[2])
                parts.append(rule(a[0], a[1], b[0], b[1], "grid" if place[2] and axis < 2 else "axis"))
    described = []
    for place, cell in cells.items():
        px, py = at(*place)
        levels = ", ".join(f"{f.name} {f.levels[v]}" for f, v in zip(document.factors, place, strict=True))
        if cell is None or cell.response is None:
            words = "not in the design" if cell is None else cell.status.value
            parts += [tag("circle", tag("title", levels), cx=px, cy=py, r=5, class_="peak")]
        else:
            words = digits(cell.response.estimate)
            size = 5 + 9 * (cell.response.estimate / max(values)) ** 0.5
            parts += [tag("circle", tag("title", f"{levels}: {words}"), cx=px, cy=py, r=size, class_="dot")]
        # away from the edges, which go up from the lower corners and down from the upper ones
        parts.append(text(px, py - 19 if place[1] else py + 28, words, css="tick strong", anchor="middle"))
        described.append(f"{levels}: {words}")
    parts += [
        text((x0 + x1) / 2, y0 + 34, f"{across.name}: {across.levels[0]} → {across.levels[1]}", anchor="middle"),
        *([text(x0 - 12, (y0 + y1) / 2, f"{up.name} ↑ {up.levels[1]}", anchor="end")] if wide else []),
        text(x1 + dx / 2 + 14, y0 + dy / 2 + 14, f"{back.name} → {back.levels[1]}"),
    ]
    if not wide:
        parts.append(text(8, 16, f"{up.name}: below {up.levels[0]}, above {up.levels[1]}"))
    return svg(width, 320, title, "; ".join(described), parts)


def draw_trials(tuning: TuningDocument, title: str, width: int) -> Safe:
    """One point a trial; the confirmed figure across."""
    known = [trial for trial in tuning.trials if trial.response is not None]
    if not known:
        return svg(width, 40, title, "no trial was measured", text(8, 24, "no trial was measured"))
    values = [trial.response for trial in known if trial.response is not None]
    confirmed = tuning.tuned.response.estimate if tuning.tuned is not None else math.nan
    ends = [*values, *([confirmed] if math.isfinite(confirmed) else [])]
    left, top, bottom = 64, 10, 200
    x = Scale(0.5, len(tuning.trials) + 0.5, left, width - 14)
    y = Scale(*padded(min(ends), max(ends)), bottom, top)
    parts: list[Safe] = [*axis_x(x, bottom, top, "trials", 8 if width > NARROW else 4), *axis_y(y, left, width - 14, 5)]
    for trial in known:
        css = "point" if trial.status is TrialStatus.MEASURED else "point open"
        tip = tag("title", f"trial {trial.number + 1}: {digits(trial.response, 4)}; {setting_words(trial.setting)}")
        parts.append(tag("circle", tip, cx=x(trial.number + 1), cy=y(trial.response or 0.0), r=3.4, class_=css))
    if math.isfinite(confirmed):
        parts.append(rule(left, y(confirmed), width - 14, y(confirmed), "mean"))
    return svg(width, 230, title, f"{len(known)} of {len(tuning.trials)} trials have a figure", parts)


def log_ticks(low: float, high: float, about: int) -> list[float]:
    """Round values whose logarithms lie inside: equally far apart, or by 1, 2, 5 and powers of ten on a wide axis."""
    first, last = math.exp(low), math.exp(high)
    if last / first < WIDE_AXIS:
        return [value for value in ticks(first, last, about) if value > 0]
    powers = range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
    for leading in ((1, 2, 5), (1, 3), (1,)):
        marks = [digit * 10.0**power for power in powers for digit in leading]
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
