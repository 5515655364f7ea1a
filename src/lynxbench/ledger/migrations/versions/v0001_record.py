"""The record's tree, and the triggers that keep the record as it is.

Going down takes both away and keeps the entries; coming up again rebuilds the tree over them. A new ledger has all its
tables at once (`Database.migrate`), so that no migration creates what no ledger is without.
"""

import sqlalchemy as sa
from alembic import op

from lynxbench.ledger.database import drop_guards, put_guards
from lynxbench.ledger.merkle import Frontier

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_GUARDED = ("ledger_entries", "ledger_nodes", "ledger_checkpoints", "ledger_properties")


def upgrade() -> None:
    """Build the tree over the entries, and guard what was recorded."""
    connection = op.get_bind()
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
