"""Triggers that make the database itself refuse to change or delete what was recorded."""

from __future__ import annotations

from sqlalchemy import Connection, text

_REFUSAL = "the ledger is append-only"


def put_guards(connection: Connection, tables: tuple[str, ...]) -> None:
    """Refuse UPDATE, DELETE and TRUNCATE on these tables from now on."""
    if connection.dialect.name == "sqlite":
        for table in tables:
            for verb in ("UPDATE", "DELETE"):
                connection.execute(
                    text(
                        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                        f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
                    )
                )
        return
    connection.execute(
        text(
            "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$body$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $body$"
        )
    )
    for table in tables:
        connection.execute(
            text(
                f"CREATE TRIGGER {table}_guard BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()"
            )
        )


def drop_guards(connection: Connection, tables: tuple[str, ...]) -> None:
    """Take the triggers away, for a migration."""
    for table in tables:
        if connection.dialect.name == "sqlite":
            connection.execute(text(f"DROP TRIGGER IF EXISTS {table}_no_update"))
            connection.execute(text(f"DROP TRIGGER IF EXISTS {table}_no_delete"))
        else:
            connection.execute(text(f"DROP TRIGGER IF EXISTS {table}_guard ON {table}"))
