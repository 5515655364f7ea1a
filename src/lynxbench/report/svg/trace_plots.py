"""Stacked bars per step, the timeline around the worst gap, and the roofline: values to SVG."""

import math
from collections.abc import Sequence

from lynxbench.model.attribution import Category
from lynxbench.model.trace_detail import RooflinePoint, StepTime, WorstGap
from lynxbench.report.markup import Safe, tag
from lynxbench.report.palette import category_class
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, axis_y, box, curve, rule, svg, text
from lynxbench.report.words import category_name, clean, digits, scaled_text

ROW = 18
"""Height of one nested event in the timeline."""
DEEPEST = 8
TOUCHING_US = 0.002
"""Stretches that end and begin within the stamps' rounding follow each other; they are not nested."""


def draw_steps(steps: Sequence[StepTime], title: str, width: int) -> Safe:
    """One bar a step, as high as the step is long; its parts are exclusive."""
    left, top, bottom = 56, 8, 190
    longest = max((step.ms for step in steps), default=1.0) or 1.0
    y = Scale(0, longest * 1.05, bottom, top)
    x = Scale(0, max(1, len(steps)), left, width - 10)
    drawn = axis_y(y, left, width - 10, 4)
    wide = (x(1) - x(0)) * 0.82
    for at, step in enumerate(steps):
        base = 0.0
        for category, ms in _ordered(step.spent_ms):
            high, low = y(base + ms), y(base)
            tip = tag("title", f"step {step.index}: {category_name(category)} {digits(ms)} ms of {digits(step.ms)} ms")
            drawn.append(box(x(at), high, wide, low - high, f"fill {category_class(category)}", tip))
            base += ms
    every = max(1, len(steps) // (12 if width > NARROW else 5))
    for at in range(0, len(steps), every):
        drawn.append(text(x(at) + wide / 2, bottom + 15, str(steps[at].index), anchor="middle"))
    drawn.append(rule(left, bottom, width - 10, bottom, "axis"))
    drawn.append(text(left, bottom + 31, "step; height in milliseconds"))
    described = f"{len(steps)} steps of {digits(min((s.ms for s in steps), default=0.0))} to {digits(longest)} ms"
    return svg(width, bottom + 38, title, described, drawn)


def draw_gap(gap: WorstGap, title: str, width: int) -> Safe:
    """Our categories, the device and the host on one axis of time; the gap between two rules."""
    left = 74 if width > NARROW else 10
    ends = [s.start_us + s.dur_us for s in gap.stretches]
    x = Scale(0, max([*ends, gap.start_us + gap.dur_us]), left, width - 10)
    drawn: list[Safe] = []
    top = 8.0
    for lane in ("category", "device", "host"):
        mine = sorted((s for s in gap.stretches if s.lane == lane), key=lambda s: (s.start_us, -s.dur_us))
        if not mine:
            continue
        open_until: list[float] = []
        deepest = 0
        if width > NARROW:
            drawn.append(text(left - 8, top + 13, lane, css="tick strong", anchor="end"))
        for stretch in mine:
            while open_until and open_until[-1] <= stretch.start_us + TOUCHING_US:
                open_until.pop()
            depth = min(len(open_until), DEEPEST - 1)
            open_until.append(stretch.start_us + stretch.dur_us)
            deepest = max(deepest, depth)
            a, b = x(stretch.start_us), x(stretch.start_us + stretch.dur_us)
            css = f"fill {category_class(stretch.category)}" if stretch.category is not None else "outline"
            name = clean(stretch.name)
            tip = tag("title", f"{name}: {digits(stretch.dur_us)} µs")
            drawn.append(box(a, top + depth * ROW, max(0.6, b - a - 0.6), ROW - 2, css, tip))
            if b - a > 7 * min(len(name), 12) + 6:
                label = name if len(name) * 7 < b - a else name[: max(3, int((b - a) / 7) - 1)] + "…"
                on = "on-fill" if stretch.category is not None else "tick"
                drawn.append(text(a + 4, top + depth * ROW + 12, label, css=on))
        top += (deepest + 1) * ROW + 8
    for edge in (gap.start_us, gap.start_us + gap.dur_us):
        drawn.append(rule(x(edge), 4, x(edge), top, "limit"))
    drawn += axis_x(x, top, top, "µs", 8 if width > NARROW else 4)
    mostly = category_name(gap.category)
    described = f"the longest gap lasts {digits(gap.dur_us)} µs in step {gap.step}, mostly {mostly}"
    return svg(width, top + 24, title, described, drawn)


def draw_roofline(
    dots: Sequence[RooflinePoint], arithmetic_per_s: float, bytes_per_s: float, title: str, width: int
) -> Safe:
    """Operators under the roof of the ceilings, both axes in powers of ten; a dot's area is its share of the step."""
    left, top, bottom = 66, 10, 270
    known = [dot for dot in dots if dot.intensity > 0 and dot.per_s > 0]
    ridge = arithmetic_per_s / bytes_per_s
    xs = [math.log10(v) for v in (*(dot.intensity for dot in known), ridge)]
    ys = [math.log10(v) for v in (*(dot.per_s for dot in known), arithmetic_per_s)]
    x = Scale(math.floor(min(xs)), math.ceil(max(xs) + 0.2), left, width - 12)
    y = Scale(math.floor(min(ys)), math.ceil(max(ys) + 0.3), bottom, top)
    drawn: list[Safe] = []
    for power in range(int(x.low), int(x.high) + 1):
        drawn += [
            rule(x(power), top, x(power), bottom, "grid"),
            text(x(power), bottom + 15, f"{10.0**power:g}", anchor="middle"),
        ]
    for power in range(int(y.low), int(y.high) + 1):
        drawn += [
            rule(left, y(power), width - 12, y(power), "grid"),
            text(left - 7, y(power) + 4, scaled_text(10.0**power, ""), anchor="end"),
        ]
    roof = [
        (at, min(math.log10(arithmetic_per_s), at + math.log10(bytes_per_s)))
        for at in (x.low, math.log10(ridge), x.high)
    ]
    drawn.append(curve([x(a) for a, _ in roof], [max(top, min(bottom, y(b))) for _, b in roof], "curve"))
    drawn.append(
        text(width - 14, y(math.log10(arithmetic_per_s)) - 6, scaled_text(arithmetic_per_s, "op/s"), anchor="end")
    )
    foot = min(bottom - 14, max(top + 12, y(x.low + math.log10(bytes_per_s)) - 24))
    drawn.append(text(left + 6, foot, scaled_text(bytes_per_s, "B/s")))
    for dot in sorted(known, key=lambda dot: -dot.share):
        tip = (
            f"{clean(dot.name)}: {digits(dot.intensity)} operations a byte, {scaled_text(dot.per_s, 'op/s')} of "
            f"{scaled_text(dot.attainable_per_s, 'op/s')} attainable, {digits(dot.share * 100)} % of a step"
        )
        radius = 3.0 + 14.0 * math.sqrt(max(0.0, dot.share))
        css = f"fill {category_class(dot.category)}"
        at = {"cx": x(math.log10(dot.intensity)), "cy": y(math.log10(dot.per_s)), "r": radius}
        drawn.append(tag("circle", tag("title", tip), **at, class_=css, fill_opacity="0.8"))
    drawn.append(text(left, bottom + 31, "operations a byte; height: operations a second"))
    return svg(width, bottom + 38, title, f"{len(known)} operators; ridge at {digits(ridge)} operations a byte", drawn)


def _ordered(spent: dict[Category, float]) -> list[tuple[Category, float]]:
    """One order for every bar, so that a category stays at its place from step to step."""
    order = {category: i for i, category in enumerate(Category)}
    return sorted(((c, ms) for c, ms in spent.items() if ms > 0), key=lambda item: order[item[0]])
