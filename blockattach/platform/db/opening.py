"""Creation of SQLAlchemy engines, and the check of pooled connections before reuse."""
import datetime
import functools
import select
import threading
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception
from oslo_db.sqlalchemy import exc_filters
from oslo_log import log as oslo_log
from sqlalchemy import event

from blockattach.platform import clock
from blockattach.platform import log
from blockattach.platform.conf import database as database_conf
from blockattach.platform.db import session_statements
from blockattach.platform.db import sqlite
from blockattach.platform.db import statements

LOG = oslo_log.getLogger(__name__)

TRUSTED_SECONDS = 5.0
"""Seconds after its last use for which a pooled connection is assumed to be open.

A readable socket shows earlier that the server has closed the connection. If the server has
vanished without closing the connection, a ping would not fail sooner than a statement.
"""
_USED_AT = 'blockattach_used_at'


def open_engine(settings: database_conf.DatabaseSettings) -> sa.Engine:
    """Return an engine for writing. A missing SQLite file is created.

    :raises DBConnectionError: the server is not reachable after ``max_retries`` attempts
    """
    url = sa.make_url(settings.connection)
    if url.get_backend_name() == 'sqlite':
        made = sqlite.open_engine(url, settings)
        _name_errors(made)
        return made
    # On PostgreSQL a transaction that has waited for a row must see changes made meanwhile,
    # regardless of the default isolation level of the database.
    made = _open_server(url, settings, isolation_level=(
        'READ COMMITTED' if url.get_backend_name() == 'postgresql' else None))
    _await_server(made, settings, clock.Clock())
    return made


def open_readers(settings: database_conf.DatabaseSettings) -> sa.Engine | None:
    """Return an engine whose connections are in autocommit mode, for reading.

    In this mode no transaction has to be ended, so each read takes one round trip less to the
    server.

    :returns: None for SQLite, which has no round trips
    """
    url = sa.make_url(settings.connection)
    if url.get_backend_name() == 'sqlite':
        return None
    made = _open_server(url, settings, isolation_level='AUTOCOMMIT',
                        skip_autocommit_rollback=True)
    if made.dialect.name == 'postgresql':
        event.listen(made, 'connect', _isolate)
    return made


def _open_server(url: sa.URL, settings: database_conf.DatabaseSettings,
                 **more: Any) -> sa.Engine:
    url = _prepare_url(url)
    kind = url.get_backend_name()
    # The encoding is set as in oslo.db, because the default of a server may differ.
    arguments = {'client_encoding': 'utf8'} if kind == 'postgresql' else _quick_times(url)
    # oslo.db does not create the engine, because its engines ping a connection at each checkout,
    # and call listeners for every statement, for savepoints and green threads. Connections return
    # to the pool after their transaction has ended, so the pool does not reset them.
    made = sa.create_engine(
        url, pool_size=settings.max_pool_size, max_overflow=settings.max_overflow,
        pool_timeout=settings.pool_timeout, pool_recycle=settings.connection_recycle_time,
        hide_parameters=True, pool_use_lifo=True, pool_reset_on_return=None,
        connect_args=arguments, **more)
    if kind == 'mysql':
        event.listen(made, 'connect', functools.partial(
            _prepare_mysql, settings.prepare_statements))
    _name_errors(made)
    check_freshness(made, clock.Clock())
    return made


def _quick_times(url: sa.URL) -> dict[str, Any]:
    """Return driver arguments that parse times with the standard library, which uses C."""
    module = url.get_dialect().import_dbapi()
    if not hasattr(module, 'converters'):
        return {}
    # PyMySQL and mysqlclient parse times in Python, which takes a tenth of the time of a request
    # for a long list.
    return {'conv': {**module.converters.conversions,
                     module.constants.FIELD_TYPE.DATETIME: datetime.datetime.fromisoformat}}


def _name_errors(engine: sa.Engine) -> None:
    # The filters of oslo.db raise the same error classes for all databases.
    event.listen(engine, 'handle_error', exc_filters.handler, retval=True)


def _await_server(engine: sa.Engine, settings: database_conf.DatabaseSettings,
                  time: clock.Clock) -> None:
    """Wait for the server as long as configured, or not at all if ``max_retries`` is 0.

    :raises DBConnectionError: the server is not reachable after the last attempt
    """
    never = threading.Event()
    attempt = 0
    while settings.max_retries:
        attempt += 1
        try:
            with statements.connect(engine):
                return
        except oslo_db_exception.DBConnectionError as exc:
            if attempt == settings.max_retries:
                raise
            LOG.warning('Failed to connect to the database, retrying%s', log.fields(reason=exc))
            time.wait(never, settings.retry_interval)


def _prepare_mysql(prepare: bool, connection: Any, record: Any) -> None:
    """Prepare a new connection to MySQL or MariaDB.

    :param prepare: use prepared statements if the server supports them (MariaDB)
    """
    if prepare:
        session_statements.allow(record.info)
    cursor = connection.cursor()
    # In strict mode a value that does not fit its column is an error. Otherwise MySQL would store
    # a truncated value.
    cursor.execute("SET SESSION sql_mode = 'TRADITIONAL'")
    cursor.close()


def _isolate(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    # A statement in autocommit mode is a transaction, and has an isolation level as well.
    # SQLAlchemy sets a single level for an engine, which is AUTOCOMMIT here.
    cursor.execute('SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED')
    cursor.close()


def check_freshness(engine: sa.Engine, time: clock.Clock) -> None:
    """Add listeners that check pooled connections at checkout, mostly without a ping.

    A server that closes a connection closes its socket, which then becomes readable. A connection
    with a silent socket that was used within `TRUSTED_SECONDS` is trusted. Any other connection is
    pinged.
    """
    error = engine.dialect.loaded_dbapi.Error

    def used(connection: Any, record: Any) -> None:
        record.info[_USED_AT] = time.monotonic()

    def look(connection: Any, record: Any, proxy: Any) -> None:
        # None for a new connection, which was just opened.
        used_at = record.info.get(_USED_AT)
        if used_at is None or (time.monotonic() - used_at < TRUSTED_SECONDS
                               and _is_silent(connection, error)):
            return
        try:
            engine.dialect.do_ping(connection)
        except error as exc:
            # The cause most likely closed the other pooled connections as well.
            raise sa.exc.InvalidatePoolError() from exc

    event.listen(engine, 'checkin', used)
    event.listen(engine, 'checkout', look)


def _is_silent(connection: Any, error: type[Exception]) -> bool:
    """Return True if the socket of a connection is not readable.

    :returns: False if there is data or an end of file to read, or if the state of the socket
        cannot be determined
    """
    poll = select.poll()
    try:
        # PyMySQL has its socket in a private attribute; psycopg2 and mysqlclient have fileno().
        poll.register(getattr(connection, '_sock', connection), select.POLLIN)
        return not poll.poll(0)
    # The connection is then pinged, which reports the error if it is closed.
    except (TypeError, ValueError, OSError, error):
        return False


def _prepare_url(url: sa.URL) -> sa.URL:
    # oslo.db detects deadlocks only under the dialect name mysql.
    if url.get_backend_name() == 'mariadb':
        url = url.set(drivername=url.drivername.replace('mariadb', 'mysql', 1))
    # The default character set of oslo.db holds three bytes per character, so names with an emoji
    # would be rejected.
    if url.get_backend_name() == 'mysql' and 'charset' not in url.query:
        url = url.update_query_dict({'charset': 'utf8mb4'})
    return url
