"""Questions to a ledger that the index answers: lists, histories, everything that was said about a result."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from sqlalchemy import Select, and_, exists, func, literal, or_, select, tuple_, union

from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.ledger_tables import entries, figures, results, subjects
from lynxbench.ledger.ledger_tables import open_runs as unfinished
from lynxbench.ledger.log import Ledger, Logged, batched, checked_envelope
from lynxbench.ledger.names import FULL_ID
from lynxbench.model.entries import ContractAgreed, EntryKind, ResultRecorded
from lynxbench.model.figures import Figure

if TYPE_CHECKING:
    from lynxbench.model.contract import Contract


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which results are asked for; None: any. Ids may be prefixes."""

    contract: str | None = None
    executor: str | None = None
    precision: str | None = None
    since_s: int | None = None
    validity: str | None = None
    results: tuple[str, ...] = ()
    """These alone, where some are named."""
    before: tuple[int, int] | None = None
    """Only what stands after this one in the list: the second it began, and its entry."""
    limit: int | None = 20


@dataclass(frozen=True, slots=True)
class ListedFigure:
    """The throughput of one precision."""

    precision: str
    throughput: Figure | None
    validity: str
    steady: str | None
    run_means: tuple[float, ...]


# Written out as in answer_models.py: what the API answers is a promise of its own, to its readers.
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
    return read_about(ledger, names, kinds)[0]


def read_about(
    ledger: Ledger, names: Iterable[str], kinds: Sequence[EntryKind] = ()
) -> tuple[list[Logged], dict[str, int]]:
    """The same, and by id how many more there are of kinds that this version does not know."""
    asked = sorted(set(names))
    seqs = _seqs_about(ledger, asked, kinds)
    known = ledger.read_all(sorted(seqs))
    newer = sorted(seqs - {logged.seq for logged in known})
    if not newer:
        return known, {}
    about: set[tuple[str, int]] = set()
    for some in batched(newer):
        indexed = select(subjects.c.id, subjects.c.seq).where(subjects.c.seq.in_(some))
        recorded = [
            select(c, entries.c.seq).where(entries.c.seq.in_(some)) for c in (entries.c.result_id, entries.c.run_id)
        ]
        about |= {(row.id, row.seq) for row in ledger.database.rows(union(indexed, *recorded))}
    return known, dict(Counter(name for name, _ in about if name in set(asked)))


def newer_kinds(ledger: Ledger) -> dict[str, int]:
    """How many entries there are of each kind that this version does not know: a newer one wrote them."""
    known, kind = sorted(kind.value for kind in EntryKind), entries.c.kind
    between = (and_(kind > a, kind < b) for a, b in pairwise(known))  # ranges of the index, and no look at every entry
    other = or_(kind < known[0], *between, kind > known[-1])
    counted = select(kind, func.count().label("entries")).where(other).group_by(kind).order_by(kind)
    return {row.kind: row.entries for row in ledger.database.rows(counted)}


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


def newest_of_kind(ledger: Ledger, kinds: Sequence[str], limit: int, before: int | None = None) -> list[Logged]:
    """The newest entries of kinds, or of those that stand before one, newest first."""
    chosen = select(entries.c.seq).where(entries.c.kind.in_(list(kinds))).order_by(entries.c.seq.desc()).limit(limit)
    if before is not None:
        chosen = chosen.where(entries.c.seq < before)
    return ledger.read_all([row.seq for row in ledger.database.rows(chosen)])[::-1]


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
    if wanted.results:
        chosen = chosen.where(results.c.result_id.in_(wanted.results))
    if wanted.before is not None:
        chosen = chosen.where(tuple_(results.c.started_s, results.c.seq) < tuple_(*map(literal, wanted.before)))
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
