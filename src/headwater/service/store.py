"""The database: opening it, its schema, and transactions that are durable once they end.

SQLite keeps one file in WAL mode with ``synchronous=FULL``: a commit returns when the log is on the disk. PostgreSQL does so by
itself. A writing transaction takes SQLite's one write lock at its start, or in PostgreSQL the rows of the campaigns it is
about; either way two writers of one campaign follow each other.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, func, insert, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from headwater.errors import HeadwaterError
from headwater.service.tables import metadata

DEFAULT = "headwater.db"
BUSY = 5.0
"""Seconds to wait for another writer, or for a server to answer."""
WRITING = "headwater_writing"


class DatabaseError(HeadwaterError):
    """A database that cannot be opened, or is not ours; the message says what to do."""


def database_url(given: str) -> URL:
    """A database's address: ``postgresql://…``, ``sqlite:///…`` or just the name of a file."""
    if "://" not in given:
        return URL.create("sqlite", database=given or DEFAULT)
    try:
        url = make_url(given)
    except (ArgumentError, ValueError):
        raise DatabaseError("--database: this is no address; expected a file, or postgresql://user@host/name") from None
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise DatabaseError(f"--database: got {url.drivername}; expected a file (SQLite) or postgresql://…")
    return url


class FileGoneError(SQLAlchemyError):
    """SQLite's file is not the one that was opened: what is written goes where nobody finds it."""


class Files:
    """The files of a SQLite database: they stay those that were opened, and nobody else reads them.

    A file that is removed or replaced while it is open can be written to as before, and is gone with the process. So whoever
    has written looks, before anybody is told, whether the names still lead to the files that were opened.
    """

    def __init__(self, path: Path) -> None:
        self.paths = (path, path.with_name(path.name + "-wal"))
        self._known: tuple[tuple[int, int] | None, ...] | None = None

    def make(self) -> None:
        """Before connecting: make the file where there is none, for its owner only; SQLite makes those beside it likewise."""
        if self._known is not None:
            self.check()
        else:
            with suppress(OSError):  # SQLite says what is wrong
                os.close(os.open(self.paths[0], os.O_CREAT | os.O_RDWR, 0o600))

    def opened(self) -> None:
        """After connecting: the first time, remember which files these are."""
        if self._known is None:
            self._known = self._look()
        self.check()

    def forget(self) -> None:
        """All connections are closed: the next may find others."""
        self._known = None

    def check(self) -> None:
        if self._known is not None and (now := self._look()) != self._known:
            gone = next(path for path, a, b in zip(self.paths, now, self._known, strict=True) if a != b)
            raise FileGoneError(f"{gone} is not the file that was opened; put that back, or restore a backup and start again")

    def _look(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_identity(path) for path in self.paths)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Store:
    """One database. ``write`` and ``read`` give connections; what a ``write`` block did is durable when it has ended."""

    def __init__(self, address: str) -> None:
        self.url = database_url(address)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self._files = Files(_sqlite_path(self.url)) if self.sqlite else None
        # each its own: whoever reads, and however slowly, the desk finds a connection to write and one to look around
        self.engine, self._writer, self._watch, self._aside = (
            _postgres(self.url) if self._files is None else _sqlite(self.url, self._files) for _ in range(4)
        )

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._writer.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            yield connection
        self._check_files()

    def _check_files(self) -> None:
        if self._files is not None:
            self._files.check()

    def probe(self) -> None:
        """Write, and change nothing: raises what a transaction would."""
        with self.write() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = version_num"))

    @contextmanager
    def read(self, *, patient: bool = False) -> Iterator[Connection]:
        """One consistent view for as long as the block lasts. ``patient``: a statement may take as long as it takes."""
        with self._reading(self.engine) as connection:
            if patient and not self.sqlite:
                connection.execute(text("SET LOCAL statement_timeout = 0"))
            yield connection

    @contextmanager
    def _reading(self, engine: Engine) -> Iterator[Connection]:
        with engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextmanager
    def watch(self) -> Iterator[Connection]:
        """As ``read``, on a connection that only the desk uses."""
        self._check_files()
        with self._reading(self._watch) as connection:
            yield connection

    @contextmanager
    def aside(self) -> Iterator[Connection]:
        """As ``read``, for loading and exporting, which take long and must not keep those who read a little."""
        with self._reading(self._aside) as connection:
            yield connection

    def close(self) -> None:
        for engine in (self.engine, self._writer, self._watch, self._aside):
            engine.dispose()
        if self._files is not None:
            self._files.forget()

    def revision(self) -> str | None:
        """The schema's revision; None for a database without tables of ours."""
        with told(self), self.engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    def upgrade(self) -> tuple[str | None, str]:
        """Bring the schema up to date; returns the revisions before and after."""
        before, config = self.revision(), _alembic()
        self._check_known(before, config)
        with told(self), self.write() as connection:
            if not self.sqlite:  # one replica at a time
                connection.execute(select(func.pg_advisory_xact_lock(0x68656164)))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        return before, _head(config)

    def open(self) -> None:
        """Make the tables of an empty database; refuse one whose schema is not this release's."""
        revision, config = self.revision(), _alembic()
        if revision is None:
            self.upgrade()
        elif revision != _head(config):
            self._check_known(revision, config)
            raise DatabaseError(f"{self}: its schema is {revision}, this release needs {_head(config)}: headwater db upgrade")

    def _check_known(self, revision: str | None, config: Config) -> None:
        if revision is not None and revision not in _known(config):
            raise DatabaseError(f"{self}: its schema is {revision}, which a later release wrote; upgrade headwater itself")

    def backup(self, path: Path) -> dict[str, int]:
        """Copy everything, as of one moment, into a new SQLite file that ``headwater serve`` can open; rows by table."""
        if path.exists():
            raise DatabaseError(f"{path}: is there already; a backup overwrites nothing")
        part = path.with_name(path.name + ".part")
        _remove(part)
        rows: dict[str, int] = {}
        copy = Store(f"sqlite:///{part}")
        try:
            copy.upgrade()
            with told(self), self.read(patient=True) as source, copy.write() as target:
                for table in metadata.sorted_tables:
                    rows[table.name] = 0
                    found = source.execution_options(stream_results=True, yield_per=5000).execute(select(table))
                    for some in found.mappings().partitions(5000):
                        target.execute(insert(table), [dict(row) for row in some])
                        rows[table.name] += len(some)
            copy.close()  # the last to close brings the log home: one file, nothing beside it
            part.rename(path)
        finally:
            copy.close()
            _remove(part)
        return rows


def _remove(path: Path) -> None:
    """A database's file, and those beside it."""
    for name in (path.name, path.name + "-wal", path.name + "-shm", path.name + "-journal"):
        path.with_name(name).unlink(missing_ok=True)


@contextmanager
def told(store: Store) -> Iterator[None]:
    """A database that does not answer, in a sentence."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise DatabaseError(f"{store}: {reason(error)}") from None


def damaged(store: Store, found: list[str]) -> str:
    """What a look at a database found, and what to do."""
    more = "" if len(found) == 1 else f" (and {len(found) - 1} more)"
    return f"{store}: it is damaged: {found[0]}{more}. Keep a copy, run headwater db check, and restore a backup"


def reason(error: Exception) -> str:
    """Why the database failed, in one line."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def _sqlite_path(url: URL) -> Path:
    if url.database in (None, "", ":memory:"):
        raise DatabaseError("--database: got a database in memory; expected a file, so that nothing is lost")
    return Path(str(url.database).removeprefix("file:").partition("?")[0])


def _sqlite(url: URL, files: Files) -> Engine:
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=4, max_overflow=16, connect_args={"timeout": BUSY, "check_same_thread": False}
    )

    def connected(raw: Any, _: Any) -> None:
        raw.isolation_level = None  # transactions begin where we say so
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=2000"):
            raw.execute(f"PRAGMA {pragma}")
        raw.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # which opens the log
        files.opened()

    def connecting(*_: Any) -> None:
        files.make()

    def begun(connection: Connection) -> None:
        writing = connection.get_execution_options().get(WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    event.listen(engine, "do_connect", connecting)
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


def _postgres(url: URL) -> Engine:
    return create_engine(
        url,
        pool_size=4,
        max_overflow=16,
        pool_pre_ping=True,
        pool_timeout=BUSY,
        connect_args={
            "connect_timeout": int(BUSY),
            # a server that is gone without a word is noticed in some ten seconds
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
            "options": "-c statement_timeout=15s -c lock_timeout=10s -c idle_in_transaction_session_timeout=60s",
        },
    )


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", "headwater.service:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _known(config: Config) -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}


def _head(config: Config) -> str:
    head = ScriptDirectory.from_config(config).get_current_head()
    assert head is not None
    return head
