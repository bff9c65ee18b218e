"""The bus of a process: what servers and clients of every interface are made on.

What comes back from the other side is one of five:

* an error of ours (`blockattach.platform.errors`): the same class with the same fields;
* ``ServiceUnreachable``: no answer in time, or the broker took nothing. Uncertain: it may have
  happened;
* ``DeadlinePassed``: the caller no longer waits (`blockattach.platform.rpc.serializing`). Final:
  it was not begun;
* ``BackendUncertain``: the other side failed with an error that is not ours, so it is unknown how
  far it came. One class for every interface, as only its uncertainty matters to callers;
* ``ConfigurationError``: one side is too old for the other. Final: nothing was done.
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
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import oslo_drivers
from blockattach.platform.rpc import pinning
from blockattach.platform.rpc import rabbit
from blockattach.platform.rpc import serializing
from blockattach.platform.rpc import serving
from blockattach.platform.telemetry import acts

LOG = logging.getLogger(__name__)

EXCHANGE = 'blockattach'
ALLOWED_REMOTE_MODULES = errors.MODULES

_WITHOUT_BROKER = {'inproc': 'inside the process', 'http': 'none (messages go directly to their '
                   'servers)'}
"""Where there is none to be reached, by the scheme of the URL."""
_NO_METHOD = '(0, 0): '
"""What amqp puts before a refusal that no method of its protocol brought about."""
_CLOSE_SECONDS = 2.0
_UNKNOWN = '0.0'
"""The version of an interface that a release does not have: nothing can be sent on it."""


def register_options(conf: cfg.ConfigOpts) -> None:
    """Make known what oslo.messaging reads: parts of it are registered on the global CONF only."""
    for group, options in messaging_opts.list_opts():
        conf.register_opts(options, group=group)
    for group, options in oslo_drivers.PRIVATE_OPTIONS.items():
        conf.register_opts(options, group=group)
    conf.set_default('control_exchange', EXCHANGE)
    rabbit.set_defaults(conf)


def build_transport(conf: cfg.ConfigOpts, url: str | None = None,
                    option: str = 'transport_url') -> oslo_messaging.Transport:
    """A transport by URL (``rabbit://...``, ``inproc://NAME/``, ``http:///NAME``); by default
    ``transport_url``.

    :param option: the option with the URL
    :raises ConfigurationError: the URL cannot be read, or no driver is installed for it
    """
    register_options(conf)
    try:
        return oslo_messaging.get_rpc_transport(
            conf, url=url, allowed_remote_exmods=list(ALLOWED_REMOTE_MODULES))
    except oslo_messaging.DriverLoadFailure as exc:
        raise errors.ConfigurationError(
            reason=f'no driver is installed for {option} = {exc.driver}://...') from exc
    except (oslo_messaging.InvalidTransportURL, cfg.NoSuchOptError, ValueError):
        # Their texts repeat the URL, and with it a password.
        raise errors.ConfigurationError(
            reason=f'{option} is not a valid URL, or the driver does not support its query'
        ) from None


class BrokerProbe:
    """Whether the broker takes messages now, asked at the start of a process and while it runs: a
    message that nobody waits for is sent, and the broker drops it.

    :ivar needed: whether there is a broker; else the bus ends where the process does
    :ivar broker: where it is, without passwords
    :ivar reconnects: how often it was there again after it had not been
    """

    def __init__(self, conf: cfg.ConfigOpts, transport: oslo_messaging.Transport,
                 settings: rpc_conf.RpcSettings, place: str | None = None) -> None:
        """
        :param place: the URL of the transport, where it is not ``transport_url``
        """
        self.reconnects = 0
        self._away = False
        self._conf = conf
        url = oslo_messaging.TransportURL.parse(conf, place)
        self.needed = url.transport not in _WITHOUT_BROKER
        self.broker = _WITHOUT_BROKER.get(url.transport) or ', '.join(
            f'{host.hostname}:{host.port}' for host in url.hosts)
        # A single attempt: the present state is asked for.
        self._client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic=f'{settings.topic_prefix}-nobody'), retry=0)

    def wrong(self) -> str | None:
        """Why the broker accepts nothing, without its password; None: it does."""
        if not self.needed:
            return None
        try:
            self._client.cast({}, 'reach')
        except Exception as error:
            # The driver's, its library's, or that of the library below: they share no ancestor.
            self._away = True
            reason = str(error).removeprefix(_NO_METHOD)
            act = 'reach' if rabbit.option_in(self._conf, reason) is None else 'use'
            return f'cannot {act} the message broker at {self.broker}: {reason}'
        if self._away:
            self._away = False
            self.reconnects += 1
        return None


class Bus:
    """A transport with the settings of ``[rpc]``."""

    def __init__(self, transport: oslo_messaging.Transport, settings: rpc_conf.RpcSettings,
                 releases: Sequence[pinning.Release], clock: clocks.Clock | None = None,
                 telemetry: acts.Telemetry | None = None,
                 second: oslo_messaging.Transport | None = None,
                 direct: oslo_messaging.Transport | None = None,
                 while_waiting: Callable[[], contextlib.AbstractContextManager[None]]
                 = contextlib.nullcontext) -> None:
        """
        :param releases: all releases, oldest first
        :param second: servers listen there too
        :param direct: calls go there first, and servers listen there too
        :param while_waiting: surrounds each wait for an answer
        :raises ConfigurationError: the release pin is unknown
        """
        self._transport = transport
        self._direct = direct
        self._listening = {'': transport, '.second': second, '.direct': direct}
        self._settings = settings
        self._release = pinning.find_release(settings.release, releases)
        self._known = frozenset(releases[-1].interfaces)
        self._clock = clock or clocks.Clock()
        self._telemetry = telemetry or acts.Telemetry(clock)
        self._serializer = serializing.Serializer(self._release.objects, self._clock,
                                                  self._telemetry)
        # Not by its class: most processes need not load that.
        self._reached = getattr(getattr(transport, '_driver', None), 'without_broker', False)
        self._while_waiting = while_waiting

    def client(self, interface: type[contract.Interface],
               server: str | None = None) -> calling.Client:
        """What a client of this interface is made on; without a server any may take a message."""
        rpc_client, direct = (None if transport is None else oslo_messaging.get_rpc_client(
            transport, self._target(interface), serializer=self._serializer,
            version_cap=self._cap(interface), retry=self._settings.send_retries)
            for transport in (self._transport, self._direct))
        return calling.Client(rpc_client, interface, server, self._settings, self._clock,
                              self._reach, self._telemetry, self._while_waiting, direct)

    def server(self, endpoint: contract.Interface, host: str,
               threads: int | None = None,
               admit: serving.Admit = serving.at_once) -> serving.Server:
        """A server of the interface that the endpoint is, under the name ``host``.

        :param threads: how many calls it serves at once; the setting, if not given
        :param admit: surrounds each call
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
        """Close the transports; stop the servers first.

        A broker that is away is not waited for: its connections end with the process.
        """
        closing = [threading.Thread(target=self._close, args=(transport,), name='bus-close',
                                    daemon=True) for transport in self._listening.values()
                   if transport is not None]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(_CLOSE_SECONDS)

    @staticmethod
    def _close(transport: oslo_messaging.Transport) -> None:
        try:
            transport.cleanup()
        except Exception as error:
            # The driver's, its library's, or that of the library below: they share no ancestor.
            LOG.warning('Failed to close connections to the broker: %s', error)

    def _cap(self, interface: type[contract.Interface]) -> str:
        """The newest version that the release knows; an interface of none speaks its own."""
        if interface.TOPIC in self._known:
            return self._release.interfaces.get(interface.TOPIC, _UNKNOWN)
        return contract.version(interface)

    def _reach(self, ctxt: context.RequestContext) -> None:
        """Find out whether the broker is there, before the first call.

        RabbitMQ's driver opens its queue for answers with the first call, and waits for a broker
        that is away without end; sending, on the other hand, gives up after ``send_retries``.
        Without a broker there is nothing to find out.
        """
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
