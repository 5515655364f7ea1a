"""The watch keeps sessions and where levels begin, instead of one result that everything is held against."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A baseline of one result becomes the beginning of a level; its sessions are read from the ledger when needed."""
    op.create_table(
        "server_watched",
        sa.Column("result_id", sa.String(64), primary_key=True),
        sa.Column("precision", sa.String(20), primary_key=True),
        sa.Column("contract_id", sa.String(64), nullable=False),
        sa.Column("place", sa.String(120), nullable=False),
        sa.Column("executor_id", sa.String(64), nullable=False),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("restarts", sa.Integer, nullable=False),
        sa.Column("scatter", sa.Float, nullable=False),
    )
    op.create_index("server_watched_place", "server_watched", ["contract_id", "place"])
    op.create_table(
        "server_levels",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("contract_id", sa.String(64), nullable=False),
        sa.Column("place", sa.String(120), nullable=False),
        sa.Column("precision", sa.String(20), nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("since", sa.String(40), nullable=True),
        sa.Column("result_id", sa.String(64), nullable=True),
        sa.Column("by", sa.String(120), nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )
    op.create_index("server_levels_place", "server_levels", ["contract_id", "place"])
    op.execute(
        'INSERT INTO server_levels (contract_id, place, precision, kind, result_id, "by", at) '
        "SELECT contract_id, place, '', 'carried', result_id, 'an earlier version', at FROM server_baselines"
    )
    op.add_column("server_runs", sa.Column("confirms", sa.String(64), nullable=True))
    op.add_column("server_notices", sa.Column("since", sa.String(40), nullable=True))
    op.add_column("server_notices", sa.Column("confirmed_by", sa.String(64), nullable=True))


def downgrade() -> None:
    """Baselines are still there; what was accepted since is forgotten."""
    for table, names in (("server_notices", ("since", "confirmed_by")), ("server_runs", ("confirms",))):
        with op.batch_alter_table(table) as batch:
            for name in names:
                batch.drop_column(name)
    op.drop_table("server_levels")
    op.drop_table("server_watched")
