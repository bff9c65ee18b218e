"""Addresses, keys and endpoint directory that a process needs for RPC over HTTP, called its site.
"""
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
from blockattach.platform.rpc.http import sites
from blockattach.platform.rpc.http import trust
from blockattach.storage.conf import embedded
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import rpc_endpoints

LOG = oslo_log.getLogger(__name__)


class ServiceEndpoints:
    """Directory of the HTTP endpoints of RPC servers, in the database.

    The process sends heartbeats for the endpoints that it has registered.
    """

    def __init__(self, database: storage_db.Database, settings: service_conf.ServiceSettings,
                 clock: clocks.Clock) -> None:
        self._database = database
        self._down_after = settings.service_down_time
        self._lock = threading.Lock()
        self._registered: dict[sites.Endpoint, tuple[str, str]] = {}
        self._beats = periodic.Periodic('rpc-endpoints', self.beat, settings.report_interval,
                                        clock)
        self._begun = False

    def register(self, topic: str, server: str, endpoint: sites.Endpoint) -> None:
        """Add an endpoint, and start its heartbeats (see `sites.EndpointStore`)."""
        # Written first: a failed registration must not be repeated by the heartbeats.
        self._write(topic, server, endpoint)
        with self._lock:
            self._registered[endpoint] = topic, server
            begins, self._begun = not self._begun, True
        if begins:
            self._beats.start()

    def withdraw(self, topic: str, server: str, endpoint: sites.Endpoint) -> None:
        """Remove an endpoint (see `sites.EndpointStore`).

        An error of the database is only logged.
        """
        with self._lock:
            self._registered.pop(endpoint, None)
        try:
            rpc_endpoints.withdraw(self._database, [endpoint.instance])
        except errors.BlockattachError as error:
            # Nothing listens at the endpoint any more, and its row expires without heartbeats.
            LOG.warning('Failed to remove RPC endpoint from the database%s',
                        log.fields(topic=topic, host=server, reason=error))

    def find(self, topic: str, server: str | None = None) -> Sequence[sites.Endpoint]:
        """Return the endpoints with recent heartbeats (see `sites.EndpointStore`)."""
        return [sites.Endpoint(*found) for found in rpc_endpoints.find(
            self._database, topic, server, self._down_after)]

    def beat(self) -> None:
        """Send heartbeats for the endpoints of this process.

        If rows of endpoints have expired meanwhile, all endpoints are registered again.
        """
        with self._lock:
            registered = dict(self._registered)
        if not registered or rpc_endpoints.heartbeat(
                self._database, [endpoint.instance for endpoint in registered]):
            return
        for endpoint, (topic, server) in registered.items():
            self._write(topic, server, endpoint)
            with self._lock:
                # A withdrawal during the write found no row to delete.
                gone = endpoint not in self._registered
            if gone:
                self.withdraw(topic, server, endpoint)

    def close(self) -> None:
        """Stop the heartbeats. The servers must be stopped before."""
        self._beats.stop()

    def _write(self, topic: str, server: str, endpoint: sites.Endpoint) -> None:
        rpc_endpoints.register(self._database, topic, server,
                               rpc_endpoints.RpcEndpoint(*endpoint), self._down_after)


class OpenSite:
    """Site for RPC over HTTP, which this process finds by a unique URL until `close`."""

    def __init__(self, conf: cfg.ConfigOpts, database: storage_db.Database,
                 clock: clocks.Clock) -> None:
        """
        :raises ConfigurationError: an address or the keys cannot be used
        """
        settings, core = rpc_conf.settings(conf), core_conf.settings(conf)
        listen, advertise = _addresses(conf, settings)
        with locations.named(conf, rpc_conf.GROUP, 'key_file'):
            self._keys = trust.KeyFile(
                settings.key_file or os.path.join(core.state_path, 'rpc.keys'),
                settings.topic_prefix)
        self._endpoints = ServiceEndpoints(database, service_conf.settings(conf), clock)
        self.url = f'http:///{uuid.uuid4().hex}'
        sites.REGISTRY.provide(self.url, sites.Site(self._endpoints, self._keys, clock, listen,
                                                    advertise))

    def wrong(self) -> str | None:
        """Return the reason why the key file cannot be read, or None."""
        return self._keys.wrong()

    def close(self) -> None:
        """Stop the heartbeats, and remove the site. Transports with its URL must be closed before.
        """
        self._endpoints.close()
        sites.REGISTRY.leave(self.url)


def _addresses(conf: cfg.ConfigOpts, settings: rpc_conf.RpcSettings,
               ) -> tuple[tuple[str, int], tuple[str, int] | None]:
    """Return the listening address, and the address that is advertised to clients, or None.

    :raises ConfigurationError: an address is invalid, or cannot be advertised
    """
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
    """Kinds of RPC messages that are sent over HTTP.

    :ivar calls: True if calls are sent over HTTP
    :ivar others: True if the other messages are sent over HTTP too
    """

    calls: bool
    others: bool


def ways(conf: cfg.ConfigOpts) -> Ways:
    """Return the kinds of RPC messages that the configuration sends over HTTP.

    An invalid ``transport_url`` is reported when the transport is opened.
    """
    transport.register_options(conf)
    try:
        kind = oslo_messaging.TransportURL.parse(conf).transport
    except (oslo_messaging.InvalidTransportURL, ValueError):
        kind = None
    # Calls within a process need no HTTP.
    return Ways(kind == rpc_conf.HTTP or (
        kind != 'inproc' and rpc_conf.settings(conf).calls == rpc_conf.HTTP),
        kind == rpc_conf.HTTP)
