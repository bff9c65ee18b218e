"""What every process stands on: settings, database, bus, clock."""
import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator

import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_db_exception

from blockattach import clock
from blockattach import errors
from blockattach import log
from blockattach import secrets
from blockattach import version
from blockattach.conf import control as control_conf
from blockattach.conf import core as core_conf
from blockattach.conf import database as database_conf
from blockattach.conf import options
from blockattach.conf import rpc as rpc_conf
from blockattach.conf import service as service_conf
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.db import grants
from blockattach.db import migrate
from blockattach.db import quotas
from blockattach.db import volume_queries
from blockattach.policy import enforcer
from blockattach.rpc import notifications
from blockattach.rpc import transport


@dataclasses.dataclass(frozen=True, slots=True)
class Foundation:
    """Made once a process and shared by all that is built on it."""

    conf: cfg.ConfigOpts
    core: core_conf.CoreSettings
    control: control_conf.ControlSettings
    service: service_conf.ServiceSettings
    database: engine.Database
    transport: oslo_messaging.Transport
    bus: transport.Bus
    notifier: notifications.Notifications
    attachment_notifications: notifications.AttachmentNotifications
    clock: clock.Clock

    def close(self) -> None:
        """Give back connections; whatever was built on it has stopped."""
        self.notifier.close()
        self.bus.close()
        self.database.close()


def configure(conf: cfg.ConfigOpts, arguments: list[str]) -> None:
    """Read the command line and the configuration files, and start logging.

    :raises ConfigurationError: the log cannot be written
    """
    log.register(conf)
    options.register(conf)
    transport.register_options(conf)
    enforcer.register(conf)
    conf(arguments, project='blockattach', version=version.version_string())
    try:
        log.setup(conf)
    except OSError as exc:
        raise errors.ConfigurationError(reason=f'cannot write the log: {exc}') from exc


def make_state_path(core: core_conf.CoreSettings) -> None:
    """Make the state folder, for its owner only.

    :raises ConfigurationError: it cannot be made or written to
    """
    try:
        os.makedirs(core.state_path, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot make the state directory {core.state_path}: {exc.strerror}') from exc
    if not os.access(core.state_path, os.W_OK | os.X_OK):
        raise errors.ConfigurationError(
            reason=f'cannot write to the state directory {core.state_path}')


def open_engine(conf: cfg.ConfigOpts, core: core_conf.CoreSettings) -> sa.Engine:
    """The database as configured, by default an embedded one under the state folder."""
    return engine.open_engine(database_conf.settings(
        conf, default_connection=f'sqlite:///{core.state_path}/blockattach.sqlite'))


@contextlib.contextmanager
def database_usable() -> Iterator[None]:
    """Tell an operator in a line what is wrong with the database, without statements or URLs.

    :raises ConfigurationError: it cannot be reached, or used
    """
    try:
        yield
    except (oslo_db_exception.DBError, sa.exc.SQLAlchemyError, ImportError) as exc:
        inner = getattr(exc, 'inner_exception', None) or exc
        raise errors.ConfigurationError(
            reason=f'cannot use the database: {getattr(inner, "orig", None) or inner}') from exc


def _open_database(conf: cfg.ConfigOpts, core: core_conf.CoreSettings, time: clock.Clock,
                   upgrade: bool) -> engine.Database:
    """A database with our tables, and with credentials that we can open."""
    with database_usable():
        db_engine = open_engine(conf, core)
        if upgrade:
            migrate.upgrade(db_engine)
        else:
            migrate.check(db_engine)
        limit = quotas.AttachmentQuota(control_conf.settings(conf).quota_attachments)
        database = engine.Database(db_engine, secrets.load_sealer(core.seal_key_file), time,
                                   limit)
        with database.writer() as connection:
            limit.forget(connection)
        try:
            grants.check_sealed(database)
        except errors.ConfigurationError as exc:
            raise errors.ConfigurationError(
                reason=f'{exc}: restore {core.seal_key_file}') from exc
    return database


def build_foundation(conf: cfg.ConfigOpts, upgrade: bool = False) -> Foundation:
    """Open the database and the bus as configured.

    :param upgrade: bring the schema up to date first (the embedded database does that itself)
    :raises ConfigurationError: something must be configured differently
    """
    core = core_conf.settings(conf)
    make_state_path(core)
    time = clock.Clock()
    database = _open_database(conf, core, time, upgrade)
    bus_transport = transport.build_transport(conf)
    service = service_conf.settings(conf)
    told = notifications.build(conf, f'volume.{service.host}')
    return Foundation(
        conf=conf, core=core, control=control_conf.settings(conf), service=service,
        database=database, transport=bus_transport,
        bus=transport.Bus(bus_transport, rpc_conf.settings(conf)),
        notifier=told,
        attachment_notifications=notifications.AttachmentNotifications(
            told, functools.partial(volume_queries.get_even_gone, database),
            functools.partial(attachment_queries.of_volume, database)),
        clock=time)
