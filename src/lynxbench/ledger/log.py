"""The log: entries appended one after the other, each proven to be in it, the whole checked again from its bytes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from lynxbench.errors import BadLedger, EvidenceInvalid, NotFound
from lynxbench.evidence.envelope import Envelope, parse_envelope
from lynxbench.evidence.statement import open_entry, parse_time
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
)
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, EntryKind, ResultRecorded

T = TypeVar("T")

AT_ONCE = 500
"""Ids in one question: every database takes as many variables."""
MAX_ENTRIES_READ = 5000
"""Rows fetched at once when the whole log is read."""


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
    """An open ledger. `create=False` refuses one that is not there yet."""

    def __init__(self, url: str, *, create: bool = True, blobs: str | None = None) -> None:
        self.database = Database(url, LEDGER_SCHEMA)
        try:
            if not create and self.database.schema() is None:
                raise BadLedger(f"{self.database.name}: no ledger here yet; the first recorded run makes one")
            self.database.make_ready()
            stored = self._properties() or self._initialise(blobs)
        except BaseException:
            self.database.close()
            raise
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

    def append_all(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append entries in this order, all of them or none."""
        incoming = [_incoming(envelope) for envelope in envelopes]
        with self.database.writing() as connection:
            leaves = [row["leaf"] for row, _ in incoming]
            known = _known(connection, leaves)
            frontier, now = _frontier(connection), datetime.now(UTC).isoformat(timespec="milliseconds")
            fresh: list[tuple[Row, Entry]] = []
            completed: list[merkle.TreeNode] = []
            for row, entry in incoming:
                if row["leaf"] not in known:
                    _refuse_second_result(connection, entry, [other for _, other in fresh])
                    known[row["leaf"]] = frontier.size
                    fresh.append(({**row, "seq": frontier.size, "logged_at": now}, entry))
                    frontier, made = frontier.appended(row["leaf"])
                    completed += made[1:]
            if fresh:
                connection.execute(_ADD_ENTRY, [row for row, _ in fresh])
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
        return _logged(*self.database.one(statement, f"{self.database.name}: no entry {seq}"))

    def read_all(self, seqs: Sequence[int]) -> list[Logged]:
        """Entries by their numbers, in the log's order."""
        with self.database.reading() as connection:
            chosen = (_ENTRY.where(entries.c.seq.in_(some)) for some in batched(seqs))
            rows = [row for statement in chosen for row in connection.execute(statement)]
        return [_logged(*row) for row in sorted(rows, key=lambda row: row.seq)]

    def read_where(self, *conditions: ColumnElement[bool]) -> list[Logged]:
        """Entries by what is asked of their columns, in the log's order: one question instead of two."""
        return [_logged(*row) for row in sorted(self.database.rows(_ENTRY.where(*conditions)), key=lambda row: row.seq)]

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

    def recompute(self) -> TreeHead:
        """Recompute the tree from the envelopes' bytes; EvidenceInvalid where anything stored differs from it."""
        frontier, expected_nodes = merkle.Frontier(), 0
        with self.database.reading() as connection:
            streamed = connection.execution_options(yield_per=MAX_ENTRIES_READ)
            for row in streamed.execute(select(entries).order_by(entries.c.seq)):
                if row.seq != frontier.size:
                    raise EvidenceInvalid(f"{self.database.name}: entry {frontier.size} is missing from the log")
                data = row.envelope
                leaf = merkle.leaf_hash(data) if isinstance(data, bytes) else b""
                if leaf != row.leaf:
                    raise EvidenceInvalid(f"{self.database.name}: entry {row.seq} was changed after it was recorded")
                entry = open_entry(parse_envelope(data))
                if any(getattr(row, name) != value for name, value in entry_columns(entry).items()):
                    raise EvidenceInvalid(f"{self.database.name}: the index of entry {row.seq} says what it does not")
                frontier, made = frontier.appended(leaf)
                expected_nodes += len(made) - 1
            stored = connection.execute(select(func.count()).select_from(nodes)).scalar_one()
            if stored != expected_nodes or _frontier(connection) != frontier:
                raise EvidenceInvalid(f"{self.database.name}: the stored tree is not the tree of the entries")
        return TreeHead(frontier.size, frontier.root)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _properties(self) -> dict[str, str]:
        return {row.name: row.value for row in self.database.rows(select(properties))}

    def _initialise(self, blobs: str | None) -> dict[str, str]:
        if blobs is None and not self.database.is_sqlite:
            raise BadLedger(
                f"{self.database.name}: a new ledger must say where its documents are kept, for everybody who uses it; "
                "set LYNXBENCH_BLOBS to a shared folder or s3://…"
            )
        with self.database.writing() as connection:
            there = {row.name: row.value for row in connection.execute(select(properties))}
            if there:  # somebody was quicker
                return there
            made = {"origin": f"lynxbench-ledger-{secrets.token_hex(16)}"} | ({"blobs": blobs} if blobs else {})
            connection.execute(properties.insert(), [{"name": name, "value": value} for name, value in made.items()])
            return made


# built once: the database layer remembers how each of them is compiled
_ENTRY = select(entries.c.seq, entries.c.logged_at, entries.c.envelope)
_LAST = select(func.coalesce(func.max(entries.c.seq), -1))
_KNOWN = select(entries.c.leaf, entries.c.seq).where(entries.c.leaf.in_(bindparam("leaves", expanding=True)))
_RESULTS_OF_RUN = select(entries.c.result_id).where(
    entries.c.run_id == bindparam("run"), entries.c.kind == EntryKind.RESULT.value
)
_ADD_ENTRY, _ADD_NODE, _NODE = entries.insert(), nodes.insert(), ("level", "position", "digest")
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
        (_END_OPEN, [{"run": entry.ends} for entry in rows if entry.ends]),
    ):
        if made:
            connection.execute(statement, made)


def _refuse_second_result(connection: Connection, entry: Entry, pending: Sequence[Entry]) -> None:
    """A run has one result: measuring until the figure pleases needs a run, and a registration, for each time."""
    body = entry.body
    if not isinstance(body, ResultRecorded):
        return
    if len({summary.precision for summary in body.per_precision}) != len(body.per_precision):
        raise EvidenceInvalid(f"result {short(body.result_id)}: a precision is listed twice")
    earlier = {row.result_id for row in connection.execute(_RESULTS_OF_RUN, {"run": body.run_id})}
    bodies = [other.body for other in pending if isinstance(other.body, ResultRecorded)]
    earlier |= {other.result_id for other in bodies if other.run_id == body.run_id}
    other = earlier - {body.result_id}
    if other:
        raise EvidenceInvalid(f"run {body.run_id} already has result {short(other.pop())}; a run has one result")


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
    signers = " ".join(signature.keyid for signature in envelope.signatures)
    return {"leaf": merkle.leaf_hash(data), "envelope": data, "signers": signers, **entry_columns(entry)}, entry


def _logged(seq: int, logged_at: str, envelope: object) -> Logged:
    if not isinstance(envelope, bytes):  # SQLite lets whoever edits the file change a value's type
        raise EvidenceInvalid(f"entry {seq} was changed after it was recorded")
    parsed = parse_envelope(envelope)
    return Logged(seq, logged_at, parsed, open_entry(parsed))
