"""The executor and its differences as text for people. Pure: no colour is decided and no terminal is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from lynxbench.executor.compatibility import CompatibilityFinding, FindingVerdict
from lynxbench.executor.native_precisions import PrecisionSupport
from lynxbench.model.canonical import short
from lynxbench.model.executor import Executor, Field, FieldChange, Status, Tier
from lynxbench.model.layers import DEFAULT_OWNERS, WHAT_IT_HOLDS, Layer

NAME_WIDTH = 34
NARROWEST = 60
HASH_DIGITS = 64
AFTER_A_RUN: frozenset[Layer] = frozenset({Layer.APPLICATION, Layer.SERVING, Layer.RUNTIME})
"""Layers that only a run fills: the engine and the process that worked tell them."""
ABSENT = "(absent)"
MARKS: dict[FindingVerdict, str] = {
    FindingVerdict.OK: "ok",
    FindingVerdict.WARNING: "look",
    FindingVerdict.BROKEN: "BROKEN",
}


@dataclass(frozen=True, slots=True)
class Ink:
    """How to emphasise; the plain one does nothing."""

    bold: str = ""
    dim: str = ""
    end: str = ""

    def strong(self, text: str) -> str:
        """Text that leads."""
        return f"{self.bold}{text}{self.end}"

    def faint(self, text: str) -> str:
        """Text that steps back."""
        return f"{self.dim}{text}{self.end}"


PLAIN = Ink()
ANSI = Ink("\x1b[1m", "\x1b[2m", "\x1b[0m")


def render_executor(
    executor: Executor,
    compatibility: Sequence[CompatibilityFinding] = (),
    conditions: Sequence[CompatibilityFinding] = (),
    precisions: Sequence[PrecisionSupport] = (),
    *,
    ink: Ink = PLAIN,
    width: int = 120,
) -> str:
    """By layer with its owner: configuration, instance, state; what could not be read is dimmed, with its reason."""
    room = max(width, NARROWEST)
    lines = [
        f"{ink.strong('executor')} {short(executor.executor_id)}   instance {short(executor.instance_id)}   "
        f"{_tally(executor)}"
    ]
    for layer in Layer:
        lines += ["", _heading(layer, ink)]
        fields = executor.layers.get(layer, {})
        if not fields:
            when = "known after a run" if layer in AFTER_A_RUN else "nothing known"
            lines.append(f"  {ink.faint(when)}")
        for tier in Tier:
            chosen = {name: field for name, field in fields.items() if field.tier is tier}
            lines += [_field_line(name, field, ink, room) for name, field in chosen.items()]
    lines += _findings("CUDA compatibility", compatibility, ink, room)
    lines += _findings("conditions that change speed", conditions, ink, room)
    lines += _precision_lines(precisions, ink, room)
    return "\n".join(lines)


def _tally(executor: Executor) -> str:
    statuses = [field.status for fields in executor.layers.values() for field in fields.values()]
    return ", ".join(f"{sum(s is status for s in statuses)} {status.value}" for status in Status)


def _heading(layer: Layer, ink: Ink) -> str:
    return f"{ink.strong(layer.value.upper())}  {WHAT_IT_HOLDS[layer]}  {ink.faint('owner: ' + DEFAULT_OWNERS[layer])}"


def _field_line(name: str, field: Field, ink: Ink, width: int) -> str:
    label = f"  {name:<{NAME_WIDTH}} "
    space = width - len(label)
    if field.status is Status.UNREADABLE:
        return label + ink.faint(_cut(f"unreadable: {field.source}", space))
    note = "" if field.tier is Tier.CONFIGURATION else f"  ({field.tier.value})"
    if field.status is Status.DECLARED:
        note = f"  ({field.source})"
    return label + _cut(format_value(field.value), space - len(note)) + ink.faint(note)


def _cut(text: str, width: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= width else plain[: max(1, width - 1)] + "…"


def format_value(value: JsonValue) -> str:
    """A value in one line: equal items of a list are counted, long mappings summarised, hashes shortened."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, str):
        hexadecimal = len(value) == HASH_DIGITS and all(c in "0123456789abcdef" for c in value)
        return f"{short(value)}…" if hexadecimal else value or "(empty)"
    if isinstance(value, list):
        return _format_list([format_value(item) for item in value])
    if isinstance(value, Mapping):
        if not value:
            return "none"
        shown = ", ".join(f"{key} {format_value(item)}" for key, item in value.items())
        return f"{len(value)}: {shown}" if len(value) > 4 else shown
    return str(value)


def _format_list(items: list[str]) -> str:
    if not items:
        return "none"
    if len(items) > 1 and len(set(items)) == 1:
        return f"{items[0]} x {len(items)}"
    return ", ".join(items)


def _findings(title: str, findings: Iterable[CompatibilityFinding], ink: Ink, width: int) -> list[str]:
    lines = []
    for finding in findings:
        label = f"  {MARKS[finding.verdict]:<6} {finding.subject:<27} "
        owner = DEFAULT_OWNERS[finding.layer]
        lines.append(f"{label}{finding.reason}  {ink.faint(f'{finding.layer.value}: {owner}')}")
    return ["", ink.strong(title), *lines] if lines else []


def _precision_lines(rows: Sequence[PrecisionSupport], ink: Ink, width: int) -> list[str]:
    if not rows:
        return []
    lines = ["", f"{ink.strong('precisions')}  what the hardware can do; which kernels ran is decided by a run"]
    for device in dict.fromkeys(row.device for row in rows):
        lines.append(f"  {device}")
        lines += [
            f"    {row.precision:<17} {row.native.value:<12} {ink.faint(_cut(row.reason, width - 36))}"
            for row in rows
            if row.device == device
        ]
    return lines


@dataclass(frozen=True, slots=True)
class FieldStep:
    """One smallest thing that differs inside a field."""

    label: str
    before: str
    after: str


def expand_change(change: FieldChange) -> list[FieldStep]:
    """A changed mapping or list, item by item; anything else as a whole."""
    before, after = change.before, change.after
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        return [
            FieldStep(f"{change.name}.{key}", _item(before, key), _item(after, key))
            for key in keys
            if before.get(key) != after.get(key) or (key in before) != (key in after)
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [FieldStep(f"{change.name}[{i}]", format_value(a), format_value(b)) for i, (a, b) in pairs if a != b]
    return [FieldStep(change.name, format_value(before), format_value(after))]


def _item(values: Mapping[str, JsonValue], key: str) -> str:
    return format_value(values[key]) if key in values else ABSENT


def render_difference(
    changes: Sequence[FieldChange], names: tuple[str, str], *, ink: Ink = PLAIN, width: int = 120
) -> str:
    """What differs, by layer, with the owner who can explain it."""
    left, right = names
    if not changes:
        return f"no difference between {left} and {right}"
    layers = list(dict.fromkeys(change.layer for change in changes))
    lines = [f"{ink.strong(f'{len(changes)} fields differ')} in {len(layers)} layers   {left} -> {right}"]
    half = max(12, (max(width, NARROWEST) - NAME_WIDTH - 8) // 2)
    for layer in layers:
        lines += ["", _heading(layer, ink)]
        for change in (c for c in changes if c.layer is layer):
            for step in expand_change(change):
                note = "" if change.tier is Tier.CONFIGURATION else ink.faint(f"  ({change.tier.value})")
                both = f"{_cut(step.before, half)} -> {_cut(step.after, half)}"
                lines.append(f"  {step.label:<{NAME_WIDTH}} {both}{note}")
    return "\n".join(lines)
