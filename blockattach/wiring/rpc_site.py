"""What a transport without a broker needs of its process: where to listen, where to look, whom to
trust."""
import os
import threading
import uuid
from collections.abc import Sequence
from typing import NamedTuple

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform import periodic
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import locations
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc import transport
from blockattach.platform.rpc.http import endpoints
from blockattach.platform.rpc.http import keys
from blockattach.platform.rpc.http import sites
from blockattach.storage.conf import embedded
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import rpc_endpoints

LOG = oslo_log.getLogger(__name__)


class ServiceEndpoints:
    """The directory in the database. What this process has registered sends heartbeats."""

    def __init__(self, database: storage_db.Database, settings: service_conf.ServiceSettings,
                 clock: clocks.Clock) -> None:
        self._database = database
        self._down_after = settings.service_down_time
        self._lock = threading.Lock()
        self._registered: dict[endpoints.Endpoint, tuple[str, str]] = {}
        self._beats = periodic.Periodic('rpc-endpoints', self.beat, settings.report_interval,
                                        clock)
        self._begun = False

    def register(self, topic: str, server: str, endpoint: endpoints.Endpoint) -> None:
        """See `endpoints.EndpointStore`."""
        with self._lock:
            self._registered[endpoint] = topic, server
            begins, self._begun = not self._begun, True
        self._write(topic, server, endpoint)
        if begins:
            self._beats.start()

    def withdraw(self, topic: str, server: str, endpoint: endpoints.Endpoint) -> None:
        """See `endpoints.EndpointStore`. A database that is away is not waited for: nobody reaches
        what has ended, and the row goes with its heartbeats."""
        with self._lock:
            self._registered.pop(endpoint, None)
        try:
            rpc_endpoints.withdraw(self._database, [endpoint.instance])
        except errors.BlockattachError as error:
            LOG.warning('Failed to remove RPC server from the directory%s',
                        log.fields(topic=topic, host=server, reason=error))

    def find(self, topic: str, server: str | None = None) -> Sequence[endpoints.Endpoint]:
        """See `endpoints.EndpointStore`."""
        return [endpoints.Endpoint(*found) for found in rpc_endpoints.find(
            self._database, topic, server, self._down_after)]

    def beat(self) -> None:
        """Send a heartbeat; what was forgotten meanwhile is registered again."""
        with self._lock:
            registered = dict(self._registered)
        if not registered or rpc_endpoints.heartbeat(
                self._database, [endpoint.instance for endpoint in registered]):
            return
        for endpoint, (topic, server) in registered.items():
            self._write(topic, server, endpoint)
            with self._lock:
                gone = endpoint not in self._registered
            if gone:
                self.withdraw(topic, server, endpoint)

    def close(self) -> None:
        """Send no more heartbeats; the servers have stopped."""
        self._beats.stop()

    def _write(self, topic: str, server: str, endpoint: endpoints.Endpoint) -> None:
        rpc_endpoints.register(self._database, topic, server,
                               rpc_endpoints.RpcEndpoint(*endpoint), self._down_after)


class OpenSite:
    """A site of this process alone has, under an URL of its own, until it is closed."""

    def __init__(self, conf: cfg.ConfigOpts, database: storage_db.Database,
                 clock: clocks.Clock) -> None:
        """
        :raises ConfigurationError: an address or the keys cannot be used
        """
        settings, core = rpc_conf.settings(conf), core_conf.settings(conf)
        listen, advertise = _addresses(conf, settings)
        with locations.named(conf, rpc_conf.GROUP, 'key_file'):
            self._keys = keys.KeyFile(
                settings.key_file or os.path.join(core.state_path, 'rpc.keys'),
                settings.topic_prefix)
        self._endpoints = ServiceEndpoints(database, service_conf.settings(conf), clock)
        self.url = f'http:///{uuid.uuid4().hex}'
        sites.REGISTRY.provide(self.url, sites.Site(self._endpoints, self._keys, clock, listen,
                                                    advertise))

    def wrong(self) -> str | None:
        """Return the reason why the keys cannot be read, or None if they can."""
        return self._keys.wrong()

    def close(self) -> None:
        """The transports of its URL are closed."""
        self._endpoints.close()
        sites.REGISTRY.leave(self.url)


def _addresses(conf: cfg.ConfigOpts, settings: rpc_conf.RpcSettings,
               ) -> tuple[tuple[str, int], tuple[str, int] | None]:
    """Where to listen, and what to advertise."""
    with locations.named(conf, rpc_conf.GROUP, 'listen'):
        listen = embedded.split_address(settings.listen)
        if settings.advertise is None and listen[0] in ('0.0.0.0', '::'):
            raise errors.ConfigurationError(
                reason=f'cannot advertise {listen[0]} to other processes: set [rpc] advertise to '
                       f'an address of this host')
    if settings.advertise is None:
        return listen, None
    with locations.named(conf, rpc_conf.GROUP, 'advertise'):
        return listen, embedded.split_address(settings.advertise)


class Ways(NamedTuple):
    """Which messages go over HTTP."""

    calls: bool
    others: bool


def ways(conf: cfg.ConfigOpts) -> Ways:
    """As configured; what is wrong with ``transport_url`` shows where that is opened."""
    transport.register_options(conf)
    try:
        kind = oslo_messaging.TransportURL.parse(conf).transport
    except (oslo_messaging.InvalidTransportURL, ValueError):
        kind = None
    # Within a process nothing has to be reached.
    return Ways(kind == rpc_conf.HTTP or (
        kind != 'inproc' and rpc_conf.settings(conf).calls == rpc_conf.HTTP),
        kind == rpc_conf.HTTP)
