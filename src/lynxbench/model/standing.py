"""What a result stands on: who signed, verified, contested, re-ran or retracted it. Computed, never stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

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
        return ", ".join(self.teams) or f"unknown key {short(self.keys[0])}" if self.keys else "nobody"


@dataclass(frozen=True, slots=True)
class VoicedEntry:
    """An entry with its voice and place in the log."""

    seq: int
    entry: Entry
    voice: Voice


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
    """Whether the run was announced in this ledger before its result came."""
    verified: tuple[Remark, ...] = ()
    refuted: tuple[Remark, ...] = ()
    contested: tuple[Remark, ...] = ()
    retracted: tuple[Remark, ...] = ()
    reruns: tuple[Remark, ...] = ()
    agreement: Annotated[TeamAgreement | None, Field(exclude_if=lambda agreement: agreement is None)] = None
    """Who signed the contract before the run; None where the contract names no teams."""

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
        if not self.signed_by:
            phrases.append("signed by nobody you trust")
        phrases += [f"the key of {team} was revoked since" for team in self.revoked_signers]
        if not self.registered:
            phrases.append("not registered in advance")
        if self.agreement is not None:
            phrases.append(self.agreement.words)
        if self.verified:
            phrases.append(f"verified by {_names(self.verified)}")
        for verdict in RerunVerdict:
            reruns = [rerun for rerun in self.reruns if rerun.text == verdict.value]
            if reruns:
                phrases.append(f"{verdict.value} by {_names(reruns)}")
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
        if any(rerun.text == RerunVerdict.REPRODUCED for rerun in self.reruns):
            return "reproduced"
        return "verified" if self.verified else "recorded"


def standing_of(result_id: str, entries: Sequence[VoicedEntry]) -> Standing:
    """What the entries about a result add up to. Only a team that signed a result can retract it."""
    recordings = [
        (entry, entry.entry.body)
        for entry in entries
        if isinstance(entry.entry.body, ResultRecorded) and entry.entry.body.result_id == result_id
    ]
    voices = [entry.voice for entry, _ in recordings]
    teams = tuple(dict.fromkeys(team for voice in voices for team in voice.teams))
    keys = {key for voice in voices for key in voice.keys}
    announced = {
        (entry.entry.body.run_id, entry.entry.body.nonce): entry.seq
        for entry in entries
        if isinstance(entry.entry.body, RunRegistered)
    }
    remarks: dict[str, list[Remark]] = {}
    for entry in sorted(entries, key=lambda entry: entry.seq):
        body, voice = entry.entry.body, entry.voice
        if getattr(body, "result_id", None) != result_id:
            continue
        kind = ""
        if isinstance(body, ResultVerified) and voice.teams:  # a stranger's word neither helps nor harms
            kind, text = ("verified", "holds") if body.holds else ("refuted", "does not")
        elif isinstance(body, ResultContested):
            kind, text = "contested", body.reason
        elif isinstance(body, ResultRetracted) and (set(voice.teams) & set(teams) or set(voice.keys) & keys):
            kind, text = "retracted", body.reason
        elif isinstance(body, ResultRerun) and voice.teams:
            kind, text = "reruns", body.verdict.value
        if kind:
            remark = Remark(by=voice.name, trusted=bool(voice.teams), at=entry.entry.made_at, text=text)
            remarks.setdefault(kind, []).append(remark)
    return Standing(
        result_id=result_id,
        signed_by=teams,
        revoked_signers=tuple(dict.fromkeys(team for voice in voices for team in voice.revoked)),
        registered=any(announced.get((body.run_id, body.nonce), entry.seq) < entry.seq for entry, body in recordings),
        agreement=_agreement(recordings, entries),
        **{kind: tuple(listed) for kind, listed in remarks.items()},
    )


def agreement_shown(teams: Sequence[str], standing: Standing | None) -> TeamAgreement | None:
    """Who signed the contract of a result before its run, where its contract names teams; without a ledger, nobody."""
    if standing is not None and standing.agreement is not None:
        return standing.agreement
    return agreement_unshown(teams, NO_LEDGER_HOLDS_IT) if teams else None


def _names(remarks: Sequence[Remark]) -> str:
    return ", ".join(dict.fromkeys(remark.by for remark in remarks))


def _agreement(
    recordings: Sequence[tuple[VoicedEntry, ResultRecorded]], entries: Sequence[VoicedEntry]
) -> TeamAgreement | None:
    """Who signed the contract of a result before its run; None where that contract names nobody."""
    if not recordings:
        return None
    recorded, body = min(recordings, key=lambda recording: recording[0].seq)
    if not body.teams:
        return None
    registered = (body.run_id, body.nonce, body.contract_id)
    began = [
        entry.seq
        for entry in entries
        if isinstance(entry.entry.body, RunRegistered)
        and (entry.entry.body.run_id, entry.entry.body.nonce, entry.entry.body.contract_id) == registered
    ]
    if min(began, default=recorded.seq) >= recorded.seq:
        return agreement_unshown(body.teams, UNREGISTERED)
    signed = [SignedBy(entry.seq, entry.entry, entry.voice.teams, entry.voice.revoked) for entry in entries]
    return agreement_of(body.contract_id, body.teams, signed, RunBegan(min(began), body.started_at))
