"""The five signs that a problem belongs to the whole stack."""

from __future__ import annotations

from enum import StrEnum

from lynxbench.model.document import Document


class SignalState(StrEnum):
    """Whether a sign is there."""

    PRESENT = "present"
    ABSENT = "absent"
    NOT_ENOUGH_DATA = "not enough data"


class Signal(Document):
    """One sign, with the results that show it or the data that is missing."""

    number: int
    name: str
    state: SignalState
    said: str
    evidence: tuple[str, ...] = ()
    """Ids of results and changes."""
    needed: str = ""
    """Which data would tell."""


class Signals(Document):
    """All five together."""

    contract_id: str
    contract: str
    signals: tuple[Signal, ...]
    stack_shaped: bool
    """Two or more are present."""
    sentence: str
