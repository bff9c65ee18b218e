"""Opening of databases. Errors name the option with the URL of the database."""
import contextlib
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_db_exception

from blockattach.platform import errors
from blockattach.platform.conf import database as database_conf
from blockattach.platform.conf import locations
from blockattach.platform.db import opening

_DRIVERS = {
    'MySQLdb': ': start the URL with mysql+pymysql://, or install blockattach[mysqlclient]',
    'pymysql': ': install blockattach[mysql]',
    'psycopg': ': start the URL with postgresql+psycopg2://',
    'psycopg2': ': install blockattach[postgresql]'}
"""Advice to append to the error about a missing database driver, by module of the driver."""


def open_engine(conf: cfg.ConfigOpts, group: str,
                settings: database_conf.DatabaseSettings) -> sa.Engine:
    """Create the SQLAlchemy engine of a database.

    :param group: option group with the ``connection`` of the database
    :raises ConfigurationError: the driver of the database cannot be loaded
    """
    try:
        return opening.open_engine(settings)
    except ImportError as exc:
        raise locations.refusal(
            conf, group, 'connection',
            f'cannot use the database: {exc}{_DRIVERS.get(exc.name or "", "")}') from exc


@contextlib.contextmanager
def usable(conf: cfg.ConfigOpts, group: str = database_conf.GROUP) -> Iterator[None]:
    """Translate database errors in the block to an error that names the database's option.

    The error text has a single line, and contains no statement or URL.

    :param group: option group with the ``connection`` of the database
    :raises ConfigurationError: the database cannot be reached or used
    """
    try:
        yield
    except (errors.DatabaseUnavailable, oslo_db_exception.DBError,
            sa.exc.SQLAlchemyError) as exc:
        # The texts of SQLAlchemy contain the statement, so the text of the driver is shown.
        cause = exc.__cause__ if isinstance(exc, errors.DatabaseUnavailable) else exc
        inner = getattr(cause, 'inner_exception', None) or cause
        raise locations.refusal(
            conf, group, 'connection',
            f'cannot use the database: {getattr(inner, "orig", None) or inner}') from exc
