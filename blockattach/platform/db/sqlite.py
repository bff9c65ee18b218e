"""SQLite engine, and detection of a removed or replaced database file."""
import os
import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from blockattach.platform.conf import database as database_conf

_BUSY_SECONDS = 20
_WAL_TRIES = 10


class File:
    """Identity (device and inode) of the database file that an engine has opened.

    In-memory databases have no file.
    """

    def __init__(self, engine: sa.Engine) -> None:
        database = engine.url.database if engine.dialect.name == 'sqlite' else None
        self._path = database or None
        self._opened = self._identity()

    def is_gone(self) -> bool:
        """Return True if the file was removed or replaced, so that writes would be lost."""
        if self._path is None:
            return False
        now = self._identity()
        if self._opened is None:
            # The first connection has created the file.
            self._opened = now
        return now != self._opened

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = None if self._path is None else os.stat(self._path)
        except FileNotFoundError:
            return None
        return None if found is None else (found.st_dev, found.st_ino)


def open_engine(url: sa.URL, settings: database_conf.DatabaseSettings) -> sa.Engine:
    """Return an SQLite engine in WAL mode, in which readers never wait for the writer."""
    options: dict[str, Any] = {
        'pool_size': settings.max_pool_size, 'max_overflow': settings.max_overflow,
        'pool_timeout': settings.pool_timeout}
    if not url.database:
        # An in-memory database exists as long as its only connection, which threads share.
        options = {'poolclass': sa.StaticPool, 'connect_args': {'check_same_thread': False}}
    # An engine of oslo.db would open a connection for each transaction, and begin the transaction
    # as a reader. When it writes, it fails with "database is locked" if another transaction is
    # writing.
    engine = sa.create_engine(url, hide_parameters=True, **options)
    event.listen(engine, 'connect', _prepare)
    return engine


def _prepare(connection: Any, record: Any) -> None:
    # The driver must not begin transactions, because `engine.begin` does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f'PRAGMA busy_timeout={_BUSY_SECONDS * 1000}')
    _use_wal(cursor)
    # With NORMAL, a power failure could undo the last commits in WAL mode.
    cursor.execute('PRAGMA synchronous=FULL')
    # SQLite ignores foreign keys by default.
    cursor.execute('PRAGMA foreign_keys=ON')
    cursor.close()


def _use_wal(cursor: Any) -> None:
    for _ in range(_WAL_TRIES):
        try:
            cursor.execute('PRAGMA journal_mode=WAL')
            return
        except sqlite3.OperationalError:
            # If several connections switch a new file to WAL at once, SQLite fails all but one of
            # them without waiting. Taking the write lock does wait for the busy timeout.
            cursor.execute('BEGIN IMMEDIATE')
            cursor.execute('COMMIT')
    cursor.execute('PRAGMA journal_mode=WAL')
