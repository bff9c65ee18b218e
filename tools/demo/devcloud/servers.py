"""Servers that a cloud of `tools/devcloud` needs: used if they are reachable, otherwise started.

A reachable server is external. On it, the cloud has its own database and account, its own names on
the broker, or its own domain and region in Keystone. All are named after the cloud and are removed
with it.
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

from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import glance_api
from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import memcached
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from demo.devcloud import identity as identities
from demo.devcloud import processes as processes
from demo.devcloud import record as records

KEYSTONE = 'keystone'
GLANCE = 'glance'
MEMCACHED = 'memcached'
_USUAL_PORTS = {'http': 80, 'https': 443, 'mysql': 3306, 'rabbit': 5672}
_ANSWER_SECONDS = 5
READY = 'ready'
# Data to which a ready server responds, even if only with an error. MariaDB sends first.
_GREETINGS = {servers.MYSQL: b'', servers.RABBITMQ: b'AMQP\x00\x00\x09\x01',
              KEYSTONE: b'GET /v3 HTTP/1.0\r\n\r\n',
              GLANCE: b'GET /healthcheck HTTP/1.0\r\n\r\n', MEMCACHED: b'version\r\n'}

_Own = TypeVar('_Own', bound=servers.Server)
Started = Callable[[str, servers.Server], None]
"""Function that records a started server of a kind."""


def find(cloud: str | None, broker: bool) -> dict[str, str]:
    """Return the administration URLs of the external servers that can be used, by kind of server.

    :param cloud: entry of ``clouds.yaml`` whose Keystone is used; None to start Keystone
    :param broker: True if the cloud needs a broker
    :raises Refused: the entry cannot be used
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
    """Return a connection with the credentials of an entry of ``clouds.yaml``.

    :raises Refused: the entry does not exist or cannot be used
    """
    try:
        return openstack.connect(cloud=cloud)
    except (openstack_errors.SDKException, keystone_errors.ClientException) as exc:
        raise records.Refused(f'cannot use the cloud {cloud}: {exc}') from exc


def health_of(kind: str, url: str) -> str:
    """Return the health of a server at a URL, as `health` does."""
    return health(kind, urllib.parse.urlsplit(url).hostname or servers.LOOPBACK, port_of(url))


def health(kind: str, host: str, port: int) -> str:
    """Return `READY` if a server of the kind responds at the address, or else the reason."""
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(_GREETINGS[kind])
            return READY if connection.recv(1) else 'closes the connection'
    except TimeoutError:
        return 'does not respond'
    except OSError as exc:
        return (exc.strerror or str(exc)).lower()


def port_of(url: str) -> int:
    """Return the port of a URL, or the usual port of its scheme."""
    parts = urllib.parse.urlsplit(url)
    return parts.port or _USUAL_PORTS[parts.scheme.partition('+')[0]]


def place_of(url: str) -> str:
    """Return the host and port of a URL for display, without credentials."""
    return f'{urllib.parse.urlsplit(url).hostname}:{port_of(url)}'


class Servers:
    """Servers of one cloud.

    :ivar urls: URL of each external or started server by its kind; for memcached, ``host:port``
    """

    def __init__(self, record: records.Record, started: Started) -> None:
        self._record = record
        self._started = started
        self._keystone: keystone.Keystone | None = None
        self.urls = dict(record.found)

    def start(self) -> None:
        """Start the servers that were not found. A memcached that cannot start is left out.

        :raises CannotStart: another server cannot start
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
        """Start memcached on its former port. Its lost content is only a cache.

        :raises CannotStart: memcached cannot start
        """
        with _folder_of_temporary_files(self._record.scratch):
            self._start(MEMCACHED, memcached.Memcached, port)

    def start_images(self, identity: identities.Identity) -> None:
        """Start Glance, which uses the account of the service in Keystone.

        :param identity: resources of the cloud in Keystone
        :raises CannotStart: Glance cannot start
        """
        lines = [f'{name} = {value}' for name, value in identity.middleware().items()]

        def make(port: int | None, environment: dict[str, str]) -> glance_api.Glance:
            glance = glance_api.Glance(port, environment=environment)
            glance.configure('\n'.join(('[keystone_authtoken]', *lines)))
            return glance

        with _folder_of_temporary_files(self._record.scratch):
            self._start(GLANCE, make)
        identities.add_images(self.cloud(), self._record.name, self.urls[GLANCE])

    def make_database(self) -> str:
        """Create a database with an account that can access nothing else, and return its URL."""
        name, password = self._record.account, secrets.token_urlsafe(24)
        with _administered(self.urls[servers.MYSQL]) as run:
            run(f'CREATE DATABASE `{name}`')
            run(f"CREATE USER '{name}'@'%' IDENTIFIED BY :password", password=password)
            run(f"GRANT ALL ON `{name}`.* TO '{name}'@'%'")
        return sa.make_url(self.urls[servers.MYSQL]).set(
            username=name, password=password, database=name).render_as_string(False)

    def cloud(self) -> openstack.connection.Connection:
        """Return a connection of the Keystone administrator."""
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
    """Delete the resources of a cloud on external servers, and yield the reason of each failure.

    :param served: topics and hosts for which processes had queues
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
    """Yield a function that executes a statement on a database server with named parameters.

    Each statement is committed at once.
    """
    engine = sa.create_engine(url, isolation_level='AUTOCOMMIT', poolclass=sa.NullPool,
                              hide_parameters=True)
    with engine.connect() as connection:
        yield lambda statement, **values: connection.execute(sa.text(statement), values)


@contextlib.contextmanager
def _folder_of_temporary_files(path: str) -> Iterator[None]:
    """Use a directory for temporary files, so that an interrupted start leaves none elsewhere."""
    # The directory may be missing, because a boot of the machine may empty the system's temporary
    # directory.
    records.make_scratch(path)
    former, tempfile.tempdir = tempfile.tempdir, path
    try:
        yield
    finally:
        tempfile.tempdir = former


def _auth_url(cloud: openstack.connection.Connection) -> str:
    return str(cloud.config.get_auth_args()['auth_url'])
