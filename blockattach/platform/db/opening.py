"""How connections to the database are opened, kept and checked before they are used again."""
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
from blockattach.platform.conf import database as database_conf
from blockattach.platform.db import session_statements
from blockattach.platform.db import sqlite
from blockattach.platform.db import statements

LOG = oslo_log.getLogger(__name__)

TRUSTED_SECONDS = 5.0
"""A connection that was used so recently counts as open unless its socket shows otherwise: with a
peer that has vanished a ping would take as long as a statement."""
_USED_AT = 'blockattach_used_at'


def open_engine(settings: database_conf.DatabaseSettings) -> sa.Engine:
    """Connect as configured; an SQLite file is made where it is missing."""
    url = sa.make_url(settings.connection)
    if url.get_backend_name() == 'sqlite':
        made = sqlite.open_engine(url, settings)
        _name_errors(made)
        return made
    # On PostgreSQL a transaction that has waited for a row sees what was written meanwhile,
    # whatever the database's default isolation is.
    made = _open_server(url, settings, isolation_level=(
        'READ COMMITTED' if url.get_backend_name() == 'postgresql' else None))
    _await_server(made, settings, clock.Clock())
    return made


def open_readers(settings: database_conf.DatabaseSettings) -> sa.Engine | None:
    """Connections that take each statement by itself: there is no transaction to end, which would
    be one more way to the server for each. None: SQLite, to which there is no way.
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
    """MySQL, MariaDB or PostgreSQL.

    Not by oslo.db, which asks a connection whether it is there each time that one is needed, and
    has SQLAlchemy call listeners of every statement, for the sake of savepoints and green threads.
    A connection comes back to the pool when its transaction has ended: the pool ends none again.
    """
    url = _prepare_url(url)
    kind = url.get_backend_name()
    # oslo.db's own choice; a server may have another one.
    arguments = {'client_encoding': 'utf8'} if kind == 'postgresql' else _quick_times(url)
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
    """Has PyMySQL and mysqlclient read times by the standard library, which does it in C.

    Both do it in Python, which takes a tenth of the time of a long list.
    """
    module = url.get_dialect().import_dbapi()
    if not hasattr(module, 'converters'):
        return {}
    return {'conv': {**module.converters.conversions,
                     module.constants.FIELD_TYPE.DATETIME: datetime.datetime.fromisoformat}}


def _name_errors(made: sa.Engine) -> None:
    """Translate errors to oslo.db's, which are one set for every database."""
    event.listen(made, 'handle_error', exc_filters.handler, retval=True)


def _await_server(made: sa.Engine, settings: database_conf.DatabaseSettings,
                  time: clock.Clock) -> None:
    """Wait for the server as long as configured; not at all without ``max_retries``.

    :raises DBConnectionError: it is still not there
    """
    never = threading.Event()
    attempt = 0
    while settings.max_retries:
        attempt += 1
        try:
            with statements.connect(made):
                return
        except oslo_db_exception.DBConnectionError:
            if attempt == settings.max_retries:
                raise
            LOG.warning('Failed to connect to the database, retrying')
            time.wait(never, settings.retry_interval)


def _prepare_mysql(prepare: bool, connection: Any, record: Any) -> None:
    """What does not fit into a column is an error, and not cut off.

    :param prepare: whether statements may be called by name, where the server can (MariaDB)
    """
    if prepare:
        session_statements.allow(record.info)
    cursor = connection.cursor()
    cursor.execute("SET SESSION sql_mode = 'TRADITIONAL'")
    cursor.close()


def _isolate(connection: Any, record: Any) -> None:
    """The same for statements by themselves, which are transactions, too."""
    cursor = connection.cursor()
    cursor.execute('SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED')
    cursor.close()


def check_freshness(engine: sa.Engine, time: clock.Clock) -> None:
    """Check whether a pooled connection can be used: in place of a ping each time it is taken.

    A server that ends a connection closes its socket, which then becomes readable. A quiet one
    that was used a moment ago is trusted; any other is pinged.
    """
    error = engine.dialect.loaded_dbapi.Error

    def used(connection: Any, record: Any) -> None:
        record.info[_USED_AT] = time.monotonic()

    def look(connection: Any, record: Any, proxy: Any) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or (time.monotonic() - used_at < TRUSTED_SECONDS
                               and _is_silent(connection, error)):
            return
        try:
            engine.dialect.do_ping(connection)
        except error as exc:
            # Whatever ended this one has ended those beside it.
            raise sa.exc.InvalidatePoolError() from exc

    event.listen(engine, 'checkin', used)
    event.listen(engine, 'checkout', look)


def _is_silent(connection: Any, error: type[Exception]) -> bool:
    """Whether nothing, not even an end, waits in the socket; False: nobody knows."""
    poll = select.poll()
    try:
        # PyMySQL has its socket in a private attribute; psycopg2 and mysqlclient have fileno().
        poll.register(getattr(connection, '_sock', connection), select.POLLIN)
        return not poll.poll(0)
    except (TypeError, ValueError, OSError, error):
        return False


def _prepare_url(url: sa.URL) -> sa.URL:
    """For MySQL and MariaDB, what oslo.db would choose otherwise.

    Its default character set holds three bytes a character, so that a name with an emoji would be
    refused; and it knows a deadlock only under the name ``mysql``.
    """
    if url.get_backend_name() == 'mariadb':
        url = url.set(drivername=url.drivername.replace('mariadb', 'mysql', 1))
    if url.get_backend_name() == 'mysql' and 'charset' not in url.query:
        url = url.update_query_dict({'charset': 'utf8mb4'})
    return url
