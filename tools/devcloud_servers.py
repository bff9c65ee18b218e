"""The servers under `tools/devcloud`: found where they answer, else started.

A found server is another's: on it we have a database and an account, or names on the broker, or a
domain and a region in Keystone, all named after the cloud, and remove them in the end.
"""
import contextlib
import importlib.util
import secrets
import socket
import tempfile
import urllib.parse
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import TypeVar

import kombu
import openstack
import sqlalchemy as sa
from keystoneauth1 import exceptions as keystone_errors
from openstack import exceptions as openstack_errors

import devcloud_identity as identities
import devcloud_processes as processes
import devcloud_record as records
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import glance_api
from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import memcached
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers

KEYSTONE = 'keystone'
GLANCE = 'glance'
MEMCACHED = 'memcached'
_USUAL_PORTS = {'http': 80, 'https': 443, 'mysql': 3306, 'rabbit': 5672}
_ANSWER_SECONDS = 5
READY = 'ready'
# A server that is ready answers this, if only to refuse.
_GREETINGS = {servers.MYSQL: b'', servers.RABBITMQ: b'AMQP\x00\x00\x09\x01',
              KEYSTONE: b'GET /v3 HTTP/1.0\r\n\r\n',
              GLANCE: b'GET /healthcheck HTTP/1.0\r\n\r\n', MEMCACHED: b'version\r\n'}

_Own = TypeVar('_Own', bound=servers.Server)
Started = Callable[[str, servers.Server], None]
"""Remember that a server of this kind is one of ours."""


def find(cloud: str | None, broker: bool) -> dict[str, str]:
    """Servers of others that we may use: their kind, and a URL to administer them by.

    :param cloud: entry of ``clouds.yaml`` whose Keystone is to be used
    :param broker: whether one is needed
    :raises Refused: it cannot be
    """
    found = {}
    if database.why_missing(servers.MYSQL) is None:
        found[servers.MYSQL] = servers.url(servers.MYSQL)
    if broker and rabbit.why_missing() is None:
        found[servers.RABBITMQ] = servers.url(servers.RABBITMQ)
    if cloud is not None:
        found[KEYSTONE] = _auth_url(connect(cloud))
    return found


def connect(cloud: str) -> openstack.connection.Connection:
    """A connection of whom an entry of ``clouds.yaml`` names.

    :raises Refused: there is no such entry
    """
    try:
        return openstack.connect(cloud=cloud)
    except (openstack_errors.SDKException, keystone_errors.ClientException) as exc:
        raise records.Refused(f'cannot use the cloud {cloud}: {exc}') from exc


def health_of(kind: str, url: str) -> str:
    """`health`, at the address of a URL."""
    return health(kind, urllib.parse.urlsplit(url).hostname or servers.LOOPBACK, port_of(url))


def health(kind: str, host: str, port: int) -> str:
    """`READY`: a server of this kind answers there; else what is wrong."""
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(_GREETINGS[kind])
            return READY if connection.recv(1) else 'closes the connection'
    except TimeoutError:
        return 'does not respond'
    except OSError as exc:
        return (exc.strerror or str(exc)).lower()


def port_of(url: str) -> int:
    """Where that is."""
    parts = urllib.parse.urlsplit(url)
    return parts.port or _USUAL_PORTS[parts.scheme.partition('+')[0]]


def place_of(url: str) -> str:
    """The same for people, without accounts."""
    return f'{urllib.parse.urlsplit(url).hostname}:{port_of(url)}'


class Servers:
    """Those of one cloud.

    :ivar urls: kind to URL, of found and started ones; memcached's is host and port
    """

    def __init__(self, record: records.Record, started: Started) -> None:
        self._record = record
        self._started = started
        self._keystone: keystone.Keystone | None = None
        self.urls = dict(record.found)

    def start(self) -> None:
        """Start those that were not found.

        :raises CannotStart: one does not come up
        """
        with _folder_of_temporary_files(self._record.scratch):
            for kind, own, needed in ((servers.MYSQL, servers.MariaDB, True),
                                      (servers.RABBITMQ, servers.RabbitMQ, self._record.broker)):
                if needed and kind not in self.urls:
                    self._start(kind, own)
            if KEYSTONE not in self.urls:
                self._keystone = self._start(KEYSTONE, keystone.Keystone)
            if importlib.util.find_spec('memcache') is not None:
                with contextlib.suppress(servers.CannotStart):
                    self._start(MEMCACHED, memcached.Memcached)

    def start_memcached_again(self, port: int) -> None:
        """What it knew is not missed.

        :raises CannotStart: it does not come up
        """
        with _folder_of_temporary_files(self._record.scratch):
            self._start(MEMCACHED, memcached.Memcached, port)

    def start_images(self, identity: identities.Identity) -> None:
        """Start Glance, known to Keystone by the service's own account.

        :raises CannotStart: it does not come up
        """
        lines = [f'{name} = {value}' for name, value in identity.middleware().items()]

        def make(port: int | None, environment: dict[str, str]) -> glance_api.Glance:
            made = glance_api.Glance(port, environment=environment)
            made.configure('\n'.join(('[keystone_authtoken]', *lines)))
            return made

        with _folder_of_temporary_files(self._record.scratch):
            self._start(GLANCE, make)
        identities.add_images(self.cloud(), self._record.name, self.urls[GLANCE])

    def make_database(self) -> str:
        """The URL of a database of our own, and of an account that may do nothing else."""
        name, password = self._record.account, secrets.token_urlsafe(24)
        with _administered(self.urls[servers.MYSQL]) as run:
            run(f'CREATE DATABASE `{name}`')
            run(f"CREATE USER '{name}'@'%' IDENTIFIED BY :password", password=password)
            run(f"GRANT ALL ON `{name}`.* TO '{name}'@'%'")
        return sa.make_url(self.urls[servers.MYSQL]).set(
            username=name, password=password, database=name).render_as_string(False)

    def cloud(self) -> openstack.connection.Connection:
        """Keystone's administrator."""
        if self._keystone is not None:
            return self._keystone.cloud()
        assert self._record.keystone is not None
        return connect(self._record.keystone)

    def _start(self, kind: str, own: Callable[..., _Own], port: int | None = None) -> _Own:
        server = own(port, environment={processes.VARIABLE: self._record.mark})
        server.start()
        self._started(kind, server)
        self.urls[kind] = server.url
        return server


def clear(record: records.Record, served: list[tuple[str, str]]) -> Iterator[str]:
    """Remove what is ours on the servers of others; yields why something could not be.

    :param served: topics and hosts that processes had queues for
    """
    removers: dict[str, Callable[[str], None]] = {
        servers.MYSQL: lambda url: _drop_database(url, record.account),
        servers.RABBITMQ: lambda url: _remove_queues(url, record.name, served),
        KEYSTONE: lambda _: _remove_identity(record)}
    for kind, url in record.found.items():
        try:
            removers[kind](url)
        except (sa.exc.SQLAlchemyError, OSError, kombu.exceptions.KombuError,
                openstack_errors.SDKException, keystone_errors.ClientException,
                records.Refused) as exc:
            yield f'{kind}: {str(exc).splitlines()[0]}'


def _drop_database(url: str, name: str) -> None:
    with _administered(url) as run:
        run(f'DROP DATABASE IF EXISTS `{name}`')
        run(f"DROP USER IF EXISTS '{name}'@'%'")


def _remove_queues(url: str, prefix: str, served: list[tuple[str, str]]) -> None:
    names = rabbit.RabbitFixture(url, prefix)
    for topic, host in served:
        names.serves(topic, host)
    names.close()


def _remove_identity(record: records.Record) -> None:
    assert record.keystone is not None
    identities.clear(connect(record.keystone), record.name)


@contextlib.contextmanager
def _administered(url: str) -> Iterator[Callable[..., Any]]:
    """Statements on a database server, each for itself; values are given by name."""
    engine = sa.create_engine(url, isolation_level='AUTOCOMMIT', poolclass=sa.NullPool,
                              hide_parameters=True)
    with engine.connect() as connection:
        yield lambda statement, **values: connection.execute(sa.text(statement), values)


@contextlib.contextmanager
def _folder_of_temporary_files(path: str) -> Iterator[None]:
    """So that what is left of an attempt that was cut off is found, too."""
    # A machine that starts may empty the place of temporary files.
    records.make_scratch(path)
    former, tempfile.tempdir = tempfile.tempdir, path
    try:
        yield
    finally:
        tempfile.tempdir = former


def _auth_url(cloud: openstack.connection.Connection) -> str:
    return str(cloud.config.get_auth_args()['auth_url'])
