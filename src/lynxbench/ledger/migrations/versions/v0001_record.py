"""The record: entries, tree, checkpoints, and the triggers that keep them as they are.

Going down takes the tree and the triggers away and keeps the entries; coming up again rebuilds the tree over them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lynxbench.ledger.guards import drop_guards, put_guards
from lynxbench.ledger.merkle import Frontier

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

_GUARDED = ("ledger_entries", "ledger_nodes", "ledger_checkpoints", "ledger_properties")


def upgrade() -> None:
    """Create what is not there, then build the tree over the entries that are."""
    connection = op.get_bind()
    here = set(sa.inspect(connection).get_table_names())
    if "ledger_properties" not in here:
        op.create_table(
            "ledger_properties",
            sa.Column("name", sa.String(40), primary_key=True),
            sa.Column("value", sa.Text, nullable=False),
        )
    if "ledger_entries" not in here:
        op.create_table(
            "ledger_entries",
            sa.Column("seq", _NUMBER, primary_key=True, autoincrement=False),
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
        op.create_index("ledger_entries_kind", "ledger_entries", ["kind", "seq"])
        op.create_index("ledger_entries_run", "ledger_entries", ["run_id", "kind"])
        op.create_index("ledger_entries_result", "ledger_entries", ["result_id", "kind"])
    if "ledger_checkpoints" not in here:
        op.create_table(
            "ledger_checkpoints",
            sa.Column(
                "number",
                _NUMBER,
                primary_key=True,
                autoincrement=True,
            ),
            sa.Column("tree_size", sa.BigInteger, nullable=False),
            sa.Column("root", sa.LargeBinary(32), nullable=False),
            sa.Column("envelope", sa.LargeBinary, nullable=False),
            sa.Column("logged_at", sa.String(40), nullable=False),
        )
        op.create_index("ledger_checkpoints_size", "ledger_checkpoints", ["tree_size"])
    nodes = op.create_table(
        "ledger_nodes",
        sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sqlite_with_rowid=False,
    )
    _build_tree(connection, nodes)
    put_guards(connection, _GUARDED)


def downgrade() -> None:
    """Take the tree away; no entry, checkpoint or property is ever dropped."""
    drop_guards(op.get_bind(), _GUARDED)
    op.drop_table("ledger_nodes")


def _build_tree(connection: sa.Connection, nodes: sa.Table) -> None:
    frontier = Frontier()
    rows = connection.execute(sa.text("SELECT leaf FROM ledger_entries ORDER BY seq")).yield_per(10_000)
    for part in rows.partitions():
        completed = []
        for (leaf,) in part:
            frontier, made = frontier.appended(bytes(leaf))
            completed += [{"level": node.level, "position": node.position, "digest": node.digest} for node in made[1:]]
        if completed:
            connection.execute(nodes.insert(), completed)
