"""The bus of a process: what servers and clients of every interface are made on.

What comes back from the other side is one of five:

* an error of ours (`blockattach.errors`): the same class with the same fields;
* ``ServiceUnreachable``: no answer in time, or the broker took nothing. Uncertain: what was asked
  may have happened;
* ``DeadlinePassed``: whoever asked no longer waits (`blockattach.rpc.deadlines`). Final: it was
  not begun;
* ``BackendUncertain``: the other side failed with an error that is not ours, so nobody can say how
  far it came. The same for every interface, as only its uncertainty matters to callers;
* ``ConfigurationError``: one side is too old for the other. Final: nothing was done.
"""
import functools
import inspect
import logging
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import oslo_messaging
from kombu import exceptions as kombu_errors
from oslo_config import cfg
from oslo_messaging import opts as messaging_opts
from oslo_messaging._metrics import client as messaging_metrics
from oslo_messaging._tracing import client as messaging_tracing
from oslo_messaging.rpc import server as rpc_server

from blockattach import clock as clocks
from blockattach import context
from blockattach import errors
from blockattach.conf import rpc as rpc_conf
from blockattach.log import fields
from blockattach.objects import base
from blockattach.rpc import contract
from blockattach.rpc import deadlines
from blockattach.rpc import history
from blockattach.rpc import rabbit
from blockattach.telemetry import acts
from blockattach.telemetry import threads as counted_threads

LOG = logging.getLogger(__name__)

EXCHANGE = 'blockattach'
ALLOWED_REMOTE_MODULES = (errors.__name__,)

_DEADLINE = 'blockattach_deadline'
_SERVICE_ROLES = 'service_roles'
_CLOSE_SECONDS = 2.0
_UNKNOWN = '0.0'
"""The version of an interface that a release does not have: nothing can be sent on it."""

# How a message is said not to have been taken: by the driver, and by what lies under RabbitMQ's.
_NOT_TAKEN = (oslo_messaging.MessageDeliveryFailure, kombu_errors.OperationalError,
              ConnectionError)

# How the other side says that it does not know what it was sent.
_TOO_OLD = frozenset({'UnsupportedVersion', 'NoSuchMethod', 'IncompatibleObjectVersion'})


def register_options(conf: cfg.ConfigOpts) -> None:
    """Make known what oslo.messaging reads: parts of it are registered on the global CONF only."""
    for group, options in messaging_opts.list_opts():
        conf.register_opts(options, group=group)
    conf.register_opts(messaging_metrics.oslo_messaging_metrics, group='oslo_messaging_metrics')
    conf.register_opts(messaging_tracing.oslo_messaging_tracing, group='oslo_messaging_tracing')
    conf.set_default('control_exchange', EXCHANGE)
    rabbit.set_defaults(conf)


def build_transport(conf: cfg.ConfigOpts, url: str | None = None) -> oslo_messaging.Transport:
    """A transport by URL (``rabbit://...``, ``inproc://NAME/``); by default ``transport_url``.

    :raises ConfigurationError: the URL cannot be read, or no driver is installed for it
    """
    register_options(conf)
    try:
        return oslo_messaging.get_rpc_transport(
            conf, url=url, allowed_remote_exmods=list(ALLOWED_REMOTE_MODULES))
    except oslo_messaging.DriverLoadFailure as exc:
        raise errors.ConfigurationError(
            reason=f'no driver is installed for transport_url = {exc.driver}://...') from exc
    except oslo_messaging.InvalidTransportURL:
        # Its own words repeat the URL, and with it a password.
        raise errors.ConfigurationError(reason='transport_url is no URL') from None


class Serializer(base.ObjectSerializer):
    """Contexts and objects to plain data and back; objects in the versions of a release."""

    def __init__(self, object_versions: Mapping[str, str],
                 deadlines: deadlines.Deadlines | None = None,
                 telemetry: acts.Telemetry | None = None) -> None:
        """
        :param deadlines: None where nobody waits for what is sent
        :param telemetry: None where nobody goes on with a trace
        """
        self._versions = dict(object_versions)
        self._deadlines = deadlines
        self._telemetry = telemetry

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        """Plain data for an argument or an answer."""
        if isinstance(entity, base.BlockattachObject):
            return entity.obj_to_primitive(self._versions.get(entity.obj_name(), entity.VERSION),
                                           self._versions)
        return super().serialize_entity(ctxt, entity)

    def serialize_context(self, ctxt: context.RequestContext | deadlines.Outgoing,
                          ) -> dict[str, Any]:
        """The caller as plain data, without his token: nobody behind the bus acts with it."""
        caller, seconds = ctxt if isinstance(ctxt, deadlines.Outgoing) else (ctxt, None)
        values = caller.to_dict()
        values.pop('auth_token', None)
        values[_SERVICE_ROLES] = caller.service_roles
        if self._deadlines is not None and seconds is not None:
            values[_DEADLINE] = self._deadlines.stamp(seconds)
        if self._telemetry is not None:
            self._telemetry.inject(values)
        return values

    def deserialize_context(self, ctxt: dict[str, Any]) -> context.RequestContext:
        """The caller on the other side; also what this thread logs by from now on."""
        caller = context.RequestContext.from_values(ctxt)
        stamp = ctxt.get(_DEADLINE)
        if self._deadlines is not None and stamp is not None:
            caller.deadline = self._deadlines.read(stamp)
        if self._telemetry is not None:
            caller.traceparent = self._telemetry.extract(ctxt)
        return caller


class Client:
    """Sends the methods of one interface, to one server or to whichever listens."""

    def __init__(self, rpc_client: oslo_messaging.RPCClient, interface: type[contract.Interface],
                 server: str | None, settings: rpc_conf.RpcSettings,
                 deadlines: deadlines.Deadlines,
                 reach: Callable[[context.RequestContext], None],
                 telemetry: acts.Telemetry) -> None:
        self._telemetry = telemetry
        self._deadlines = deadlines
        self._reach = reach
        self._interface = interface.TOPIC
        self._topic = rpc_client.target.topic
        self._server = server
        self._methods = contract.methods(interface)
        self._seconds: dict[contract.Patience | None, float | None] = {
            contract.Patience.SHORT: settings.short_call_timeout,
            contract.Patience.NORMAL: settings.call_timeout,
            contract.Patience.LONG: settings.long_call_timeout,
            None: None}
        self._prepared = {name: self._prepare(rpc_client, method)
                          for name, method in self._methods.items()}

    def _prepare(self, rpc_client: oslo_messaging.RPCClient, method: contract.Method) -> Any:
        if method.kind is contract.Kind.FANOUT:
            return rpc_client.prepare(version=method.since, fanout=True)
        prepared = rpc_client.prepare(version=method.since, server=self._server)
        if method.kind is contract.Kind.CAST:
            return prepared
        long = method.patience is contract.Patience.LONG
        return prepared.prepare(
            timeout=self._seconds[method.patience],
            call_monitor_timeout=self._seconds[contract.Patience.NORMAL] if long else None)

    def __call__(self, ctxt: context.RequestContext, name: str, /, **arguments: Any) -> Any:
        """See `blockattach.rpc.contract.Invoke`."""
        with self._telemetry.rpc_client(self._interface, name):
            return self._invoke(ctxt, name, arguments)

    def _invoke(self, ctxt: context.RequestContext, name: str,
                arguments: Mapping[str, Any]) -> Any:
        method = self._methods[name]
        seconds = self._deadlines.seconds_for(ctxt, self._seconds[method.patience])
        if seconds is not None and seconds <= 0:
            raise errors.DeadlinePassed(method=name)
        try:
            return self._send(method, deadlines.Outgoing(ctxt, seconds), arguments)
        except errors.BlockattachError as error:
            raise _ours(error) from error
        except oslo_messaging.MessagingTimeout as error:
            raise errors.ServiceUnreachable(topic=self._whom(), seconds=seconds) from error
        except _NOT_TAKEN as error:
            raise errors.ServiceUnreachable(
                f'cannot reach {self._whom()}: the broker takes no message',
                topic=self._whom(), seconds=0) from error
        except oslo_messaging.RPCVersionCapError as error:
            raise self._too_old(name, 'the release in [rpc] release') from error
        except oslo_messaging.RemoteError as error:
            if error.exc_type in _TOO_OLD:
                raise self._too_old(name, self._whom()) from error
            raise _unforeseen(name, self._whom(), error.exc_type) from error

    def _send(self, method: contract.Method, outgoing: deadlines.Outgoing,
              arguments: Mapping[str, Any]) -> Any:
        prepared = self._prepared[method.name]
        if method.kind is not contract.Kind.CALL:
            return prepared.cast(outgoing, method.name, **arguments)
        self._reach(outgoing.caller)
        if outgoing.seconds != self._seconds[method.patience]:
            prepared = prepared.prepare(timeout=outgoing.seconds)
        return prepared.call(outgoing, method.name, **arguments)

    def _whom(self) -> str:
        return f'{self._topic}.{self._server}' if self._server else str(self._topic)

    def _too_old(self, name: str, who: str) -> errors.ConfigurationError:
        since = self._methods[name].since
        return errors.ConfigurationError(
            reason=f'cannot send {name} of version {since} to {self._topic}: {who} is older')


class _RpcServer(rpc_server.RPCServer):
    """oslo.messaging's server on an executor whose idle threads sleep.

    futurist's starts a thread for every message up to its limit, and each of them wakes up once a
    second for ever; the standard library's takes an idle thread first, and idle ones wait.
    """

    def __init__(self, telemetry: acts.Telemetry, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._executor_cls = functools.partial(
            counted_threads.CountedThreads, f'{self._target.topic}.{self._target.server}',
            telemetry.readings)


class Server:
    """Listens for one endpoint; may be started again after it was stopped."""

    def __init__(self, server: rpc_server.RPCServer, threads: int) -> None:
        self._server = server
        self._threads = threads
        self._listening = False

    def start(self) -> None:
        """Listen from now on. Not before a fork: threads and connections begin here."""
        self._server.start(override_pool_size=self._threads)
        self._listening = True

    def stop(self) -> None:
        """Take nothing new; returns when all that was taken is done. A repeat does nothing."""
        # oslo.messaging would wait for a start that never comes.
        if not self._listening:
            return
        self._listening = False
        self._server.stop()
        try:
            self._server.wait()
        except Exception as error:
            # All that was taken is done; a broker that is away hears of it later.
            LOG.warning('Queues of a server are left to the broker: %s', error)


class Bus:
    """One transport with the settings of ``[rpc]``.

    :raises ConfigurationError: the release pin is unknown
    """

    def __init__(self, transport: oslo_messaging.Transport, settings: rpc_conf.RpcSettings,
                 clock: clocks.Clock | None = None,
                 releases: tuple[history.Release, ...] = history.RELEASES,
                 telemetry: acts.Telemetry | None = None) -> None:
        self._transport = transport
        self._settings = settings
        self._release = history.pinned(settings.release, releases)
        self._known = frozenset(releases[-1].interfaces)
        self._deadlines = deadlines.Deadlines(clock or clocks.Clock())
        self._telemetry = telemetry or acts.Telemetry(clock)
        self._serializer = Serializer(self._release.objects, self._deadlines, self._telemetry)
        self._reached = False

    def client(self, interface: type[contract.Interface], server: str | None = None) -> Client:
        """What a client of this interface is made on; without a server any may take a message."""
        rpc_client = oslo_messaging.get_rpc_client(
            self._transport, self._target(interface), serializer=self._serializer,
            version_cap=self._cap(interface), retry=self._settings.send_retries)
        return Client(rpc_client, interface, server, self._settings, self._deadlines,
                      self._reach, self._telemetry)

    def server(self, endpoint: contract.Interface, host: str,
               threads: int | None = None) -> Server:
        """A server of the interface that the endpoint is, under the name ``host``."""
        target = self._target(type(endpoint), server=host)
        server = oslo_messaging.get_rpc_server(
            self._transport, target, [_Exposed(endpoint, self._deadlines, self._telemetry)],
            serializer=self._serializer,
            server_cls=functools.partial(_RpcServer, self._telemetry))
        return Server(server, threads or self._settings.threads)

    def close(self) -> None:
        """Let go of the transport; stop the servers first.

        A broker that is away is not waited for: its connections end with the process.
        """
        closing = threading.Thread(target=self._let_go, name='bus-close', daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _let_go(self) -> None:
        try:
            self._transport.cleanup()
        except Exception as error:
            # The driver's, its library's, or that of the library below: they share no ancestor.
            LOG.warning('Connections to the broker are not closed in order: %s', error)

    def _cap(self, interface: type[contract.Interface]) -> str:
        """The newest version that the release knows; an interface of none speaks its own."""
        if interface.TOPIC in self._known:
            return self._release.interfaces.get(interface.TOPIC, _UNKNOWN)
        return contract.version(interface)

    def _reach(self, ctxt: context.RequestContext) -> None:
        """Find out whether the broker is there, before the first call.

        RabbitMQ's driver opens its queue for answers with the first call, and waits for a broker
        that is away without end; sending, on the other hand, gives up after ``send_retries``.
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


def open_bus(conf: cfg.ConfigOpts) -> Bus:
    """The bus as configured (``transport_url``, ``[rpc]``), for a process that only calls.

    :raises ConfigurationError: a setting is wrong
    """
    rpc_conf.register(conf)
    return Bus(build_transport(conf), rpc_conf.settings(conf))


class _Exposed:
    """The methods of an endpoint that its interface names, and no others."""

    def __init__(self, endpoint: contract.Interface, deadlines: deadlines.Deadlines,
                 telemetry: acts.Telemetry) -> None:
        self.target = oslo_messaging.Target(version=contract.version(type(endpoint)))
        for name, method in contract.methods(type(endpoint)).items():
            function = _watched(endpoint.TOPIC, name, telemetry,
                                _checked(name, getattr(endpoint, name), deadlines))
            if method.kind is contract.Kind.CALL:
                setattr(self, name, _answering(name, endpoint.TOPIC, function))
            else:
                setattr(self, name, _unheard(name, function))


def _watched(topic: str, name: str, telemetry: acts.Telemetry,
             function: Callable[..., Any]) -> Callable[..., Any]:
    """Time it, and go on with the trace of whoever asked."""
    def watch(ctxt: context.RequestContext, **arguments: Any) -> Any:
        with telemetry.rpc_server(topic, name, ctxt.traceparent):
            return function(ctxt, **arguments)
    return watch


def _checked(name: str, function: Callable[..., Any],
             deadlines: deadlines.Deadlines) -> Callable[..., Any]:
    """Begin nothing that nobody waits for any more, or that was asked for in the wrong form."""
    signature = inspect.signature(function)

    def check(ctxt: context.RequestContext, **arguments: Any) -> Any:
        if deadlines.passed(ctxt):
            LOG.warning('Message is late and not acted upon: whoever sent it waits no longer%s',
                        fields(method=name))
            raise errors.DeadlinePassed(method=name)
        try:
            signature.bind(ctxt, **arguments)
        except TypeError as error:
            raise errors.InvalidInput(reason=f'cannot do {name}: {error}') from None
        return function(ctxt, **arguments)
    return check


def _answering(name: str, topic: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let the caller hear of every failure as one of our errors."""
    def answer(ctxt: context.RequestContext, **arguments: Any) -> Any:
        try:
            return function(ctxt, **arguments)
        except errors.BlockattachError:
            raise
        except Exception as error:
            LOG.exception('Cannot do what was asked: an unforeseen error%s', fields(method=name))
            raise _unforeseen(name, topic, type(error).__name__) from error
    # Keeps oslo.messaging from logging as an error what the caller is told.
    return oslo_messaging.expected_exceptions(errors.BlockattachError)(answer)


def _unheard(name: str, function: Callable[..., Any]) -> Callable[..., None]:
    """Log every failure: no caller hears of it. A deadline in the database brings it back."""
    def act(ctxt: context.RequestContext, **arguments: Any) -> None:
        try:
            function(ctxt, **arguments)
        except errors.BlockattachError as error:
            LOG.warning('Cannot do what was sent: %s%s', error, fields(method=name))
        except Exception:
            LOG.exception('Cannot do what was sent: an unforeseen error%s', fields(method=name))
    return act


def _ours(error: errors.BlockattachError) -> errors.BlockattachError:
    """An error as it was raised there: oslo.messaging makes a class of its own of it.

    Its text would otherwise hold the other side's traceback.
    """
    known = next(cls for cls in type(error).__mro__ if cls.__module__ == errors.__name__)
    return known(error.message, **error.kwargs)


def _unforeseen(name: str, whom: str, what: str) -> errors.BackendUncertain:
    return errors.BackendUncertain(reason=f'cannot tell how far {name} on {whom} came: {what}')
