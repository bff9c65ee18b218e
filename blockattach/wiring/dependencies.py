"""What every process depends on: settings, database, bus, clock."""
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_db_exception
from oslo_log import log as oslo_log
from oslo_policy import opts as policy_options
from oslo_reports import opts as report_options

from blockattach import clock
from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach import secrets
from blockattach import version
from blockattach.admission import controller
from blockattach.conf import api as api_conf
from blockattach.conf import control as control_conf
from blockattach.conf import core as core_conf
from blockattach.conf import database as database_conf
from blockattach.conf import failpoints as failpoints_conf
from blockattach.conf import health as health_conf
from blockattach.conf import locations
from blockattach.conf import options
from blockattach.conf import permissions
from blockattach.conf import quota as quota_conf
from blockattach.conf import rpc as rpc_conf
from blockattach.conf import service as service_conf
from blockattach.db.attachments import attachment_queries
from blockattach.db.attachments import key_rotation
from blockattach.db.engine import engine
from blockattach.db.engine import opening
from blockattach.db.schema import migrate
from blockattach.db.schema import online_migrations
from blockattach.db.volumes import volume_queries
from blockattach.health import monitor
from blockattach.rpc import history
from blockattach.rpc import notifications
from blockattach.rpc import transport
from blockattach.secrets import key_file
from blockattach.telemetry import acts
from blockattach.telemetry import threads as waiting
from blockattach.wiring import limits
from blockattach.wiring import observation
from blockattach.wiring import rpc_site

if TYPE_CHECKING:
    import requests

LOG = oslo_log.getLogger(__name__)

_DRIVERS = {
    'MySQLdb': ': begin the URL with mysql+pymysql://, or install blockattach[mysqlclient]',
    'pymysql': ': install blockattach[mysql]',
    'psycopg': ': begin the URL with postgresql+psycopg2://',
    'psycopg2': ': install blockattach[postgresql]'}
"""What is to be done where a driver of a database is missing, by its module."""


class Reloads:
    """What a process reads anew on SIGHUP: options that may change while it runs, and what is put
    together from them."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._acts: list[Callable[[], None]] = []

    def add(self, act: Callable[[], None]) -> None:
        """Call this at each reload, after the new values are set."""
        self._acts.append(act)

    def __call__(self) -> bool:
        """Read the files again; False: a file or a value is wrong, and all stays as it was."""
        try:
            self._conf.mutate_config_files()
            locations.check_values(self._conf)
        except (errors.ConfigurationError, cfg.Error) as exc:
            LOG.error('Cannot reload the configuration, the former one stays%s',
                      log.fields(reason=exc))
            return False
        for act in self._acts:
            act()
        LOG.info('Configuration is reloaded')
        return True


@dataclasses.dataclass(frozen=True, slots=True)
class Dependencies:
    """Shared by all services of a process."""

    conf: cfg.ConfigOpts
    core: core_conf.CoreSettings
    control: control_conf.ControlSettings
    service: service_conf.ServiceSettings
    database: engine.Database
    bus: transport.Bus
    probe: transport.BrokerProbe
    monitor: monitor.Monitor
    reloads: Reloads
    observation: observation.Observation
    admission: controller.AdmissionController
    notifier: notifications.Notifications
    attachment_notifications: notifications.AttachmentNotifications
    clock: clock.Clock
    threads: waiting.Threads = dataclasses.field(default_factory=waiting.Threads)
    backends: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The `blockattach.volume.backends.KeptBackend` that this process serves, by ``host@backend``:
    volumes move between them."""
    outgoing: 'requests.Session | None' = None
    """What carries the requests to Glance; None: connections of its own."""
    site: rpc_site.OpenSite | None = None
    """Where messages go without a broker; None: with one, or inside the process."""
    abandoned: list[Callable[[], None]] = dataclasses.field(default_factory=list)
    """Called right before the process is cut off, so that others can resume its work."""

    @property
    def telemetry(self) -> acts.Telemetry:
        """The telemetry of this process."""
        return self.observation.telemetry

    def close(self) -> None:
        """Close connections; the services have stopped."""
        self.notifier.close()
        self.bus.close()
        if self.site is not None:
            self.site.close()
        self.database.close()


def configure(conf: cfg.ConfigOpts, arguments: list[str], command: str | None = None,
              text: str | None = None) -> None:
    """Read the command line and the configuration files, and start logging.

    :param command: what the process is called; default: the name of its program
    :param text: what it does, for its help
    :raises ConfigurationError: a value is wrong, or the log cannot be written
    """
    own = frozenset(conf) - frozenset(cfg.ConfigOpts())
    log.register(conf)
    options.register(conf)
    transport.register_options(conf)
    policy_options.set_defaults(conf)
    report_options.set_defaults(conf)
    locations.read(conf, arguments, own, project='blockattach', prog=command,
                   version=version.version_string(), description=text)
    with locations.named(conf, failpoints_conf.GROUP, 'armed'):
        failpoints.configure(conf[failpoints_conf.GROUP].armed)
    try:
        log.setup(conf)
    except OSError as exc:
        raise locations.refusal(conf, 'DEFAULT', 'log_file' if conf.log_file else 'log_dir',
                                f'cannot write the log: {exc}') from exc
    for unknown in options.find_unknown(conf):
        LOG.warning('Option is not known and has no effect%s', log.fields(
            path=unknown.path, group=unknown.group, option=unknown.name, nearest=unknown.nearest))


def load(arguments: list[str]) -> None:
    """Load the driver of the database that is configured, and open nothing.

    :raises ConfigurationError: a value is wrong
    :raises oslo_config.cfg.Error: a file cannot be read
    """
    conf = cfg.ConfigOpts()
    options.register(conf)
    locations.read(conf, arguments, project='blockattach')
    # What is wrong is reported when the database is opened.
    with contextlib.suppress(ImportError, sa.exc.ArgumentError):
        sa.make_url(_settings(conf).connection).get_dialect().import_dbapi()


def make_state_path(core: core_conf.CoreSettings) -> None:
    """Make the state folder, for its owner only.

    :raises ConfigurationError: it cannot be made or written to, or is open to others
    """
    try:
        os.makedirs(core.state_path, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot make the state directory {core.state_path}: {exc.strerror}') from exc
    if not os.access(core.state_path, os.W_OK | os.X_OK):
        raise errors.ConfigurationError(
            reason=f'cannot write to the state directory {core.state_path}')
    permissions.check_private(core.state_path)


def open_engine(conf: cfg.ConfigOpts) -> sa.Engine:
    """The database as configured, by default an embedded one under the state folder.

    :raises ConfigurationError: its driver cannot be loaded
    """
    try:
        return opening.open_engine(_settings(conf))
    except ImportError as exc:
        raise locations.refusal(
            conf, 'database', 'connection',
            f'cannot use the database: {exc}{_DRIVERS.get(exc.name or "", "")}') from exc


def _settings(conf: cfg.ConfigOpts) -> database_conf.DatabaseSettings:
    folder = core_conf.settings(conf).state_path
    return database_conf.settings(conf, f'sqlite:///{folder}/blockattach.sqlite')


@contextlib.contextmanager
def database_usable(conf: cfg.ConfigOpts) -> Iterator[None]:
    """Report an error of the database in a line, without statements or URLs, with the place of its
    option.

    :raises ConfigurationError: it cannot be reached, or used
    """
    try:
        yield
    except (errors.DatabaseUnavailable, oslo_db_exception.DBError,
            sa.exc.SQLAlchemyError) as exc:
        cause = exc.__cause__ if isinstance(exc, errors.DatabaseUnavailable) else exc
        inner = getattr(cause, 'inner_exception', None) or cause
        raise locations.refusal(
            conf, 'database', 'connection',
            f'cannot use the database: {getattr(inner, "orig", None) or inner}') from exc


def open_database(conf: cfg.ConfigOpts, time: clock.Clock | None = None, upgrade: bool = False,
                  telemetry: acts.Telemetry | None = None,
                  check_sealed: bool = True) -> engine.Database:
    """A database with our tables, and with credentials that we can open; first, a state folder.

    :param time: None: a clock of its own
    :param upgrade: bring the schema up to date first; no other process is running
    :param telemetry: where transactions are counted and timed
    :param check_sealed: False: the caller handles credentials that cannot be opened
    :raises ConfigurationError: it cannot be reached or used, or has tables of another release
    """
    core = core_conf.settings(conf)
    with locations.named(conf, 'DEFAULT', 'state_path'):
        make_state_path(core)
    with locations.named(conf, 'database', 'connection'), database_usable(conf):
        db_engine = open_engine(conf)
        if upgrade:
            migrate.upgrade(db_engine)
        else:
            migrate.check(db_engine)
        sealer = open_sealer(conf, core, db_engine, check_sealed)
        database = engine.Database(db_engine, sealer, time or clock.Clock(),
                                   quota_conf.settings(conf), telemetry,
                                   opening.open_readers(_settings(conf)),
                                   conf.database.attachment_history_days)
        if check_sealed:
            _check_sealed(conf, core, database)
        if upgrade and migrate.version(db_engine) != migrate.expected():
            finish_upgrade(conf, database)
    return database


def open_sealer(conf: cfg.ConfigOpts, core: core_conf.CoreSettings, database: sa.Engine,
                needed: bool = True) -> secrets.Sealer:
    """By the key manager where keys of it are named, else by a file, made where nothing is sealed.

    :param needed: False: a lost key file is none, which opens nothing
    :raises ConfigurationError: the keys are not there, or Castellan is not installed
    """
    with locations.named(conf, 'DEFAULT', _key_option(core)):
        path = core.seal_key_file
        if not core.seal_key_ids:
            if os.path.exists(path) or not key_rotation.are_there(database):
                return key_file.KeyFile(path)
            if not needed:
                return secrets.Sealer(())
            raise errors.ConfigurationError(
                reason=f'cannot open sealed credentials: the key file is gone: restore {path}, or '
                       f'see blockattach-manage secrets check')
        try:
            # An extra that few need, and long to load.
            from blockattach.secrets import key_manager
        except ImportError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use a key manager: {exc}: install blockattach[castellan]') from exc
        return key_manager.KeyManagerSealer(conf, lambda: core_conf.settings(conf).seal_key_ids)


def _check_sealed(conf: cfg.ConfigOpts, core: core_conf.CoreSettings,
                  database: engine.Database) -> None:
    """Make sure that what is stored can be opened.

    :raises ConfigurationError: it cannot
    """
    place = 'the key' if core.seal_key_ids else core.seal_key_file
    with locations.named(conf, 'DEFAULT', _key_option(core)):
        try:
            key_rotation.check(database)
        except errors.ConfigurationError as exc:
            raise errors.ConfigurationError(
                reason=f'{exc}: restore {place}, or see blockattach-manage secrets check'
            ) from exc


def make_key(core: core_conf.CoreSettings) -> None:
    """A fresh key instead of one that is lost; nothing where there is one.

    :raises ConfigurationError: it cannot be made
    """
    if not core.seal_key_ids:
        key_file.KeyFile(core.seal_key_file)


def _key_option(core: core_conf.CoreSettings) -> str:
    return 'seal_key_ids' if core.seal_key_ids else 'seal_key_file'


def contract_hindrances(conf: cfg.ConfigOpts, database: engine.Database) -> list[str]:
    """What stands against a contraction of the schema now, a sentence each."""
    return online_migrations.hindrances(database, *older(conf))


def finish_upgrade(conf: cfg.ConfigOpts, database: engine.Database) -> list[str]:
    """After an expansion, what is done step by step where an older release is at work.

    :returns: what stands against it, a sentence each; then nothing was done
    """
    behind = online_migrations.behind(database, *older(conf))
    if behind:
        return behind
    online_migrations.run(database)
    hindrances = contract_hindrances(conf, database)
    if not hindrances:
        migrate.contract(database.engine)
    return hindrances


def older(conf: cfg.ConfigOpts) -> tuple[float, list[str]]:
    """How long a service counts as up without a heartbeat, and the releases before this one."""
    return (service_conf.settings(conf).service_down_time,
            [release.name for release in history.RELEASES[:-1]])


def open_bus(conf: cfg.ConfigOpts, need_broker: bool, group: str, option: str,
              url: str | None = None) -> tuple[oslo_messaging.Transport, transport.BrokerProbe]:
    """A transport, and a probe of its broker, which must answer if it is needed.

    :param option: where its URL stands
    :param url: None: that of oslo.messaging
    """
    with locations.named(conf, group, option):
        opened = transport.build_transport(conf, url, option)
        broker = transport.BrokerProbe(conf, opened, rpc_conf.settings(conf), url)
        wrong = broker.wrong() if need_broker else None
        if wrong is not None:
            raise errors.ConfigurationError(reason=wrong)
    return opened, broker


def build_dependencies(conf: cfg.ConfigOpts, process: str = 'blockattach', *,
                       upgrade: bool = False, need_broker: bool = True) -> Dependencies:
    """Open the database and the bus as configured.

    :param process: what the process is called
    :param upgrade: bring the schema up to date first (the embedded database does that itself)
    :param need_broker: refuse if the message broker is down now
    :raises ConfigurationError: something must be configured differently, or is not there
    """
    time = clock.Clock()
    observed = observation.Observation(process, conf, time)
    database = open_database(conf, time, upgrade, observed.telemetry)
    database.limit_source = limits.source(conf, time)
    over_http = rpc_site.ways(conf)
    site = rpc_site.OpenSite(conf, database, time) if over_http.calls else None
    bus_transport, broker = open_bus(conf, need_broker, 'DEFAULT', 'transport_url',
                                      site.url if site and over_http.others else None)
    rpc, second, direct = rpc_conf.settings(conf), None, None
    if rpc.second_transport_url:
        # During a move between brokers, servers listen on both.
        second, _ = open_bus(conf, need_broker, rpc_conf.GROUP, 'second_transport_url',
                              rpc.second_transport_url)
    if site and not over_http.others:
        direct, _ = open_bus(conf, False, rpc_conf.GROUP, 'calls', site.url)
    admission = controller.AdmissionController(api_conf.queue_settings(conf), observed.telemetry)
    observed.report.add('Queues', admission.report)
    with locations.named(conf, rpc_conf.GROUP, 'release'):
        bus = transport.Bus(bus_transport, rpc, time, telemetry=observed.telemetry,
                            second=second, direct=direct, while_waiting=admission.released)
    return assemble(conf, process, database, bus, broker, clock=time, observed=observed,
                    admission=admission, site=site)


def assemble(conf: cfg.ConfigOpts, process: str, database: engine.Database, bus: transport.Bus,
             broker: transport.BrokerProbe, *, clock: clock.Clock,
             observed: observation.Observation, admission: controller.AdmissionController,
             threads: waiting.Threads | None = None,
             service: service_conf.ServiceSettings | None = None,
             notifier: notifications.Notifications | None = None,
             outgoing: 'requests.Session | None' = None,
             site: rpc_site.OpenSite | None = None) -> Dependencies:
    """Dependencies from parts that are open already: the seams for tests.

    :param threads: how the process begins threads and waits; None: the standard library's
    :param service: None: as configured
    :param notifier: None: as configured
    :param outgoing: see `Dependencies`
    """
    service = service or service_conf.settings(conf)
    with locations.named(conf, 'oslo_messaging_notifications', 'driver'):
        notifier = notifier or notifications.build(conf, f'volume.{service.host}')
    threads = threads or waiting.Threads()
    reloads = Reloads(conf)
    reloads.add(database.sealer.reload)
    watching = monitor.Monitor(process, health_conf.settings(conf, process), clock, threads.begin)
    watching.add('database', database.wrong)
    watching.add('bus', broker.wrong)
    reloads.add(lambda: watching.every(health_conf.settings(conf, process).interval))
    observed.watch_database(database)
    observed.watch(broker, watching)
    return Dependencies(
        conf=conf, core=core_conf.settings(conf), control=control_conf.settings(conf),
        service=service, database=database, bus=bus, probe=broker,
        monitor=watching, reloads=reloads, observation=observed, admission=admission,
        notifier=notifier,
        attachment_notifications=notifications.AttachmentNotifications(
            notifier, functools.partial(volume_queries.get_even_deleted, database),
            functools.partial(attachment_queries.of_volume, database)),
        clock=clock, threads=threads, outgoing=outgoing, site=site)
