"""Commands of `tools/devcloud`, run after all packages are installed: up, status and down."""
import argparse
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

import openstack
import sqlalchemy as sa
from keystoneauth1 import exceptions as keystone_errors
from openstack import exceptions as openstack_errors

from blockattach.cmd import process as commands
from blockattach.platform import clock as clocks
from blockattach.tests.fixtures import servers
from demo.devcloud import identity as identities
from demo.devcloud import processes as processes
from demo.devcloud import record as records
from demo.devcloud import servers as foundation
from demo.devcloud import services as services
from demo.devcloud import volume_types

SECONDS_TO_BE_UP = 180.0
SYNC_SECONDS = 300.0
BETWEEN_LOOKS = 0.2
STATE_DIR = pathlib.Path(__file__).resolve().parents[3] / '.devcloud'
OPENRC = 'openrc'
MEMBER_OPENRC = 'demo-openrc'
COLUMNS = ('PROCESS', 'PID', 'ADDRESS', 'STATE', 'HEALTH', 'SINCE (UTC)')
FOUND = 'external'

HOW_TO_GO_ON = """
As a member of the project:

  . {member_openrc}
  openstack volume create --type {volume_type} --size 1 v1
  openstack --os-interface internal volume list        # uses the other API

As administrator, in another shell:

  . {openrc}
  openstack volume service list"""


class Row(NamedTuple):
    """Line of the status table.

    :ivar good: True if the process is ready
    """

    cells: tuple[str, ...]
    good: bool


class Devcloud:
    """Cloud for development in one state directory."""

    def __init__(self, state: records.StateDirectory) -> None:
        self._state = state
        self._clock = clocks.Clock()

    def up(self, cloud: str | None, images: bool, broker: bool) -> None:
        """Start all processes of the cloud that are not running.

        :param cloud: entry of ``clouds.yaml`` whose Keystone is used; None to start Keystone
        :param images: True to run Glance
        :param broker: True to use RabbitMQ
        :raises Refused, CannotStart: the cloud cannot be started. Services that were started are
            stopped again, and a new cloud is removed
        """
        with self._state.alone():
            record = self._state.load()
            if record is not None and not self._stands(record):
                commands.say('Removing an earlier cloud, which '
                             + ('lost a server' if record.complete else 'is incomplete'))
                self._remove(record)
                record = None
            if record is None:
                self._make(cloud, images, broker)
            else:
                if images and not record.images:
                    raise records.Refused('the running cloud has no Glance. Run tools/devcloud '
                                          'down first')
                if broker != record.broker:
                    raise records.Refused('the running cloud has '
                                          f'{"a" if record.broker else "no"} broker. Run '
                                          'tools/devcloud down first')
                self._restart(record)
        self._tell()

    def down(self) -> None:
        """Stop and remove the cloud, and nothing else.

        :raises Refused: a resource cannot be removed. The next call continues the removal
        """
        if not self._state.path.exists():
            commands.say('No cloud is running')
            return
        with self._state.alone():
            record = self._state.load()
            if record is not None:
                self._remove(record)
        commands.say('Cloud removed')

    def rows(self) -> list[Row]:
        """Return the lines of the status table: first the external servers, then the processes.

        :returns: empty list if there is no cloud
        """
        record = self._state.load()
        if record is None:
            return []
        now = self._clock.utcnow()
        found = []
        for kind, url in record.found.items():
            health = foundation.health_of(kind, url)
            found.append(Row((kind, '-', foundation.place_of(url), FOUND, health, '-'),
                             health == foundation.READY))
        own = []
        for process in record.processes.values():
            how = services.condition(process, now)
            place = f'{servers.LOOPBACK}:{process.port}' if process.port else '-'
            own.append(Row((process.name, str(process.pid), place, *how, process.since),
                           how.good))
        return found + own

    def _stands(self, record: records.Record) -> bool:
        """Return True if the cloud was complete and its servers are running.

        In this case its services can be restarted.

        :raises Refused: an external server is not ready. Resources of the cloud on that server may
            still be needed
        """
        if not record.complete:
            return False
        for kind, url in record.found.items():
            health = foundation.health_of(kind, url)
            if health != foundation.READY:
                raise records.Refused(
                    f'external server {kind} at {foundation.place_of(url)} is not ready: '
                    f'{health}. Start the server again, or remove {self._state.path} to discard '
                    'the cloud')
        return all(processes.is_alive(one) for one in _apart(record)[0]
                   if one.name != foundation.MEMCACHED)

    def _make(self, cloud: str | None, images: bool, broker: bool) -> None:
        record = self._state.begin(found=foundation.find(cloud, broker), keystone=cloud,
                                   images=images, broker=broker, ports=services.ports())
        try:
            ground = self._lay(record)
            services.configure(self._state, record, ground)
            self._sync(record)
            self._start(record, services.SERVICES)
            for name, person in ((OPENRC, identities.ADMINISTRATOR),
                                 (MEMBER_OPENRC, identities.MEMBER)):
                self._state.write(name, ground.identity.openrc(person))
            _make_volume_types(ground.identity)
            record.complete = True
            self._state.save(record)
        except BaseException:
            _hear_no_more()
            commands.say('Removing the incomplete cloud')
            self._remove(record)
            raise

    def _lay(self, record: records.Record) -> services.Ground:
        """Provide the servers and the resources of the cloud on them."""
        for kind, url in record.found.items():
            commands.say(f'Using {kind} at {foundation.place_of(url)}')

        under = self._servers(record)
        under.start()
        identity = identities.fill(under.cloud(), record.name, under.urls[foundation.KEYSTONE],
                                   services.endpoints(record))
        if record.images:
            under.start_images(identity)
        return services.Ground(under.make_database(), under.urls.get(servers.RABBITMQ), identity,
                               under.urls.get(foundation.MEMCACHED), secrets.token_urlsafe(24),
                               under.urls.get(foundation.GLANCE))

    def _servers(self, record: records.Record) -> foundation.Servers:
        def remember(kind: str, server: servers.Server) -> None:
            self._remember(record, records.Process(
                kind, server.pid, processes.born(server.pid) or services.ENDED,
                self._now(), server.port))
            commands.say(f'Started {kind} on port {server.port}')

        return foundation.Servers(record, remember)

    def _restart(self, record: records.Record) -> None:
        """Restart the services that have ended or are not ready."""
        how = {service: services.condition(record.processes[service.name], self._clock.utcnow())
               for service in services.SERVICES}
        gone = [service for service in services.SERVICES if not how[service].good]
        for service in gone:
            if how[service].state == services.RUNNING:
                commands.say(f'Stopping {service.name}, which is unhealthy: {how[service].health}')
        processes.end((record.processes[service.name] for service in gone), self._clock)
        cache = record.processes.get(foundation.MEMCACHED)
        try:
            if cache is not None and not processes.is_alive(cache):
                self._servers(record).start_memcached_again(cache.port or 0)
            self._start(record, gone)
        except BaseException:
            _hear_no_more()
            processes.end((record.processes[service.name] for service in gone), self._clock)
            raise

    def _sync(self, record: records.Record) -> None:
        done = subprocess.run(services.sync(self._state), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=SYNC_SECONDS,
                              env=processes.environment(record.mark))
        if done.returncode:
            raise records.Refused('failed to create the tables: ' + _line(done.stderr, last=True))

    def _start(self, record: records.Record, starting: Sequence[services.Service]) -> None:
        """Start services, and wait until they are ready."""
        for service in starting:
            self._remember(record, services.start(self._state, record, service, self._clock))
            commands.say(f'Started {service.name}')
        deadline = self._clock.monotonic() + SECONDS_TO_BE_UP
        never = threading.Event()
        while True:
            how = {service: services.condition(record.processes[service.name],
                                               self._clock.utcnow()) for service in starting}
            waiting = [service for service in starting if not how[service].good]
            if not waiting:
                return
            for service in waiting:
                if how[service].state == services.ENDED:
                    raise records.Refused(f'{service.name} ended: '
                                          f'{services.last_words(self._state, service)}')
                if self._clock.monotonic() > deadline:
                    raise records.Refused(f'{service.name} is not ready after '
                                          f'{SECONDS_TO_BE_UP:.0f} s: {how[service].health}')
            self._clock.wait(never, BETWEEN_LOOKS)

    def _remember(self, record: records.Record, process: records.Process) -> None:
        record.processes[process.name] = process
        self._state.save(record)

    def _now(self) -> str:
        return self._clock.utcnow().isoformat(' ', 'seconds')

    def _remove(self, record: records.Record) -> None:
        under, ours = _apart(record)
        processes.end(ours, self._clock)
        services.end_targets(self._state)
        left = list(foundation.clear(record, services.SERVED))
        processes.end(under, self._clock)
        processes.sweep(record.mark, self._clock)
        if left:
            raise records.Refused(
                f'failed to remove the resources of the cloud from {"; ".join(left)}. Start the '
                'server again and run tools/devcloud down, or remove '
                f'{self._state.path} to discard the cloud')
        self._state.remove(record)

    def _tell(self) -> None:
        commands.say('')
        for line in table(self.rows()):
            commands.say(line)
        commands.say(HOW_TO_GO_ON.format(
            openrc=self._state.path / OPENRC, volume_type=volume_types.SHARED,
            member_openrc=self._state.path / MEMBER_OPENRC))


def _apart(record: records.Record) -> tuple[list[records.Process], list[records.Process]]:
    """Return the servers that the command has started, and the processes of blockattach."""
    names = {service.name for service in services.SERVICES}
    every = record.processes.values()
    return ([one for one in every if one.name not in names],
            [one for one in every if one.name in names])


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of the table, starting with the column headings."""
    lines = [COLUMNS, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield '  '.join(text.ljust(width)
                        for text, width in zip(line, widths, strict=True)).rstrip()


def _make_volume_types(identity: identities.Identity) -> None:
    """Create the volume types.

    These requests are the first to a new cloud. They go through Keystone, the catalog and an API.
    """
    cloud = openstack.connection.Connection(
        auth_type='password', region_name=identity.name, auth={
            'auth_url': identity.auth_url, 'username': identities.ADMINISTRATOR,
            'password': identity.passwords[identities.ADMINISTRATOR],
            'project_name': identities.PROJECT, 'user_domain_name': identity.name,
            'project_domain_name': identity.name})
    volume_types.make(cloud)


def _line(text: str, last: bool = False) -> str:
    """Return the first non-empty line of a program's output, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1 if last else 0] if lines else 'no output'


def _hear_no_more() -> None:
    """Ignore signals, so that a second Ctrl-C does not interrupt the removal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def show(devcloud: Devcloud) -> int:
    """Print the status table, and return 0 if all processes are ready, else 1."""
    rows = devcloud.rows()
    if not rows:
        commands.say('No cloud is running')
        return 1
    for line in table(rows):
        commands.say(line)
    return 0 if all(row.good for row in rows) else 1


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog='tools/devcloud')
    parser.add_argument('command', choices=('up', 'status', 'down'))
    parser.add_argument('--state-dir', default=STATE_DIR)
    parser.add_argument('--cloud')
    parser.add_argument('--images', action='store_true')
    parser.add_argument('--no-broker', action='store_false', dest='broker')
    return parser.parse_args(arguments)


def main() -> int:
    """Execute the command.

    :returns: exit status: 0 on success, 1 on failure, 130 if interrupted
    """
    arguments = parse(sys.argv[1:])
    os.umask(0o077)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    # A proxy in the environment of the caller cannot reach servers on loopback.
    os.environ['no_proxy'] = ','.join(filter(None, (os.environ.get('no_proxy'),
                                                    servers.LOOPBACK)))
    devcloud = Devcloud(records.StateDirectory(arguments.state_dir))
    try:
        if arguments.command == 'status':
            return show(devcloud)
        if arguments.command == 'up':
            devcloud.up(arguments.cloud, arguments.images, arguments.broker)
        else:
            devcloud.down()
    except records.Refused as exc:
        print(f'tools/devcloud: {exc}', file=sys.stderr)
        return 1
    except servers.CannotStart as exc:
        print(f'tools/devcloud: {_line(str(exc))}: {_line(str(exc), last=True)}', file=sys.stderr)
        return 1
    except (openstack_errors.SDKException, keystone_errors.ClientException,
            sa.exc.SQLAlchemyError) as exc:
        print(f'tools/devcloud: a request failed: {_line(str(exc))}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('Interrupted', file=sys.stderr)
        return 130
    return 0
