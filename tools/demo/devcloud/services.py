"""Processes of blockattach in `tools/devcloud`: their configuration and their health.

The cloud has two host names. Each host has an API, a scheduler and a volume manager with backends
of its own. Control runs on the first host.
"""
import dataclasses
import datetime
from typing import NamedTuple

from blockattach.platform import clock as clocks
from blockattach.platform.health import report
from blockattach.storage.domain import binaries
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import stack
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from demo.devcloud import identity as identities
from demo.devcloud import processes as processes
from demo.devcloud import record as records
from demo.devcloud import servers as foundation

RUNNING, ENDED = 'running', 'ended'
READY = foundation.READY
API, SCHEDULER, VOLUME, CONTROL = 'api', 'scheduler', 'volume', 'control'
_COMMON = 'etc/blockattach.conf'
_STATE = 'state/{}'
_TOPICS = {SCHEDULER: 'scheduler', VOLUME: 'volume', CONTROL: 'attachments'}
_BINARIES = {SCHEDULER: binaries.SCHEDULER, VOLUME: binaries.VOLUME}
_LISTENS = (API, VOLUME)
_END_OF_A_LOG = 20_000


class Condition(NamedTuple):
    """State and health of a process.

    :ivar state: `RUNNING` or `ENDED`
    :ivar health: `READY`, or a text with the reason why the process is not ready
    """

    state: str
    health: str

    @property
    def good(self) -> bool:
        """True if the process is ready."""
        return self.health == READY


class Service(NamedTuple):
    """Process of blockattach on a host.

    :ivar what: suffix of the command: ``blockattach-<what>``
    :ivar number: number of the host
    """

    what: str
    number: int

    @property
    def name(self) -> str:
        """Name in the status table."""
        return f'{self.what}-{self.number}'

    @property
    def host(self) -> str:
        """Host name in the configuration of the process."""
        return f'devcloud-{self.number}'

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends of the volume manager of this host.

        The first host has a second backend, to which volumes can be migrated.
        """
        return (f'disks-{self.number}', *(['spare-1'] if self.number == 1 else []))

    @property
    def log(self) -> str:
        """Path of the log file below the state directory."""
        return f'log/{self.name}.log'

    @property
    def configuration(self) -> str:
        """Path of the configuration file of this process below the state directory."""
        return f'etc/{self.name}.conf'


SERVICES = tuple(Service(what, number) for number in (1, 2)
                 for what in (API, SCHEDULER, VOLUME)) + (Service(CONTROL, 1),)
SERVED = [(_TOPICS[one.what], f'{one.host}{backend}') for one in SERVICES if one.what in _TOPICS
          for backend in ([f'@{name}' for name in one.backends] if one.what == VOLUME
                          else [''])] + [
    ('process', f'{_BINARIES[one.what]}.{one.host}') for one in SERVICES
    if one.what in _BINARIES]
"""Topics and hosts that the processes have queues for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ground:
    """Servers and accounts that the processes use.

    :ivar broker: URL of the broker; None if there is none
    :ivar memcached: address of memcached; None if there is none
    :ivar images: URL of Glance; None if there is none
    """

    database: str
    broker: str | None
    identity: identities.Identity
    memcached: str | None = None
    memcached_key: str = ''
    images: str | None = None


def ports() -> dict[str, int]:
    """Return a free port for each process that listens, by name."""
    return {one.name: servers.free_port() for one in SERVICES if one.what in _LISTENS}


def endpoints(record: records.Record) -> tuple[str, str]:
    """Return the URLs of the two APIs."""
    first, second = (f'http://{servers.LOOPBACK}:{record.ports[one.name]}/v3'
                     for one in SERVICES if one.what == API)
    return first, second


def configure(state: records.StateDirectory, record: records.Record, ground: Ground) -> None:
    """Write the configuration files."""
    state.write(_COMMON, _text(_common(state, record.name, ground)))
    for service in SERVICES:
        state.write(service.configuration, _text(_own(state, service, record.ports)))


def sync(state: records.StateDirectory) -> list[str]:
    """Return the command line that creates the tables."""
    return processes.program('manage', '--config-file', str(state.path / _COMMON), 'db', 'sync')


def start(state: records.StateDirectory, record: records.Record, service: Service,
          clock: clocks.Clock) -> records.Process:
    """Start a process without waiting for its readiness."""
    health = state.folder('run') / f'{service.name}.health'
    # The report of a former process would be read as the health of the new process.
    health.unlink(missing_ok=True)
    state.folder('log')
    pid = processes.spawn(
        processes.program(service.what, '--config-file', str(state.path / _COMMON),
                          '--config-file', str(state.path / service.configuration)),
        processes.environment(record.mark), state.path, state.path / service.log)
    return records.Process(service.name, pid, processes.born(pid) or ENDED,
                           clock.utcnow().isoformat(' ', 'seconds'),
                           record.ports.get(service.name), str(health))


def end_targets(state: records.StateDirectory) -> None:
    """Stop each tgtd that a volume manager has left running.

    A tgtd ignores SIGTERM, so that the sweep would wait for it in vain.
    """
    for service in SERVICES:
        if service.what == VOLUME:
            folder = state.path / _STATE.format(service.host)
            target = tgtd.Tgtd(str(folder), (servers.LOOPBACK,), 0)
            if target.pid() is not None:
                target.stop()


def condition(process: records.Process, now: datetime.datetime) -> Condition:
    """Return the state and health of a process."""
    if not processes.is_alive(process):
        return Condition(ENDED, '-')
    return Condition(RUNNING, _health(process, now))


def _health(process: records.Process, now: datetime.datetime) -> str:
    if process.health is None:
        return foundation.health(process.name, servers.LOOPBACK, process.port or 0)
    try:
        said = report.read(process.health)
    except FileNotFoundError:
        return 'starting'
    except (OSError, ValueError) as exc:
        return f'unreadable health file: {exc}'
    if said.age(now) > said.interval * report.MISSED_INTERVALS:
        return f'no report for {said.age(now):.0f} seconds'
    if said.state is report.State.READY:
        return READY
    return '; '.join(said.wrong.values()) or said.state


def last_words(state: records.StateDirectory, service: Service) -> str:
    """Return the last line of the log of a process, which says why the process ended."""
    said = (state.path / service.log).read_text('utf-8', 'replace')[-_END_OF_A_LOG:].split('\n')
    return next((line for line in reversed(said) if line.strip()), 'no output')


def _common(state: records.StateDirectory, name: str,
            ground: Ground) -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {
        'DEFAULT': {'seal_key_file': str(state.path / 'seal.key'),
                    'state_path': str(state.folder('state')),
                    'graceful_shutdown_timeout': '30'},
        'database': {'connection': ground.database},
        'api': {'auth_strategy': 'keystone', 'host': servers.LOOPBACK},
        'keystone_authtoken': ground.identity.middleware(),
        # The cloud has no Nova, so no server can still use a volume that is detached.
        'nova': {'detach_rule': 'off'},
        'health': {'interval': '2'},
        'quota': stack.LIMITLESS}
    bus = {('DEFAULT', 'transport_url'): 'http://',
           ('rpc', 'key_file'): str(state.path / 'rpc.keys')}
    if ground.broker is not None:
        bus = rabbit.RabbitFixture(ground.broker, name).options()
    for (group, option), value in bus.items():
        groups.setdefault(group, {})[option] = value
    if ground.images is not None:
        groups['glance'] = ground.identity.account()
    if ground.memcached is not None:
        groups['keystone_authtoken'] |= {
            'memcached_servers': ground.memcached, 'memcache_security_strategy': 'ENCRYPT',
            'memcache_secret_key': ground.memcached_key}
    return groups


def _own(state: records.StateDirectory, service: Service,
         taken: dict[str, int]) -> dict[str, dict[str, str]]:
    groups = {
        'DEFAULT': {'state_path': str(state.folder(_STATE.format(service.host)))},
        'service': {'host': service.host},
        'health': {'file': str(state.folder('run') / f'{service.name}.health')}}
    if service.what == API:
        groups['api'] = {'port': str(taken[service.name])}
    if service.what == VOLUME:
        groups['volume'] = {'enabled_backends': ','.join(service.backends)}
        for backend in service.backends:
            groups[backend] = {
                'store': 'file', 'target': 'tgt', 'target_ip_address': servers.LOOPBACK,
                'target_port': str(taken[service.name])} if tgtd.program() else {
                'store': 'fake', 'target': 'fake'}
    return groups


def _text(groups: dict[str, dict[str, str]]) -> str:
    """Return the text of a configuration file.

    Dollar signs are doubled, because oslo.config replaces ``$name`` with the value of an option.
    """
    return ''.join(f'[{group}]\n' + ''.join(
        f'{name} = {value.replace("$", "$$")}\n' for name, value in options.items())
        for group, options in groups.items())
