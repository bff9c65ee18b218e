"""Shared dependencies of the services of a process: settings, database, bus and clock."""
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from blockattach.platform import admission as admissions
from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import secrets
from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import database as database_conf
from blockattach.platform.conf import health as health_conf
from blockattach.platform.conf import locations
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.conf import service as service_conf
from blockattach.platform.db import opening
from blockattach.platform.health import monitor
from blockattach.platform.rpc import notifications
from blockattach.platform.rpc import transport
from blockattach.platform.secrets import key_file
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import threads as waiting
from blockattach.storage.conf import control as control_conf
from blockattach.storage.conf import quota as quota_conf
from blockattach.storage.db import schema
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import key_rotation
from blockattach.storage.db.schema import online_migrations
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.rpc import attachment_notices
from blockattach.storage.rpc import history
from blockattach.wiring import configuration
from blockattach.wiring import databases
from blockattach.wiring import limits
from blockattach.wiring import observation
from blockattach.wiring import options
from blockattach.wiring import outside
from blockattach.wiring import overview
from blockattach.wiring import rpc_site

if TYPE_CHECKING:
    import requests


@dataclasses.dataclass(frozen=True, slots=True)
class Dependencies:
    """Dependencies that all services of a block storage process share."""

    conf: cfg.ConfigOpts
    core: core_conf.CoreSettings
    control: control_conf.ControlSettings
    service: service_conf.ServiceSettings
    database: storage_db.Database
    bus: transport.Bus
    probe: transport.BrokerProbe
    monitor: monitor.Monitor
    reloads: configuration.Reloads
    observation: observation.Observation
    admission: admissions.AdmissionController
    notifier: notifications.Notifications
    attachment_notifications: attachment_notices.AttachmentNotifications
    clock: clock.Clock
    threads: waiting.Threads = dataclasses.field(default_factory=waiting.Threads)
    backends: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Backends that this process serves, by ``host@backend`` or ``cluster@backend``.

    The values are instances of `blockattach.storage.volume.backends.KeptBackend`. Volumes can be
    migrated between these backends.
    """
    outgoing: 'requests.Session | None' = None
    """HTTP session for requests to Glance, or None to create sessions."""
    site: rpc_site.OpenSite | None = None
    """Addresses and keys for RPC over HTTP, or None if no messages are sent over HTTP."""
    abandoned: list[Callable[[], None]] = dataclasses.field(default_factory=list)
    """Functions to call before the process is aborted, so that other processes resume its work."""

    @property
    def telemetry(self) -> acts.Telemetry:
        return self.observation.telemetry

    @property
    def settle_seconds(self) -> float:
        """Time in seconds after the start during which callers may resend calls that were lost."""
        return (2 * rpc_conf.settings(self.conf).repeat_interval
                if self.probe.needed or self.site is not None else 0)

    def close(self) -> None:
        """Close all connections. The services must be stopped before."""
        self.notifier.close()
        self.bus.close()
        if self.site is not None:
            self.site.close()
        self.database.close()


def load(arguments: list[str]) -> None:
    """Import the driver of the configured database. No connection is opened.

    :raises ConfigurationError: the value of an option is invalid
    :raises oslo_config.cfg.Error: a file cannot be read
    """
    conf = cfg.ConfigOpts()
    options.register(conf)
    locations.read(conf, arguments, project='blockattach')
    # These errors are reported when the database is opened.
    with contextlib.suppress(ImportError, sa.exc.ArgumentError):
        sa.make_url(_settings(conf).connection).get_dialect().import_dbapi()


def open_engine(conf: cfg.ConfigOpts) -> sa.Engine:
    """Create the engine of the configured database, by default SQLite in the state folder.

    :raises ConfigurationError: the driver of the database cannot be loaded
    """
    return databases.open_engine(conf, database_conf.GROUP, _settings(conf))


def _settings(conf: cfg.ConfigOpts) -> database_conf.DatabaseSettings:
    folder = core_conf.settings(conf).state_path
    return database_conf.settings(conf, f'sqlite:///{folder}/blockattach.sqlite')


def open_database(conf: cfg.ConfigOpts, time: clock.Clock | None = None, upgrade: bool = False,
                  telemetry: acts.Telemetry | None = None,
                  check_sealed: bool = True) -> storage_db.Database:
    """Create the state folder, and open the block storage database.

    :param time: clock of the database object, or None to create a clock
    :param upgrade: True to upgrade the schema first; requires that no other process is running
    :param telemetry: telemetry that records transactions, or None to create one
    :param check_sealed: True to check that all sealed credentials can be decrypted; False if the
        caller handles credentials that cannot be decrypted
    :raises ConfigurationError: the state folder or the keys cannot be used, or the database cannot
        be reached or used, has tables of another release, or contains credentials that cannot be
        decrypted
    """
    core = core_conf.settings(conf)
    with locations.named(conf, 'DEFAULT', 'state_path'):
        configuration.make_state_path(core)
    with locations.named(conf, 'database', 'connection'), databases.usable(conf):
        db_engine = open_engine(conf)
        if upgrade:
            schema.upgrade(db_engine)
        else:
            schema.check(db_engine)
        sealer = open_sealer(conf, core, db_engine, check_sealed)
        database = storage_db.Database(db_engine, sealer, time or clock.Clock(),
                                   quota_conf.settings(conf), telemetry,
                                   opening.open_readers(_settings(conf)),
                                   conf.database.attachment_history_days)
        if check_sealed:
            _check_sealed(conf, core, database)
        if upgrade and schema.version(db_engine) != schema.expected():
            finish_upgrade(conf, database)
    return database


def open_sealer(conf: cfg.ConfigOpts, core: core_conf.CoreSettings, database: sa.Engine,
                needed: bool = True) -> secrets.Sealer:
    """Open the sealer, which encrypts credentials for the database.

    The sealer uses the keys of the key manager if their ids are configured, and the key file
    otherwise. A missing key file is created if the database contains no sealed credentials.

    :param needed: False to return a sealer without keys if the key file is lost
    :raises ConfigurationError: the keys are missing, or Castellan is not installed
    """
    with locations.named(conf, 'DEFAULT', _key_option(core)):
        path = core.seal_key_file
        if not core.seal_key_ids:
            if os.path.exists(path) or not key_rotation.are_there(database):
                return key_file.KeyFile(path)
            if not needed:
                return secrets.Sealer(())
            raise errors.ConfigurationError(
                reason=f'cannot decrypt sealed credentials: the key file is missing. Restore '
                       f'{path}, or run blockattach-manage secrets check')
        try:
            # Castellan is an optional dependency that takes long to import.
            from blockattach.platform.secrets import key_manager
        except ImportError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use a key manager: {exc}. Install blockattach[castellan]') from exc
        return key_manager.KeyManagerSealer(conf, lambda: core_conf.settings(conf).seal_key_ids)


def _check_sealed(conf: cfg.ConfigOpts, core: core_conf.CoreSettings,
                  database: storage_db.Database) -> None:
    """Raise ConfigurationError if a sealed credential cannot be decrypted."""
    place = 'the key' if core.seal_key_ids else core.seal_key_file
    with locations.named(conf, 'DEFAULT', _key_option(core)):
        try:
            key_rotation.check(database)
        except errors.ConfigurationError as exc:
            raise errors.ConfigurationError(
                reason=f'{exc}. Restore {place}, or run blockattach-manage secrets check'
            ) from exc


def make_key(core: core_conf.CoreSettings) -> None:
    """Create the key file of the sealer if it is missing. Keys in a key manager are not created.

    :raises ConfigurationError: the file cannot be created
    """
    if not core.seal_key_ids:
        key_file.KeyFile(core.seal_key_file)


def _key_option(core: core_conf.CoreSettings) -> str:
    return 'seal_key_ids' if core.seal_key_ids else 'seal_key_file'


def contract_hindrances(conf: cfg.ConfigOpts, database: storage_db.Database) -> list[str]:
    """Return the reasons why the schema cannot be contracted now, each as a sentence."""
    return online_migrations.hindrances(database, *older(conf))


def finish_upgrade(conf: cfg.ConfigOpts, database: storage_db.Database) -> list[str]:
    """Run the online data migrations and contract the schema, after the schema was expanded.

    If services of an older release are running, neither step is executed.

    :returns: reasons why a step was not executed, each as a sentence; empty on success
    """
    # A running service of an older release would write rows in the old format again.
    behind = online_migrations.behind(database, *older(conf))
    if behind:
        return behind
    online_migrations.run(database)
    hindrances = contract_hindrances(conf, database)
    if not hindrances:
        schema.contract(database.engine)
    return hindrances


def older(conf: cfg.ConfigOpts) -> tuple[float, list[str]]:
    """Return ``service_down_time`` in seconds, and the names of all older releases.

    A service without a heartbeat for this time counts as down.
    """
    return (service_conf.settings(conf).service_down_time,
            [release.name for release in history.RELEASES[:-1]])


def build_dependencies(conf: cfg.ConfigOpts, process: str = 'blockattach', *,
                       upgrade: bool = False, need_broker: bool = True) -> Dependencies:
    """Open the configured database and bus, and build the dependencies of a process.

    :param process: name of the process
    :param upgrade: True to upgrade the schema of the database first
    :param need_broker: True to raise an error if the message broker is down
    :raises ConfigurationError: an option is invalid, or a dependency is not available
    """
    time = clock.Clock()
    observed = observation.Observation(process, conf, time)
    database = open_database(conf, time, upgrade, observed.telemetry)
    database.limit_source = limits.source(conf, time)
    over_http = rpc_site.ways(conf)
    site = rpc_site.OpenSite(conf, database, time) if over_http.calls else None
    bus_transport, broker = outside.open_bus(
        conf, need_broker, 'DEFAULT', 'transport_url',
        site.url if site and over_http.others else None)
    rpc, second, direct = rpc_conf.settings(conf), None, None
    if rpc.second_transport_url:
        # During a move between brokers, servers listen on both.
        second, _ = outside.open_bus(conf, need_broker, rpc_conf.GROUP,
                                     'second_transport_url', rpc.second_transport_url)
    if site and not over_http.others:
        # Without a probe at the start, because no broker is involved.
        direct, _ = outside.open_bus(conf, False, rpc_conf.GROUP, 'calls', site.url)
    admission = admissions.AdmissionController(api_conf.queue_settings(conf), observed.telemetry)
    observed.report.add('Queues', admission.report)
    with locations.named(conf, rpc_conf.GROUP, 'release'):
        bus = transport.Bus(bus_transport, rpc, history.RELEASES, time,
                            telemetry=observed.telemetry,
                            second=second, direct=direct, while_waiting=admission.released)
    return assemble(conf, process, database, bus, broker, clock=time, observed=observed,
                    admission=admission, site=site)


def assemble(conf: cfg.ConfigOpts, process: str, database: storage_db.Database, bus: transport.Bus,
             broker: transport.BrokerProbe, *, clock: clock.Clock,
             observed: observation.Observation, admission: admissions.AdmissionController,
             threads: waiting.Threads | None = None,
             service: service_conf.ServiceSettings | None = None,
             notifier: notifications.Notifications | None = None,
             outgoing: 'requests.Session | None' = None,
             site: rpc_site.OpenSite | None = None) -> Dependencies:
    """Build the dependencies of a process from an open database and bus.

    Tests call this function with their own parts.

    :param broker: health check of the message broker
    :param threads: factory of threads and locks, or None for threads of the standard library
    :param service: settings of the service, or None for the configured settings
    :param notifier: sender of notifications, or None for the configured notifier
    :param outgoing: see `Dependencies`
    """
    service = service or service_conf.settings(conf)
    with locations.named(conf, 'oslo_messaging_notifications', 'driver'):
        notifier = notifier or notifications.build(conf, f'volume.{service.host}')
    threads = threads or waiting.Threads()
    reloads = configuration.Reloads(conf)
    reloads.add(database.sealer.reload, database.sealer.wrong)
    if site is not None:
        reloads.watch(site.wrong)
    watching = monitor.Monitor(process, health_conf.settings(conf, process), clock, threads.begin)
    watching.add('database', database.wrong)
    watching.add('bus', broker.wrong)
    watching.add('files', reloads.wrong, hinders=False)
    reloads.add(lambda: watching.every(health_conf.settings(conf, process).interval))
    overview.watch(database, observed)
    observed.watch(broker, watching)
    return Dependencies(
        conf=conf, core=core_conf.settings(conf), control=control_conf.settings(conf),
        service=service, database=database, bus=bus, probe=broker,
        monitor=watching, reloads=reloads, observation=observed, admission=admission,
        notifier=notifier,
        attachment_notifications=attachment_notices.AttachmentNotifications(
            notifier, functools.partial(volume_queries.get_even_deleted, database),
            functools.partial(attachment_queries.of_volume, database)),
        clock=clock, threads=threads, outgoing=outgoing, site=site)
