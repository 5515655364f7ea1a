"""What verifying says: one named line a check, each with its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lynxbench.model.canonical import JsonValue

SIGNATURE_CHECKS: Final = frozenset({"signature", "signatures"})
"""Lines that speak of who signed: in the folder, and in the ledger."""


TRACE_LINE: Final = "trace"
"""How the lines on traces that were left out of a bundle begin."""
FIGURES_LINE: Final = "figures"
"""The line on whether what is stated was computed again from samples, registration, attempts and telemetry."""
_FOUNDATIONS: Final = ("registration run id", "attempts", "attempts counted", "samples and phases")
_VALIDITY: Final = ("holds", "cannot be recomputed: reached by edition ", "cannot be recomputed: the verdict holds")
"""What has to hold in a verification from before it had that line, and what it then says of the validity."""


class EvidenceVerdict(StrEnum):
    """What verifying comes to. Where nothing was computed again, nothing was verified."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT = "cannot be verified"


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


def worst(verdicts: Iterable[EvidenceVerdict]) -> EvidenceVerdict:
    """What several come to together; what is not there was not verified."""
    gravest = (EvidenceVerdict.DOES_NOT_HOLD, EvidenceVerdict.CANNOT, EvidenceVerdict.HOLDS)
    return min(verdicts, key=gravest.index, default=EvidenceVerdict.CANNOT)


def were_recomputed(lines: Iterable[str]) -> bool:
    """Whether the lines of a verification, which may be an old one, say that the figures were computed again."""
    said = tuple(lines)
    if any(line.startswith(f"{FIGURES_LINE}: ") for line in said):
        return _held(FIGURES_LINE, said)
    judged = any(line.startswith(tuple(f"validity: {words}" for words in _VALIDITY)) for line in said)
    return judged and all(_held(name, said) for name in _FOUNDATIONS)


def _held(name: str, lines: Sequence[str]) -> bool:
    stated = [line for line in lines if line.startswith(f"{name}: ")]
    return bool(stated) and all(f"{line}: ".startswith(f"{name}: {CheckOutcome.HOLDS.value}: ") for line in stated)


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """All checks of one result, or of one analysis of several."""

    result_id: str
    checks: tuple[Check, ...]
    subject: str = "result"
    """`result`, `experiment`, `tuning`, `fleet`."""

    @property
    def recomputed(self) -> bool:
        """Whether the figures were computed again; of an analysis, those of every result that it rests on."""
        return were_recomputed(check.line for check in self.checks)

    @property
    def verdict(self) -> EvidenceVerdict:
        """What was found to be wrong comes first; then whether there was anything to find."""
        if any(check.outcome is CheckOutcome.DOES_NOT_HOLD for check in self.checks):
            return EvidenceVerdict.DOES_NOT_HOLD
        return EvidenceVerdict.HOLDS if self.recomputed else EvidenceVerdict.CANNOT

    @property
    def holds(self) -> bool:
        """Whether everything was computed again and nothing was found that does not hold."""
        return self.verdict is EvidenceVerdict.HOLDS

    @property
    def without_traces(self) -> bool:
        """Whether traces were left out, so that where the time went was not computed again."""
        return any(check.name.startswith(f"{TRACE_LINE} ") for check in self.checks)

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
            "verdict": self.verdict.value,
            "holds": self.holds,
            "recomputed": self.recomputed,
            "signed": self.signed,
            "counts": {outcome.value: self.count(outcome) for outcome in CheckOutcome},
            "checks": [{"name": check.name, "outcome": check.outcome.value, "why": check.why} for check in self.checks],
        }
