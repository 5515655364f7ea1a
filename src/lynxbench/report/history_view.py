"""A history in a terminal and as a page: the series with its levels, and what changed at each place."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from lynxbench.model.history import History, LevelChange
from lynxbench.model.interval import Interval
from lynxbench.report import words
from lynxbench.report.markup import Safe, said, tag
from lynxbench.report.page import render_page
from lynxbench.report.sections.section_parts import bullets, chip, fact, plot, section, table
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.history_plot import draw_levels
from lynxbench.report.words import clean

SHOWN_LEFT_OUT = 5


def render_history(found: History, *, width: int) -> str:
    """The series in a line, then every change with its effect, cause and owner."""
    lines = [
        f"{clean(found.contract)} · {found.precision}   contract {words.abbreviated(found.contract_id)}",
        found.note,
    ]
    if found.points:
        first, last = found.points[0], found.points[-1]
        lines.append(
            f"{words.moment_text(first.started_at)} to {words.moment_text(last.started_at)}: "
            f"{words.digits(first.estimate, 4)} → {words.digits(last.estimate, 4)} {clean(found.unit)}"
        )
    for change in found.changes:
        lines += ["", _change_head(change, found.unit)]
        lines += _wrapped("    ", f"{change.drift}: {clean(change.cause.sentence)}", width)
        if change.cause.owner:
            lines += _wrapped("    ", f'owner: "{clean(change.cause.owner)}"', width)
        if change.found:
            lines += _wrapped("    ", f"experiment: {clean(change.cause.experiment)}", width)
    if not found.changes and len(found.points) > 1:
        lines += ["", "no change of the level and none of the record"]
    if found.left_out:
        lines += ["", f"left out: {len(found.left_out)}"]
        lines += [f"  {clean(one)}" for one in found.left_out[:SHOWN_LEFT_OUT]]
        if len(found.left_out) > SHOWN_LEFT_OUT:
            lines.append(f"  and {len(found.left_out) - SHOWN_LEFT_OUT} more")
    return "\n".join(line.rstrip() for line in lines).replace(words.NBSP, " ") + "\n"


def _change_head(change: LevelChange, unit: str) -> str:
    effect = words.percent_interval(_minus_one(change.effect))
    kind = "CHANGE" if change.found else "record changed"
    seen = "" if change.found or change.moved else ", no effect seen" if change.moved is False else ", effect unknown"
    return f"  {kind} at {change.index} ({words.moment_text(change.at)}, {change.result_id[:12]}): {effect}{seen}"


def _minus_one(ratio: Interval) -> Interval:
    return Interval(ratio.low - 1, ratio.estimate - 1, ratio.high - 1)


def render_history_html(found: History, version: str) -> str:
    """The page as one HTML text that opens without a network and runs nothing."""
    facts = tag(
        "dl",
        fact("Contract", said(found.contract)),
        fact("Precision", found.precision.value),
        fact("Results", words.count(len(found.points), "result")),
        class_="facts",
    )
    header = tag("header", tag("p", "lynxbench history", class_="brand"), tag("h1", said(found.note)), facts)
    body = tag(
        "body",
        header,
        tag("main", render_series(found), render_level_changes(found), _left_out(found)),
        tag("footer", tag("p", f"lynxbench {clean(version)}. A number never travels without its context.")),
    )
    return render_page(f"{clean(found.contract)}: history · lynxbench", body)


def render_series(found: History, links: Sequence[tuple[str, str]] = ()) -> Safe | None:
    """The series as a plot with its data; `links` (name, place) replace the data inside the page."""
    if not found.points:
        return None
    title = f"Throughput over time, {found.precision}"
    drawn = [draw_levels(found, title, width) for width in (WIDE, NARROW)]
    about = (
        "Each point is a result with its interval; a line marks a change of the level, a short one a record change, "
        "and each square the layer that changed."
    )
    rows = [
        (point.started_at, point.result_id, point.estimate, _number(point.low), _number(point.high), point.unit)
        for point in found.points
    ]
    head = ("started", "result", "estimate", "low", "high", "unit")
    return section("series", "Series", plot("levels", title, about, drawn, head, rows, links))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def render_level_changes(found: History) -> Safe | None:
    """Every change with its effect, what the record says, and whose it is."""
    if not found.changes:
        return None
    rows = [
        (
            words.moment_text(change.at),
            "level" if change.found else "record",
            words.percent_interval(_minus_one(change.effect)),
            change.drift.value,
            [[chip(layer), " "] for layer in change.layers_changed] or "none",
            said(change.cause.sentence),
            said(change.cause.owner or ""),
        )
        for change in found.changes
    ]
    head = ("when", "seen in", "effect", "drift", "layers", "record", "owner")
    return section("changes", "Changes", table("Changes", head, rows))


def _left_out(found: History) -> Safe | None:
    if not found.left_out:
        return None
    return section("left-out", "Left out", bullets([said(one) for one in found.left_out]))


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, max(width, 60), initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    )
