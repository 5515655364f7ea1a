"""One database, SQLite or PostgreSQL, behind the same code: opened, locked for writing, brought to its schema."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from lynxbench.errors import BadLedger, EvidenceInvalid, LynxbenchError, NotFound, first_line
from lynxbench.ledger.sqlite_files import refuse_strange_files, refuse_strange_schema
from lynxbench.tables import read_table

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

BUSY_TIMEOUT_MS = 60_000
"""How long a writer waits for the others: an append holds the lock for milliseconds, an import for seconds."""

WAL_PAGES = 4000
"""Pages (16 MB) that gather in the write-ahead log before they are carried over: one written often goes once."""

Values = Mapping[str, object]
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite makes a column the row's own number, without a second index, only where its type is spelled INTEGER."""

_ADVISORY_LOCK = 0x6C796E78  # "lynx": one number that every lynxbench writer of a PostgreSQL database takes
_WRITING = "ledger_writing"
_DAMAGED = "the file is damaged; restore it from a copy and import your run folders again"
_NOT_A_DATABASE = "not a ledger"
_SCHEMA_BYTES = 1 << 20
"""How far into a file its tables are looked for by name."""
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables that move together, through migrations of their own."""

    name: str
    newest: str
    """The newest migration; tables of an older one are brought here when they are opened."""
    tables: sa.MetaData
    migrations: Path
    guarded: tuple[str, ...] = ()
    """Tables whose rows are never changed nor deleted; the database itself refuses."""
    released: Mapping[str, str] = field(default_factory=dict)
    """Tables whose rows are never changed, and go only where this condition holds of the row OLD."""
    settled: Callable[[sa.Connection], None] | None = None
    """What is done once the tables were made or migrated."""

    @property
    def version_table(self) -> str:
        """Where the database says which migration it is at, in Alembic's own form."""
        return f"{self.name}_schema"


class Database:
    """An open database with the tables of one schema."""

    def __init__(self, url: str, schema: Schema) -> None:
        self.url = _parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._schema = schema
        self._engine = _engine(self.url, self.is_sqlite)
        # Said with BEGIN itself: a statement of its own would be one more way to the server and back for each page's
        # every question.
        self._snapshots = self._engine if self.is_sqlite else self._engine.execution_options(**_SNAPSHOT)
        self._held = threading.local()  # a thread's own snapshot, where it holds one

    @property
    def name(self) -> str:
        """The URL without its password, for people."""
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One snapshot of the tables; inside of `held`, the one that is held."""
        held: sa.Connection | None = getattr(self._held, "connection", None)
        if held is not None:
            with self._translated():
                yield held
            return
        with self._translated(), self._snapshots.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def held(self) -> Iterator[None]:
        """One snapshot for everything that this thread reads inside: beginning one takes as long as a short question.

        What is written meanwhile, by whomever, is not seen before the end.
        """
        with self.reading() as connection:
            before, self._held.connection = getattr(self._held, "connection", None), connection
            try:
                yield
            finally:
                self._held.connection = before

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """The only writer, until the block ends; committed when it ends well, and then durable."""
        connect = self._engine.connect
        with self._translated(), connect().execution_options(**{_WRITING: True}) as connection, connection.begin():
            if not self.is_sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            yield connection

    def rows(self, statement: sa.Executable) -> Sequence[Any]:
        """All rows of a question."""
        with self.reading() as connection:
            return connection.execute(statement).all()

    def row(self, statement: sa.Executable, **given: object) -> Any | None:
        """The first row of a question, where there is one; `given` is what a statement that was built once asks for."""
        with self.reading() as connection:
            return connection.execute(statement, given).first()

    def one(self, statement: sa.Executable, missing: str, **given: object) -> Any:
        """The row that was asked for by its name; NotFound with these words where there is none."""
        row = self.row(statement, **given)
        if row is None:
            raise NotFound(missing)
        return row

    def count(self, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
        """How many rows there are."""
        return int(self.one(sa.select(sa.func.count()).select_from(table).where(*conditions), "")[0])

    def change(self, *statements: sa.Executable) -> int:
        """Carry out statements together; how many rows the last one touched."""
        with self.writing() as connection:
            touched = 0
            for statement in statements:
                touched = connection.execute(statement).rowcount
            return touched

    def missing_guards(self, connection: sa.Connection) -> list[str]:
        """Triggers of this schema that are not there, switched off or not what they were."""
        return missing_guards(connection, self._schema.guarded, self._schema.released)

    def schema(self) -> str | None:
        """The migration the tables are at; None where there are none yet."""
        with self.reading() as connection:
            return self._schema_in(connection)

    def make_ready(self) -> None:
        """Create the tables or bring them to this schema; refuse those that a newer lynxbench wrote."""
        at, newest = self.schema(), self._schema.newest
        if at is not None and not at.isdecimal():
            raise EvidenceInvalid(f"{self.name}: {_DAMAGED}")
        if at is not None and at > newest:
            what = f"{self._schema.name} schema {at}"
            raise BadLedger(f"{self.name}: {what} is newer than this lynxbench ({newest}); update lynxbench")
        if at != newest:
            self.migrate()

    def migrate(self, target: str = "head") -> None:
        """Bring the tables to a migration, up or down; a database without any gets the newest ones at once."""
        with self.writing() as connection:
            at = self._schema_in(connection)
            if target == "head" and at == self._schema.newest:
                return  # somebody was quicker
            if at is None and not set(sa.inspect(connection).get_table_names()) & set(self._schema.tables.tables):
                self._create(connection)
                return
            from alembic import command  # heavy, and only needed where there are older tables
            from alembic.config import Config
            from alembic.util import CommandError

            config = Config()
            scripts, versions = Path(__file__).with_name("migrations"), self._schema.migrations
            for option, folder in (("script_location", scripts), ("version_locations", versions)):
                config.set_main_option(option, str(folder).replace("%", "%%"))
            config.set_main_option("path_separator", "newline")
            config.attributes |= {"connection": connection, "version_table": self._schema.version_table}
            upwards = target == "head" or (target != "base" and target > (at or ""))
            try:
                (command.upgrade if upwards else command.downgrade)(config, target)
            except CommandError as error:  # a version that no lynxbench ever wrote
                raise EvidenceInvalid(f"{self.name}: {_DAMAGED} ({first_line(error)})") from None
            if target == "head" and self._schema.settled is not None:
                self._schema.settled(connection)

    def close(self) -> None:
        """Let go of every connection."""
        self._engine.dispose()

    def _create(self, connection: sa.Connection) -> None:
        self._schema.tables.create_all(connection)
        if self._schema.guarded:
            put_guards(connection, self._schema.guarded, self._schema.released)
        name = self._schema.version_table
        version = sa.Table(
            name,
            sa.MetaData(),
            sa.Column("version_num", sa.String(32), nullable=False),
            sa.PrimaryKeyConstraint("version_num", name=f"{name}_pkc"),
        )
        version.create(connection, checkfirst=True)
        connection.execute(version.insert(), [{"version_num": self._schema.newest}])
        if self._schema.settled is not None:
            self._schema.settled(connection)

    def _schema_in(self, connection: sa.Connection) -> str | None:
        table = self._schema.version_table
        if not sa.inspect(connection).has_table(table):
            return None
        version = connection.execute(sa.text(f"SELECT version_num FROM {table}")).scalar()
        return None if version is None else str(version)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Every database error as one line that says what to do."""
        try:
            yield
        except SQLAlchemyError as error:
            raise self._error(error) from error

    def _error(self, error: SQLAlchemyError) -> LynxbenchError:
        line = _explain(error)
        if line.startswith(_NOT_A_DATABASE) and self._held_tables():
            line = _DAMAGED
        return (EvidenceInvalid if line.startswith(_DAMAGED) else BadLedger)(f"{self.name}: {line}")

    def _held_tables(self) -> bool:
        """Whether a file that is no database any more once was this one."""
        try:
            with Path(self.url.database or "").open("rb") as stream:
                beginning = stream.read(_SCHEMA_BYTES)
        except OSError:
            return False
        return any(table.encode() in beginning for table in self._schema.tables.tables)


def upsert(
    connection: sa.Connection, table: sa.Table, key: Values, values: Values, first: Values | None = None
) -> None:
    """Change the row of a key, or make it, then with what only a new row is given."""
    told = {f"key_{name}": value for name, value in key.items()} | {f"new_{name}": v for name, v in values.items()}
    if connection.execute(_changing(table, tuple(key), tuple(values)), told).rowcount == 0:
        connection.execute(table.insert(), [{**key, **values, **(first or {})}])


@cache
def _changing(table: sa.Table, key: tuple[str, ...], values: tuple[str, ...]) -> sa.Update:
    """Built once: the database layer remembers how it is compiled."""
    mine = [table.c[name] == sa.bindparam(f"key_{name}", type_=table.c[name].type) for name in key]
    new = {name: sa.bindparam(f"new_{name}", type_=table.c[name].type) for name in values}
    return table.update().where(*mine).values(new)


_REFUSAL = "the ledger is append-only"
_REFUSE, _RELEASE = "ledger_refuse", "ledger_refuse_row"
NONE_RELEASED: Mapping[str, str] = {}


def put_guards(connection: sa.Connection, tables: Sequence[str], released: Mapping[str, str] = NONE_RELEASED) -> None:
    """Refuse UPDATE, DELETE and TRUNCATE on these tables from now on; of those released, DELETE unless it is due."""
    if connection.dialect.name == "sqlite":
        statements = list(_sqlite_guards(tables, released).values())
    else:
        statements = [*_functions(released).values(), *_postgresql_guards(tables, released).values()]
    for statement in statements:
        connection.execute(sa.text(statement))


def drop_guards(connection: sa.Connection, tables: Sequence[str]) -> None:
    """Take the triggers away, for a migration."""
    is_sqlite = connection.dialect.name == "sqlite"
    for table in tables:
        for name in ("no_update", "no_delete") if is_sqlite else ("guard", "rows"):
            where = "" if is_sqlite else f" ON {table}"
            connection.execute(sa.text(f"DROP TRIGGER IF EXISTS {table}_{name}{where}"))


def missing_guards(connection: sa.Connection, tables: Sequence[str], released: Mapping[str, str]) -> list[str]:
    """Triggers that are not there, switched off, or do something else."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        there = {str(name): str(statement) for name, statement in rows}
        return [name for name, statement in _sqlite_guards(tables, released).items() if there.get(name) != statement]
    chosen = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    rows = connection.execute(sa.text(chosen))
    enabled = {str(row.tgname) for row in rows}
    sources = connection.execute(sa.text("SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'ledger_refuse%'"))
    bodies = {str(name): str(source) for name, source in sources}
    changed = [name for name, text in _functions(released).items() if bodies.get(name, "\0") not in text]
    return [name for name in _postgresql_guards(tables, released) if name not in enabled] + changed


def _sqlite_guards(tables: Sequence[str], released: Mapping[str, str]) -> dict[str, str]:
    """Statements by the trigger's name, as SQLite keeps them."""
    refuse = f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    guards = {
        f"{table}_no_{verb.lower()}": f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {refuse}"
        for table in (*tables, *released)
        for verb in ("UPDATE", "DELETE")
    }
    for table, due in released.items():
        name = f"{table}_no_delete"
        guards[name] = f"CREATE TRIGGER {name} BEFORE DELETE ON {table} WHEN NOT ({due}) {refuse}"
    return guards


def _postgresql_guards(tables: Sequence[str], released: Mapping[str, str]) -> dict[str, str]:
    verbs = dict.fromkeys(tables, "UPDATE OR DELETE OR TRUNCATE") | dict.fromkeys(released, "UPDATE OR TRUNCATE")
    guards = {
        f"{table}_guard": f"CREATE TRIGGER {table}_guard BEFORE {refused} ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {_REFUSE}()"
        for table, refused in verbs.items()
    }
    for table in released:
        guards[f"{table}_rows"] = (
            f"CREATE TRIGGER {table}_rows BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {_RELEASE}_{table}()"
        )
    return guards


def _functions(released: Mapping[str, str]) -> dict[str, str]:
    """What PostgreSQL's triggers call, by name."""
    made = "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS $body${}$body$"
    bodies = {_REFUSE: f" BEGIN RAISE EXCEPTION '{_REFUSAL}'; END "}
    for table, due in released.items():
        bodies[f"{_RELEASE}_{table}"] = f" BEGIN IF {due} THEN RETURN OLD; END IF; RAISE EXCEPTION '{_REFUSAL}'; END "
    return {name: made.format(name, body) for name, body in bodies.items()}


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise BadLedger(
            f"{url[:80]!r} is not a database URL; give a folder, sqlite:///FILE or postgresql://…"
        ) from None
    backend = parsed.get_backend_name()
    if backend == "postgresql" and parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend not in ("sqlite", "postgresql"):
        raise BadLedger(f"{backend}: not a database that a ledger can live in; give sqlite:///FILE or postgresql://…")
    return parsed


def _engine(url: URL, is_sqlite: bool) -> sa.Engine:
    try:
        if not is_sqlite:
            return sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        if not url.database or url.database == ":memory:":
            raise BadLedger("a ledger needs a file: give sqlite:///FILE or a folder")
        file = Path(url.database)
        refuse_strange_files(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadLedger(f"{file.parent}: {error.strerror or error}; give another --ledger") from None
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise BadLedger(f"{url.get_backend_name()}: {error}; pip install 'lynxbench[postgres]'") from None
    sa.event.listen(engine, "connect", lambda connection, _: _prepare_sqlite(connection, str(file)))
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, name: str) -> None:
    assert isinstance(connection, sqlite3.Connection)
    try:
        refuse_strange_schema(connection, name)
    except BaseException:
        connection.close()
        raise
    connection.isolation_level = None  # this file says BEGIN itself: the driver's own comes too late to be exclusive
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it is acknowledged
    cursor.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    exclusive = connection.get_execution_options().get(_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if exclusive else "BEGIN")


def _explain(error: SQLAlchemyError) -> str:
    message = " ".join(str(getattr(error, "orig", None) or error).split())
    explanations: dict[str, str] = read_table("ledger/database_errors.toml")
    return next((explanation for mark, explanation in explanations.items() if mark in message), message[:300])
