"""Whether the teams that a contract names signed it before a run began. Computed from a log, never stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from lynxbench.model.document import Document
from lynxbench.model.entries import ContractSigned, Entry

UNREGISTERED = "the run was not registered, so nothing shows who signed before it"
NO_LEDGER_HOLDS_IT = "no ledger that was asked holds this result"


@dataclass(frozen=True, slots=True)
class SignedBy:
    """An entry with its place in the log and the trusted teams that signed it with keys valid then."""

    seq: int
    entry: Entry
    teams: tuple[str, ...]
    revoked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunBegan:
    """When a run began, as its log and its result say."""

    seq: int
    """Of its registration."""
    started_at: str


class TeamSignature(Document):
    """One team's signature under a contract."""

    team: str
    at: str
    """By the signer's clock."""
    seq: int
    """Its place in the log."""
    in_time: bool = True
    """Before the run that is looked at."""
    revoked: Annotated[bool, Field(exclude_if=lambda revoked: not revoked)] = False
    """The key was revoked after it signed."""


class TeamAgreement(Document):
    """Who of the teams that a contract asks for has signed it: before a run, or at all where none is looked at."""

    teams: tuple[str, ...]
    signatures: tuple[TeamSignature, ...] = ()
    """The first of each team that counts, in the order of the teams."""
    why: Annotated[str, Field(exclude_if=lambda why: not why)] = ""
    """Why nothing can be shown, where that is so."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Teams that have not signed."""
        signed = {signature.team for signature in self.signatures}
        return tuple(team for team in self.teams if team not in signed)

    @property
    def late(self) -> tuple[str, ...]:
        """Teams that signed after the run."""
        return tuple(signature.team for signature in self.signatures if not signature.in_time)

    @property
    def full(self) -> bool:
        """Every team signed, and in time."""
        return not self.missing and not self.late

    @property
    def words(self) -> str:
        """For people and lists: `agreed`, `not agreed (2 of 3; missing: x)` or `agreed after the run`."""
        count = f"{len(self.teams) - len(self.missing) - len(self.late)} of {len(self.teams)}"
        if self.full:
            return f"agreed ({count})"
        missing = (f"missing: {', '.join(self.missing)}",) if self.missing else ()
        if not self.missing and not self.why:
            return f"agreed after the run ({count} before it; late: {', '.join(self.late)})"
        late = (f"after the run: {', '.join(self.late)}",) if self.late and not self.why else ()
        return f"not agreed ({'; '.join((count, *missing, *late, *((self.why,) if self.why else ())))})"


def agreement_of(
    contract_id: str, teams: Sequence[str], entries: Sequence[SignedBy], run: RunBegan | None
) -> TeamAgreement:
    """Who signed a contract before a run; with no run, who has signed it by now.

    A signature counts before a run where the log took it in before the run's registration, and its signer dates it no
    later than the run: a log that was put together afterwards can choose its order, and not what others have signed.
    """
    first: dict[str, TeamSignature] = {}
    for signed in sorted(entries, key=lambda entry: entry.seq):
        body = signed.entry.body
        if not isinstance(body, ContractSigned) or body.contract_id != contract_id:
            continue  # another contract's signature counts for nothing here
        in_time = run is None or (signed.seq < run.seq and not _later(signed.entry.made_at, run.started_at))
        for team in signed.teams:
            known = first.get(team)
            if team in teams and (known is None or (in_time and not known.in_time)):
                at, revoked = signed.entry.made_at, team in signed.revoked
                first[team] = TeamSignature(team=team, at=at, seq=signed.seq, in_time=in_time, revoked=revoked)
    return TeamAgreement(teams=tuple(teams), signatures=tuple(first[team] for team in teams if team in first))


def agreement_unshown(teams: Sequence[str], why: str) -> TeamAgreement:
    """Nobody can be shown to have signed in time, and why."""
    return TeamAgreement(teams=tuple(teams), why=why)


def _later(moment: str, other: str) -> bool:
    """By whole seconds: a run is dated to the second, and within one the order of the log decides."""
    first, second = (datetime.fromisoformat(text).replace(microsecond=0) for text in (moment, other))
    return first > second
