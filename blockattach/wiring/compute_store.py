"""Opening of the compute API's database, which is separate from the block storage database."""
import contextlib
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_config import cfg

from blockattach.compute import conf as compute_conf
from blockattach.compute.store import models
from blockattach.compute.store import store
from blockattach.platform import clock as clocks
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import database as database_conf
from blockattach.platform.conf import locations
from blockattach.wiring import configuration
from blockattach.wiring import databases


@contextlib.contextmanager
def opened(conf: cfg.ConfigOpts) -> Iterator[sa.Engine]:
    """Open the database of the compute API, by default a file in the state folder.

    The tables are not checked. Database errors in the block are translated to ConfigurationError.

    :raises ConfigurationError: the database cannot be reached or used. The error names the option
        that contains the URL of the database
    """
    core, group = core_conf.settings(conf), compute_conf.GROUP
    with locations.named(conf, 'DEFAULT', 'state_path'):
        configuration.make_state_path(core)
    url = compute_conf.settings(conf).connection or f'sqlite:///{core.state_path}/compute.sqlite'
    with locations.named(conf, group, 'connection'), databases.usable(conf, group):
        yield databases.open_engine(conf, group, database_conf.DatabaseSettings(url))


def check(conf: cfg.ConfigOpts) -> None:
    """Check that the configured database of the compute API has the tables of this release.

    If no database is configured, nothing is checked.

    :raises ConfigurationError: the database cannot be used, or has tables of another release
    """
    if compute_conf.settings(conf).connection:
        with opened(conf) as engine:
            models.MIGRATIONS.check(engine)


def open_store(conf: cfg.ConfigOpts, clock: clocks.Clock) -> store.Store:
    """Open the database of the compute API, and check that it has the tables of this release.

    If no database is configured, a file in the state folder is used. In a file without tables, the
    tables are created.

    :raises ConfigurationError: the database cannot be used, or has tables of another release
    """
    settings = compute_conf.settings(conf)
    with opened(conf) as engine:
        # The tables of a configured database are only changed by blockattach-manage, because
        # several processes may share it.
        if not settings.connection and models.MIGRATIONS.version(engine).expand is None:
            models.MIGRATIONS.upgrade(engine)
        models.MIGRATIONS.check(engine)
        return store.Store(engine, clock, settings.down_seconds)
