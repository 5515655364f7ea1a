"""A comparison, a set of signs and a book of changes in a terminal: the verdict first, in words."""

from __future__ import annotations

import textwrap

from lynxbench.model.comparison import (
    Comparability,
    Comparison,
    Effect,
    EffectVerdict,
    FieldSuspect,
    LayerDifference,
    PrecisionComparison,
    RuleOutcome,
    RuleVerdict,
    Weight,
)
from lynxbench.model.history import ChangeBook, ChangeRow, ExpectationRecord, Signals, SignalState
from lynxbench.model.interval import Interval
from lynxbench.report import words
from lynxbench.report.words import clean

SHOWN_FIELDS = 6
SHOWN_ITEMS = 3
NAME = 18
VALUE = 44

_MARKS = {SignalState.PRESENT: "!", SignalState.ABSENT: "–", SignalState.NOT_ENOUGH_DATA: "?"}


def render_comparison(found: Comparison, *, width: int) -> str:
    """Soundness, then effect and verdict, then the layers with their owners, then the experiment."""
    lines = _refused(found, width) if found.refused else _compared(found, width)
    return "\n".join(line.rstrip() for line in lines).replace(words.NBSP, " ") + "\n"


def _refused(found: Comparison, width: int) -> list[str]:
    lines = ["INCOMPARABLE: no ratio is given."]
    lines += _rules([one for one in found.rules if one.outcome is RuleVerdict.BREAKS], width)
    lines += _wrapped("What would make it sound: ", "; ".join(found.sound_if) + ".", width)
    differing = [one for one in found.layers if one.weight not in (Weight.STATE, Weight.NONE)]
    if differing:
        names = ", ".join(f"{one.layer} ({clean(one.owner)})" for one in differing)
        lines += _wrapped("Layers that differ: ", names, width)
    return lines


def _compared(found: Comparison, width: int) -> list[str]:
    lines = [_headline(found), ""]
    lines += _wrapped("  A  ", _side_words(found, "a"), width) + _wrapped("  B  ", _side_words(found, "b"), width)
    lines.append("")
    for row in found.per_precision:
        lines += _precision(row, found, width)
    differences = [one for one in found.rules if one.outcome is not RuleVerdict.HOLDS]
    if differences:
        lines += ["", f"{found.comparability.value.capitalize()}:", *_rules(differences, width)]
    lines += ["", *_layers(found, width)]
    return lines


def _headline(found: Comparison) -> str:
    word = found.verdict.value.upper() if found.verdict else "NO VERDICT"
    if found.effect is None or found.precision is None:
        return f"{word}: no figure could be compared"
    change = words.percent_interval(_minus_one(found.effect))
    return (
        f"{word}: {found.figure} at {found.precision} {change} (B over A; budget {words.percent(found.budget)}, "
        f"{words.percent(found.confidence)} interval)"
    )


def _side_words(found: Comparison, which: str) -> str:
    side = found.a if which == "a" else found.b
    ids = f"contract {words.abbreviated(side.contract_id)}  executor {words.abbreviated(side.executor_id)}"
    return f"{clean(side.name)}  {ids}  {words.moment_text(side.started_at)}  {side.validity}"


def _precision(row: PrecisionComparison, found: Comparison, width: int) -> list[str]:
    if row.comparability is Comparability.INCOMPARABLE:
        broken = [
            one.rule for one in found.rules if one.outcome is RuleVerdict.BREAKS and one.precision is row.precision
        ]
        return [f"  {row.precision:<6} incomparable ({', '.join(dict.fromkeys(broken))}): no ratio"]
    lines = []
    for index, effect in enumerate(row.effects):
        label = row.precision.value if index == 0 else ""
        mark = "▸" if effect.figure == row.leading else " "
        lines.append(f"  {label:<6} {mark} {_effect(effect)}")
        if effect.why and effect.figure == row.leading:
            lines += _wrapped(" " * 11, effect.why, width)
    lines += _wrapped(" " * 11, f"accuracy: {row.accuracy}", width)
    return lines


def _effect(effect: Effect) -> str:
    a, b = words.digits(effect.a, 4), words.digits(effect.b, 4)
    change = words.percent_interval(_minus_one(effect.ratio))
    return f"{effect.figure:<26} {a} → {b} {clean(effect.unit)}   {change}   {effect.verdict}"


def _minus_one(ratio: Interval) -> Interval:
    return Interval(ratio.low - 1, ratio.estimate - 1, ratio.high - 1)


def _rules(rules: list[RuleOutcome], width: int) -> list[str]:
    lines = []
    for one in rules:
        where = f"{one.precision}: " if one.precision is not None else ""
        lines += _wrapped(f"  {one.rule} {one.name:<{NAME}} ", f"{where}{clean(one.said)}", width)
    return lines


def _layers(found: Comparison, width: int) -> list[str]:
    if found.cause is None:
        return []
    changed = found.verdict in (EffectVerdict.REGRESSED, EffectVerdict.IMPROVED)
    lines = _wrapped("CAUSE  " if changed else "RECORD ", clean(found.cause.sentence), width)
    if changed and found.cause.owner:
        lines += _wrapped("       ", f'ask: "{clean(found.cause.owner)}"', width)
    if changed or found.cause.kind.value == "several layers changed":
        lines += _wrapped("       ", f"experiment: {clean(found.cause.experiment)}", width)
    for layer in found.layers:
        lines += _layer(layer, width)
    return lines


def _layer(layer: LayerDifference, width: int) -> list[str]:
    lines = [f"  {layer.rank}. {layer.layer:<12} {layer.weight:<26} owner: {clean(layer.owner)}"]
    own = [field for field in layer.fields if field.follows is None]
    shown = [field for field in own if field.weight is layer.weight][:SHOWN_FIELDS]
    for field in shown:
        lines += _wrapped("       ", _field(field), width)
    rest = len(layer.fields) - len(shown)
    if rest > 0:
        follows = sum(field.follows is not None for field in layer.fields)
        said = f" ({follows} follow from other changes)" if follows else ""
        lines.append(f"       and {rest} more{said}")
    return lines


def _field(field: FieldSuspect) -> str:
    before, after = field.before, field.after
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        items = [f"{key} {_value(before.get(key))} → {_value(after.get(key))}" for key in keys[:SHOWN_ITEMS]]
        more = f" and {len(keys) - SHOWN_ITEMS} more" if len(keys) > SHOWN_ITEMS else ""
        return f"{field.name}: {'; '.join(items)}{more}"
    return f"{field.name}: {_value(before)} → {_value(after)}"


def _value(value: object) -> str:
    text = "(absent)" if value is None else clean(str(value))
    return text if len(text) <= VALUE else text[: VALUE - 1] + "…"


def render_signals(found: Signals, *, width: int) -> str:
    """The five signs, each with what shows it or what would tell."""
    lines = [f"{clean(found.contract)}: {found.sentence}", ""]
    for one in found.signals:
        lines.append(f"  {_MARKS[one.state]} {one.number}  {one.name}: {one.state}")
        lines += _wrapped("       ", clean(one.said), width)
        if one.needed:
            lines += _wrapped("       ", f"needed: {clean(one.needed)}", width)
        if one.evidence:
            shown = ", ".join(name[:12] for name in one.evidence[:4])
            more = f" and {len(one.evidence) - 4} more" if len(one.evidence) > 4 else ""
            lines.append(f"       evidence: {shown}{more}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def render_changes(book: ChangeBook, *, width: int) -> str:
    """Every declared change with what came of it, then how good the expectations were."""
    if not book.rows:
        return "no change is declared; begin with: lynxbench change declare\n"
    lines = []
    for row in book.rows:
        lines += _change_row(row, width)
    for ids, gain in book.chains:
        names = " then ".join(one[:12] for one in ids)
        lines += ["", *_wrapped("together  ", f"{names}: {words.factor_text(gain)} (bounds multiplied)", width)]
    lines += ["", "expectations met, of those decided"]
    lines += [_calibration("owner", one) for one in book.by_owner]
    lines += [_calibration("layer", one) for one in book.by_layer]
    return "\n".join(line.rstrip() for line in lines).replace(words.NBSP, " ") + "\n"


def _change_row(row: ChangeRow, width: int) -> list[str]:
    measured = "not measured yet" if row.measured is None else f"measured {words.factor_text(row.measured)}"
    verdict = "" if row.verdict is None else f": {row.verdict}"
    head = f"{row.change_id[:12]}  {row.layer}  {clean(row.owner)}"
    lines = [head, *_wrapped("    ", clean(row.what), width)]
    lines.append(f"    expected {words.factor_text(row.expected)}, {measured}{verdict}")
    if row.caution:
        lines += _wrapped("    ! ", clean(row.caution), width)
    return lines


def _calibration(kind: str, one: ExpectationRecord) -> str:
    bias = f", {one.less} less, {one.more} more" if one.decided else ""
    return f"  {kind} {clean(one.name):<28} {one.as_expected} of {one.decided}{bias} ({one.declared} declared)"


def _wrapped(label: str, text: str, width: int) -> list[str]:
    hang = " " * min(len(label), 30)
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=label,
        subsequent_indent=hang,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [label]
