"""[database]: connection to the database, and the size of its connection pool.

The option names are those of oslo.db, which operators know. `OPTS` contains further options that
oslo.db does not have.
"""
import dataclasses

from oslo_config import cfg
from oslo_db import options as db_options

from blockattach.platform.conf import settings as groups

GROUP = 'database'

POOL_SIZE = 15
"""Number of connections that each of the two pools, for readers and for writers, keeps open.

Opening a connection costs more than a whole request. Further connections are opened only under
peak load.
"""
OVERFLOW = 20
POOL_TIMEOUT = 30
HISTORY_DAYS = 30

OPTS = (
    *db_options.database_opts,
    cfg.BoolOpt(
        'prepare_statements', default=True,
        help='Use prepared statements (PREPARE) with MariaDB, so that the statements of frequent '
             'requests are parsed once per connection. If the server reaches '
             'max_prepared_stmt_count, further statements are sent as text. Disable this option '
             'if a proxy shares one connection between clients. Has no effect with MySQL and '
             'PostgreSQL, to which statements are always sent as text.'),
    cfg.IntOpt(
        'attachment_history_days', default=HISTORY_DAYS, min=0,
        help='Number of days for which state changes of attachments are kept, with time, '
             'transition, user, and reason. Older entries are deleted by the schedulers. 0 '
             'disables the history and the watch API.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Settings of the ``[database]`` group."""

    connection: str
    max_pool_size: int = POOL_SIZE
    max_overflow: int = OVERFLOW
    pool_timeout: int = POOL_TIMEOUT
    connection_recycle_time: int = 3600
    max_retries: int = 0
    retry_interval: int = 10
    prepare_statements: bool = True
    attachment_history_days: int = HISTORY_DAYS


def set_defaults(conf: cfg.ConfigOpts) -> None:
    """Set the defaults of this service for options of oslo.db.

    With ``max_retries`` 0, a process that cannot reach its database at the start logs the error
    and exits. The supervisor of the process then restarts it.
    """
    conf.set_default('max_retries', 0, group=GROUP)
    conf.set_default('max_pool_size', POOL_SIZE, group=GROUP)
    conf.set_default('max_overflow', OVERFLOW, group=GROUP)


def settings(conf: cfg.ConfigOpts, default_connection: str | None = None) -> DatabaseSettings:
    """Return the settings of the ``[database]`` group.

    :param default_connection: database URL if none is configured
    """
    group = conf[GROUP]
    return groups.read(conf, GROUP, DatabaseSettings,
                       connection=group.connection or default_connection or '',
                       max_pool_size=group.max_pool_size or POOL_SIZE,
                       max_overflow=OVERFLOW if group.max_overflow is None else group.max_overflow,
                       pool_timeout=group.pool_timeout or POOL_TIMEOUT)
