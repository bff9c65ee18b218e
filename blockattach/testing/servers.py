"""The servers that tests run against: where they are, and how to have some of one's own.

`url` tells where MariaDB, PostgreSQL and RabbitMQ are expected: what the environment says, else
the usual port of the loopback address. Servers of one's own are for machines where none answers
there (`why_silent`), and for tests that stop or kill one. Each listens on the loopback address
only and keeps its data in a new directory. As root they run as the account that Debian's package
makes for them; otherwise as oneself.
"""
import abc
import contextlib
import dataclasses
import os
import pathlib
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from typing import ClassVar
from typing import Self

from blockattach import clock as clocks
from blockattach.testing import certificates
from blockattach.testing import ports

LOOPBACK = ports.LOOPBACK
SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 60.0
# Where nobody listens it is over at once.
SECONDS_TO_CONNECT = 30.0
# A first handshake may take long; whoever does not serve yet says so, or is not there.
SECONDS_TO_ANSWER = 10.0
BETWEEN_LOOKS = 0.1
ENOUGH_OF_A_LOG = 2000


class CannotStart(Exception):
    """A server did not come up; the text ends with what it wrote last."""


class Server(abc.ABC):
    """One server: `start`, then `url`; `stop` or `kill`, `start` again on the same data; `close`.

    Also a context manager, which starts and closes it.
    """

    name: ClassVar[str]
    account: ClassVar[str]
    """Who runs it when root starts it."""
    programs: ClassVar[tuple[str, ...]]
    """What must be on the machine; the first one is the server."""

    def __init__(self, port: int | None = None, clock: clocks.Clock | None = None,
                 authority: certificates.Authority | None = None,
                 environment: Mapping[str, str] | None = None) -> None:
        """Prepare its data.

        :param port: where it listens; by default a free one
        :param authority: with it the server speaks TLS only, by a certificate of this authority's
        :param environment: variables that all of its processes get besides what they need
        :raises CannotStart: a program is missing, or its data cannot be made
        """
        self._clock = clock or clocks.Clock()
        self._given = dict(environment or {})
        self._program = {name: _found(name) for name in self.programs}
        self.port = port or free_port()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f'blockattach-{self.name}-'))
        self._process: subprocess.Popen[bytes] | None = None
        self._account = self.account if os.geteuid() == 0 else None
        self.log = self.directory / 'server.log'
        self.log.touch()
        self._tls = authority.issue(self.directory, 'server') if authority else None
        try:
            self._own(self.directory)
            self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """How clients find it, with an account that may do everything."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Make what it needs before its first start."""

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """What runs it in the foreground."""

    @abc.abstractmethod
    def _answers(self) -> bool:
        """Whether it serves by now."""

    def _environment(self) -> dict[str, str]:
        return {'PATH': os.environ['PATH'], 'HOME': str(self.directory), 'LC_ALL': 'C',
                **self._given}

    @property
    def pid(self) -> int:
        """The process that was started; others may belong to it."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it serves.

        :raises CannotStart: it ended, or does not answer in time
        """
        self._process = self._spawn(self._command())
        deadline = self._clock.monotonic() + SECONDS_TO_START
        while not self._answers():
            ended = self._has_ended(BETWEEN_LOOKS)
            if ended or self._clock.monotonic() > deadline:
                said = self.log.read_text('utf-8', 'replace')[-ENOUGH_OF_A_LOG:]
                self.kill()
                raise CannotStart(f'Cannot start {self.name}: '
                                  f'{"it ended" if ended else "it does not answer"}\n{said}')

    def stop(self) -> None:
        """End it as an operator would; its data stays."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would; its data stays."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        # A group of its own, so that all of it can be ended, and Ctrl-C is not passed on to it.
        with self.log.open('ab') as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True, **self._as_account())

    def _run(self, command: list[str]) -> None:
        """Run something that ends by itself.

        :raises CannotStart: it failed
        """
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS_TO_START, check=False, **self._as_account())
        if done.returncode:
            raise CannotStart(f'Cannot prepare {self.name}: {done.stdout}{done.stderr}')

    def _as_account(self) -> dict[str, Any]:
        account = {'user': self._account, 'group': pwd.getpwnam(self._account).pw_gid,
                   'extra_groups': []} if self._account else {}
        return {'cwd': self.directory, 'env': self._environment(), **account}

    def _own(self, path: pathlib.Path) -> None:
        if self._account:
            entry = pwd.getpwnam(self._account)
            for one in (path, *path.rglob('*')):
                os.chown(one, entry.pw_uid, entry.pw_gid)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            _signal_group(self._process, number)
            self._has_ended(SECONDS_TO_STOP)
            # Whatever is left of its group.
            _signal_group(self._process, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _has_ended(self, seconds: float) -> bool:
        """Whether it ends within so long."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


class MariaDB(Server):
    """MariaDB with its default durability; the account is root without a password."""

    name = 'mariadb'
    account = 'mysql'
    programs = ('mariadbd', 'mariadb-install-db')

    @property
    def url(self) -> str:
        secured = f'?ssl_ca={self._tls.authority}' if self._tls else ''
        return f'mysql+pymysql://root@{LOOPBACK}:{self.port}/{secured}'

    def _prepare(self) -> None:
        self._run([self._program['mariadb-install-db'], '--no-defaults',
                   f'--datadir={self.directory / "data"}',
                   '--auth-root-authentication-method=normal', '--skip-test-db'])

    def _command(self) -> list[str]:
        return [self._program['mariadbd'], '--no-defaults',
                f'--datadir={self.directory / "data"}', f'--socket={self.directory / "socket"}',
                f'--pid-file={self.directory / "pid"}', f'--bind-address={LOOPBACK}',
                f'--port={self.port}', '--max-connections=500', *self._secured()]

    def _secured(self) -> list[str]:
        if self._tls is None:
            return []
        return [f'--ssl-cert={self._tls.cert}', f'--ssl-key={self._tls.key}',
                '--require-secure-transport=ON']

    def _answers(self) -> bool:
        # The server speaks first.
        return bool(heard(self.port, b''))


class PostgreSQL(Server):
    """PostgreSQL with its default durability; the account is postgres without a password."""

    name = 'postgresql'
    account = 'postgres'
    programs = ('postgres', 'initdb')

    @property
    def url(self) -> str:
        secured = (f'?sslmode=verify-full&sslrootcert={self._tls.authority}' if self._tls
                   else '')
        return f'postgresql+psycopg2://postgres@{LOOPBACK}:{self.port}/postgres{secured}'

    def _prepare(self) -> None:
        self._run([self._program['initdb'], '-D', str(self.directory / 'data'), '-U', 'postgres',
                   '--auth=trust', '--encoding=UTF8', '--no-locale'])
        if self._tls:
            (self.directory / 'data' / 'pg_hba.conf').write_text(
                f'hostssl all all {LOOPBACK}/32 trust\n', 'utf-8')

    def _command(self) -> list[str]:
        return [self._program['postgres'], '-D', str(self.directory / 'data'), '-p',
                str(self.port), '-c', f'listen_addresses={LOOPBACK}', '-c',
                f'unix_socket_directories={self.directory}', '-c', 'max_connections=300',
                *self._secured()]

    def _secured(self) -> list[str]:
        if self._tls is None:
            return []
        return ['-c', 'ssl=on', '-c', f'ssl_cert_file={self._tls.cert}', '-c',
                f'ssl_key_file={self._tls.key}']

    def stop(self) -> None:
        """End it at once but cleanly: a SIGTERM would wait for its clients."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, as a crash: by SIGKILL its backends, which are in no group of ours,
        would go on for a moment and keep the next start from the data.
        """
        self._end(signal.SIGQUIT)

    def _answers(self) -> bool:
        # A start-up packet of protocol 3.0 without a user: refused by "E" once it serves at all.
        # While it starts it refuses too, with the condition cannot_connect_now (57P03).
        reply = heard(self.port, b'\x00\x00\x00\x13\x00\x03\x00\x00user\x00none\x00\x00')
        return reply[:1] in (b'E', b'R') and b'57P03' not in reply


class RabbitMQ(Server):
    """RabbitMQ without management; the account is guest. A subclass may have another password."""

    name = 'rabbitmq'
    account = 'rabbitmq'
    programs = ('rabbitmq-server', 'epmd')
    password: ClassVar[str] = 'guest'

    def _prepare(self) -> None:
        self._node = f'blockattach-{uuid.uuid4().hex[:8]}@localhost'
        self._ports = [free_port(), free_port()]
        self._epmd: subprocess.Popen[bytes] | None = None
        config = self.directory / 'rabbitmq.conf'
        config.write_text(f'{self._listeners()}\n'
                          'disk_free_limit.absolute = 50MB\n'
                          f'default_pass = {self.password}\n'
                          'log.console = true\nlog.file = false\n', 'utf-8')
        (self.directory / 'enabled_plugins').write_text('[].\n', 'utf-8')
        self._own(self.directory)

    def _listeners(self) -> str:
        if self._tls is None:
            return f'listeners.tcp.1 = {LOOPBACK}:{self.port}'
        return (f'listeners.tcp = none\nlisteners.ssl.1 = {LOOPBACK}:{self.port}\n'
                f'ssl_options.cacertfile = {self._tls.authority}\n'
                f'ssl_options.certfile = {self._tls.cert}\n'
                f'ssl_options.keyfile = {self._tls.key}')

    @property
    def url(self) -> str:
        return f'rabbit://guest:{self.password}@{LOOPBACK}:{self.port}/'

    def _environment(self) -> dict[str, str]:
        where = self.directory
        return {
            **super()._environment(),
            'RABBITMQ_NODENAME': self._node,
            'RABBITMQ_CONFIG_FILE': str(where / 'rabbitmq.conf'),
            'RABBITMQ_CONF_ENV_FILE': str(where / 'none'),
            'RABBITMQ_ENABLED_PLUGINS_FILE': str(where / 'enabled_plugins'),
            'RABBITMQ_MNESIA_BASE': str(where / 'mnesia'),
            'RABBITMQ_LOG_BASE': str(where / 'log'),
            'RABBITMQ_DIST_PORT': str(self._ports[0]),
            'ERL_EPMD_PORT': str(self._ports[1]),
            'ERL_EPMD_ADDRESS': LOOPBACK,
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': '-kernel inet_dist_use_interface {127,0,0,1}',
        }

    def start(self) -> None:
        # Erlang's register of nodes would start itself as a daemon that nobody ends.
        self._epmd = self._spawn([self._program['epmd']])
        super().start()

    def _command(self) -> list[str]:
        # Debian's wrapper in the path insists on its own account and directories.
        return ['/usr/lib/rabbitmq/bin/rabbitmq-server']

    def _answers(self) -> bool:
        return heard(self.port, b'AMQP\x00\x00\x09\x01', self._tls).startswith(b'\x01')

    def _end(self, number: signal.Signals) -> None:
        super()._end(number)
        epmd, self._epmd = getattr(self, '_epmd', None), None
        if epmd is not None:
            _signal_group(epmd, signal.SIGKILL)
            epmd.wait()


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """Where a server is expected: what the environment variable says, else the usual place."""

    variable: str
    usual: str
    own: type[Server]


MYSQL = 'mysql'
POSTGRESQL = 'postgresql'
RABBITMQ = 'rabbitmq'
EXPECTED = {
    MYSQL: Expected('BLOCKATTACH_TEST_MYSQL', f'mysql+pymysql://root@{LOOPBACK}:3306/', MariaDB),
    POSTGRESQL: Expected('BLOCKATTACH_TEST_POSTGRESQL',
                         f'postgresql+psycopg2://postgres@{LOOPBACK}:5432/postgres', PostgreSQL),
    RABBITMQ: Expected('BLOCKATTACH_TEST_RABBITMQ',
                       f'rabbit://guest:guest@{LOOPBACK}:5672/', RabbitMQ),
}


def url(kind: str) -> str:
    """Where the server of a kind (a key of `EXPECTED`) is, if there is one."""
    expected = EXPECTED[kind]
    return os.environ.get(expected.variable) or expected.usual


def why_silent(kind: str) -> str | None:
    """Why nobody can be there; None: somebody listens."""
    place = urllib.parse.urlsplit(url(kind))
    usual = urllib.parse.urlsplit(EXPECTED[kind].usual)
    address = place.hostname or LOOPBACK, place.port or usual.port
    try:
        socket.create_connection(address, timeout=SECONDS_TO_CONNECT).close()
    except OSError as exc:
        return f'no {kind} at {address[0]}:{address[1]}: {exc.strerror or exc}'
    return None


def free_port() -> int:
    """A port of the loopback address that nobody listens on, and nobody else is given."""
    return ports.free_port()


def heard(port: int, said: bytes, secured: certificates.Issued | None = None) -> bytes:
    """What a server answers first; empty: nothing, or nobody is there."""
    try:
        with contextlib.ExitStack() as open_sockets:
            connection = open_sockets.enter_context(
                socket.create_connection((LOOPBACK, port), timeout=SECONDS_TO_ANSWER))
            if secured is not None:
                context = ssl.create_default_context(cafile=secured.authority)
                connection = open_sockets.enter_context(
                    context.wrap_socket(connection, server_hostname=LOOPBACK))
            connection.sendall(said)
            return connection.recv(256)
    except OSError:
        return b''


def _found(program: str) -> str:
    """Where a program is: beside Python, or in the path, or where Debian hides some.

    :raises CannotStart: it is not on this machine
    """
    folders = [os.path.dirname(sys.executable), os.environ.get('PATH', ''),
               '/usr/local/sbin', '/usr/sbin', '/sbin',
               *map(str, sorted(pathlib.Path('/usr/lib/postgresql').glob('*/bin'), reverse=True))]
    found = shutil.which(program, path=os.pathsep.join(folders))
    if found is None:
        raise CannotStart(f'Cannot find {program} on this machine')
    return found


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
