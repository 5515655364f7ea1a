"""How Alembic runs here: on the connection it is handed, inside its transaction."""

from alembic import context

attributes = context.config.attributes
context.configure(
    connection=attributes["connection"], version_table=attributes["version_table"], transactional_ddl=True
)
context.run_migrations()
