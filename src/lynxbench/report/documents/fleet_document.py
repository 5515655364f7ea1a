"""A fleet: complete or not, who stands apart and why, then every instance and every unit."""

import math
from collections.abc import Sequence
from functools import partial

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
from lynxbench.report import doc, words
from lynxbench.report.doc import Depth, Span, Tone, chip, code, refer, said
from lynxbench.report.svg.instances_plot import draw_instances
from lynxbench.report.words import clean

SHOWN_FIELDS = 6
SHOWN_SPLITS = 3
LONGEST_VALUE = 44
SHOWN_ROWS = 60
"""Of a larger fleet the table shows the ends and those that stand apart; the plot has all."""
_TONES = {InstanceStanding.OUTLIER: Tone.BAD, InstanceStanding.DIFFERS: Tone.WARN}


def compose_fleet(fleet: FleetReport) -> doc.Report:
    """The verdict, the instances with their intervals, whose layer sets them apart, every unit."""
    apart = any(row.standing in _TONES for comparison in fleet.per_precision for row in comparison.instances)
    tone = Tone.WARN if apart or not fleet.complete else Tone.GOOD
    left_out = doc.Section("left-out", "Left out", (doc.Points([said(line) for line in fleet.left_out], "Left out"),))
    return doc.Report(
        f"{clean(fleet.contract)}: fleet",
        (
            doc.Verdict(said(fleet.verdict), look=tone),
            *(
                section
                for comparison in fleet.per_precision
                for section in (_instances(comparison), _apart(comparison))
            ),
            _units(fleet),
            left_out if fleet.left_out else None,
        ),
        title=said(fleet.question),
        brand="lynxbench fleet",
        facts=(
            ("Contract", (said(fleet.contract), " ", code(words.abbreviated(fleet.contract_id)))),
            ("Measured", f"{fleet.measured} of {words.count(fleet.asked, 'unit')}"),
            ("Started", words.moment_text(fleet.started_at)),
        ),
    )


def _instances(comparison: FleetComparison) -> doc.Section:
    rows = [
        (
            said(row.unit),
            words.interval_text(words.interval_of(row.low, row.estimate, row.high)),
            words.change_text(row.against_rest) if math.isfinite(row.against_rest.estimate) else "—",
            Span(row.standing.value, _TONES[row.standing]) if row.standing in _TONES else row.standing.value,
        )
        for row in _chosen(comparison.instances)
    ]
    title = f"{comparison.precision}, {comparison.figure} in {clean(comparison.unit)}: {clean(comparison.sentence)}"
    data = [
        (row.unit, row.estimate, words.or_nan(row.low), words.or_nan(row.high), row.against_rest.estimate - 1,
         row.standing.value, row.result_id)
        for row in comparison.instances
    ]  # fmt: skip
    head = ("instance", comparison.unit, "low", "high", "against the rest", "standing", "result")
    caption = "Each instance with its interval; the line is the median, those that stand apart are filled."
    plot = doc.Plot(
        f"instances-plot-{comparison.precision}",
        f"{comparison.figure.capitalize()} of every instance, {comparison.precision}",
        caption,
        partial(draw_instances, comparison),
        head,
        data,
    )
    table = doc.Table(("Instance", clean(comparison.unit), "Against the rest", "Standing"), rows, title, (1, 2))
    return doc.Section(f"instances-{comparison.precision}", f"Instances, {comparison.precision}", (table, plot))


def _chosen(rows: Sequence[InstanceRow]) -> Sequence[InstanceRow]:
    if len(rows) <= SHOWN_ROWS:
        return rows
    ends = {row.unit for row in (*rows[:5], *rows[-5:])}
    return [row for row in rows if row.unit in ends or row.standing is InstanceStanding.OUTLIER]


def _apart(comparison: FleetComparison) -> doc.Section | None:
    groups: list[doc.Block] = [_stands_apart(row) for row in comparison.instances if row.standing in _TONES]
    splits = [
        (f"{split.layer}.{split.name}", f"{split.explained:.0%}", said(_groups_words(split)), said(split.owner))
        for split in comparison.splits
    ]
    head = ("Field", "Of the spread", "Groups", "Owner")
    groups.append(doc.Table(head, splits, "Fields that divide the fleet", (1,), most=SHOWN_SPLITS))
    if len(groups) == 1 and not splits:
        return None
    return doc.Section(f"apart-{comparison.precision}", f"What sets them apart, {comparison.precision}", groups)


def _stands_apart(row: InstanceRow) -> doc.Group:
    layers = [
        (
            chip(layer.layer),
            " ",
            said(_fields_words(layer)),
            '; owner "',
            said(layer.owner),
            f'" ({layer.weight})',
        )
        for layer in row.layers
        if layer.weight not in (Weight.STATE, Weight.NONE)
    ]
    facts = [("Distance", row.why)] if row.why else []
    if row.cause is not None:
        facts += [("Cause", row.cause.sentence), ("To tell", row.cause.experiment)]
    title = (said(row.unit), f": {words.change_text(row.against_rest)}")
    return doc.Group(title, (doc.Facts(facts), doc.Points(layers, "What only it has", doc.Bullet.ORDERED)))


def _fields_words(layer: LayerDifference) -> str:
    own = [field for field in layer.fields if field.follows is None]
    shown = "; ".join(_field_words(field) for field in own[:SHOWN_FIELDS])
    return shown + (f" and {len(own) - SHOWN_FIELDS} more" if len(own) > SHOWN_FIELDS else "")


def _field_words(field: FieldSuspect) -> str:
    name, before, after, more = clean(field.name), field.before, field.after, ""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        key = keys[0] if keys else ""
        name, before, after = f"{name} {clean(key)}", before.get(key), after.get(key)
    elsewhere, here = (words.value_text(value, LONGEST_VALUE) for value in (before, after))
    return f"{name}: {elsewhere} elsewhere, {here} here{more}"


def _groups_words(split: FieldSplit) -> str:
    return "; ".join(
        f"{words.value_text(value, LONGEST_VALUE)}: {words.digits(mean, 4)} ({words.count(len(units), 'instance')})"
        for value, units, mean in split.groups
    )


def _units(fleet: FleetReport) -> doc.Section:
    rows = [
        (
            said(unit.name),
            unit.state.value,
            said(unit.node),
            str(len(unit.attempts)),
            refer("results", unit.result_id) if unit.result_id else "—",
            said("; ".join(f"{a.node}: {a.ended} {a.why}".strip() for a in unit.attempts) or unit.why),
        )
        for unit in fleet.units
    ]
    troubled = [unit for unit in fleet.units if unit.state is not UnitState.DONE or len(unit.attempts) > 1]
    head = ("Unit", "State", "Node", "Attempts", "Result", "What happened")
    listed = doc.Points([_unit_words(unit) for unit in troubled], "What did not go straight through")
    return doc.Section("units", "Every unit", (listed, doc.Table(head, rows, "Every unit", (3,), depth=Depth.WHOLE)))


def _unit_words(unit: FleetUnit) -> str:
    tries = "; ".join(f"{a.node}: {a.ended}{f' ({a.why})' if a.why else ''}" for a in unit.attempts)
    stands = f", stands in for {unit.stands_in_for}" if unit.stands_in_for else ""
    why = f": {unit.why}" if unit.why and not tries else ""
    return clean(f"{unit.name} {unit.state}{stands}{why}{f' — {tries}' if tries else ''}")
