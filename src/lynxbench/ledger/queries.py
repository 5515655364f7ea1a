"""Questions to a ledger that the index answers: lists, histories, everything that was said about a result."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from sqlalchemy import Select, exists, func, select, tuple_, union

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import check_signatures
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.ledger_tables import ANNOUNCED, entries, figures, results, subjects
from lynxbench.ledger.ledger_tables import open_runs as unfinished
from lynxbench.ledger.log import Ledger, Logged, batched, checked_envelope
from lynxbench.ledger.names import FULL_ID
from lynxbench.model.entries import ContractAgreed, EntryKind, ResultRecorded, RunRegistered
from lynxbench.model.figures import Figure
from lynxbench.model.standing import NO_RUNS, RunCount, Standing, Voice, VoicedEntry, owner_of, standing_of

if TYPE_CHECKING:
    from lynxbench.model.contract import Contract

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


def list_results(ledger: Ledger, wanted: Wanted, *, readable: bool = False) -> list[Listed]:
    """Results, newest first; EvidenceInvalid where one cannot be read, unless only those are asked for that can."""
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
    return _listed(ledger, chosen.limit(wanted.limit), wanted.contract or "", readable)


def history(ledger: Ledger, contract_id: str) -> list[Listed]:
    """Every result of a contract, oldest first."""
    chosen = select(results).where(results.c.contract_id == contract_id)
    return _listed(ledger, chosen.order_by(results.c.started_s, results.c.seq), contract_id)


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
    by_id = _voiced(ledger, result_ids, trust)
    contracts = {
        entry.entry.body.contract_id
        for mine in by_id.values()
        for entry in mine
        if isinstance(entry.entry.body, ResultRecorded)
    }
    counts = _run_counts(ledger, sorted(contracts))
    _add_signatures(ledger, by_id, trust)
    return {name: standing_of(name, mine, _runs(mine, name, counts, trust)) for name, mine in by_id.items()}


def owner_of_result(ledger: Ledger, result_id: str, trust: TrustList) -> Voice:
    """Whose a result is: who alone can retract it."""
    return owner_of(result_id, _voiced(ledger, [result_id], trust)[result_id])


def _voiced(ledger: Ledger, result_ids: Sequence[str], trust: TrustList) -> dict[str, list[VoicedEntry]]:
    """Everything that was said about each of these results, with the registrations of its run."""
    about = entries_about(ledger, result_ids)
    by_run: dict[str, set[str]] = {}
    for logged in about:
        if isinstance(logged.entry.body, ResultRecorded):
            by_run.setdefault(logged.entry.body.run_id, set()).add(logged.entry.body.result_id)
    there = {logged.seq for logged in about}
    registrations = entries_about(ledger, by_run, [EntryKind.REGISTRATION]) if by_run else []
    about += [logged for logged in registrations if logged.seq not in there]
    by_id: dict[str, list[VoicedEntry]] = {result_id: [] for result_id in result_ids}
    for logged in about:
        body = logged.entry.body
        spoken_of = {str(getattr(body, "result_id", ""))}
        named = by_run.get(body.run_id, set()) if isinstance(body, RunRegistered) else spoken_of
        voiced = VoicedEntry(logged.seq, logged.entry, voice_of(logged, trust), logged.logged_at)
        for result_id in named & by_id.keys():
            by_id[result_id].append(voiced)
    return by_id


Signers = tuple[str, str]
"""A contract, and the keys that signed, as the log has them."""


def _run_counts(ledger: Ledger, contracts: Sequence[str]) -> dict[Signers, RunCount]:
    """How many runs of a contract each key registered, and how many of those have no result in this ledger.

    Counted in the record's own columns, which are guarded, and held against the entries by `results log --verify`.
    """
    ended = entries.alias()
    has_result = exists().where(ended.c.run_id == entries.c.run_id, ended.c.kind == EntryKind.RESULT.value)
    by = (entries.c.contract_id, entries.c.signers)
    counted = select(*by, func.count(entries.c.run_id.distinct()))
    registered: dict[Signers, int] = {}
    without: dict[Signers, int] = {}
    with ledger.database.reading() as connection:
        for some in batched(contracts):
            mine = entries.c.contract_id.in_(some)
            announced = counted.where(mine, ANNOUNCED)
            still_open = counted.join(unfinished, unfinished.c.seq == entries.c.seq)
            still_open = still_open.where(unfinished.c.contract_id.in_(some))  # few of them: asked for first
            given_up = counted.where(mine, entries.c.kind == EntryKind.ABANDONED.value, ~has_result)
            for statement, counts in ((announced, registered), (still_open, without), (given_up, without)):
                for contract_id, signers, count in connection.execute(statement.group_by(*by)):
                    counts[contract_id, signers] = counts.get((contract_id, signers), 0) + count
    return {name: RunCount(count, min(without.get(name, 0), count)) for name, count in registered.items()}


def _runs(mine: Sequence[VoicedEntry], result_id: str, counts: dict[Signers, RunCount], trust: TrustList) -> RunCount:
    """The count of the team whose result it is, over all its keys."""
    owner = owner_of(result_id, mine)
    contracts = {entry.entry.body.contract_id for entry in mine if isinstance(entry.entry.body, ResultRecorded)}
    total = NO_RUNS
    for (contract_id, signers), count in counts.items():
        keys = signers.split()
        teams = {known.team for key in keys if (known := trust.find(key)) is not None}
        if contract_id in contracts and (teams & set(owner.teams) or set(keys) & set(owner.keys)):
            total = RunCount(total.registered + count.registered, total.without_result + count.without_result)
    return total


def signatures_under(ledger: Ledger, contract_id: str, trust: TrustList) -> list[VoicedEntry]:
    """Every signature under a contract, with whose it is."""
    signed = entries_of_contract(ledger, contract_id, [EntryKind.AGREEMENT])
    return [VoicedEntry(logged.seq, logged.entry, voice_of(logged, trust), logged.logged_at) for logged in signed]


def _add_signatures(ledger: Ledger, by_id: dict[str, list[VoicedEntry]], trust: TrustList) -> None:
    """Beside what was said about a result: who signed its contract, where that asks for signatures."""
    signed: dict[str, list[VoicedEntry]] = {}
    for about in by_id.values():
        recorded = [entry.entry.body for entry in about if isinstance(entry.entry.body, ResultRecorded)]
        for contract_id in {body.contract_id for body in recorded if body.teams}:
            if contract_id not in signed:
                signed[contract_id] = signatures_under(ledger, contract_id, trust)
            about.extend(signed[contract_id])


def voice_of(logged: Logged, trust: TrustList) -> Voice:
    """Who signed an entry, as the reader's trust list knows them."""
    checked = check_signatures(logged.envelope, trust, at=logged.judged_at)
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
    """By the index and by the record's own columns: what was taken out of one is found in the other."""
    seqs: set[int] = set()
    wanted = [kind.value for kind in kinds]
    with ledger.database.reading() as connection:
        for some in batched(names):
            indexed = select(subjects.c.seq).where(subjects.c.id.in_(some))
            recorded = [select(entries.c.seq).where(c.in_(some)) for c in (entries.c.result_id, entries.c.run_id)]
            if kinds:
                indexed = indexed.join(entries, entries.c.seq == subjects.c.seq)
                indexed = indexed.where(entries.c.kind.in_(wanted))
                recorded = [chosen.where(entries.c.kind.in_(wanted)) for chosen in recorded]
            seqs |= set(connection.execute(union(indexed, *recorded)).scalars())
    return seqs


def _listed(ledger: Ledger, chosen: Select[tuple[object, ...]], contract: str, readable: bool = False) -> list[Listed]:
    """The index says which results and in what order; what each of them says is read from its entry."""
    within = chosen.with_only_columns(results.c.seq)
    seqs = [row.seq for row in ledger.database.rows(within)]
    # Not by their numbers: hundreds of them are read one by one on their way to the database.
    rows = ledger.stored_where(entries.c.seq.in_(select(within.subquery().c.seq)))
    layers: dict[tuple[str, ...], dict[str, str]] = {}
    by_seq: dict[int, Listed] = {}
    for row in rows:
        try:
            by_seq[row.seq] = _listed_from(row, layers)
        except EvidenceInvalid:
            if not readable:
                raise
    known = [seq for seq in seqs if seq in by_seq and by_seq[seq].contract_id.startswith(contract)]
    if len(known) != len(seqs) and not readable:
        strange = next(seq for seq in seqs if seq not in known)
        raise EvidenceInvalid(f"{ledger.database.name}: the index lists entry {strange} as what it is not")
    return [by_seq[seq] for seq in known]


def _listed_from(row: Any, layers: dict[tuple[str, ...], dict[str, str]]) -> Listed:
    """A result as its entry states it: read without building the entry, for a history has ten thousand of them.

    The bytes are those that were logged, and an entry enters the log in its one canonical form alone.
    """
    try:
        statement = from_json(b64decode(from_json(checked_envelope(row))["payload"]))
        body = statement["predicate"]["body"]
        names = body["layer_ids"]
        return Listed(
            seq=row.seq,
            result_id=body["result_id"],
            run_id=body["run_id"],
            contract_id=body["contract_id"],
            contract_name=body["contract_name"],
            executor_id=body["executor_id"],
            instance_id=body["instance_id"],
            weights=body["weights"],
            layer_ids=layers.setdefault(tuple(names.values()), names),  # most results of a contract share their layers
            started_at=body["started_at"],
            validity=body["validity"],
            attempts=body["attempts"],
            bottleneck=body.get("bottleneck"),
            figures=tuple(sorted(map(_figure_from, body["per_precision"]), key=attrgetter("precision"))),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise EvidenceInvalid(f"entry {row.seq} is no result that can be read ({type(error).__name__})") from error


def _figure_from(summary: dict[str, Any]) -> ListedFigure:
    throughput = summary["throughput"]
    return ListedFigure(
        precision=summary["precision"],
        throughput=None if throughput is None else Figure(**throughput),
        validity=summary["validity"],
        steady=summary.get("steady"),
        run_means=tuple(map(float, summary.get("run_means", ()))),
    )
