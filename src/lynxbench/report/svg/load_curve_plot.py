"""The throughput-latency curve: every probe's median and tail over its rate, and between which two it stops holding."""

import math

from lynxbench.model.load_figures import CurvePoint
from lynxbench.report.markup import Safe, tag
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, axis_y, box, curve, hover, padded, svg, text
from lynxbench.report.words import digits

HEIGHT = 240
TALLEST = 12.0
"""The axis ends at so many times the passing rate's tail: an overloaded probe would flatten everything else."""


def draw_curve(
    points: tuple[CurvePoint, ...], passed_per_s: float | None, failed_per_s: float | None, title: str, width: int
) -> Safe:
    """Milliseconds over requests a second; the band lies between the rate that passed and the one that did not."""
    left, right, top = (58, 12, 22) if width > NARROW else (46, 6, 22)
    bottom = HEIGHT - 34
    rates = [p.rate_per_s for p in points]
    x = Scale(*padded(min(rates), max(rates)), left, width - right)
    tails = [_ms(p.p99_s) for p in points]
    y = Scale(0.0, height_of(points, passed_per_s), bottom, top)
    parts: list[Safe] = [*axis_x(x, bottom, top, "/s", 8 if width > NARROW else 4), *axis_y(y, left, width - right, 5)]
    if passed_per_s is not None and failed_per_s is not None:
        a, b = x.clamped(passed_per_s), x.clamped(failed_per_s)
        parts.append(box(a, top, max(b - a, 1.0), bottom - top, "interval"))
        parts.append(text((a + b) / 2, top - 6, "saturation", anchor="middle"))
    for name, values in (("p50", [_ms(p.p50_s) for p in points]), ("p99", tails)):
        ys = [y.clamped(v) if math.isfinite(v) else math.nan for v in values]
        parts.append(curve([x(rate) for rate in rates], ys, "curve"))
        parts += [_dot(x(p.rate_per_s), at, p.outcome == "pass") for p, at in zip(points, ys, strict=True)]
        if ys and math.isfinite(ys[-1]):
            parts.append(text(x(rates[-1]) - 4, ys[-1] - 8, f"{name} ms", css="tick strong", anchor="end"))
    parts += [hover(x(p.rate_per_s) - 8, top, 16, bottom - top, _tip(p)) for p in points]
    described = f"{len(points)} probes from {digits(min(rates), 4)} to {digits(max(rates), 4)} requests a second."
    return svg(width, HEIGHT, title, described, parts)


def height_of(points: tuple[CurvePoint, ...], passed_per_s: float | None) -> float:
    """Where the axis ends, in milliseconds."""
    tails = [_ms(p.p99_s) for p in points]
    known = [tail for tail in tails if math.isfinite(tail)]
    highest = max(known, default=1.0)
    held = [t for p, t in zip(points, tails, strict=True) if passed_per_s and p.rate_per_s <= passed_per_s]
    held = [t for t in held if math.isfinite(t)]
    return (min(highest, TALLEST * max(held)) if held else highest) * 1.08 or 1.0


def _tip(p: CurvePoint) -> str:
    latencies = f"p50 {digits(_ms(p.p50_s))} ms, p99 {digits(_ms(p.p99_s))} ms"
    return f"{digits(p.rate_per_s, 4)} /s, {p.outcome}: {latencies}, {p.requests} requests"


def _dot(x: float, y: float, passed: bool) -> Safe:
    if not math.isfinite(y):
        return Safe("")
    return tag("circle", cx=x, cy=y, r=3.2, class_="point" if passed else "point open")


def _ms(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds * 1e3
