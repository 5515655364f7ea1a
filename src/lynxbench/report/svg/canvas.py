"""What every plot is drawn with: scales, ticks, axes, lines. One unit is one CSS pixel at full width."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lynxbench.model.samples import Float64
from lynxbench.report.markup import Child, Safe, tag
from lynxbench.report.words import number

WIDE = 920
NARROW = 350
"""Each plot is drawn twice: for a desk and paper, and for a phone; the style sheet shows the one that fits."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        span = self.high - self.low
        return self.start if span == 0 else self.start + (value - self.low) / span * (self.end - self.start)

    def clamped(self, value: float) -> float:
        """The pixel of a value, held at the axis's ends."""
        return self(min(max(value, self.low), self.high))


def tick_step(low: float, high: float, about: int) -> float:
    """A step of 1, 2 or 5 that gives about that many ticks."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return 1.0
    rough = span / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round values inside the range."""
    step = tick_step(low, high, about)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)] if last - first < 100 else []


def tick_text(value: float, step: float) -> str:
    """A tick's label with the decimals its step needs."""
    return number(value, max(0, -math.floor(math.log10(step) + 1e-9)))


def padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """A range with some air around it; a point becomes a range."""
    span = high - low
    if span <= 0:
        span = abs(high) * 0.1 or 1.0
    return low - span * share, high + span * share


def svg(width: int, height: float, title: str, described: str, *children: Child) -> Safe:
    """The picture with its name and description for those who cannot see it."""
    size = "wide" if width > NARROW else "narrow"
    return tag(
        "svg",
        tag("title", title),
        tag("desc", described),
        *children,
        viewBox=f"0 0 {width} {height:g}",
        class_=f"plot {size}",
        role="img",
        aria_label=f"{title}. {described}",
        preserveAspectRatio="xMinYMin meet",
    )


def text(x: float, y: float, words: str, *, css: str = "tick", anchor: str = "start") -> Safe:
    """A label."""
    return tag("text", words, x=x, y=y, class_=css, text_anchor=None if anchor == "start" else anchor)


def rule(x1: float, y1: float, x2: float, y2: float, css: str) -> Safe:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=css)


def box(
    x: float, y: float, width: float, height: float, css: str, *children: Child, radius: float | None = None
) -> Safe:
    """A rectangle; nothing is drawn with a negative size."""
    return tag("rect", *children, x=x, y=y, width=max(0.0, width), height=max(0.0, height), rx=radius, class_=css)


def axis_x(scale: Scale, y: float, top: float, unit: str, about: int) -> list[Safe]:
    """Ticks and labels below, faint grid lines above; the unit stands with the last label."""
    step = tick_step(scale.low, scale.high, about)
    marks = ticks(scale.low, scale.high, about)
    drawn = [rule(scale(v), top, scale(v), y, "grid") for v in marks]
    for index, value in enumerate(marks):
        last = index == len(marks) - 1
        label = f"{tick_text(value, step)} {unit}" if last else tick_text(value, step)
        near_end = scale(value) > scale.end - len(label) * 3.2
        drawn.append(
            text(scale.end if near_end else scale(value), y + 15, label, anchor="end" if near_end else "middle")
        )
    return [*drawn, rule(scale.start, y, scale.end, y, "axis")]


def axis_y(scale: Scale, left: float, right: float, about: int) -> list[Safe]:
    """Labels on the left, faint grid lines across."""
    step = tick_step(scale.low, scale.high, about)
    drawn: list[Safe] = []
    for value in ticks(scale.low, scale.high, about):
        drawn.append(rule(left, scale(value), right, scale(value), "grid"))
        drawn.append(text(left - 7, scale(value) + 4, tick_text(value, step), anchor="end"))
    return drawn


def curve(xs: Iterable[float], ys: Iterable[float], css: str) -> Safe:
    """A line that breaks where a value is missing."""
    commands: list[str] = []
    pen_down = False
    for x, y in zip(xs, ys, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            pen_down = False
            continue
        commands.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
        pen_down = True
    return tag("path", d="".join(commands), class_=css)


def whisker(scale: Scale, y: float, low: float, high: float, css: str, half: float = 5) -> list[Safe]:
    """A horizontal interval with end caps."""
    a, b = scale.clamped(low), scale.clamped(high)
    caps = [rule(x, y - half, x, y + half, css) for x in (a, b)]
    return [rule(a, y, b, y, css), *caps]


def hover(x: float, y: float, width: float, height: float, tip: str) -> Safe:
    """An invisible area with a tip: a native one by its title, a quicker one where the script runs."""
    return box(x, y, width, height, "hit", tag("title", tip))


def hover_columns(scale: Scale, top: float, height: float, at: Float64, tips: list[str], most: int = 80) -> list[Safe]:
    """Tips along a line, thinned so that the page stays small."""
    many = len(at)
    if not many:
        return []
    every = max(1, -(-many // most))
    chosen = list(range(0, many, every))
    width = (scale(float(at[-1])) - scale(float(at[0]))) / max(1, len(chosen) - 1) if many > 1 else 10
    return [hover(scale(float(at[i])) - width / 2, top, width, height, tips[i]) for i in chosen]
