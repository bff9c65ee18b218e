"""Deployment of blockattach as an operator would run it on two cores.

The cloud has a database and names on the bus of its own. The API runs under a WSGI server with the
files in ``etc``. Control, a scheduler and a volume manager with fake backends that take no time
have the default values of their options. MariaDB and RabbitMQ are those of the machine, or were
started by `tools/benchmark`.
"""
import contextlib
import functools
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple
from typing import Self

import sqlalchemy as sa

from bench import client
from bench import identity as identities
from bench import processes
from blockattach.platform import clock as clocks
from blockattach.platform.health import report
from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers

ROOT = pathlib.Path(__file__).resolve().parents[2]
ETC = ROOT / 'etc'
HOST, BACKEND = 'bench', 'disks'
PREFIX = '{prefix}'
"""Placeholder in an option of a shape for the prefix of the names of a cloud on its broker."""
PROJECT = '0000000000000000000000000000beef'
WORKERS = 2
UWSGI, GRANIAN = 'uwsgi', 'granian'
SERVERS = (GRANIAN, UWSGI)
OVER_HTTP, OVER_BROKER = 'http', 'transport_url'
CALLS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    OVER_HTTP: {'rpc': {'calls': 'http'}},
    OVER_BROKER: {},
    'no-broker': {'DEFAULT': {'transport_url': 'http://'}}}
"""Options by transport of the calls between processes."""
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_LOOK_SECONDS = 0.01
_PORTS = {servers.MYSQL: 3306, servers.POSTGRESQL: 5432, servers.RABBITMQ: 5672}
_DRIVERS = {'pymysql': 'PyMySQL', 'mysqldb': 'mysqlclient', 'psycopg2': 'psycopg2'}
_SILENCE = '127.0.0.1:8776'
# Topics and hosts of the queues on the broker, except those of the backends.
_SERVED = (('attachments', HOST), ('scheduler', HOST),
           ('process', f'cinder-volume.{HOST}'), ('process', f'cinder-scheduler.{HOST}'))


class CannotMeasure(Exception):
    """Raised if a measurement is not possible. The text is the reason in one line."""


class Shape(NamedTuple):
    """Properties in which the measured clouds differ.

    :param server: WSGI server
    :param threads: threads of each API process; 0 for the number in the files in ``etc``
    :param identity: Keystone account of the clients; None for a service without authentication
    :param options: additional options by group
    :param backends: backends of the volume manager
    :param database: kind of database: MariaDB or PostgreSQL
    """

    server: str = GRANIAN
    threads: int = 0
    identity: identities.Identity | None = None
    options: Mapping[str, Mapping[str, str]] = {}
    backends: tuple[str, ...] = (BACKEND,)
    database: str = database.MYSQL


def driven(url: str) -> str:
    """Return the database URL with the fastest installed driver: mysqlclient for MariaDB."""
    parts = sa.make_url(url)
    if parts.get_backend_name() != 'mysql' or importlib.util.find_spec('MySQLdb') is None:
        return url
    return parts.set(drivername='mysql+mysqldb').render_as_string(hide_password=False)


def backing(kind: str = database.MYSQL) -> processes.Processes:
    """Return the processes of the database server and the broker."""
    return processes.Processes(processes.backing(*(
        sa.make_url(servers.url(one)).port or _PORTS[one] for one in (kind, servers.RABBITMQ))))


class Cloud:
    """Cloud that exists until `close`. As a context manager, it starts and closes itself.

    :ivar ready_seconds: seconds from the start of each process until it was ready, by its name
    """

    def __init__(self, shape: Shape, clock: clocks.Clock) -> None:
        """:raises CannotMeasure: the database or RabbitMQ is not reachable"""
        for why in (database.why_missing(shape.database), rabbit.why_missing()):
            if why is not None:
                raise CannotMeasure(why)
        self._shape = shape
        self._clock = clock
        self._never = threading.Event()
        self._stack = contextlib.ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.ready_seconds: dict[str, float] = {}
        self.folder = pathlib.Path(self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix='blockattach-bench-')))
        self._rows = self._stack.enter_context(
            database.DatabaseFixture(shape.database, migrated=False))
        self._broker = self._stack.enter_context(rabbit.RabbitFixture())
        for topic, host in (*_SERVED, *(('volume', f'{HOST}@{backend}')
                                        for backend in shape.backends)):
            self._broker.serves(topic, host)
        self._port = servers.free_port()
        self.configuration = self.folder / 'blockattach.conf'
        self._write()

    @property
    def endpoint(self) -> client.Endpoint:
        """Endpoint of the API."""
        account = self._shape.identity
        base = f'http://127.0.0.1:{self._port}/v3'
        if account is None:
            return client.Endpoint(f'{base}/{PROJECT}')
        return client.Endpoint(f'{base}/{account.project}', account.token)

    @property
    def engine(self) -> sa.Engine:
        """Engine of the database, to fill or inspect it."""
        return self._rows.database.engine

    def versions(self) -> dict[str, str]:
        """Return the versions of database and broker, and the name of the database driver."""
        driver = sa.make_url(driven(self._rows.url)).get_driver_name()
        with self.engine.connect() as connection, rabbit.connect(self._broker.url) as broker:
            broker.connect()
            return {'database': str(connection.execute(sa.text('SELECT VERSION()')).scalar_one()),
                    'database driver': _DRIVERS.get(driver, driver),
                    'message broker': f'RabbitMQ {broker.connection.server_properties["version"]}'}

    @property
    def backing(self) -> processes.Processes:
        """Processes of the database server and the broker."""
        return backing(self._shape.database)

    @property
    def processes(self) -> processes.Processes:
        """Processes of the cloud."""
        return processes.Processes({name: one.pid for name, one in self._running.items()})

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Create the tables, start the processes in sequence, and wait until they are ready.

        :raises CannotMeasure: a process does not start
        """
        done = subprocess.run(self._command('manage', 'db', 'sync'), env=self.environment(),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotMeasure(f'blockattach-manage db sync: {done.stderr.strip()}')
        for name in ('volume', 'scheduler', 'control'):
            self._spawn(name, self._command(name, '--log-file', str(self._log(name))),
                        functools.partial(self._is_healthy, name))
        self._spawn('api', *self._api())
        wanted = 1 + len(self._shape.backends)
        self._until(lambda: len(self._services()) == wanted, 'the report of a service')

    def close(self) -> None:
        """Stop the processes, and delete the files, the database and the queues."""
        for one in self._running.values():
            one.terminate()
        for one in self._running.values():
            try:
                one.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self._running.clear()
        self._stack.close()

    def _write(self) -> None:
        groups: dict[str, dict[str, str]] = {
            'DEFAULT': {'state_path': str(self.folder / 'state')},
            'service': {'host': HOST},
            'database': {'connection': driven(self._rows.url)},
            'volume': {'enabled_backends': ', '.join(self._shape.backends)},
            'quota': stack.LIMITLESS,
            **{backend: {'store': 'fake', 'target': 'fake'} for backend in self._shape.backends},
            'health': {'file': str(self.folder / '{process}.health')}}
        for (group, option), value in self._broker.options().items():
            groups.setdefault(group, {})[option] = value
        account = self._shape.identity
        for given in (account.options if account else {}, self._shape.options):
            for group, more in given.items():
                groups[group] = {**groups.get(group, {}), **{
                    name: value.replace(PREFIX, self._broker.prefix)
                    for name, value in more.items()}}
        self.configuration.write_text(''.join(
            f'[{group}]\n' + ''.join(f'{name} = {value}\n' for name, value in options.items())
            for group, options in groups.items()), 'utf-8')
        self.configuration.chmod(0o600)

    def _command(self, name: str, *arguments: str) -> list[str]:
        return [sys.executable, '-m', f'blockattach.cmd.{name}',
                '--config-file', str(self.configuration), *arguments]

    def environment(self) -> dict[str, str]:
        """Return the environment of the processes."""
        paths = [str(ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
        return {**os.environ, 'PYTHONPATH': os.pathsep.join(paths),
                'PATH': os.pathsep.join((os.path.dirname(sys.executable), os.environ['PATH'])),
                'BLOCKATTACH_CONFIG_FILES': str(self.configuration)}

    def _api(self) -> tuple[list[str], Callable[[], bool]]:
        if self._shape.server == GRANIAN:
            return [str(ETC / 'granian' / 'blockattach-api.sh')], self._answers
        text = (ETC / 'uwsgi' / 'blockattach-api.ini').read_text('utf-8')
        text = text.replace(_SILENCE, f'127.0.0.1:{self._port}')
        if self._shape.threads:
            text = re.sub(r'(?m)^threads = .*', f'threads = {self._shape.threads}', text)
        ini = self.folder / 'api.ini'
        ini.write_text(text, 'utf-8')
        return ['uwsgi', '--ini', str(ini)], self._answers

    def _spawn(self, name: str, command: list[str], is_ready: Callable[[], bool]) -> None:
        environment = self.environment()
        if name == 'api':
            environment |= {'PORT': str(self._port), 'WORKERS': str(WORKERS)}
            if self._shape.threads:
                environment['THREADS'] = str(self._shape.threads)
        begin = self._clock.monotonic()
        with self._log(f'{name}.out').open('wb') as log:
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env=environment, start_new_session=True)
        self._until(lambda: is_ready() or self._running[name].poll() is not None,
                    f'the start of {name}')
        if self._running[name].poll() is not None:
            raise CannotMeasure(f'blockattach-{name} ended: {self.last_words(name)}')
        self.ready_seconds[name] = round(self._clock.monotonic() - begin, 2)

    @contextlib.contextmanager
    def slowed(self, backend: str, seconds: float) -> Iterator[None]:
        """Delay each grant and revoke of a backend during the context.

        :param seconds: delay
        """
        delay = self.folder / 'state' / f'hold-{backend}'
        delay.write_text(str(seconds), 'utf-8')
        try:
            yield
        finally:
            delay.unlink()

    def also_serves(self, topic: str, host: str) -> None:
        """Register a queue of another process under the names of the cloud.

        The queue is deleted with the cloud.
        """
        self._broker.serves(topic, host)

    def last_words(self, name: str) -> str:
        """Return the last line of the output of a process."""
        said = self._log(f'{name}.out').read_text('utf-8', 'replace').strip()
        return said.splitlines()[-1] if said else 'no output'

    def _log(self, name: str) -> pathlib.Path:
        return self.folder / f'{name}.log'

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self._clock.monotonic() + _START_SECONDS
        while not condition():
            if self._clock.monotonic() > deadline:
                raise CannotMeasure(f'{what} timed out after {_START_SECONDS:.0f} seconds')
            self._clock.wait(self._never, _LOOK_SECONDS)

    def _is_healthy(self, name: str) -> bool:
        with contextlib.suppress(OSError, ValueError):
            said = report.read(str(self.folder / f'blockattach-{name}.health'))
            return said.state is report.State.READY
        return False

    def _answers(self) -> bool:
        with (contextlib.suppress(client.Unexpected),
              contextlib.closing(client.Client(self.endpoint)) as asking):
            return asking.ask('start', 'GET', '/volumes?limit=1')[0] == 200
        return False

    def _services(self) -> list[str]:
        with contextlib.closing(client.Client(self.endpoint)) as asking:
            found = asking.json('start', 'GET', '/os-services')['services']
        return [one['binary'] for one in found if one['state'] == 'up']
