"""What verifying says: one named line a check, each with its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lynxbench.model.canonical import JsonValue

SIGNATURE_CHECKS: Final = frozenset({"signature", "signatures"})
"""Lines that speak of who signed: in the folder, and in the ledger."""


class CheckOutcome(StrEnum):
    """Doubt is an answer here too: what cannot be recomputed is said, and is not counted as holding."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT = "cannot be recomputed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a result states, held against what it rests on."""

    name: str
    outcome: CheckOutcome
    why: str = ""
    """What differs, why it cannot be recomputed, or what was looked at."""

    @property
    def line(self) -> str:
        """For people, and for the verification entry in a ledger."""
        return f"{self.name}: {self.outcome.value}" + (f": {self.why}" if self.why else "")


def holds(name: str, note: str = "") -> Check:
    """A check that held."""
    return Check(name, CheckOutcome.HOLDS, note)


def fails(name: str, why: str) -> Check:
    """A check that did not."""
    return Check(name, CheckOutcome.DOES_NOT_HOLD, why)


def cannot(name: str, why: str) -> Check:
    """A statement that nothing here can confirm or refute."""
    return Check(name, CheckOutcome.CANNOT, why)


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """All checks of one result, or of one analysis of several."""

    result_id: str
    checks: tuple[Check, ...]
    subject: str = "result"
    """`result`, `experiment`, `tuning`, `fleet`."""

    @property
    def holds(self) -> bool:
        """Whether nothing was found that does not hold."""
        return all(check.outcome is not CheckOutcome.DOES_NOT_HOLD for check in self.checks)

    @property
    def signed(self) -> bool:
        """Whether a trusted key stands behind it."""
        return any(check.name in SIGNATURE_CHECKS and check.outcome is CheckOutcome.HOLDS for check in self.checks)

    def adding(self, checks: Sequence[Check]) -> VerificationReport:
        """The report with further lines."""
        return VerificationReport(self.result_id, (*self.checks, *checks), self.subject)

    def count(self, outcome: CheckOutcome) -> int:
        """How many checks ended so."""
        return sum(check.outcome is outcome for check in self.checks)

    def document(self) -> dict[str, JsonValue]:
        """The JSON document."""
        is_result = self.subject == "result"
        names = {"result_id": self.result_id} if is_result else {"analysis_id": self.result_id, "kind": self.subject}
        return {
            **names,
            "holds": self.holds,
            "signed": self.signed,
            "counts": {outcome.value: self.count(outcome) for outcome in CheckOutcome},
            "checks": [{"name": check.name, "outcome": check.outcome.value, "why": check.why} for check in self.checks],
        }
