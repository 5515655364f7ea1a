"""What a result stands on: who signed, verified, contested, re-ran or retracted it. Computed, never stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from lynxbench.model.agreement import (
    NO_LEDGER_HOLDS_IT,
    UNREGISTERED,
    RunBegan,
    SignedBy,
    TeamAgreement,
    agreement_of,
    agreement_unshown,
)
from lynxbench.model.canonical import short
from lynxbench.model.document import Document
from lynxbench.model.entries import (
    Entry,
    RerunVerdict,
    ResultContested,
    ResultRecorded,
    ResultRerun,
    ResultRetracted,
    ResultVerified,
    RunRegistered,
)
from lynxbench.model.team_names import LOCAL_TEAM

ANNOUNCED_WITHIN = timedelta(seconds=60)
"""A run is registered when it starts; a ledger that others write to may let it wait for so long, and for no longer."""
_AND = ", "
"""Between the teams of one signature; no team's name holds it."""
WRITTEN_TO = timedelta(seconds=1)
"""Results write their times to the second, cut off."""


class Announcement(StrEnum):
    """Whether a run was registered before its first sample, and by whose clock."""

    IN_ADVANCE = "registered in advance"
    """By the clock of this ledger, which had the registration while the run was still to be measured."""
    OWN_CLOCK = "registered in advance by its own team's clock alone"
    """The registration came to this ledger with the result, or after the run had ended."""
    AFTER = "registered after the run"
    NEVER = "not registered in advance"


@dataclass(frozen=True, slots=True)
class Voice:
    """Who signed an entry, as the reader's trust list knows them."""

    teams: tuple[str, ...]
    """Trusted teams; empty where nobody trusted signed."""
    keys: tuple[str, ...]
    """Every key that signed."""
    revoked: tuple[str, ...] = ()
    """Teams whose key was revoked after it signed."""

    @property
    def name(self) -> str:
        """For people."""
        return _AND.join(self.teams) or f"unknown key {short(self.keys[0])}" if self.keys else "nobody"

    def shares_a_signer(self, other: "Voice") -> bool:
        """Whether one team signed both; of those whom nobody knows, one key, whose signature nobody can check."""
        if self.teams or other.teams:
            return bool(set(self.teams) & set(other.teams))
        return bool(set(self.keys) & set(other.keys))

    def speaks_for(self, owner: "Voice") -> bool:
        """Whether every team of an owner signed; of the one that nobody named, the owner's own key."""
        unnamed = LOCAL_TEAM in owner.teams and not set(self.keys) & set(owner.keys)
        return set(owner.teams) <= set(self.teams) and not unnamed


NOBODY = Voice((), ())


@dataclass(frozen=True, slots=True)
class VoicedEntry:
    """An entry with its voice, its place in the log and when the ledger took it."""

    seq: int
    entry: Entry
    voice: Voice
    logged_at: str


class RunCount(NamedTuple):
    """How many runs of a contract a team registered, and how many of them have no result here."""

    registered: int = 0
    without_result: int = 0


NO_RUNS = RunCount()


class Remark(Document):
    """One thing that somebody said about a result."""

    by: str
    trusted: bool
    at: str
    text: str


class Standing(Document):
    """The whole of it, for one result."""

    result_id: str
    signed_by: tuple[str, ...] = ()
    """Trusted teams that signed the result; empty: nobody whom the reader trusts."""
    revoked_signers: tuple[str, ...] = ()
    registered: bool = False
    """Whether the run was announced before its first sample, by this ledger's clock or its own team's."""
    announced: Announcement | None = None
    """None: said by a version that knew no more than `registered`."""
    runs_registered: int = 0
    """Runs of this contract that the result's team registered, as far as this ledger knows."""
    runs_without_result: int = 0
    """Those of them that were abandoned, are still open, or have a result that is not here."""
    verified: tuple[Remark, ...] = ()
    """By teams other than the result's own."""
    verified_by_itself: tuple[Remark, ...] = ()
    inspected: tuple[Remark, ...] = ()
    """Who found nothing wrong without computing the figures again: no verification."""
    refuted: tuple[Remark, ...] = ()
    contested: tuple[Remark, ...] = ()
    retracted: tuple[Remark, ...] = ()
    reruns: tuple[Remark, ...] = ()
    copied: Annotated[tuple[Remark, ...], Field(exclude_if=lambda copied: not copied)] = ()
    """Reproductions that cite no measurement of their own: they are told, and count as none."""
    unheld: Annotated[tuple[Remark, ...], Field(exclude_if=lambda unheld: not unheld)] = ()
    """Reproductions whose rerun is not here, or is of another contract: they are told, and nobody can look at them."""
    unread: Annotated[int, Field(exclude_if=lambda unread: not unread)] = 0
    """Entries about it of kinds that this version does not know: what they say is in no word here."""
    agreement: Annotated[TeamAgreement | None, Field(exclude_if=lambda agreement: agreement is None)] = None
    """Who signed the contract before the run; None where the contract names no teams."""

    @property
    def chosen_from(self) -> str:
        """Out of how many registered runs the result is one of those with a result; empty where all of them have."""
        if not self.runs_without_result:
            return ""
        return f"{self.runs_registered - self.runs_without_result} of {self.runs_registered} registered"

    @property
    def words(self) -> tuple[str, ...]:
        """Short phrases, the gravest first; never empty."""
        phrases: list[str] = []
        if self.retracted:
            phrases.append(f"retracted by {_names(self.retracted)}: {self.retracted[-1].text}")
        if self.refuted:
            phrases.append(f"does not verify, says {_names(self.refuted)}")
        if self.contested:
            phrases.append(f"contested by {_names(self.contested)}: {self.contested[-1].text}")
        if self.unread:
            some = "an entry" if self.unread == 1 else f"{self.unread} entries"
            phrases.append(f"{some} about it of a newer lynxbench could not be read: update lynxbench")
        if not self.signed_by:
            phrases.append("signed by nobody you trust")
        phrases += [f"the key of {team} was revoked since" for team in self.revoked_signers]
        announced = self.announced or (Announcement.IN_ADVANCE if self.registered else Announcement.NEVER)
        if announced is not Announcement.IN_ADVANCE:
            phrases.append(announced.value)
        if self.chosen_from:
            phrases.append(f"{self.chosen_from} runs of this contract and team have a result here")
        if self.agreement is not None:
            phrases.append(self.agreement.words)
        if self.verified:
            phrases.append(f"verified by {_names(self.verified)}")
        elif self.verified_by_itself:
            phrases.append("verified by its own team alone")
        elif self.inspected:
            phrases.append(f"not verified: {_names(self.inspected)} found nothing wrong and recomputed no figure")
        for verdict in RerunVerdict:
            reruns = [rerun for rerun in self.reruns if rerun.text == verdict.value]
            if reruns:
                phrases.append(f"{verdict.value} by {_names(reruns)}")
        phrases += [f"not reproduced by {remark.by}: the rerun {remark.text}" for remark in self.copied]
        phrases += [f"said to be reproduced by {remark.by}: the rerun {remark.text}" for remark in self.unheld]
        return tuple(phrases) or ("nobody else has verified, re-run or contested it",)

    @property
    def short(self) -> str:
        """One word for a list; and whether the contract was agreed, where it names teams and was not."""
        if self.agreement is None or self.agreement.full:
            return self._word
        return f"{self._word}, {self.agreement.words}"

    @property
    def _word(self) -> str:
        if self.retracted:
            return "retracted"
        if self.refuted:
            return "does not verify"
        if self.contested:
            return "contested"
        if not self.signed_by:
            return "untrusted"
        if self.revoked_signers:
            return "key revoked"
        reproduced = [rerun for rerun in self.reruns if rerun.text == RerunVerdict.REPRODUCED]
        if any(not set(rerun.by.split(_AND)) <= set(self.signed_by) for rerun in reproduced):  # by another team
            return "reproduced"
        if self.verified:
            return "verified"
        return "self-reproduced" if reproduced else "recorded"


def recordings_of(result_id: str, entries: Sequence[VoicedEntry]) -> list[VoicedEntry]:
    """The entries that record a result, in the log's order."""
    recordings = [entry for entry in entries if isinstance(entry.entry.body, ResultRecorded)]
    return sorted(
        (entry for entry in recordings if getattr(entry.entry.body, "result_id", None) == result_id),
        key=lambda entry: entry.seq,
    )


def owner_of(result_id: str, entries: Sequence[VoicedEntry]) -> Voice:
    """Whose a result is: of the team that registered its run, and where nobody did, of whoever recorded it first.

    Signing an entry again adds nobody: a copy with another signature is easily made, a registration before it is not.
    """
    recordings = recordings_of(result_id, entries)
    registration = _registration_of(recordings, entries)
    if registration is not None:
        return registration.voice
    return recordings[0].voice if recordings else NOBODY


def standing_of(
    result_id: str,
    entries: Sequence[VoicedEntry],
    runs: RunCount = NO_RUNS,
    copies: Mapping[tuple[str, str], str] = {},
    unheld: Mapping[tuple[str, str], str] = {},
) -> Standing:
    """What the entries about a result add up to. Only the team whose run it was can retract it.

    `copies` says of a result and its rerun why the second is no measurement of its own, `unheld` why it cannot be
    looked at.
    """
    recordings, owner = recordings_of(result_id, entries), owner_of(result_id, entries)
    voices = [entry.voice for entry in recordings]
    teams = tuple(dict.fromkeys(team for voice in voices for team in voice.teams))
    announced = _announced(recordings, entries)
    remarks: dict[str, list[Remark]] = {}
    for entry in sorted(entries, key=lambda entry: entry.seq):
        body, voice = entry.entry.body, entry.voice
        if getattr(body, "result_id", None) != result_id:
            continue
        kind = ""
        if isinstance(body, ResultVerified) and voice.teams:  # a stranger's word neither helps nor harms
            kind, text = ("verified", "holds") if body.holds else ("refuted", "does not")
            if body.holds and not body.verifies:
                kind, text = "inspected", "recomputed no figure"
            elif body.holds and set(voice.teams) <= {*teams, *owner.teams}:
                kind = "verified_by_itself"
        elif isinstance(body, ResultContested):
            kind, text = "contested", body.reason
        elif isinstance(body, ResultRetracted):
            kind, text = taken_back(voice, owner), body.reason
        elif isinstance(body, ResultRerun) and voice.teams and body.rerun_id != result_id:  # itself is no second run
            kind, text = "reruns", body.verdict.value
            if body.verdict is RerunVerdict.REPRODUCED and (result_id, body.rerun_id) in copies:
                kind, text = "copied", copies[result_id, body.rerun_id]
            elif body.verdict is RerunVerdict.REPRODUCED and (result_id, body.rerun_id) in unheld:
                kind, text = "unheld", unheld[result_id, body.rerun_id]
        if kind:
            remark = Remark(by=voice.name, trusted=bool(voice.teams), at=entry.entry.made_at, text=text)
            remarks.setdefault(kind, []).append(remark)
    said: dict[str, Any] = {kind: tuple(listed) for kind, listed in remarks.items()}
    return Standing(
        result_id=result_id,
        signed_by=teams,
        revoked_signers=tuple(dict.fromkeys(team for voice in voices for team in voice.revoked)),
        registered=announced in (Announcement.IN_ADVANCE, Announcement.OWN_CLOCK),
        announced=announced,
        runs_registered=runs.registered,
        runs_without_result=runs.without_result,
        agreement=_agreement(recordings, entries),
        **said,
    )


def agreement_shown(teams: Sequence[str], standing: Standing | None) -> TeamAgreement | None:
    """Who signed the contract of a result before its run, where its contract names teams; without a ledger, nobody."""
    if standing is not None and standing.agreement is not None:
        return standing.agreement
    return agreement_unshown(teams, NO_LEDGER_HOLDS_IT) if teams else None


def taken_back(voice: Voice, owner: Voice) -> str:
    """What a retraction counts as: of several owners all must sign; a key that nobody can check is a doubt, no more."""
    if owner.teams:
        return "retracted" if voice.speaks_for(owner) else ""
    return "contested" if set(voice.keys) & set(owner.keys) else ""


def _registration_of(recordings: Sequence[VoicedEntry], entries: Sequence[VoicedEntry]) -> VoicedEntry | None:
    """The first registration of the run with its nonce and contract, of those that its recorders signed if any did."""
    runs = {_run_of(entry) for entry in recordings}
    registrations = [entry for entry in entries if isinstance(entry.entry.body, RunRegistered)]
    registrations = [entry for entry in registrations if _run_of(entry) in runs]
    voices = [recording.voice for recording in recordings]
    theirs = [entry for entry in registrations if any(map(entry.voice.shares_a_signer, voices))]
    return min(theirs or registrations, key=lambda entry: entry.seq, default=None)


def _run_of(entry: VoicedEntry) -> tuple[str, str, str] | None:
    body = entry.entry.body
    return (body.run_id, body.nonce, body.contract_id) if isinstance(body, ResultRecorded | RunRegistered) else None


def _announced(recordings: Sequence[VoicedEntry], entries: Sequence[VoicedEntry]) -> Announcement:
    """By this ledger's clock where it had the registration before the run ended, else by what its team signed."""
    registration = _registration_of(recordings, entries)
    recording = next(
        (entry for entry in recordings if registration and entry.voice.shares_a_signer(registration.voice)), None
    )
    if registration is None or recording is None:
        return Announcement.NEVER
    assert isinstance(recording.entry.body, ResultRecorded)
    started, finished = _moment(recording.entry.body.started_at), _moment(recording.entry.body.finished_at)
    logged, made = _moment(registration.logged_at), _moment(registration.entry.made_at)
    taken = _moment(recording.logged_at)
    if started is None or finished is None or logged is None or made is None or taken is None:
        return Announcement.AFTER
    if registration.seq > recording.seq or finished - taken > ANNOUNCED_WITHIN:  # no run ends after its result came
        return Announcement.AFTER
    if logged - finished <= WRITTEN_TO:  # as differences: a time may be the last that there is
        return Announcement.IN_ADVANCE if logged - started <= ANNOUNCED_WITHIN else Announcement.AFTER
    is_before = made - started <= ANNOUNCED_WITHIN and made - finished <= WRITTEN_TO
    return Announcement.OWN_CLOCK if is_before else Announcement.AFTER


def _moment(text: str) -> datetime | None:
    """A time with its offset; None where a document holds something else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _names(remarks: Sequence[Remark]) -> str:
    return ", ".join(dict.fromkeys(remark.by for remark in remarks))


def _agreement(recordings: Sequence[VoicedEntry], entries: Sequence[VoicedEntry]) -> TeamAgreement | None:
    """Who signed the contract of a result before its run; None where that contract names nobody."""
    if not recordings:
        return None
    recorded = recordings[0]
    body = recorded.entry.body
    assert isinstance(body, ResultRecorded)
    if not body.teams:
        return None
    began = _registration_of(recordings[:1], entries)
    if began is None or began.seq >= recorded.seq:
        return agreement_unshown(body.teams, UNREGISTERED)
    signed = [SignedBy(entry.seq, entry.entry, entry.voice.teams, entry.voice.revoked) for entry in entries]
    return agreement_of(body.contract_id, body.teams, signed, RunBegan(began.seq, body.started_at))
