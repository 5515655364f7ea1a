"""The times of the log in a chain of hashes, the index guarded like the record, and registrations counted quickly.

An older ledger's times are taken as they stand: from now on they cannot be changed unseen.
"""

import sqlalchemy as sa
from alembic import op

from lynxbench.ledger.database import drop_guards, put_guards
from lynxbench.ledger.ledger_tables import INDEX_ANNOUNCED, INDEXED, RELEASED, entries, times
from lynxbench.ledger.merkle import NO_TIME, chain_time

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ANNOUNCED = "ledger_entries_announced"


def upgrade() -> None:
    """Chain the times, make the index, put the guards."""
    connection = op.get_bind()
    times.create(connection)
    digest = NO_TIME
    chosen = sa.select(entries.c.seq, entries.c.leaf, entries.c.logged_at).order_by(entries.c.seq)
    for part in connection.execute(chosen).yield_per(10_000).partitions():
        chained = []
        for seq, leaf, logged_at in part:
            digest = chain_time(digest, bytes(leaf), logged_at)
            chained.append({"seq": seq, "digest": digest})
        connection.execute(times.insert(), chained)
    connection.execute(INDEX_ANNOUNCED)
    put_guards(connection, INDEXED, RELEASED)


def downgrade() -> None:
    """Take them away; no entry is touched."""
    drop_guards(op.get_bind(), (*INDEXED, *RELEASED))
    op.drop_index(_ANNOUNCED, "ledger_entries")
    op.drop_table(times.name)
