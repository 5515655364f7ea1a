"""The index: results, figures and subjects, made from the entries alone. Going down drops it and loses nothing."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from lynxbench.evidence.envelope import parse_envelope
from lynxbench.evidence.statement import open_entry
from lynxbench.ledger.index_rows import index_rows

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the index tables and fill them from the entries."""
    results = op.create_table(
        "ledger_results",
        _seq(),
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
    figures = op.create_table(
        "ledger_figures",
        _seq(),
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
    subjects = op.create_table(
        "ledger_subjects",
        sa.Column("id", sa.String(200), primary_key=True),
        _seq(),
        sa.Column("what", sa.String(20), primary_key=True),
        sqlite_with_rowid=False,
    )
    for name, table, columns in (
        ("ledger_results_id", "ledger_results", ["result_id"]),
        ("ledger_results_started", "ledger_results", ["started_s", "seq"]),
        ("ledger_results_contract", "ledger_results", ["contract_id", "started_s", "seq"]),
        ("ledger_results_executor", "ledger_results", ["executor_id", "started_s", "seq"]),
        ("ledger_results_validity", "ledger_results", ["validity", "started_s", "seq"]),
        ("ledger_figures_precision", "ledger_figures", ["precision", "started_s", "seq"]),
        ("ledger_figures_history", "ledger_figures", ["contract_id", "precision", "started_s", "seq"]),
    ):
        op.create_index(name, table, columns)
    _fill(op.get_bind(), results, figures, subjects)


def downgrade() -> None:
    """Drop what the entries can rebuild."""
    for table in ("ledger_subjects", "ledger_figures", "ledger_results"):
        op.drop_table(table)


def _seq() -> sa.Column[int]:
    return sa.Column("seq", _NUMBER, sa.ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False)


def _fill(connection: sa.Connection, results: sa.Table, figures: sa.Table, subjects: sa.Table) -> None:
    rows = connection.execute(sa.text("SELECT seq, envelope FROM ledger_entries ORDER BY seq")).yield_per(1000)
    for part in rows.partitions():
        made: dict[str, list[dict[str, Any]]] = {"results": [], "figures": [], "subjects": []}
        for seq, envelope in part:
            one = index_rows(seq, open_entry(parse_envelope(bytes(envelope))))
            made["subjects"] += one.subjects
            made["figures"] += one.figures
            made["results"] += [one.result] if one.result else []
        for name, table in (("results", results), ("figures", figures), ("subjects", subjects)):
            if made[name]:
                connection.execute(table.insert(), made[name])
