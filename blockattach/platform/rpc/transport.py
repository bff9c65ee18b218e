"""Message bus of a process, which creates the clients and servers of all RPC interfaces.

A failed call raises one of these errors:

* an error of this service (`blockattach.platform.errors`) that the server raised: the same class
  with the same fields
* ``ServiceUnreachable``: there was no reply in time, no server was reached, or the broker did not
  accept the message. Uncertain: the work may have been done
* ``DeadlinePassed``: the caller no longer waits (`blockattach.platform.rpc.serializing`). Final:
  the work was not started
* ``BackendUncertain``: the server failed with an unexpected error, so the outcome is unknown. All
  interfaces use this class, because only the uncertainty matters to callers
* ``ConfigurationError``: the client or the server is too old for the other, or the message would
  leave this host without TLS. Final: nothing was done
"""
import contextlib
import logging
import threading
from collections.abc import Callable
from collections.abc import Sequence

import oslo_messaging
from oslo_config import cfg
from oslo_messaging import opts as messaging_opts

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.log import fields
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import oslo_drivers
from blockattach.platform.rpc import rabbit
from blockattach.platform.rpc import serializing
from blockattach.platform.rpc import serving
from blockattach.platform.telemetry import acts

LOG = logging.getLogger(__name__)

EXCHANGE = 'blockattach'
ALLOWED_REMOTE_MODULES = errors.MODULES

_WITHOUT_BROKER = {'inproc': 'inside the process', 'http': 'none (messages go directly to their '
                   'servers)'}
"""Descriptions in place of the broker's address, by URL schemes that need no broker."""
_NO_METHOD = '(0, 0): '
"""Prefix of amqp's error texts for rejections that do not belong to a protocol method."""
_CLOSE_SECONDS = 2.0
_UNKNOWN = '0.0'
"""Version cap that permits no method, for an interface that the release does not have."""


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register all options of oslo.messaging on ``conf``, and set the defaults of this service.

    oslo.messaging itself registers some of its options on the global CONF only.
    """
    for group, options in messaging_opts.list_opts():
        conf.register_opts(options, group=group)
    for group, options in oslo_drivers.PRIVATE_OPTIONS.items():
        conf.register_opts(options, group=group)
    conf.set_default('control_exchange', EXCHANGE)
    rabbit.set_defaults(conf)


def build_transport(conf: cfg.ConfigOpts, url: str | None = None,
                    option: str = 'transport_url') -> oslo_messaging.Transport:
    """Build a transport from a URL (``rabbit://...``, ``inproc://NAME/``, ``http:///NAME``).

    :param url: URL of the transport; None for the option ``transport_url``
    :param option: name of the option that contains the URL, for error texts
    :raises ConfigurationError: the URL is not valid, or no driver is installed for it
    """
    register_options(conf)
    try:
        return oslo_messaging.get_rpc_transport(
            conf, url=url, allowed_remote_exmods=list(ALLOWED_REMOTE_MODULES))
    except oslo_messaging.DriverLoadFailure as exc:
        raise errors.ConfigurationError(
            reason=f'no driver is installed for {option} = {exc.driver}://...') from exc
    except (oslo_messaging.InvalidTransportURL, cfg.NoSuchOptError, ValueError):
        # The texts of these errors repeat the URL, which may contain a password.
        raise errors.ConfigurationError(
            reason=f'{option} is not a valid URL, or the driver does not support its query'
        ) from None


class BrokerProbe:
    """Check of the broker connection, for the start of a process and for its health checks.

    The check sends a message to a topic without a server. The broker drops the message.

    :ivar needed: True if the transport uses a broker
    :ivar broker: addresses of the broker, without passwords
    :ivar reconnects: number of times that the check passed again after a failure
    """

    def __init__(self, conf: cfg.ConfigOpts, transport: oslo_messaging.Transport,
                 settings: rpc_conf.RpcSettings, place: str | None = None) -> None:
        """
        :param place: URL of the transport; None for the option ``transport_url``
        """
        self.reconnects = 0
        self._away = False
        self._conf = conf
        url = oslo_messaging.TransportURL.parse(conf, place)
        self.needed = url.transport not in _WITHOUT_BROKER
        self.broker = _WITHOUT_BROKER.get(url.transport) or ', '.join(
            f'{host.hostname}:{host.port}' for host in url.hosts)
        # There is a single attempt, because the check reports the current state.
        self._client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic=f'{settings.topic_prefix}-nobody'), retry=0)

    def wrong(self) -> str | None:
        """Return the reason why the broker accepts no messages, or None if no failure was found.

        The reason contains no password.
        """
        if not self.needed:
            return None
        try:
            self._client.cast({}, 'reach')
        except Exception as error:
            # Errors of the driver, kombu and amqp have no common base class.
            self._away = True
            reason = str(error).removeprefix(_NO_METHOD)
            act = 'reach' if rabbit.option_in(self._conf, reason) is None else 'use'
            return f'cannot {act} the message broker at {self.broker}: {reason}'
        if self._away:
            self._away = False
            self.reconnects += 1
        return None


class Bus:
    """Message bus of a process: its transports, with the settings of ``[rpc]``."""

    def __init__(self, transport: oslo_messaging.Transport, settings: rpc_conf.RpcSettings,
                 releases: Sequence[contract.Release], clock: clocks.Clock | None = None,
                 telemetry: acts.Telemetry | None = None,
                 second: oslo_messaging.Transport | None = None,
                 direct: oslo_messaging.Transport | None = None,
                 while_waiting: Callable[[], contextlib.AbstractContextManager[None]]
                 = contextlib.nullcontext) -> None:
        """
        :param releases: all releases, oldest first
        :param second: additional transport on which servers listen
        :param direct: transport that is tried first for calls, and on which servers listen as well
        :param while_waiting: function that returns a context manager for each wait for a reply
        :raises ConfigurationError: ``[rpc] release`` is not a known release
        """
        self._transport = transport
        self._direct = direct
        self._listening = {'': transport, '.second': second, '.direct': direct}
        self._settings = settings
        self._release = contract.find_release(settings.release, releases)
        self._known = frozenset(releases[-1].interfaces)
        self._clock = clock or clocks.Clock()
        self._telemetry = telemetry or acts.Telemetry(clock)
        self._serializer = serializing.Serializer(self._release.objects, self._clock,
                                                  self._telemetry)
        # True if no broker is needed. Only the driver of http:// has the attribute. Its class is
        # not imported here, because most processes do not need the module.
        self._reached = getattr(getattr(transport, '_driver', None), 'without_broker', False)
        self._while_waiting = while_waiting

    def client(self, interface: type[contract.Interface],
               server: str | None = None) -> calling.Client:
        """Return a client that sends the messages of an interface, for use by `calling.stub`.

        :param server: name of the server; None if any server of the topic may handle a message
        """
        rpc_client, direct = (None if transport is None else oslo_messaging.get_rpc_client(
            transport, self._target(interface), serializer=self._serializer,
            version_cap=self._cap(interface), retry=self._settings.send_retries)
            for transport in (self._transport, self._direct))
        return calling.Client(rpc_client, interface, server, self._settings, self._clock,
                              self._reach, self._telemetry, self._while_waiting, direct)

    def server(self, endpoint: contract.Interface, host: str,
               threads: int | None = None,
               admit: serving.Admit = serving.at_once) -> serving.Server:
        """Return a server of the interface of an endpoint, with the name ``host``.

        :param threads: maximum number of messages that each transport handles concurrently,
            besides those of the fast lane; None for ``[rpc] threads``
        :param admit: function that returns a context manager for the work of each message
        """
        target = self._target(type(endpoint), server=host)
        exposed = serving.Exposed(endpoint, self._clock, self._telemetry, admit)
        fast_lane = frozenset(name for name, method in contract.methods(type(endpoint)).items()
                              if method.fast_lane)
        listening = [serving.RpcServer(
            self._telemetry, self._clock, suffix, fast_lane, transport, target,
            serving.Dispatcher(exposed, self._serializer))
            for suffix, transport in self._listening.items() if transport is not None]
        return serving.Server(listening, threads or self._settings.threads)

    def close(self) -> None:
        """Close the transports. The caller must stop all servers before."""
        closing = [threading.Thread(target=self._close, args=(transport,), name='bus-close',
                                    daemon=True) for transport in self._listening.values()
                   if transport is not None]
        for thread in closing:
            thread.start()
        for thread in closing:
            # The wait for an unreachable broker is short. Its connections end with the process.
            thread.join(_CLOSE_SECONDS)

    @staticmethod
    def _close(transport: oslo_messaging.Transport) -> None:
        try:
            transport.cleanup()
        except Exception as error:
            # Errors of the driver, kombu and amqp have no common base class.
            LOG.warning('Failed to close connections to the broker%s', fields(reason=error))

    def _cap(self, interface: type[contract.Interface]) -> str:
        """Return the newest version of an interface that may be sent.

        This is the version in the configured release. If only newer releases have the interface,
        the version permits no method. For an interface that belongs to no release, this is the
        newest version of the interface.
        """
        if interface.TOPIC in self._known:
            return self._release.interfaces.get(interface.TOPIC, _UNKNOWN)
        return contract.version(interface)

    def _reach(self, ctxt: context.RequestContext) -> None:
        # RabbitMQ's driver opens its reply queue at the first call, and waits for an unreachable
        # broker without a timeout. A cast, on the other hand, fails after `send_retries`.
        if self._reached:
            return
        target = oslo_messaging.Target(topic=f'{self._settings.topic_prefix}-nobody')
        oslo_messaging.get_rpc_client(
            self._transport, target, serializer=self._serializer,
            retry=self._settings.send_retries).cast(ctxt, 'reach')
        self._reached = True

    def _target(self, interface: type[contract.Interface],
                server: str | None = None) -> oslo_messaging.Target:
        return oslo_messaging.Target(topic=f'{self._settings.topic_prefix}-{interface.TOPIC}',
                                     server=server)
