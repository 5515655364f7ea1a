"""What a result stands on: who signed, verified, contested, re-ran or retracted it. Computed, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    @property
    def words(self) -> tuple[str, ...]:
        """Short phrases, the gravest first; never empty."""
        said: list[str] = []
        if self.retracted:
            said.append(f"retracted by {_names(self.retracted)}: {self.retracted[-1].text}")
        if self.refuted:
            said.append(f"does not verify, says {_names(self.refuted)}")
        if self.contested:
            said.append(f"contested by {_names(self.contested)}: {self.contested[-1].text}")
        if not self.signed_by:
            said.append("signed by nobody you trust")
        said += [f"the key of {team} was revoked since" for team in self.revoked_signers]
        if not self.registered:
            said.append("not registered in advance")
        if self.verified:
            said.append(f"verified by {_names(self.verified)}")
        for verdict in RerunVerdict:
            mine = [one for one in self.reruns if one.text == verdict.value]
            if mine:
                said.append(f"{verdict.value} by {_names(mine)}")
        return tuple(said) or ("nobody else has verified, re-run or contested it",)

    @property
    def short(self) -> str:
        """One word for a list."""
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
        if any(one.text == RerunVerdict.REPRODUCED for one in self.reruns):
            return "reproduced"
        return "verified" if self.verified else "recorded"


def standing_of(result_id: str, said: Sequence[VoicedEntry]) -> Standing:
    """What the entries about a result add up to. Only a team that signed a result can retract it."""
    recorded = [
        one for one in said if isinstance(one.entry.body, ResultRecorded) and one.entry.body.result_id == result_id
    ]
    teams = tuple(dict.fromkeys(team for one in recorded for team in one.voice.teams))
    keys = {key for one in recorded for key in one.voice.keys}
    remarks: dict[str, list[Remark]] = {
        name: [] for name in ("verified", "refuted", "contested", "retracted", "reruns")
    }
    for one in sorted(said, key=lambda each: each.seq):
        body = one.entry.body
        if getattr(body, "result_id", None) != result_id:
            continue
        if isinstance(body, ResultVerified):
            if one.voice.teams:  # a stranger's word neither helps nor harms
                remarks["verified" if body.holds else "refuted"].append(
                    _remark(one, "holds" if body.holds else "does not")
                )
        elif isinstance(body, ResultContested):
            remarks["contested"].append(_remark(one, body.reason))
        elif isinstance(body, ResultRetracted):
            if set(one.voice.teams) & set(teams) or set(one.voice.keys) & keys:
                remarks["retracted"].append(_remark(one, body.reason))
        elif isinstance(body, ResultRerun) and one.voice.teams:
            remarks["reruns"].append(_remark(one, body.verdict.value))
    return Standing(
        result_id=result_id,
        signed_by=teams,
        revoked_signers=tuple(dict.fromkeys(team for one in recorded for team in one.voice.revoked)),
        registered=_registered(recorded, said),
        **{name: tuple(found) for name, found in remarks.items()},
    )


def _registered(recorded: Sequence[VoicedEntry], said: Sequence[VoicedEntry]) -> bool:
    announced = {
        (one.entry.body.run_id, one.entry.body.nonce): one.seq
        for one in said
        if isinstance(one.entry.body, RunRegistered)
    }
    for one in recorded:
        body = one.entry.body
        assert isinstance(body, ResultRecorded)
        if announced.get((body.run_id, body.nonce), one.seq) < one.seq:
            return True
    return False


def _remark(one: VoicedEntry, text: str) -> Remark:
    return Remark(by=one.voice.name, trusted=bool(one.voice.teams), at=one.entry.made_at, text=text)


def _names(remarks: Sequence[Remark]) -> str:
    return ", ".join(dict.fromkeys(remark.by for remark in remarks))
