"""RPC client, which sends messages, waits for replies, and translates failures.

An idempotent call is sent again as long as no heartbeats arrive. The message was then either lost
with a process that stopped, or waits in the queue of a process that will start again.
"""
import contextlib
import inspect
import itertools
import logging
import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

import oslo_messaging

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.log import fields
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import ends
from blockattach.platform.rpc import serializing
from blockattach.platform.rpc import serving
from blockattach.platform.telemetry import acts

LOG = logging.getLogger(__name__)

_LEAST_SECONDS = 1.0
"""Minimum time in seconds for which an attempt waits for a heartbeat."""
_FIRST_PAUSE_SECONDS = 0.1
"""Pause in seconds after the first attempt to reach a server.

The pause doubles with each attempt, up to the time for which an attempt waits.
"""
# The number of attempts is not limited. Without a limit of the exponent, the pause would overflow
# a float after about a thousand attempts.
_MOST_DOUBLINGS = 10
# Each heartbeat restarts the wait, and the first heartbeat is due after a third of the wait
# (`serving.SIGNS`). An attempt that exceeds its limit by this factor, half of that third, has
# received a heartbeat.
_WITH_SIGNS = 1 + 0.5 / serving.SIGNS

_Interface = TypeVar('_Interface', bound=contract.Interface)


def stub(interface: type[_Interface], invoke: contract.Invoke) -> _Interface:
    """Return a client of an interface, generated from its declaration.

    The methods of the client raise the errors that `contract.Invoke` lists.
    """
    methods = {name: _sending(name, inspect.signature(getattr(interface, name)), invoke)
               for name in contract.methods(interface)}
    generated: _Interface = type(f'{interface.__name__}Stub', (interface,), methods)()
    return generated


def _sending(name: str, signature: inspect.Signature,
             invoke: contract.Invoke) -> Callable[..., Any]:
    def send(self: object, ctxt: context.RequestContext, *values: Any, **more: Any) -> Any:
        # The first two arguments are the stub and the context.
        _, _, *arguments = signature.bind(self, ctxt, *values, **more).arguments.items()
        return invoke(ctxt, name, **dict(arguments))
    return send


class Client:
    """Client of an interface, which sends messages to a named server or to any server."""

    def __init__(self, rpc_client: oslo_messaging.RPCClient, interface: type[contract.Interface],
                 server: str | None, settings: rpc_conf.RpcSettings, clock: clocks.Clock,
                 reach: Callable[[context.RequestContext], None],
                 telemetry: acts.Telemetry,
                 while_waiting: Callable[[], contextlib.AbstractContextManager[None]],
                 direct: oslo_messaging.RPCClient | None = None) -> None:
        """
        :param server: name of the server; None if any server of the topic may handle a message
        :param reach: function that is called before ``rpc_client`` makes a call, and raises if no
            broker is reachable
        :param while_waiting: function that returns a context manager for each wait for a reply
        :param direct: client that is tried first for calls; ``rpc_client`` is used if ``direct``
            does not reach the server
        """
        self._telemetry = telemetry
        self._while_waiting = while_waiting
        self._clock = clock
        self._reach = reach
        self._interface = interface.TOPIC
        self._topic = rpc_client.target.topic
        self._server = server
        self._methods = contract.methods(interface)
        self._interval = settings.repeat_interval
        self._silence = settings.silence_timeout
        self._seconds: dict[contract.Timeout | None, float | None] = {
            contract.Timeout.SHORT: settings.short_call_timeout,
            contract.Timeout.NORMAL: settings.call_timeout,
            contract.Timeout.LONG: settings.long_call_timeout,
            None: None}
        # The message of a long call expires like that of a normal call. Only the work may take
        # longer.
        self._begins = {**self._seconds, contract.Timeout.LONG: settings.call_timeout}
        self._prepared = {name: self._prepare(rpc_client, method)
                          for name, method in self._methods.items()}
        self._direct = {} if direct is None else {
            name: self._prepare(direct, method) for name, method in self._methods.items()
            if method.kind is contract.Kind.CALL}
        self._points = {name: (f'rpc.{interface.TOPIC}.{name}.before_send',
                               f'rpc.{interface.TOPIC}.{name}.after_answer')
                        for name in self._methods}

    def _prepare(self, rpc_client: oslo_messaging.RPCClient, method: contract.Method) -> Any:
        if method.kind is contract.Kind.FANOUT:
            return rpc_client.prepare(version=method.since, fanout=True)
        prepared = rpc_client.prepare(version=method.since, server=self._server)
        if method.kind is contract.Kind.CAST:
            return prepared
        # A short timeout needs no heartbeats.
        short = method.timeout is contract.Timeout.SHORT
        return prepared.prepare(timeout=self._seconds[method.timeout],
                                call_monitor_timeout=None if short else self._silence)

    def __call__(self, ctxt: context.RequestContext, name: str, /, **arguments: Any) -> Any:
        """Send a message as `contract.Invoke` describes."""
        with self._telemetry.rpc_client(self._interface, name):
            return self._invoke(ctxt, name, arguments)

    def _invoke(self, ctxt: context.RequestContext, name: str,
                arguments: Mapping[str, Any]) -> Any:
        method = self._methods[name]
        begun = self._clock.monotonic()
        seconds = self._seconds[method.timeout]
        # A consumer may use a context class of its own, without a deadline.
        deadline = getattr(ctxt, 'deadline', None)
        if seconds is not None and deadline is not None:
            seconds = min(seconds, deadline - begun)
        if seconds is not None and seconds <= 0:
            raise errors.DeadlinePassed(method=name)
        expires = self._begins[method.timeout]
        if expires is not None and seconds is not None:
            expires = min(expires, seconds)
        try:
            return self._send(method, serializing.Outgoing(ctxt, expires), seconds, arguments)
        except errors.BlockattachError as error:
            raise contract.portable(error) from error
        except ends.RAISED as error:
            raise self._ended(method, error, self._clock.monotonic() - begun) from error

    def _ended(self, method: contract.Method, error: Exception,
               seconds: float) -> errors.BlockattachError:
        end = ends.of(error)
        return end.error(end.text and end.text % {
            'method': method.name, 'since': method.since, 'topic': self._topic,
            'server': self._server_name(), 'reason': getattr(error, 'exc_type', error),
        }, topic=self._server_name(), seconds=round(seconds))

    def _send(self, method: contract.Method, outgoing: serializing.Outgoing,
              seconds: float | None, arguments: Mapping[str, Any]) -> Any:
        prepared = self._prepared[method.name]
        before, after = self._points[method.name]
        effect = failpoints.point(before)
        if effect is failpoints.Effect.DUPLICATE:
            prepared.cast(outgoing, method.name, **arguments)
        if method.kind is not contract.Kind.CALL:
            if effect is not failpoints.Effect.DROP:
                prepared.cast(outgoing, method.name, **arguments)
            failpoints.point(after)
            return None
        answer = None
        if effect is not failpoints.Effect.DROP:
            with self._while_waiting():
                answer = self._wait_for(method, outgoing, seconds, arguments)
            effect = failpoints.point(after)
        if effect is failpoints.Effect.DROP:
            raise oslo_messaging.MessagingTimeout(f'{method.name} or its reply was dropped')
        return answer

    def _wait_for(self, method: contract.Method, outgoing: serializing.Outgoing,
                  seconds: float | None, arguments: Mapping[str, Any]) -> Any:
        if method.repeated and seconds is not None:
            return self._resend(method.name, outgoing.caller, seconds, arguments)
        changed = {} if seconds == self._seconds[method.timeout] else {'timeout': seconds}
        return self._call(method.name, outgoing, changed, arguments)

    def _call(self, name: str, outgoing: serializing.Outgoing, changed: Mapping[str, Any],
              arguments: Mapping[str, Any]) -> Any:
        """Send one message and return the reply.

        If the direct client certainly reached no server, the message is sent through the broker.
        Any other error is raised, because a server may be handling the message.

        :param changed: timeouts that replace the timeouts of the method
        """
        if (direct := self._direct.get(name)) is not None:
            try:
                return _limited(direct, changed).call(outgoing, name, **arguments)
            except ends.NotReached as error:
                LOG.debug('Sending RPC call through the broker%s', fields(
                    method=name, topic=self._server_name(), reason=error))
        self._reach(outgoing.caller)
        return _limited(self._prepared[name], changed).call(outgoing, name, **arguments)

    def _resend(self, name: str, caller: context.RequestContext, seconds: float,
                arguments: Mapping[str, Any]) -> Any:
        """Send copies of a call until a server replies, and return the reply.

        A copy is sent when no heartbeat has arrived for ``[rpc] repeat_interval`` seconds, or
        sooner if no server was reached.

        :param seconds: timeout of the call
        :raises oslo_messaging.MessagingTimeout: no reply in time, or no heartbeat for
            ``silence_timeout``
        :raises NotReached: no server was reached within these limits
        """
        now = self._clock.monotonic()
        until, hopeless = now + seconds, now + self._silence
        for attempt in itertools.count():
            begun = self._clock.monotonic()
            remaining = max(until - begun, 0)
            listens = min(self._interval, max(hopeless - begun, _LEAST_SECONDS))
            limits = {'timeout': remaining,
                      'call_monitor_timeout': listens if remaining > listens else None}
            try:
                return self._call(name, serializing.Outgoing(caller, remaining), limits, arguments)
            except (oslo_messaging.MessagingTimeout, ends.NotReached) as error:
                # On a transport without a queue, a copy may be lost at once. The next copy is
                # still sent only after the whole interval.
                now, pause = self._clock.monotonic(), listens
                if isinstance(error, ends.NotReached):
                    # Nothing was done, and a server that restarts or is at its connection limit is
                    # usually back within moments.
                    pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(attempt, _MOST_DOUBLINGS), listens)
                # Without heartbeats, the attempt would have ended sooner, so the server is alive.
                if now - begun > listens * _WITH_SIGNS:
                    hopeless = now + self._silence
                if now >= min(until, hopeless):
                    raise
                if not attempt:
                    LOG.warning('Retrying RPC call%s', fields(
                        method=name, topic=self._server_name(), reason=error))
                if (early := min(begun + pause, until) - now) > 0:
                    self._clock.wait(threading.Event(), early)
        raise AssertionError('the count has no end')

    def _server_name(self) -> str:
        return f'{self._topic}.{self._server}' if self._server else str(self._topic)


def _limited(prepared: Any, changed: Mapping[str, Any]) -> Any:
    return prepared.prepare(**changed) if changed else prepared
