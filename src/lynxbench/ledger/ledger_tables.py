"""The ledger's tables. Entries and tree nodes are the record; everything else is an index that entries rebuild."""

from pathlib import Path

import sqlalchemy as sa

from lynxbench.ledger.database import NUMBER, Schema
from lynxbench.ledger.schema_text import keep_schema_digest

metadata = sa.MetaData()

properties = sa.Table(
    "ledger_properties",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""What the ledger is: `origin` names it for ever, `blobs` says where its documents are kept."""

entries = sa.Table(
    "ledger_entries",
    metadata,
    sa.Column("seq", NUMBER, primary_key=True, autoincrement=False),
    sa.Column("leaf", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("made_at", sa.String(40), nullable=False),
    sa.Column("logged_at", sa.String(40), nullable=False),
    sa.Column("contract_id", sa.String(64)),
    sa.Column("executor_id", sa.String(64)),
    sa.Column("result_id", sa.String(64)),
    sa.Column("run_id", sa.String(200)),
    sa.Column("signers", sa.Text, nullable=False),
)
"""The record itself: leaf number, leaf hash, the signed envelope, and copies of what is asked for most."""
sa.Index("ledger_entries_kind", entries.c.kind, entries.c.seq)
sa.Index("ledger_entries_run", entries.c.run_id, entries.c.kind)
sa.Index("ledger_entries_result", entries.c.result_id, entries.c.kind)
sa.Index("ledger_entries_contract", entries.c.contract_id, entries.c.kind, entries.c.seq)
# In SQL that both databases read: an `Index` with a condition for PostgreSQL loads its dialect with every command.
INDEX_ANNOUNCED = sa.DDL(  # type: ignore[no-untyped-call]
    "CREATE INDEX ledger_entries_announced ON ledger_entries (contract_id, signers, run_id) WHERE kind = 'registration'"
)
sa.event.listen(entries, "after_create", INDEX_ANNOUNCED)

nodes = sa.Table(
    "ledger_nodes",
    metadata,
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sqlite_with_rowid=False,
)
"""Perfect subtrees above the leaves: each written once, never changed."""

times = sa.Table(
    "ledger_times",
    metadata,
    sa.Column("seq", NUMBER, sa.ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
)
"""A chain of hashes over leaves and the times at which they were logged, for these are not in the tree."""

checkpoints = sa.Table(
    "ledger_checkpoints",
    metadata,
    sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
    sa.Column("tree_size", sa.BigInteger, nullable=False),
    sa.Column("root", sa.LargeBinary(32), nullable=False),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.Column("logged_at", sa.String(40), nullable=False),
)
"""Signed states of the tree, each with the signatures it had when it was stored."""
sa.Index("ledger_checkpoints_size", checkpoints.c.tree_size)

results = sa.Table(
    "ledger_results",
    metadata,
    sa.Column("seq", NUMBER, sa.ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    sa.Column("result_id", sa.String(64), nullable=False),
    sa.Column("run_id", sa.String(200), nullable=False),
    sa.Column("contract_id", sa.String(64), nullable=False),
    sa.Column("contract_name", sa.Text, nullable=False),
    sa.Column("executor_id", sa.String(64), nullable=False),
    sa.Column("instance_id", sa.String(64), nullable=False),
    sa.Column("weights", sa.String(64)),
    sa.Column("layer_ids", sa.Text, nullable=False),
    sa.Column("started_s", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.String(40), nullable=False),
    sa.Column("validity", sa.String(12), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("bottleneck", sa.Text),
)
"""One row a result, for lists and histories."""
sa.Index("ledger_results_id", results.c.result_id)
sa.Index("ledger_results_instance", results.c.instance_id, results.c.seq)
sa.Index("ledger_results_started", results.c.started_s, results.c.seq)
sa.Index("ledger_results_contract", results.c.contract_id, results.c.started_s, results.c.seq)
sa.Index("ledger_results_executor", results.c.executor_id, results.c.started_s, results.c.seq)
sa.Index("ledger_results_validity", results.c.validity, results.c.started_s, results.c.seq)

figures = sa.Table(
    "ledger_figures",
    metadata,
    sa.Column("seq", NUMBER, sa.ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    sa.Column("precision", sa.String(20), primary_key=True),
    sa.Column("contract_id", sa.String(64), nullable=False),
    sa.Column("started_s", sa.BigInteger, nullable=False),
    sa.Column("low", sa.Float),
    sa.Column("estimate", sa.Float),
    sa.Column("high", sa.Float),
    sa.Column("unit", sa.Text),
    sa.Column("run_means", sa.Text, nullable=False),
    sa.Column("validity", sa.String(12), nullable=False),
    sa.Column("steady", sa.Text),
)
"""One row a precision of a result."""
sa.Index("ledger_figures_precision", figures.c.precision, figures.c.started_s, figures.c.seq)
sa.Index("ledger_figures_history", figures.c.contract_id, figures.c.precision, figures.c.started_s, figures.c.seq)

subjects = sa.Table(
    "ledger_subjects",
    metadata,
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("seq", NUMBER, sa.ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    sa.Column("what", sa.String(20), primary_key=True),
    sqlite_with_rowid=False,
)
"""Every id that an entry speaks of: how names are found, and how everything about a result travels with it."""

open_runs = sa.Table(
    "ledger_open_runs",
    metadata,
    sa.Column("seq", NUMBER, sa.ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    sa.Column("run_id", sa.String(200), nullable=False),
    sa.Column("contract_id", sa.String(64), nullable=False),
    sa.Column("made_at", sa.String(40), nullable=False),
)
"""Registered runs that have neither result nor abandonment; a row goes when its run ends."""
sa.Index("ledger_open_runs_run", open_runs.c.run_id)

INDEX = (results, figures, subjects, open_runs)

RECORD = ("ledger_entries", "ledger_nodes", "ledger_checkpoints", "ledger_properties")
INDEXED = ("ledger_times", "ledger_results", "ledger_figures", "ledger_subjects")
RELEASED = {
    "ledger_open_runs": "EXISTS (SELECT 1 FROM ledger_entries AS ended "
    "WHERE ended.run_id = OLD.run_id AND ended.kind IN ('result', 'abandoned'))"
}
"""Rows that go, and when: an open run is closed by an entry of the record, by nothing else."""

LEDGER_SCHEMA = Schema(
    "ledger",
    "0007",
    metadata,
    Path(__file__).parent / "migrations" / "versions",
    guarded=(*RECORD, *INDEXED),
    released=RELEASED,
    settled=keep_schema_digest,
)
"""Record and index alike are guarded by the database itself. Whoever may write its files can take the guards away: that
and whatever was changed then is found by `log_audit`, which makes the index again from the entries."""
