"""A performance claim under the lint: what it states, what it fails to state, what to ask back."""

from enum import StrEnum
from typing import Literal

from lynxbench.model.document import Document


class Context(StrEnum):
    """What a number needs around it before it says anything (REQUIREMENTS R12, R27)."""

    MODEL = "model"
    DEVICE = "device and count"
    PRECISION = "precision"
    LOAD = "batch or concurrency"
    LENGTHS = "lengths"
    STACK = "stack versions"
    REGIME = "regime"
    DURATION = "duration"
    WARMUP = "warm-up"
    PERCENTILE = "percentile"
    ACCURACY = "accuracy"
    POWER = "power"


class Claimed(Document):
    """One figure that is claimed."""

    value: str
    unit: str
    kind: Literal["rate", "latency", "ratio", "energy", "money"]
    text: str


class Stated(Document):
    """A context that the claim states, with its own words."""

    context: Context
    words: str


class ClaimReport(Document):
    """The verdict on one claim."""

    kind: Literal["claim"] = "claim"
    source: str
    form: str
    """free text, YAML, or the tool whose file it is."""
    sentence: str
    claimed: tuple[Claimed, ...]
    stated: tuple[Stated, ...]
    missing: tuple[Context, ...]
    grade: Literal["A", "B", "C", "D", "F"]
    comparable_with: tuple[str, ...]
    questions: tuple[str, ...]
    """To send back to whoever makes the claim."""
    warnings: tuple[str, ...]
