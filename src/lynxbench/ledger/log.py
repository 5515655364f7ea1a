"""The log: entries appended one after the other, each proven to be in it, the whole checked again from its bytes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from lynxbench.errors import BadLedger, EvidenceInvalid, NewerEntry, NotFound, Refused
from lynxbench.evidence.envelope import Envelope, parse_envelope
from lynxbench.evidence.statement import open_entry, parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger import merkle
from lynxbench.ledger.database import Database
from lynxbench.ledger.index_rows import IndexRows, Row, entry_columns, index_rows
from lynxbench.ledger.ledger_tables import (
    LEDGER_SCHEMA,
    entries,
    figures,
    nodes,
    open_runs,
    properties,
    results,
    subjects,
    times,
)
from lynxbench.ledger.run_owners import SignedEntry, refuse_foreign_run
from lynxbench.ledger.schema_text import DIGEST
from lynxbench.model.entries import Entry, EntryKind

T = TypeVar("T")

AT_ONCE = 500
"""Ids in one question: every database takes as many variables."""
INVENTED_ENTRY = "a worked example, whose figures are invented; no ledger but the example's own takes it"


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry with its place in the log."""

    seq: int
    logged_at: str
    envelope: Envelope
    entry: Entry

    @property
    def judged_at(self) -> datetime:
        """The time its keys are judged at: a stolen key can write an early date into an entry, not into the log."""
        return max(parse_time(self.entry.made_at), parse_time(self.logged_at))


@dataclass(frozen=True, slots=True)
class TreeHead:
    """The state of a log: its size and the hash over everything in it."""

    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """That one leaf is in a tree."""

    seq: int
    leaf: bytes
    head: TreeHead
    path: tuple[bytes, ...]


class Ledger:
    """An open ledger. `create=False` refuses one that is not there yet; `trust` says which keys are of one team.

    Only an `example` takes what is invented.
    """

    def __init__(
        self,
        url: str,
        *,
        create: bool = True,
        blobs: str | None = None,
        trust: Callable[[], TrustList] = TrustList,
        example: bool = False,
    ) -> None:
        self._trust = trust
        self.database = Database(url, LEDGER_SCHEMA)
        self.example = example
        self.documents: Callable[[str], bytes] | None = None
        """What an entry's documents are read with, where they are at hand."""
        try:
            if not create and self.database.schema() is None:
                raise BadLedger(f"{self.database.name}: no ledger here yet; the first recorded run makes one")
            self.database.make_ready()
            stored = self._properties() or self._initialise(blobs)
        except BaseException:
            self.database.close()
            raise
        if "origin" not in stored:
            self.database.close()
            raise EvidenceInvalid(f"{self.database.name}: does not say which ledger it is; it was damaged")
        self.origin = stored["origin"]
        self.blobs_url: str | None = stored.get("blobs")

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, envelope: Envelope) -> int:
        """Append one entry and return its number; on the disk when this returns. Appending it again changes nothing."""
        return self.append_all([envelope])[0]

    def append_all(self, envelopes: Sequence[Envelope], trust: TrustList | None = None) -> list[int]:
        """Append entries in this order, all of them or none.

        `trust` says whose keys signed what comes from others; one's own entries are judged by the ledger's own list.
        """
        incoming = [_incoming(envelope) for envelope in envelopes]
        if not self.example and any(entry.invented for _, entry in incoming):
            raise Refused(f"{self.database.name}: {INVENTED_ENTRY}")
        known_keys = self._trust() if trust is None and any(row["run_id"] is not None for row, _ in incoming) else trust
        with self.database.writing() as connection:
            leaves = [row["leaf"] for row, _ in incoming]
            known = _known(connection, leaves)
            frontier, now = _frontier(connection), self._now(connection)
            digest = _time_digest(connection, frontier.size)
            fresh: list[tuple[Row, Entry]] = []
            completed: list[merkle.TreeNode] = []
            chained: list[Row] = []
            pending: dict[str, list[SignedEntry]] = {}
            for (row, entry), envelope in zip(incoming, envelopes, strict=True):
                if row["leaf"] in known:
                    continue
                if row["run_id"] is not None:
                    of_run = pending.setdefault(row["run_id"], [])
                    refuse_foreign_run(connection, SignedEntry(envelope, entry), of_run, known_keys or TrustList())
                    of_run.append(SignedEntry(envelope, entry))
                known[row["leaf"]] = frontier.size
                fresh.append(({**row, "seq": frontier.size, "logged_at": now}, entry))
                digest = merkle.chain_time(digest, row["leaf"], now)
                chained.append({"seq": frontier.size, "digest": digest})
                frontier, made = frontier.appended(row["leaf"])
                completed += made[1:]
            if fresh:
                connection.execute(_ADD_ENTRY, [row for row, _ in fresh])
                connection.execute(_ADD_TIME, chained)
            if completed:
                connection.execute(_ADD_NODE, [{name: getattr(node, name) for name in _NODE} for node in completed])
            index(connection, [index_rows(row["seq"], entry) for row, entry in fresh])
            return [known[leaf] for leaf in leaves]

    # --- reading ------------------------------------------------------------------------------------------------------

    def head(self) -> TreeHead:
        """The log's size and root, from the stored tree."""
        with self.database.reading() as connection:
            return _head(connection)

    def read(self, seq: int) -> Logged:
        """One entry by its number."""
        statement = _ENTRY.where(entries.c.seq == seq)
        return _logged(self.database.one(statement, f"{self.database.name}: no entry {seq}"))

    def read_all(self, seqs: Sequence[int]) -> list[Logged]:
        """Entries by their numbers, in the log's order; those of kinds that this version does not know are left out."""
        with self.database.reading() as connection:
            chosen = (_ENTRY.where(entries.c.seq.in_(some)) for some in batched(seqs))
            rows = [row for statement in chosen for row in connection.execute(statement)]
        return _all_known(rows)

    def read_where(self, *conditions: ColumnElement[bool]) -> list[Logged]:
        """Entries by what is asked of their columns, in the log's order: one question instead of two."""
        return _all_known(self.stored_where(*conditions))

    def stored_where(self, *conditions: ColumnElement[bool]) -> Sequence[Any]:
        """The same as rows of the database, for whoever opens thousands of them: `checked_envelope` proves each."""
        return self.database.rows(_ENTRY.where(*conditions))

    def known(self, envelopes: Sequence[Envelope]) -> set[Envelope]:
        """Those that the log has already."""
        leaves = {merkle.leaf_hash(envelope.to_bytes()): envelope for envelope in envelopes}
        with self.database.reading() as connection:
            return {leaves[leaf] for leaf in _known(connection, list(leaves))}

    def prove(self, seq: int, size: int | None = None) -> Proof:
        """That an entry is in the log, or in the log as it was when it held `size` entries."""
        return self.prove_all([seq], size)[0]

    def prove_all(self, seqs: Sequence[int], size: int | None = None) -> list[Proof]:
        """The same for many entries, whose tree nodes are fetched together."""
        proofs: list[Proof] = []
        with self.database.reading() as connection:
            whole = _within(connection, size)
            for seq in seqs:
                if not 0 <= seq < whole:
                    raise NotFound(f"{self.database.name}: no entry {seq} among the first {whole}")
            for some in batched(seqs):
                proofs += _with_nodes(connection, lambda read, some=some: _proofs(read, some, whole))  # type: ignore[misc]
        return proofs

    def prove_extends(self, earlier: int, size: int | None = None) -> tuple[TreeHead, tuple[bytes, ...]]:
        """The log now, or when it held `size` entries, and the proof that it begins with its first `earlier` ones."""
        with self.database.reading() as connection:
            whole = _within(connection, size)
            head = TreeHead(whole, _with_nodes(connection, lambda read: merkle.read_frontier(read, whole).root))
            known = min(earlier, head.size)
            return head, _with_nodes(connection, lambda read: merkle.prove_consistency(read, known, head.size))

    def time_digest(self, size: int) -> bytes:
        """The hash over when each of the first `size` entries was logged."""
        with self.database.reading() as connection:
            return _time_digest(connection, size)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _now(self, connection: Connection) -> str:
        """The ledger's own time: of a shared database its clock, not that of whoever writes."""
        now = datetime.now(UTC) if self.database.is_sqlite else connection.execute(_NOW).scalar_one()
        return str(now.astimezone(UTC).isoformat(timespec="milliseconds"))

    def _properties(self) -> dict[str, str]:
        return {row.name: row.value for row in self.database.rows(_SAID)}

    def _initialise(self, blobs: str | None) -> dict[str, str]:
        if blobs is None and not self.database.is_sqlite:
            raise BadLedger(
                f"{self.database.name}: a new ledger must say where its documents are kept, for everybody who uses it; "
                "set LYNXBENCH_BLOBS to a shared folder or s3://…"
            )
        with self.database.writing() as connection:
            there = {row.name: row.value for row in connection.execute(_SAID)}
            if there:  # somebody was quicker
                return there
            made = {"origin": f"lynxbench-ledger-{secrets.token_hex(16)}"} | ({"blobs": blobs} if blobs else {})
            connection.execute(properties.insert(), [{"name": name, "value": value} for name, value in made.items()])
            return made


# built once: the database layer remembers how each of them is compiled
_SAID = select(properties).where(~properties.c.name.startswith(DIGEST))
_before = times.alias()
_chained = entries.outerjoin(times, times.c.seq == entries.c.seq)
_ENTRY = select(
    entries.c.seq, entries.c.logged_at, entries.c.envelope, times.c.digest, _before.c.digest.label("before")
).select_from(_chained.outerjoin(_before, _before.c.seq == entries.c.seq - 1))
_TIMES = select(times.c.digest).where(times.c.seq == bindparam("seq"))
_NOW = select(func.clock_timestamp())
_LAST = select(func.coalesce(func.max(entries.c.seq), -1))
_KNOWN = select(entries.c.leaf, entries.c.seq).where(entries.c.leaf.in_(bindparam("leaves", expanding=True)))
_ADD_ENTRY, _ADD_NODE, _NODE = entries.insert(), nodes.insert(), ("level", "position", "digest")
_ADD_TIME = times.insert()
_ADD_RESULT, _ADD_FIGURE, _ADD_SUBJECT = results.insert(), figures.insert(), subjects.insert()
_ADD_OPEN, _END_OPEN = open_runs.insert(), open_runs.delete().where(open_runs.c.run_id == bindparam("run"))
_ENDS_OF_RUN = (
    select(entries.c.seq)
    .where(entries.c.run_id == bindparam("run"), entries.c.kind.in_([EntryKind.RESULT, EntryKind.ABANDONED]))
    .limit(1)
)


def index(connection: Connection, rows: Sequence[IndexRows]) -> None:
    """Write the index rows of entries that are stored already."""
    begun = [entry.begins for entry in rows if entry.begins]
    begun = [row for row in begun if connection.execute(_ENDS_OF_RUN, {"run": row["run_id"]}).first() is None]
    for statement, made in (
        (_ADD_RESULT, [entry.result for entry in rows if entry.result]),
        (_ADD_FIGURE, [row for entry in rows for row in entry.figures]),
        (_ADD_SUBJECT, [row for entry in rows for row in entry.subjects]),
        (_ADD_OPEN, begun),
        (_END_OPEN, [{"run": entry.ends} for entry in rows if entry.ends is not None]),
    ):
        if made:
            connection.execute(statement, made)


def _known(connection: Connection, leaves: Sequence[bytes]) -> dict[bytes, int]:
    rows = [row for some in batched(leaves) for row in connection.execute(_KNOWN, {"leaves": some})]
    return {row.leaf: row.seq for row in rows}


def batched(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Ids in as many pieces as questions are needed."""
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))


def _proofs(read: merkle.ReadNode, numbers: Sequence[int], whole: int) -> list[Proof]:
    head = TreeHead(whole, merkle.read_frontier(read, whole).root)
    return [Proof(seq, read(0, seq), head, merkle.prove_inclusion(read, seq, whole)) for seq in numbers]


def _frontier(connection: Connection) -> merkle.Frontier:
    size = _within(connection, None)
    return _with_nodes(connection, lambda read: merkle.read_frontier(read, size))


def _within(connection: Connection, size: int | None) -> int:
    there = int(connection.execute(_LAST).scalar_one()) + 1
    if size is not None and size > there:
        raise NotFound(f"the ledger holds {there} entries, not {size}")
    return there if size is None else size


def _head(connection: Connection) -> TreeHead:
    frontier = _frontier(connection)
    return TreeHead(frontier.size, frontier.root)


def _with_nodes(connection: Connection, use: Callable[[merkle.ReadNode], T]) -> T:
    """Whatever is computed from tree nodes, with all of them fetched together: first which ones, then their hashes."""
    places: dict[tuple[int, int], None] = {}

    def note(level: int, position: int) -> bytes:
        places[level, position] = None
        return b""

    use(note)
    digests: dict[tuple[int, int], Any] = {}
    if places:
        rows = connection.exec_driver_sql(_nodes_statement(places))
        digests = {(level, position): digest for level, position, digest in rows}

    def read(level: int, position: int) -> bytes:
        digest = digests.get((level, position))
        if not isinstance(digest, bytes) or len(digest) != merkle.HASH_BYTES:
            raise EvidenceInvalid(f"the ledger's tree lacks node {position} of level {level}; it was damaged")
        return digest

    return use(read)


_ABOVE = (  # SQLite answers a row-value IN by reading the whole table; CROSS JOIN makes it begin with the places
    "SELECT n.level, n.position, n.digest FROM (SELECT 0 AS level, 0 AS position WHERE 1 = 0 UNION ALL VALUES {}) AS w "
    "CROSS JOIN ledger_nodes AS n WHERE n.level = w.level AND n.position = w.position"
)


def _nodes_statement(places: Iterable[tuple[int, int]]) -> str:
    """One statement for all of them. Only integers that this file computed go into it."""
    above = ",".join(f"({int(level)},{int(position)})" for level, position in places if level > 0)
    leaves = ",".join(str(int(position)) for level, position in places if level == 0)
    parts = []
    if above:
        parts.append(_ABOVE.format(above))
    if leaves:
        parts.append(f"SELECT 0, seq, leaf FROM ledger_entries WHERE seq IN ({leaves})")
    return " UNION ALL ".join(parts)


def _incoming(envelope: Envelope) -> tuple[Row, Entry]:
    data, entry = envelope.to_bytes(), open_entry(envelope)
    return {"leaf": merkle.leaf_hash(data), "envelope": data, **entry_columns(entry, envelope)}, entry


def checked_envelope(row: Any) -> bytes:
    """The bytes of an entry's row, proven to be those that were logged, at the time that it says."""
    data, logged_at = row.envelope, row.logged_at
    if not isinstance(data, bytes) or not isinstance(logged_at, str):  # SQLite lets an editor change a value's type
        raise EvidenceInvalid(f"entry {row.seq} was changed after it was recorded")
    before = merkle.NO_TIME if row.seq == 0 else row.before
    if not isinstance(before, bytes) or merkle.chain_time(before, merkle.leaf_hash(data), logged_at) != row.digest:
        raise EvidenceInvalid(f"entry {row.seq}, or the time at which it was logged, was changed after it was recorded")
    return data


def _logged(row: Any) -> Logged:
    envelope = parse_envelope(checked_envelope(row))
    return Logged(row.seq, row.logged_at, envelope, open_entry(envelope))


def _all_known(rows: Sequence[Any]) -> list[Logged]:
    known = []
    for row in sorted(rows, key=lambda row: row.seq):
        with suppress(NewerEntry):
            known.append(_logged(row))
    return known


def _time_digest(connection: Connection, size: int) -> bytes:
    if size == 0:
        return merkle.NO_TIME
    digest = connection.execute(_TIMES, {"seq": size - 1}).scalar()
    if not isinstance(digest, bytes) or len(digest) != merkle.HASH_BYTES:
        raise EvidenceInvalid(f"the ledger lacks the time of entry {size - 1}; it was damaged")
    return digest
