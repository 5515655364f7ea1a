"""How a figure held over hours: by the hour, its gaps, drift, throttling, memory and the inlet."""

from lynxbench.model.endurance import Endurance, MemoryCourse
from lynxbench.model.layers import Layer
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.report import doc, findings, words
from lynxbench.report.doc import Depth, Fact, Inline, Span, Tone, said

MOST_ROWS = 48
GROWS = 0.01
"""Of what a process held at first: less over a whole stretch is not called growth, however sure it is."""


def endurance_section(result: Result) -> doc.Section | None:
    """Nothing where the contract asks for no duration."""
    blocks: list[doc.Block | None] = []
    for figures in result.per_precision:
        if (endurance := figures.endurance) is not None:
            shown = findings.is_shown(figures, result)
            blocks += [
                doc.Facts(endurance_facts(figures, endurance, result)),
                periods_table(figures, endurance) if shown else None,
                _gaps(endurance),
                _episodes(endurance),
            ]
    return doc.Section("endurance", "Endurance", blocks) if blocks else None


def endurance_facts(figures: PrecisionResult, endurance: Endurance, result: Result) -> list[Fact]:
    """What was measured of what was asked, how long it was steady, and what moved beside it."""
    stretches = len(endurance.stretches)
    pieces = "without a break" if stretches == 1 else f"in {stretches} stretches"
    lost_s = sum(gap.seconds for gap in endurance.gaps)
    gaps = f"; {words.seconds_text(lost_s)} between them were not measured" if endurance.gaps else ""
    measured = f"{clock_text(endurance.measured_s)} of {clock_text(endurance.asked_s)} {pieces}{gaps}"
    kept = (
        f"{words.number(endurance.iterations, 0)} iterations in {endurance.slices} slices of "
        f"{words.seconds_text(endurance.slice_s)}; {words.number(endurance.excerpted, 0)} of them raw; percentiles to "
        f"{words.percent(endurance.relative_error)} of their value"
    )
    return [
        ("Measured", Span(measured, Tone.WARN if endurance.gaps else Tone.PLAIN)),
        ("Kept", kept),
        ("Steady", _steady(figures, endurance)),
        ("Throttling", _throttling(endurance)),
        ("Memory", _memory(endurance.memory)),
        ("Harness", _memory(endurance.harness_memory)),
        ("Inlet", said(_inlet(endurance, result))),
    ]


def periods_table(figures: PrecisionResult, endurance: Endurance) -> doc.Table:
    """What was sustained, period by period; the slowest is marked."""
    rows: list[tuple[Inline, ...]] = []
    for place, period in enumerate(endurance.periods):
        name = f"{clock_text(period.from_s)} to {clock_text(period.until_s)}"
        if period.throughput is None:
            rows.append((name, Span("nothing counted", Tone.WARN)))
            continue
        slowest = place == endurance.worst_period and len(endurance.periods) > 1
        rate = words.figure_text(period.throughput, unit=False)
        rows.append(
            (
                name,
                Span(f"{rate} (slowest)", Tone.WARN) if slowest else rate,
                words.number(period.iterations, 0),
                words.digits(period.p50_ms),
                words.digits(period.p99_ms),
            )
        )
    unit = figures.throughput.unit if figures.throughput is not None else "units/s"
    whole = "hour" if endurance.period_s >= 3600 else words.seconds_text(endurance.period_s)
    note = "Intervals are of slices within this one process; what another process would do is not in them."
    head = ("Since the start", f"Sustained,{words.NBSP}{words.clean(unit)}", "Iterations", "p50, ms", "p99, ms")
    return doc.Table(head, rows, f"Sustained by the {whole}, {figures.precision}", (1, 2, 3, 4), note, most=MOST_ROWS)


def clock_text(seconds: float) -> str:
    """`1:05:00`: hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _steady(figures: PrecisionResult, endurance: Endurance) -> Span:
    if figures.sustained is not None:
        return Span("to the end", Tone.GOOD)
    if endurance.steady_until_s is None:
        return Span("no part from the start was steady", Tone.WARN)
    why = f" ({words.clean(figures.steady.reason)})" if figures.steady is not None and figures.steady.reason else ""
    return Span(f"until {clock_text(endurance.steady_until_s)}; not shown beyond{why}", Tone.WARN)


def _throttling(endurance: Endurance) -> Inline:
    if endurance.unwatched:
        return Span(words.clean(endurance.unwatched), Tone.WARN)
    if not endurance.episodes:
        return "none was seen"
    seconds = sum(episode.seconds for episode in endurance.episodes)
    many = words.count(len(endurance.episodes), "episode", "episodes")
    return Span(f"{many}, {words.seconds_text(seconds)} in all", Tone.WARN)


def _memory(course: MemoryCourse | None) -> Inline:
    """What a process held at first and at last, and whether it grows beyond doubt."""
    if course is None:
        return "could not be read"
    growth = course.growth_bytes
    held = f"{words.bytes_text(course.first_bytes)} at first, {words.bytes_text(course.last_bytes)} at last"
    if growth.low > GROWS * course.first_bytes:
        rate = f"{words.bytes_text(growth.estimate / course.hours)}/h"
        return Span(f"{held}: it grew by {words.bytes_text(growth.estimate)}, {rate}", Tone.WARN)
    shown = f"flat within {words.percent(GROWS)}" if growth.high < GROWS * course.first_bytes else "no growth shown"
    return f"{held}; highest {words.bytes_text(course.highest_bytes)}; {shown} over {clock_text(course.hours * 3600)}"


def _inlet(endurance: Endurance, result: Result) -> str:
    """By a sensor, and as the site file has it."""
    declared = result.executor.layers.get(Layer.FACILITY, {}).get("inlet_c")
    stated = f"{declared.value} °C by the site file" if declared is not None and declared.value is not None else ""
    course = endurance.inlet
    if course is None:
        return stated or "not known: no sensor calls itself inlet, and no site file says"
    read = f"{course.mean_c:.1f} °C by its sensor ({course.lowest_c:.1f} to {course.highest_c:.1f})"
    return f"{read}; {stated}" if stated else read


def _gaps(endurance: Endurance) -> doc.Table | None:
    rows = [(clock_text(gap.from_s), words.seconds_text(gap.seconds), said(gap.why)) for gap in endurance.gaps]
    return doc.Table(("At", "Not measured", "Because"), rows, "Gaps", (1,), most=MOST_ROWS) if rows else None


def _episodes(endurance: Endurance) -> doc.Table | None:
    rows = [
        (
            clock_text(episode.from_s),
            words.seconds_text(episode.seconds),
            said(episode.cause),
            words.NO_FIGURE if episode.rate is None else words.percent(episode.rate - 1, signed=True),
        )
        for episode in endurance.episodes
    ]
    head, title = ("At", "For", "Limit", "Rate against the rest"), "Throttling episodes"
    return doc.Table(head, rows, title, (1, 3), most=MOST_ROWS, depth=Depth.READ) if rows else None
