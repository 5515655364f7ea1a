"""What a foreign file says, gathered: figures under our names, and statements under keys of ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from lynxbench.model.figures import Figure

LONGEST_TEXT = 2000


@dataclass(slots=True)
class ForeignStatements:
    """Figures and statements of one foreign result."""

    tool: str
    figures: dict[str, Figure] = field(default_factory=dict)
    stated: dict[str, JsonValue] = field(default_factory=dict)

    def figure(self, name: str, value: object, unit: str, scale: float = 1.0) -> None:
        """Keep a figure if it is a finite number; foreign figures come without intervals."""
        number = finite(value)
        if number is not None:
            self.figures[name] = Figure(low=None, estimate=number * scale, high=None, unit=unit)

    def state(self, name: str, value: JsonValue) -> None:
        """Keep a statement, unless it says nothing."""
        if value is None or value == "" or value == [] or value == {}:
            return
        self.stated[name] = value[:LONGEST_TEXT] if isinstance(value, str) else value

    def states(self, name: str) -> bool:
        """Whether something was said under a key."""
        return name in self.stated


def finite(value: object) -> float | None:
    """A finite number that is not a truth value; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def part(document: object, *keys: str) -> JsonValue:
    """A nested value, None where any step is missing."""
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document  # type: ignore[return-value]
