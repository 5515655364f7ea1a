"""Captured values and their changes in words."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from lynxbench.model.canonical import short
from lynxbench.model.executor import FieldChange

HASH_DIGITS = 64
SEVERAL = 4
"""A mapping of more items is counted before it is listed."""
ABSENT = "(absent)"


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
        listed = ", ".join(f"{key} {format_value(item)}" for key, item in value.items()) or "none"
        return f"{len(value)}: {listed}" if len(value) > SEVERAL else listed
    return str(value)


def _format_list(items: list[str]) -> str:
    if len(items) > 1 and len(set(items)) == 1:
        return f"{items[0]} x {len(items)}"
    return ", ".join(items) or "none"
