"""The ledger's tables. Entries and tree nodes are the record; everything else is an index that entries rebuild."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

from lynxbench.ledger.database import NUMBER, Schema

metadata = MetaData()

properties = Table(
    "ledger_properties",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)
"""What the ledger is: `origin` names it for ever, `blobs` says where its documents are kept."""

entries = Table(
    "ledger_entries",
    metadata,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("leaf", LargeBinary(32), nullable=False, unique=True),
    Column("envelope", LargeBinary, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("made_at", String(40), nullable=False),
    Column("logged_at", String(40), nullable=False),
    Column("contract_id", String(64)),
    Column("executor_id", String(64)),
    Column("result_id", String(64)),
    Column("run_id", String(200)),
    Column("signers", Text, nullable=False),
)
"""The record itself: leaf number, leaf hash, the signed envelope, and copies of what is asked for most."""
Index("ledger_entries_kind", entries.c.kind, entries.c.seq)
Index("ledger_entries_run", entries.c.run_id, entries.c.kind)
Index("ledger_entries_result", entries.c.result_id, entries.c.kind)
Index("ledger_entries_contract", entries.c.contract_id, entries.c.kind, entries.c.seq)

nodes = Table(
    "ledger_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary(32), nullable=False),
    sqlite_with_rowid=False,
)
"""Perfect subtrees above the leaves: each written once, never changed."""

checkpoints = Table(
    "ledger_checkpoints",
    metadata,
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    Column("tree_size", BigInteger, nullable=False),
    Column("root", LargeBinary(32), nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("logged_at", String(40), nullable=False),
)
"""Signed states of the tree, each with the signatures it had when it was stored."""
Index("ledger_checkpoints_size", checkpoints.c.tree_size)

results = Table(
    "ledger_results",
    metadata,
    Column("seq", NUMBER, ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    Column("result_id", String(64), nullable=False),
    Column("run_id", String(200), nullable=False),
    Column("contract_id", String(64), nullable=False),
    Column("contract_name", Text, nullable=False),
    Column("executor_id", String(64), nullable=False),
    Column("instance_id", String(64), nullable=False),
    Column("weights", String(64)),
    Column("layer_ids", Text, nullable=False),
    Column("started_s", BigInteger, nullable=False),
    Column("started_at", String(40), nullable=False),
    Column("validity", String(12), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("bottleneck", Text),
)
"""One row a result, for lists and histories."""
Index("ledger_results_id", results.c.result_id)
Index("ledger_results_started", results.c.started_s, results.c.seq)
Index("ledger_results_contract", results.c.contract_id, results.c.started_s, results.c.seq)
Index("ledger_results_executor", results.c.executor_id, results.c.started_s, results.c.seq)
Index("ledger_results_validity", results.c.validity, results.c.started_s, results.c.seq)

figures = Table(
    "ledger_figures",
    metadata,
    Column("seq", NUMBER, ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    Column("precision", String(20), primary_key=True),
    Column("contract_id", String(64), nullable=False),
    Column("started_s", BigInteger, nullable=False),
    Column("low", Float),
    Column("estimate", Float),
    Column("high", Float),
    Column("unit", Text),
    Column("run_means", Text, nullable=False),
    Column("validity", String(12), nullable=False),
    Column("steady", Text),
)
"""One row a precision of a result."""
Index("ledger_figures_precision", figures.c.precision, figures.c.started_s, figures.c.seq)
Index("ledger_figures_history", figures.c.contract_id, figures.c.precision, figures.c.started_s, figures.c.seq)

subjects = Table(
    "ledger_subjects",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("seq", NUMBER, ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    Column("what", String(20), primary_key=True),
    sqlite_with_rowid=False,
)
"""Every id that an entry speaks of: how names are found, and how everything about a result travels with it."""

open_runs = Table(
    "ledger_open_runs",
    metadata,
    Column("seq", NUMBER, ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
    Column("run_id", String(200), nullable=False),
    Column("contract_id", String(64), nullable=False),
    Column("made_at", String(40), nullable=False),
)
"""Registered runs that have neither result nor abandonment; a row goes when its run ends."""
Index("ledger_open_runs_run", open_runs.c.run_id)

INDEX = (results, figures, subjects, open_runs)

LEDGER_SCHEMA = Schema(
    "ledger",
    "0004",
    metadata,
    Path(__file__).parent / "migrations" / "versions",
    guarded=("ledger_entries", "ledger_nodes", "ledger_checkpoints", "ledger_properties"),
)
"""The record is guarded by the database itself; the index is not, for it can be made again."""
