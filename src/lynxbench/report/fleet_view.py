"""A fleet in a terminal and as a page: complete or not, who stands apart and why, then every instance."""

from __future__ import annotations

import math
import textwrap

from pydantic import JsonValue

from lynxbench.model.comparison import FieldSuspect, LayerDifference, Weight
from lynxbench.model.fleet import (
    FieldSplit,
    FleetComparison,
    FleetReport,
    FleetUnit,
    InstanceRow,
    InstanceStanding,
    UnitState,
)
from lynxbench.model.interval import Interval
from lynxbench.report import words
from lynxbench.report.markup import Safe, code, join, said, tag
from lynxbench.report.page import render_page
from lynxbench.report.sections.section_parts import bullets, chip, fact, plot, result_name, section, table
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.instances_plot import draw_instances
from lynxbench.report.words import clean

SHOWN_FIELDS = 6
SHOWN_VALUE = 44
SHOWN_ROWS = 60
"""Instances in a terminal; a larger fleet is shown by its ends and those that stand apart, and whole on the page."""


def render_fleet(found: FleetReport, *, width: int) -> str:
    """The verdict first, in words; then the instances with their intervals, then whose layer sets them apart."""
    lines = [
        f"{clean(found.contract)} · {clean(found.question)}   contract {words.abbreviated(found.contract_id)}",
        "",
        *_wrapped("  VERDICT  ", clean(found.verdict), width),
        f"           {found.measured} of {words.count(found.asked, 'unit')} measured",
    ]
    for one in found.per_precision:
        lines += ["", *_comparison(one, width)]
    troubled = [unit for unit in found.units if unit.state is not UnitState.DONE or len(unit.attempts) > 1]
    if troubled or found.left_out:
        lines += ["", "  what did not go straight through"]
        for unit in troubled:
            lines += _wrapped("    ", _unit_words(unit), width)
        for text in found.left_out:
            lines += _wrapped("    ", clean(text), width)
    return "\n".join(line.rstrip() for line in lines).replace(words.NBSP, " ") + "\n"


def _comparison(one: FleetComparison, width: int) -> list[str]:
    lines = [f"  {one.precision}  {one.figure} in {clean(one.unit)}: {one.sentence}"]
    name = max((len(row.unit) for row in one.instances), default=4)
    for row in _shown(one):
        figure = words.interval_text(_interval(row))
        rest = words.percent_interval(_minus_one(row.against_rest)) if math.isfinite(row.against_rest.estimate) else "—"
        mark = (
            "!"
            if row.standing is InstanceStanding.OUTLIER
            else "·"
            if row.standing is InstanceStanding.DIFFERS
            else " "
        )
        lines.append(f"  {mark} {clean(row.unit):<{name}}  {figure:<26} {rest:<26} {row.standing}")
    for row in one.instances:
        if row.standing in (InstanceStanding.OUTLIER, InstanceStanding.DIFFERS):
            lines += _apart(row, width)
    for split in one.splits[:3]:
        lines += _wrapped("    divides the fleet: ", _split_words(split), width)
    return lines


def _shown(one: FleetComparison) -> tuple[InstanceRow, ...]:
    rows = one.instances
    if len(rows) <= SHOWN_ROWS:
        return rows
    ends = {row.unit for row in (*rows[:5], *rows[-5:])}
    return tuple(row for row in rows if row.unit in ends or row.standing is InstanceStanding.OUTLIER)


def _apart(row: InstanceRow, width: int) -> list[str]:
    lines = ["", f"  {clean(row.unit)}: {row.why or row.standing}"]
    for layer in row.layers:
        if layer.weight in (Weight.STATE, Weight.NONE):
            continue
        head = f"    {layer.rank}. {layer.layer:<11} "
        lines += _wrapped(head, f'{_fields_words(layer)}   owner "{clean(layer.owner)}" ({layer.weight})', width)
    if row.cause is not None:
        lines += _wrapped("    → ", clean(row.cause.sentence), width)
        lines += _wrapped("    try: ", clean(row.cause.experiment), width)
    return lines


def _fields_words(layer: LayerDifference) -> str:
    own = [field for field in layer.fields if field.follows is None]
    shown = "; ".join(_field_words(field) for field in own[:SHOWN_FIELDS])
    return shown + (f" and {len(own) - SHOWN_FIELDS} more" if len(own) > SHOWN_FIELDS else "")


def _field_words(field: FieldSuspect) -> str:
    before, after = field.before, field.after
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        key = keys[0] if keys else ""
        name = f"{clean(field.name)} {clean(key)}"
        return f"{name}: {_brief(before.get(key))} elsewhere, {_brief(after.get(key))} here{more}"
    return f"{clean(field.name)}: {_brief(before)} elsewhere, {_brief(after)} here"


def _brief(value: JsonValue) -> str:
    text = "none" if value is None else clean(str(value))
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"


def _split_words(split: FieldSplit) -> str:
    share = f"goes with {split.explained:.0%} of the spread"
    return f"{split.layer}.{clean(split.name)} {share} ({_groups_words(split)})"


def _groups_words(split: FieldSplit) -> str:
    return "; ".join(
        f"{_brief(value)}: {words.digits(mean, 4)} ({words.count(len(units), 'instance')})"
        for value, units, mean in split.groups
    )


def _unit_words(unit: FleetUnit) -> str:
    tries = "; ".join(
        f"{clean(a.node)}: {clean(a.ended)}{f' ({clean(a.why)})' if a.why else ''}" for a in unit.attempts
    )
    stands = f", stands in for {clean(unit.stands_in_for)}" if unit.stands_in_for else ""
    why = f": {clean(unit.why)}" if unit.why and not tries else ""
    return f"{clean(unit.name)} {unit.state}{stands}{why}{f' — {tries}' if tries else ''}"


def _interval(row: InstanceRow) -> Interval:
    low, high = (math.nan if value is None else value for value in (row.low, row.high))
    return Interval(low, row.estimate, high)


def _minus_one(ratio: Interval) -> Interval:
    return Interval(ratio.low - 1, ratio.estimate - 1, ratio.high - 1)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, max(width, 60), initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    ) or [label.rstrip()]


# --- the page --------------------------------------------------------------------------------------------------------


def render_fleet_html(found: FleetReport, version: str) -> str:
    """The page as one HTML text that opens without a network and runs nothing."""
    body = tag(
        "body",
        render_fleet_header(found),
        tag("main", render_fleet_main(found)),
        tag("footer", tag("p", f"lynxbench {clean(version)}. A number never travels without its context.")),
    )
    return render_page(f"{clean(found.contract)}: fleet · lynxbench", body)


def render_fleet_header(found: FleetReport) -> Safe:
    """The verdict and its context."""
    facts = tag(
        "dl",
        fact("Contract", said(found.contract), " ", code(words.abbreviated(found.contract_id))),
        fact("Measured", f"{found.measured} of {words.count(found.asked, 'unit')}"),
        fact("Started", words.moment_text(found.started_at)),
        class_="facts",
    )
    return tag("header", tag("p", "lynxbench fleet", class_="brand"), tag("h1", said(found.verdict)), facts)


def render_fleet_main(found: FleetReport, results_at: str = "") -> Safe:
    """Spread, who stands apart and why, and every unit; results are links where `results_at` says where they are."""
    parts = [_instances(one) for one in found.per_precision]
    apart = [_why(one) for one in found.per_precision]
    return join([parts, apart, _units(found, results_at), _left_out(found)])


def _instances(one: FleetComparison) -> Safe:
    title = f"{one.figure.capitalize()} of every instance, {one.precision}"
    drawn = [draw_instances(one, title, width) for width in (WIDE, NARROW)]
    rows = [
        (
            row.unit,
            row.estimate,
            math.nan if row.low is None else row.low,
            math.nan if row.high is None else row.high,
            row.against_rest.estimate - 1,
            row.standing.value,
            row.result_id,
        )
        for row in one.instances
    ]
    head = ("instance", one.unit, "low", "high", "against the rest", "standing", "result")
    about = "Each instance with its interval; the line is the median, those that stand apart are filled."
    return section(
        f"instances-{one.precision}",
        f"Instances, {one.precision}",
        tag("p", said(one.sentence)),
        plot(f"instances-plot-{one.precision}", title, about, drawn, head, rows),
    )


def _why(one: FleetComparison) -> Safe | None:
    apart = [row for row in one.instances if row.standing in (InstanceStanding.OUTLIER, InstanceStanding.DIFFERS)]
    parts: list[Safe] = []
    for row in apart:
        layers = [layer for layer in row.layers if layer.weight not in (Weight.STATE, Weight.NONE)]
        parts.append(tag("h3", said(row.unit), f": {words.percent_interval(_minus_one(row.against_rest))}"))
        if row.cause is not None:
            parts.append(tag("p", said(row.cause.sentence)))
            parts.append(tag("p", "To tell: ", said(row.cause.experiment)))
        listed = [
            (str(layer.rank), chip(layer.layer), said(_fields_words(layer)), said(layer.owner), layer.weight.value)
            for layer in layers
        ]
        if listed:
            parts.append(table(f"What only {row.unit} has", ("rank", "layer", "fields", "owner", "weight"), listed))
    if one.splits:
        divided = [
            (f"{split.layer}.{split.name}", f"{split.explained:.0%}", said(_groups_words(split)), said(split.owner))
            for split in one.splits
        ]
        parts.append(
            table("Fields that divide the fleet", ("field", "of the spread", "groups", "owner"), divided, (1,))
        )
    if not parts:
        return None
    return section(f"apart-{one.precision}", f"What sets them apart, {one.precision}", parts)


def _units(found: FleetReport, results_at: str) -> Safe:
    rows = [
        (
            said(unit.name),
            unit.state.value,
            said(unit.node),
            str(len(unit.attempts)),
            result_name(unit.result_id, results_at) if unit.result_id else "—",
            said("; ".join(f"{a.node}: {a.ended} {a.why}".strip() for a in unit.attempts) or unit.why),
        )
        for unit in found.units
    ]
    head = ("unit", "state", "node", "attempts", "result", "what happened")
    return section("units", "Every unit", table("Every unit", head, rows, (3,)))


def _left_out(found: FleetReport) -> Safe | None:
    if not found.left_out:
        return None
    return section("left-out", "Left out", bullets([said(one) for one in found.left_out]))
