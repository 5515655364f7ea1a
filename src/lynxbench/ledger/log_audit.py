"""A ledger held against its own entries: tree, times and every row of the index are made again and compared.

One pass in the log's order, with each table read beside it, so that a long log needs no more memory than a short one.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from lynxbench.errors import EvidenceInvalid, LynxbenchError, NewerEntry
from lynxbench.evidence.envelope import Envelope, parse_envelope
from lynxbench.evidence.statement import newer_columns, open_entry, parse_time
from lynxbench.ledger import merkle
from lynxbench.ledger.index_rows import IndexRows, Row, entry_columns, index_rows
from lynxbench.ledger.ledger_tables import entries, figures, nodes, open_runs, results, subjects, times
from lynxbench.ledger.log import Ledger, TreeHead
from lynxbench.ledger.schema_text import refuse_changed_schema
from lynxbench.model.entries import Entry

STEP = timedelta(seconds=1)
"""Clocks are kept by changing their speed; more than this is somebody's doing, or a correction."""
MAX_ENTRIES_READ = 5000
"""Rows fetched at once."""
_REPAIR = "the entries themselves hold: restore the file from a copy, or take its bundles into a new ledger"


def recompute(ledger: Ledger) -> TreeHead:
    """Make tree, times and index again from the envelopes' bytes; EvidenceInvalid where anything stored differs."""
    try:
        return _audit(ledger)
    except LynxbenchError:
        raise
    except Exception as error:  # a file that somebody edited can be wrong in any way
        raise EvidenceInvalid(f"{ledger.database.name}: damaged ({type(error).__name__}: {error})") from error


def logged_backwards(ledger: Ledger) -> tuple[str, ...]:
    """Entries that were logged before the one before them: the clock was set back, and what it says is a doubt.

    The order is in the tree; a registration after a run looks like one before it only by such a clock.
    """
    later = entries.alias()
    chosen = (
        sa.select(later.c.seq, entries.c.logged_at.label("before"), later.c.logged_at)
        .join(later, later.c.seq == entries.c.seq + 1)
        .where(later.c.logged_at < entries.c.logged_at)
        .order_by(later.c.seq)
    )
    steps = [(row.seq, parse_time(row.before) - parse_time(row.logged_at)) for row in ledger.database.rows(chosen)]
    return tuple(
        f"entry {seq} was logged {step.total_seconds():.0f} s before entry {seq - 1}: the clock was set back"
        for seq, step in steps
        if step > STEP
    )


def _audit(ledger: Ledger) -> TreeHead:
    """The log's head, made from the envelopes alone; EvidenceInvalid names the first table and row that differ."""
    name = ledger.database.name
    with ledger.database.reading() as connection:
        _refuse_broken_file(connection, name)
        streamed = connection.execution_options(yield_per=MAX_ENTRIES_READ)
        with ExitStack() as streams:
            head = _Comparison(streamed, name, streams).head()
        missing = ledger.database.missing_guards(connection)
        if missing:
            raise EvidenceInvalid(
                f"{name}: {missing[0]} does not guard its table any more; somebody could change it since"
            )
        if ledger.database.is_sqlite:
            refuse_changed_schema(connection, name)
    return head


def _refuse_broken_file(connection: sa.Connection, name: str) -> None:
    """SQLite's own check of its pages and of the rows in its indexes, which no question may ever read."""
    if connection.dialect.name != "sqlite":
        return
    said = str(connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar())
    if said != "ok":
        raise EvidenceInvalid(f"{name}: the file is damaged ({' '.join(said.split())}); restore it from a copy")


class _Comparison:
    """Every table beside the entries."""

    def __init__(self, connection: sa.Connection, name: str, streams: ExitStack) -> None:
        self._connection, self._name, self._streams = connection, name, streams
        self._tables = {table.name: self._rows(table) for table in (times, results, figures, subjects)}
        self._frontier, self._time = merkle.Frontier(), merkle.NO_TIME
        self._completed: list[merkle.TreeNode] = []
        self._nodes = 0
        self._open: dict[str, list[Row]] = {}
        self._ended: set[str] = set()

    def head(self) -> TreeHead:
        """Compare all of it."""
        for row in self._stream(entries):
            self._compare(row)
            if len(self._completed) >= MAX_ENTRIES_READ:
                self._compare_nodes()
        self._compare_nodes()
        for table in self._tables.values():
            table.end()
        self._compare_open_runs()
        stored = self._connection.execute(sa.select(sa.func.count()).select_from(nodes)).scalar_one()
        if stored != self._nodes:
            raise EvidenceInvalid(f"{self._name}: the stored tree is not the tree of the entries")
        return TreeHead(self._frontier.size, self._frontier.root)

    def _rows(self, table: sa.Table) -> "_Rows":
        return _Rows(self._stream(table), table, self._name)

    def _stream(self, table: sa.Table) -> sa.CursorResult[Any]:
        """A table in the order of its entries; closed with the comparison, also where that ends early."""
        rows = self._connection.execute(sa.select(table).order_by(table.c.seq))
        return self._streams.enter_context(closing(rows))

    def _compare(self, row: Any) -> None:
        name, seq = self._name, self._frontier.size
        if row.seq != seq:
            raise EvidenceInvalid(f"{name}: entry {seq} is missing from the log")
        leaf = merkle.leaf_hash(row.envelope) if isinstance(row.envelope, bytes) else b""
        if leaf != row.leaf:
            raise EvidenceInvalid(f"{name}: entry {seq} was changed after it was recorded")
        envelope = parse_envelope(row.envelope)
        entry = _known_entry(envelope)
        columns = newer_columns(envelope) if entry is None else entry_columns(entry, envelope)
        if any(getattr(row, column) != value for column, value in columns.items()):
            raise EvidenceInvalid(f"{name}: the index of entry {seq} says what it does not")
        parse_time(row.logged_at)
        self._time = merkle.chain_time(self._time, leaf, row.logged_at)
        made = IndexRows([]) if entry is None else index_rows(seq, entry)
        self._tables[times.name].expect(seq, [{"seq": seq, "digest": self._time}])
        self._tables[results.name].expect(seq, [made.result] if made.result else [])
        self._tables[figures.name].expect(seq, made.figures)
        if entry is None:  # which ids a newer kind is found by, that version knows; it is in no list of results
            self._tables[subjects.name].skip(seq)
        else:
            self._tables[subjects.name].expect(seq, made.subjects)
        if made.begins is not None:
            self._open.setdefault(made.begins["run_id"], []).append(made.begins)
        if made.ends is not None:
            self._ended.add(made.ends)
        self._frontier, completed = self._frontier.appended(leaf)
        self._completed += completed[1:]

    def _compare_nodes(self) -> None:
        levels: dict[int, dict[int, bytes]] = {}
        for node in self._completed:
            levels.setdefault(node.level, {})[node.position] = node.digest
        for level, expected in levels.items():
            between = nodes.c.position.between(min(expected), max(expected))
            chosen = sa.select(nodes.c.position, nodes.c.digest).where(nodes.c.level == level, between)
            if {row.position: row.digest for row in self._connection.execute(chosen)} != expected:
                raise EvidenceInvalid(f"{self._name}: the stored tree is not the tree of the entries (level {level})")
        self._nodes += len(self._completed)
        self._completed = []

    def _compare_open_runs(self) -> None:
        """A registered run is open until the log has its result or its abandonment, in whichever order they came."""
        still = [row for run_id, rows in self._open.items() if run_id not in self._ended for row in rows]
        stored = self._rows(open_runs)
        for row in sorted(still, key=lambda row: int(row["seq"])):
            stored.expect(row["seq"], [row])
        stored.end()


class _Rows:
    """The rows of one table by the entry that they are of, read beside the entries."""

    def __init__(self, rows: sa.CursorResult[Any], table: sa.Table, name: str) -> None:
        self._table, self._name = table, name
        self._columns = tuple(table.columns.keys())
        self._groups = ((seq, [tuple(row) for row in group]) for seq, group in groupby(rows, key=attrgetter("seq")))
        self._next = next(self._groups, None)

    def expect(self, seq: int, rows: Sequence[Row]) -> None:
        """That the table holds these rows of an entry, and no others."""
        if self._next is not None and self._next[0] < seq:
            self._refuse(*self._next, ())
        stored: list[tuple[object, ...]] = []
        if self._next is not None and self._next[0] == seq:
            stored = self._next[1]
            self._next = next(self._groups, None)
        expected = [tuple(row[column] for column in self._columns) for row in rows]
        if len(stored) != len(expected) or set(stored) != set(expected):
            self._refuse(seq, stored, expected)

    def skip(self, seq: int) -> None:
        """Whatever the table holds of an entry."""
        if self._next is not None and self._next[0] < seq:
            self._refuse(*self._next, ())
        if self._next is not None and self._next[0] == seq:
            self._next = next(self._groups, None)

    def end(self) -> None:
        """That nothing is left."""
        if self._next is not None:
            self._refuse(*self._next, ())

    def _refuse(self, seq: int, stored: Sequence[tuple[object, ...]], expected: Sequence[tuple[object, ...]]) -> None:
        lost = [row for row in expected if row not in stored]
        added = [row for row in stored if row not in expected]
        if lost and added:
            differing = [
                f"{column} is {_shown(now)}, the entry says {_shown(then)}"
                for column, now, then in zip(self._columns, added[0], lost[0], strict=True)
                if now != then
            ]
            what = differing[0]
        elif lost:
            what = f"a row is missing: {_row_shown(self._columns, lost[0])}"
        else:
            what = f"a row is there that no entry makes: {_row_shown(self._columns, added[0] if added else ())}"
        raise EvidenceInvalid(f"{self._name}: {self._table.name} of entry {seq}: {what}; {_REPAIR}")


def _known_entry(envelope: Envelope) -> Entry | None:
    """The entry; None where it is of a kind that only a newer version knows."""
    try:
        return open_entry(envelope)
    except NewerEntry:
        return None


def _row_shown(columns: Sequence[str], row: Sequence[object]) -> str:
    return ", ".join(f"{column} {_shown(value)}" for column, value in zip(columns, row, strict=False))


def _shown(value: object) -> str:
    """A value for a line: hashes by their beginning."""
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
