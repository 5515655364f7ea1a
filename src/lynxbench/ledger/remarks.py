"""Tags and notes on results: signed like everything else, and weighed like nothing else. No standing rests on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from lynxbench.errors import BadInput
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.index_rows import TAG_MARK
from lynxbench.ledger.key_log import logged_trust
from lynxbench.ledger.ledger_tables import subjects
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.ledger.queries import entries_about, newest_of_kind
from lynxbench.ledger.result_standings import voice_of
from lynxbench.model.entries import EntryKind, ResultNoted, ResultTagged
from lynxbench.model.standing import Voice

MOST_TAGGED = 20_000
"""Results that one tag may stand on where a list is narrowed by it: more than one statement can name."""


LOOKED_AT = 500
"""Of the newest entries with tags, for those that are offered to pick from."""


@dataclass(frozen=True, slots=True)
class TagOnResult:
    """A tag that stands on a result now."""

    tag: str
    team: str
    at: str
    seq: int


@dataclass(frozen=True, slots=True)
class NoteOnResult:
    """A note by a team that is trusted."""

    text: str
    team: str
    at: str
    seq: int


@dataclass(frozen=True, slots=True)
class ResultRemarks:
    """What teams put beside a result, by the log's order."""

    tags: tuple[TagOnResult, ...] = ()
    notes: tuple[NoteOnResult, ...] = ()

    @property
    def tag_names(self) -> tuple[str, ...]:
        """Each tag once, whoever put it."""
        return tuple(sorted({tag.tag for tag in self.tags}))


NO_REMARKS = ResultRemarks()


def remarks_of(ledger: Ledger, result_ids: Sequence[str], trust: TrustList) -> dict[str, ResultRemarks]:
    """Tags that stand and notes, by result; what nobody trusted signed is in the log, and not here.

    A tag belongs to the team that put it: the same team's last word on it counts, and no other team's.
    """
    if not result_ids:
        return {}
    about = _voiced(ledger, entries_about(ledger, result_ids, [EntryKind.TAG, EntryKind.NOTE]), trust)
    tags: dict[str, dict[tuple[str, str], TagOnResult]] = {name: {} for name in result_ids}
    notes: dict[str, list[NoteOnResult]] = {name: [] for name in result_ids}
    for logged, voice in about:
        body, at = logged.entry.body, logged.entry.made_at
        if isinstance(body, ResultNoted) and voice.teams and body.result_id in notes:
            notes[body.result_id].append(NoteOnResult(body.text, voice.name, at, logged.seq))
        if isinstance(body, ResultTagged) and body.result_id in tags:
            held = tags[body.result_id]
            for team in voice.teams:
                for tag in body.taken:
                    held.pop((tag, team), None)
                held |= {(tag, team): TagOnResult(tag, team, at, logged.seq) for tag in body.put}
    return {
        name: ResultRemarks(tuple(sorted(tags[name].values(), key=lambda tag: (tag.tag, tag.team))), tuple(notes[name]))
        for name in result_ids
    }


def tagged_results(ledger: Ledger, tag: str, trust: TrustList) -> tuple[str, ...]:
    """Results on which a trusted team's tag of this name stands."""
    seqs = select(subjects.c.seq).where(subjects.c.id == f"{TAG_MARK}{tag}", subjects.c.what == "tag")
    bodies = (logged.entry.body for logged in ledger.read_all(sorted(row.seq for row in ledger.database.rows(seqs))))
    named = sorted({body.result_id for body in bodies if isinstance(body, ResultTagged)})
    known = remarks_of(ledger, named, trust)
    standing = tuple(name for name in named if tag in known[name].tag_names)
    if len(standing) > MOST_TAGGED:
        raise BadInput(f"tag {tag!r} stands on more than {MOST_TAGGED} results; list them by contract")
    return standing


def known_tags(ledger: Ledger, limit: int) -> list[str]:
    """Tags that were put lately, by name; whether one still stands is asked where it is looked for."""
    bodies = (logged.entry.body for logged in newest_of_kind(ledger, [EntryKind.TAG.value], LOOKED_AT))
    lately = dict.fromkeys(tag for body in bodies if isinstance(body, ResultTagged) for tag in body.put)
    return sorted(list(lately)[:limit])


def _voiced(ledger: Ledger, about: Sequence[Logged], trust: TrustList) -> list[tuple[Logged, Voice]]:
    signers = {signature.keyid for logged in about for signature in logged.envelope.signatures}
    trusted = logged_trust(ledger, trust, signers)
    return [(logged, voice_of(logged, trusted.at(logged.seq))) for logged in about]
