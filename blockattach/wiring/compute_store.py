"""The database of servers as configured: a consumer's own, not that of block storage."""
import contextlib
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_config import cfg

from blockattach.compute import conf as compute_conf
from blockattach.compute.store import schema
from blockattach.compute.store import store
from blockattach.platform import clock as clocks
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import database as database_conf
from blockattach.platform.conf import locations
from blockattach.wiring import configuration
from blockattach.wiring import databases


@contextlib.contextmanager
def opened(conf: cfg.ConfigOpts) -> Iterator[sa.Engine]:
    """The database as it is, by default a file in the state folder; what is wrong with it, also
    within the block, is said of its option.

    :raises ConfigurationError: it cannot be reached or used
    """
    core, group = core_conf.settings(conf), compute_conf.GROUP
    with locations.named(conf, 'DEFAULT', 'state_path'):
        configuration.make_state_path(core)
    url = compute_conf.settings(conf).connection or f'sqlite:///{core.state_path}/compute.sqlite'
    with locations.named(conf, group, 'connection'), databases.usable(conf, group):
        yield databases.open_engine(conf, group, database_conf.DatabaseSettings(url))


def check(conf: cfg.ConfigOpts) -> None:
    """Return if a database that is configured has the tables of this release.

    :raises ConfigurationError: it cannot be used, or has tables of another release
    """
    if compute_conf.settings(conf).connection:
        with opened(conf) as engine:
            schema.MIGRATIONS.check(engine)


def open_store(conf: cfg.ConfigOpts, clock: clocks.Clock) -> store.Store:
    """The database with the tables of this release. The file in the state folder gets them when it
    is made.

    :raises ConfigurationError: it cannot be used, or has tables of another release
    """
    settings = compute_conf.settings(conf)
    with opened(conf) as engine:
        if not settings.connection and schema.MIGRATIONS.version(engine).expand is None:
            schema.MIGRATIONS.upgrade(engine)
        schema.MIGRATIONS.check(engine)
        return store.Store(engine, clock, settings.down_seconds)
