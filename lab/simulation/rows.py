"""Simulated database: the real database functions on SQLite in memory, under virtual time.

Threads switch before a transaction, never within one. Races within transactions are tested on
database servers. A transaction may be rolled back at its end, or lose its connection during the
commit.
"""
import contextlib
import datetime
import functools
import random
import sqlite3
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from cryptography import fernet
from oslo_db import exception as oslo_db_exception
from sqlalchemy import event

from blockattach.platform import secrets
from blockattach.platform.conf import database as database_conf
from blockattach.platform.db import engine
from blockattach.platform.db import opening
from blockattach.storage.db import schema
from blockattach.storage.db import storage_db
from lab.simulation import baton as batons
from lab.simulation import faults
from lab.simulation import threads

_TIME_ARGUMENTS = 3


class Rows:
    """Database that outlives every process."""

    def __init__(self, baton: batons.Baton, trouble: faults.Faults, chance: random.Random) -> None:
        self.baton = baton
        self.faults = trouble
        self.chance = chance
        self.sealer = secrets.Sealer([fernet.Fernet.generate_key()])
        self.engine = opening.open_engine(database_conf.DatabaseSettings('sqlite://'))
        self.writes = 0
        """Number of commits."""
        self.stored: Callable[[], None] = lambda: None
        """Called after each stored transaction."""
        with _sqlite(self.engine) as raw:
            _template().backup(raw)
            raw.create_function('strftime', _TIME_ARGUMENTS, self._time)
        event.listen(self.engine, 'engine_connect', self._connecting)
        event.listen(self.engine, 'commit', self._committing)

    def new_id(self) -> str:
        """Return a UUID that is the same in each replay."""
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def _time(self, form: str, when: str, offset: str) -> str:
        """Return the virtual time, as the SQL of `blockattach.platform.db.clock` requests it."""
        moment = threads.START + datetime.timedelta(
            seconds=self.baton.now + float(offset.removesuffix(' seconds')))
        return moment.strftime('%Y-%m-%d %H:%M:%S.') + f'{moment.microsecond // 1000:03d}'

    def _connecting(self, connection: sa.Connection) -> None:
        # A nested transaction uses the connection that is already open.
        task = self.baton.current
        if task.depth == 1 and self.faults.happens('away', task.process.name):
            connection.close()
            raise oslo_db_exception.DBConnectionError(OSError('away'))

    def _committing(self, connection: sa.Connection) -> None:
        self.writes += 1
        if self.faults.happens('lost_commit'):
            if self.faults.either():
                connection.exec_driver_sql('COMMIT')
            else:
                connection.exec_driver_sql('ROLLBACK')
            raise oslo_db_exception.DBConnectionError(OSError('lost during the commit'))


class SimulatedDatabase(storage_db.Database):
    """Database as one process sees it."""

    def __init__(self, rows: Rows, touch: Callable[[str], None], **more: Any) -> None:
        """
        :param touch: called before each transaction
        """
        super().__init__(rows.engine, rows.sealer, **more)
        self._rows = rows
        self._touch = touch

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        with self._transaction('read'), super().reader() as connection:
            yield connection

    @contextlib.contextmanager
    def writer(self, happened: engine.Happened | None = None) -> Iterator[sa.Connection]:
        with self._transaction('write'), super().writer(happened) as connection:
            yield connection
            if self._rows.faults.happens('deadlock'):
                raise oslo_db_exception.DBDeadlock(sqlite3.OperationalError('deadlock'))
        self._rows.stored()

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        self._touch(kind)
        task = self._rows.baton.current
        task.depth += 1
        try:
            yield
        finally:
            task.depth -= 1

    def rest(self, seconds: float) -> None:
        """Wait for a random part of the given time."""
        self._rows.baton.wait(seconds * self._rows.chance.random())

    def new_id(self) -> str:
        return self._rows.new_id()


@contextlib.contextmanager
def _sqlite(opened: sa.Engine) -> Iterator[sqlite3.Connection]:
    raw = opened.raw_connection()
    try:
        driver: Any = raw.dbapi_connection
        yield driver
    finally:
        raw.close()


@functools.cache
def _template() -> sqlite3.Connection:
    """Return a database with the tables that the migrations create, cached for the process."""
    made = opening.open_engine(database_conf.DatabaseSettings('sqlite://'))
    schema.upgrade(made)
    kept = sqlite3.connect(':memory:', check_same_thread=False)
    with _sqlite(made) as raw:
        raw.backup(kept)
    made.dispose()
    return kept
