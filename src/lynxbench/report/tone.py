"""How a statement is coloured."""

from __future__ import annotations

from enum import StrEnum


class Tone(StrEnum):
    """How a statement is coloured; the word itself always says it too."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    PLAIN = "plain"
