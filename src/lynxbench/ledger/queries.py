"""Questions to a ledger that the index answers: lists, histories, everything that was said about a result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, exists, func, select, tuple_

from lynxbench.evidence.envelope import check_signatures
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.key_log import logged_trust
from lynxbench.ledger.ledger_tables import entries, figures, results, subjects
from lynxbench.ledger.ledger_tables import open_runs as unfinished
from lynxbench.ledger.log import Ledger, Logged, batched
from lynxbench.ledger.names import FULL_ID
from lynxbench.model.entries import ACTS, ContractAgreed, EntryKind, ResultRecorded, RunRegistered
from lynxbench.model.figures import Figure
from lynxbench.model.standing import Standing, Voice, VoicedEntry, standing_of

if TYPE_CHECKING:
    from lynxbench.model.contract import Contract

_FIGURE = ("seq", "precision", "low", "estimate", "high", "unit", "run_means", "validity", "steady")
FEW = 2000
"""Up to so many disputed results of the whole ledger are looked up by their ids: quicker than a contract's history."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which results are asked for; None: any. Ids may be prefixes."""

    contract: str | None = None
    executor: str | None = None
    precision: str | None = None
    since_s: int | None = None
    validity: str | None = None
    limit: int | None = 20


@dataclass(frozen=True, slots=True)
class ListedFigure:
    """The throughput of one precision."""

    precision: str
    throughput: Figure | None
    validity: str
    steady: str | None
    run_means: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """One result in a list or history."""

    seq: int
    result_id: str
    run_id: str
    contract_id: str
    contract_name: str
    executor_id: str
    instance_id: str
    weights: str | None
    layer_ids: dict[str, str]
    started_at: str
    validity: str
    attempts: int
    bottleneck: str | None
    figures: tuple[ListedFigure, ...]


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that was registered and has neither result nor abandonment."""

    run_id: str
    contract_id: str
    made_at: str


def list_results(ledger: Ledger, wanted: Wanted) -> list[Listed]:
    """Results, newest first."""
    chosen = select(results).order_by(results.c.started_s.desc(), results.c.seq.desc())
    if wanted.precision is not None:
        # the order is taken from the figures, whose index has it: a rare precision is found without reading the rest
        chosen = (
            select(results)
            .join(figures, figures.c.seq == results.c.seq)
            .where(figures.c.precision == wanted.precision)
            .order_by(figures.c.started_s.desc(), figures.c.seq.desc())
        )
    chosen = _narrowed(chosen, wanted)
    return _listed(ledger, chosen.limit(wanted.limit))


def history(ledger: Ledger, contract_id: str) -> list[Listed]:
    """Every result of a contract, oldest first."""
    chosen = select(results).where(results.c.contract_id == contract_id)
    return _listed(ledger, chosen.order_by(results.c.started_s, results.c.seq))


def result_ids(ledger: Ledger, contract_id: str, newest: int | None = None) -> list[str]:
    """Ids of a contract's results, or of so many of the newest, oldest first; one recorded twice stands where it began.

    That is asked of the database for each result that is listed: a short list of a long history stays quick.
    """
    other = results.alias()
    began_before = exists().where(
        other.c.result_id == results.c.result_id,
        func.coalesce(other.c.contract_id, "") == results.c.contract_id,  # or SQLite walks the whole contract for each
        tuple_(other.c.started_s, other.c.seq) < tuple_(results.c.started_s, results.c.seq),
    )
    chosen = select(results.c.result_id).where(results.c.contract_id == contract_id, ~began_before)
    chosen = chosen.order_by(results.c.started_s.desc(), results.c.seq.desc()).limit(newest)
    return [row.result_id for row in ledger.database.rows(chosen)][::-1]


def find_result(ledger: Ledger, result_id: str) -> Logged | None:
    """The first record of a result."""
    return find_results(ledger, [result_id]).get(result_id)


def find_results(ledger: Ledger, names: Iterable[str]) -> dict[str, Logged]:
    """The first record of each of these results, by its id; those that are not here are left out."""
    recorded: dict[str, Logged] = {}
    for some in batched(sorted(set(names))):
        # By groups: asked for the first of one alone, PostgreSQL walks the whole table in its order.
        first = select(func.min(results.c.seq)).where(results.c.result_id.in_(some)).group_by(results.c.result_id)
        for logged in ledger.read_where(entries.c.seq.in_(first)):
            if isinstance(logged.entry.body, ResultRecorded):
                recorded[logged.entry.body.result_id] = logged
    return recorded


def find_run(ledger: Ledger, run_id: str, kind: EntryKind) -> list[Logged]:
    """Entries of one kind about a run."""
    return ledger.read_where(entries.c.run_id == run_id, entries.c.kind == kind.value)


def open_runs(ledger: Ledger, contract_id: str | None = None) -> list[OpenRun]:
    """Registered runs without an end: killed, still measuring, or kept back."""
    chosen = select(unfinished.c.run_id, unfinished.c.contract_id, unfinished.c.made_at).order_by(unfinished.c.seq)
    if contract_id is not None:
        chosen = chosen.where(unfinished.c.contract_id == contract_id)
    return [OpenRun(*row) for row in ledger.database.rows(chosen)]


def entries_about(ledger: Ledger, names: Iterable[str], kinds: Sequence[EntryKind] = ()) -> list[Logged]:
    """Every entry, of these kinds or of any, that speaks of one of these ids, in the log's order."""
    return ledger.read_all(sorted(_seqs_about(ledger, sorted(set(names)), kinds)))


def entries_of_contract(ledger: Ledger, contract_id: str, kinds: Sequence[EntryKind]) -> list[Logged]:
    """Entries of these kinds whose contract this is, in the log's order; its results are not looked at."""
    wanted = entries.c.kind.in_([kind.value for kind in kinds])
    return ledger.read_where(entries.c.contract_id == contract_id, wanted)


def agreed_contract(ledger: Ledger, contract_id: str) -> Contract | None:
    """The contract of an id, where the ledger has its text."""
    agreed = (logged.entry.body for logged in entries_of_contract(ledger, contract_id, [EntryKind.CONTRACT]))
    return next((body.contract for body in agreed if isinstance(body, ContractAgreed)), None)


def list_foreign(ledger: Ledger, limit: int) -> list[Logged]:
    """Results of other tools, newest entry first."""
    return newest_of_kind(ledger, [EntryKind.FOREIGN.value], limit)


def newest_of_kind(ledger: Ledger, kinds: Sequence[str], limit: int) -> list[Logged]:
    """The newest entries of kinds, newest first."""
    chosen = select(entries.c.seq).where(entries.c.kind.in_(list(kinds))).order_by(entries.c.seq.desc()).limit(limit)
    return ledger.read_all([row.seq for row in ledger.database.rows(chosen)])[::-1]


def disputed(ledger: Ledger, contract_id: str, trust: TrustList) -> dict[str, Standing]:
    """The standing of those results of a contract that somebody contested, retracted, refuted or re-ran.

    The rest of a long history need not be opened for it, nor looked at where few results of the ledger are disputed.
    """
    kinds = [EntryKind.CONTEST.value, EntryKind.RETRACTION.value, EntryKind.VERIFICATION.value, EntryKind.RERUN.value]
    about = select(entries.c.result_id).where(entries.c.kind.in_(kinds)).distinct()
    mine = select(results.c.result_id).where(results.c.contract_id == contract_id).distinct()
    with ledger.database.reading() as connection:
        anywhere = set(connection.execute(about.limit(FEW + 1)).scalars())
        if len(anywhere) > FEW:
            chosen = mine.join(entries, entries.c.result_id == results.c.result_id).where(entries.c.kind.in_(kinds))
            names = list(connection.execute(chosen).scalars())
        else:
            names = []
            for some in batched(sorted(name for name in anywhere if name)):
                names += connection.execute(mine.where(results.c.result_id.in_(some))).scalars()
    return standings(ledger, names, trust) if names else {}


def standings(ledger: Ledger, result_ids: Sequence[str], trust: TrustList) -> dict[str, Standing]:
    """The standing of each of these results, as the reader's trust list has it."""
    about = entries_about(ledger, result_ids)
    runs = {logged.entry.body.run_id for logged in about if isinstance(logged.entry.body, ResultRecorded)}
    there = {logged.seq for logged in about}
    registrations = entries_about(ledger, runs, [EntryKind.REGISTRATION]) if runs else []
    about += [logged for logged in registrations if logged.seq not in there]
    signers = {signature.keyid for logged in about for signature in logged.envelope.signatures}
    trusted = logged_trust(ledger, trust, signers)
    voiced = [VoicedEntry(logged.seq, logged.entry, voice_of(logged, trusted.at(logged.seq))) for logged in about]
    by_id: dict[str, list[VoicedEntry]] = {result_id: [] for result_id in result_ids}
    by_run = {
        logged.entry.body.run_id: logged.entry.body.result_id
        for logged in voiced
        if isinstance(logged.entry.body, ResultRecorded)
    }
    for logged in voiced:
        body = logged.entry.body
        named = by_run.get(body.run_id) if isinstance(body, RunRegistered) else getattr(body, "result_id", None)
        if named in by_id:
            by_id[named].append(logged)
    return {result_id: standing_of(result_id, mine) for result_id, mine in by_id.items()}


def voice_of(logged: Logged, trust: TrustList) -> Voice:
    """Who signed an entry, as the reader's trust list knows them."""
    checked = check_signatures(logged.envelope, trust, at=logged.judged_at, role=ACTS.get(logged.entry.body.kind))
    return Voice(
        teams=tuple(dict.fromkeys(signer.team for signer in checked.signers)),
        keys=tuple(signature.keyid for signature in logged.envelope.signatures),
        revoked=tuple(signer.team for signer in checked.signers if signer.revoked is not None),
    )


def _narrowed(chosen: Select[tuple[object, ...]], wanted: Wanted) -> Select[tuple[object, ...]]:
    for column, text in ((results.c.contract_id, wanted.contract), (results.c.executor_id, wanted.executor)):
        if text is None:
            continue
        if len(text) == FULL_ID:  # then the index has the order too, and no more is read than is shown
            chosen = chosen.where(column == text)
        else:  # a range, not LIKE: every database answers it from the index
            chosen = chosen.where(column >= text, column < text + "g")
    if wanted.since_s is not None:
        chosen = chosen.where(results.c.started_s >= wanted.since_s)
    if wanted.validity is not None:
        chosen = chosen.where(results.c.validity == wanted.validity)
    return chosen


def _seqs_about(ledger: Ledger, names: Sequence[str], kinds: Sequence[EntryKind]) -> set[int]:
    seqs: set[int] = set()
    with ledger.database.reading() as connection:
        for some in batched(names):
            chosen = select(subjects.c.seq).where(subjects.c.id.in_(some))
            if kinds:
                chosen = chosen.join(entries, entries.c.seq == subjects.c.seq)
                chosen = chosen.where(entries.c.kind.in_([kind.value for kind in kinds]))
            seqs |= {row.seq for row in connection.execute(chosen)}
    return seqs


def _listed(ledger: Ledger, chosen: Select[tuple[object, ...]]) -> list[Listed]:
    # Not by their numbers: hundreds of them are read one by one on their way to the database.
    within = chosen.with_only_columns(results.c.seq).subquery()
    with ledger.database.reading() as connection:
        rows: Sequence[Any] = connection.execute(chosen).all()
        by_result: dict[int, list[ListedFigure]] = {row[0]: [] for row in rows}
        question = select(*(figures.c[name] for name in _FIGURE)).order_by(figures.c.seq, figures.c.precision)
        question = question.where(figures.c.seq.in_(select(within.c.seq)))
        for seq, name, low, estimate, high, unit, means, validity, steady in connection.execute(question):
            throughput = None if unit is None else Figure(low=low, estimate=estimate, high=high, unit=unit)
            by_result[seq].append(ListedFigure(name, throughput, validity, steady, tuple(json.loads(means))))
    layers: dict[str, dict[str, str]] = {}
    listed: list[Listed] = []
    for row in rows:  # unpacked, not asked by name: a history has ten thousand of them
        seq, result, run, contract, name, executor, instance, weights, layer_ids, _, *rest = row
        if layer_ids not in layers:  # most results of a contract share their layers
            layers[layer_ids] = json.loads(layer_ids)
        started_at, validity, attempts, bottleneck = rest
        head = (seq, result, run, contract, name, executor, instance, weights, layers[layer_ids])
        listed.append(Listed(*head, started_at, validity, attempts, bottleneck, tuple(by_result[seq])))
    return listed
