"""What a foreign file says, gathered: figures under our names, and statements under keys of ours."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from lynxbench.model.figures import Figure
from lynxbench.tables import read_table

TABLE = read_table("record/formats/foreign.toml")
"""Where each tool's file says what."""
LONGEST_TEXT = 2000
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")


@dataclass(slots=True)
class ForeignStatements:
    """Figures and statements of one foreign result."""

    tool: str
    figures: dict[str, Figure] = field(default_factory=dict)
    stated: dict[str, JsonValue] = field(default_factory=dict)

    def take(self, document: JsonValue, table: Mapping[str, Any], prefix: str = "") -> None:
        """Keep what a table knows the places of in a document; the `prefix` goes before the names of its figures."""
        for name, (unit, path) in table.get("figures", {}).items():
            self.figure(prefix + name, at(document, path), unit)
        for name, paths in table.get("states", {}).items():
            self.state(name, _first(at(document, path) for path in paths))
        for name, paths in table.get("numbers", {}).items():
            self.state(name, _first(finite(at(document, path)) for path in paths))

    def figure(self, name: str, value: object, unit: str, scale: float = 1.0) -> None:
        """Keep a figure if it is a finite number; foreign figures come without intervals."""
        number = finite(value)
        if number is not None:
            self.figures[name] = Figure(low=None, estimate=number * scale, high=None, unit=unit)

    def percentiles(self, name: str, metric: Mapping[str, object], scale: float) -> None:
        """Keep every `p99` of a metric's object as a figure in milliseconds."""
        for key, value in metric.items():
            if match := _PERCENTILE.fullmatch(key):
                self.figure(f"{name} p{float(match.group(1)):g}", value, "ms", scale)

    def state(self, name: str, value: JsonValue) -> None:
        """Keep a statement, unless it says nothing."""
        if value is None or value == "" or value == [] or value == {}:
            return
        self.stated[name] = value[:LONGEST_TEXT] if isinstance(value, str) else value


def finite(value: object) -> float | None:
    """A finite number that is not a truth value; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def at(document: object, path: str) -> JsonValue:
    """The value that a path of keys leads to, None where any step is missing."""
    for key in path.split("."):
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document  # type: ignore[return-value]


def _first(values: Iterable[JsonValue]) -> JsonValue:
    """The first value that is more than zero or nothing; else the first that is there at all."""
    known = [value for value in values if value is not None]
    return next((value for value in known if value), known[0] if known else None)
