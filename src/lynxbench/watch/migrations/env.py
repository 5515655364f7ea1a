"""How Alembic runs here: on the connection it is handed, inside its transaction."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"], version_table="server_schema", transactional_ddl=True
)
context.run_migrations()
