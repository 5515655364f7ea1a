"""The index, made from the entries alone, in the form it has now. Going down drops it and loses nothing."""

import sqlalchemy as sa
from alembic import op

from lynxbench.evidence.envelope import parse_envelope
from lynxbench.evidence.statement import open_entry
from lynxbench.ledger.index_rows import index_rows
from lynxbench.ledger.ledger_tables import INDEX
from lynxbench.ledger.log import index

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index tables and fill them from the entries."""
    connection = op.get_bind()
    for table in INDEX:
        table.create(connection)
    rows = connection.execute(sa.text("SELECT seq, envelope FROM ledger_entries ORDER BY seq")).yield_per(1000)
    for part in rows.partitions():
        index(connection, [index_rows(seq, open_entry(parse_envelope(bytes(envelope)))) for seq, envelope in part])


def downgrade() -> None:
    """Drop what the entries can rebuild."""
    for table in ("ledger_subjects", "ledger_figures", "ledger_results"):
        op.drop_table(table)
