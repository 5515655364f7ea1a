"""Results of one ledger that rest on the same samples: a measurement is one run's, whatever else brings it again.

A run mean is a hash of its process's durations that every signed entry bears, so whoever shares one is found in the
index, and the samples of those few alone are opened. Clocks that were shifted and processes that were numbered anew
change no duration.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from sqlalchemy import or_, select

from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.ledger_tables import figures, results
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Ledger, Logged, batched
from lynxbench.ledger.queries import find_result, find_results
from lynxbench.ledger.rerun_samples import means_of, share_a_mean
from lynxbench.ledger.run_owners import identities
from lynxbench.ledger.sample_durations import Durations, durations_in, shared_processes
from lynxbench.model.canonical import short
from lynxbench.model.entries import ResultRecorded
from lynxbench.model.verification import Check, CheckOutcome, cannot, fails, holds

OWN_SAMPLES: Final = "own samples"
CLOCKS_APART: Final = timedelta(seconds=60)
MOST_OPENED: Final = 64
"""Results of which the samples are opened, the oldest first: of a hundred copies the first one says enough."""
_DIGITS: Final = 11


def check_own_samples(ledger: OpenLedger, result_id: str, trust: TrustList | None) -> tuple[Check, ...]:
    """Whether another run of the ledger brings the samples of this result, and what their order shows.

    Without a trust list a key stands for itself: where every signature was checked when it was taken in.
    """
    recorded = find_result(ledger.log, result_id)
    if recorded is None:
        return ()
    others = _with_a_mean_of(ledger.log, recorded)
    mine = durations_in(recorded.entry, ledger.blobs.get) if others else {}
    beside = ((other, durations_in(other.entry, ledger.blobs.get)) for other in others)
    told = _told(recorded, mine, beside, trust)
    return told or (holds(OWN_SAMPLES, "no other run of this ledger has them"),)


def check_among(
    recorded: Sequence[Logged], document: Callable[[str], bytes], trust: TrustList
) -> dict[str, tuple[Check, ...]]:
    """The same of results that come together, in their log's order: of each by its id, what is to be told."""
    columns = [durations_in(logged.entry, document) for logged in recorded]
    holders: dict[bytes, set[int]] = {}
    for place, mine in enumerate(columns):
        for column in mine.values():
            holders.setdefault(column, set()).add(place)
    told = {}
    for place, (logged, mine) in enumerate(zip(recorded, columns, strict=True)):
        places = {other for column in mine.values() for other in holders[column]} - {place}
        others = [(recorded[other], columns[other]) for other in sorted(places)]
        beside = [(other, theirs) for other, theirs in others if _body(other).run_id != _body(logged).run_id]
        told[_body(logged).result_id] = _told(logged, mine, beside, trust)
    return told


def _told(
    recorded: Logged, mine: Durations, beside: Iterable[tuple[Logged, Durations]], trust: TrustList | None
) -> tuple[Check, ...]:
    shares = ((other, shared_processes(mine, theirs)) for other, theirs in beside)
    return tuple(
        _judged(recorded, other, f"{shared} of its {len(mine)} processes", trust) for other, shared in shares if shared
    )


def copied_lines(ledger: OpenLedger, names: Iterable[str], trust: TrustList) -> list[str]:
    """Of results that were just taken in, a line each time that another run's samples are theirs."""
    return [
        f"result {short(name)}: {check.why}"
        for name in names
        for check in check_own_samples(ledger, name, trust)
        if check.outcome is not CheckOutcome.HOLDS
    ]


def _with_a_mean_of(log: Ledger, recorded: Logged) -> list[Logged]:
    """First records of other runs' results that state a run mean of this one, the oldest first."""
    body = _body(recorded)
    means = means_of(body)
    stated: dict[str, int] = {}
    for some in batched([repr(mean)[:_DIGITS] for mean in means]):
        chosen = (
            select(figures.c.seq, figures.c.run_means, results.c.result_id)
            .join(results, results.c.seq == figures.c.seq)
            .where(results.c.run_id != body.run_id, or_(*(figures.c.run_means.contains(text) for text in some)))
        )
        for row in log.database.rows(chosen):
            if share_a_mean(means, json.loads(row.run_means)):
                stated[row.result_id] = min(row.seq, stated.get(row.result_id, row.seq))
    oldest = sorted(stated, key=lambda name: stated[name])[:MOST_OPENED]
    return sorted(find_results(log, oldest).values(), key=lambda logged: logged.seq)


def _judged(recorded: Logged, other: Logged, share: str, trust: TrustList | None) -> Check:
    """What the ledger's order and the runs' own words say; where they leave it open, both are told, and no one blamed.

    The order in which a reader took two teams' results in shows nothing: a copy may have come before what it copies.
    """
    one_team = bool(_signers(recorded, trust) & _signers(other, trust))
    run = f"run {_body(other).run_id} {'of the same team' if one_team else _by(other, trust)} (entry {other.seq})"
    if recorded.seq > other.seq and one_team:
        return fails(OWN_SAMPLES, f"{share} have the samples of {run}: one measurement, shown as two")
    if recorded.seq > other.seq and _began_after(recorded, other):
        words = f"this ledger had them at {other.logged_at}, before this run began by its own word"
        return fails(OWN_SAMPLES, f"{share} have the samples of {run}; {words}")
    if other.seq > recorded.seq and (one_team or _began_after(other, recorded)):
        return holds(OWN_SAMPLES, f"{run} brought those of {share} again later")
    return cannot(
        OWN_SAMPLES, f"{share} have the samples of {run}: one of the two was copied, and nothing here shows which"
    )


def _began_after(run: Logged, held: Logged) -> bool:
    """Whether a run began, as it says itself, when the ledger already held the samples of another."""
    return parse_time(_body(run).started_at) > parse_time(held.logged_at) + CLOCKS_APART


def _signers(logged: Logged, trust: TrustList | None) -> frozenset[str]:
    """Who can be shown to have signed: a key that nobody knows proves nothing, and anybody may write its name."""
    keys = [signature.keyid for signature in logged.envelope.signatures]
    if trust is None:
        return frozenset(keys)
    return identities([key for key in keys if trust.find(key) is not None], trust)


def _by(logged: Logged, trust: TrustList | None) -> str:
    keys = [signature.keyid for signature in logged.envelope.signatures]
    known = [found.team for key in keys if trust is not None and (found := trust.find(key)) is not None]
    return f"by {' and '.join(dict.fromkeys(known)) or f'key {short(keys[0])}'}"


def _body(logged: Logged) -> ResultRecorded:
    body = logged.entry.body
    assert isinstance(body, ResultRecorded)
    return body
