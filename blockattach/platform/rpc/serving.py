"""RPC server, based on the server of oslo.messaging, with its own threads and heartbeats.

Expired messages are dropped, and exceptions of endpoints are translated to errors of this service.
A caller gives up if it receives no heartbeat for ``[rpc] silence_timeout`` seconds, unless the
call has a short timeout. A caller therefore notices a dead server long before the timeout of the
call.
"""
import contextlib
import inspect
import logging
import math
import re
import threading
import types
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import oslo_messaging
from oslo_messaging.rpc import dispatcher
from oslo_messaging.rpc import server as rpc_server
from oslo_versionedobjects import exception as object_errors

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import metrics
from blockattach.platform.log import fields
from blockattach.platform.rpc import contract
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import threads as counted_threads

LOG = logging.getLogger(__name__)

Admit = Callable[[context.RequestContext], contextlib.AbstractContextManager[None]]
"""Function that returns a context manager for the work of a message.

Entering the context waits for a slot, or raises a BlockattachError.
"""

SIGNS = 3
"""Number of heartbeats that are sent within the time in which a caller expects a heartbeat."""

_LEAST_SIGN_SECONDS = 0.1
"""Minimum interval of heartbeats in seconds, whatever interval a caller requests."""
_VERSION = re.compile(r'[0-9]{1,9}\.[0-9]{1,9}')
_TEXT = (str, types.NoneType)
_LIST = (list, types.NoneType)
_CALLER: Mapping[str, tuple[type, ...]] = {
    'user': _TEXT, 'project_id': _TEXT, 'request_id': _TEXT, 'global_request_id': _TEXT,
    'is_admin': (bool, types.NoneType), 'roles': _LIST, 'service_roles': _LIST,
    metrics.TRACEPARENT: _TEXT}
"""Permitted types of the context values that a server reads, by name."""
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
              object_errors.UnsupportedObjectError)
"""Errors from decoding a malformed context or object."""
_REFUSED = (errors.InvalidInput, oslo_messaging.rpc.NoSuchMethod,
            oslo_messaging.rpc.UnsupportedVersion, object_errors.IncompatibleObjectVersion)
"""Errors for which a message is rejected. The sender gets the error as the reply."""

_FAST_LANE_THREADS = 4
"""Number of threads for methods that only write to the database.

Without them, calls to a slow backend could occupy all threads and delay these methods.
"""


def at_once(_ctxt: context.RequestContext) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that admits a message without waiting."""
    return contextlib.nullcontext()


class Exposed:
    """Endpoint for oslo.messaging, with only the methods that the interface declares."""

    def __init__(self, endpoint: contract.Interface, clock: clocks.Clock,
                 telemetry: acts.Telemetry, admit: Admit = at_once) -> None:
        self.target = oslo_messaging.Target(version=contract.version(type(endpoint)))
        # oslo.messaging would dispatch to any public method of an endpoint.
        for name, method in contract.methods(type(endpoint)).items():
            setattr(self, name, _exposed(endpoint, method, clock, telemetry, admit))


def _exposed(endpoint: contract.Interface, method: contract.Method, clock: clocks.Clock,
             telemetry: acts.Telemetry, admit: Admit) -> Callable[..., Any]:
    """Return a method of an endpoint with timing, tracing and translation of failures.

    The caller of a call gets a BlockattachError for each failure. The failure of a cast or fanout
    is only logged. For a cast, a deadline in the database ensures that the work is done later.
    """
    topic, name, answered = endpoint.TOPIC, method.name, method.kind is contract.Kind.CALL
    # Fanouts, such as pool reports, are repeated all the time, so their lines would fill a log.
    level = logging.DEBUG if method.kind is contract.Kind.FANOUT else logging.INFO
    before, after = f'rpc.{topic}.{name}.before_work', f'rpc.{topic}.{name}.before_reply'
    function = getattr(endpoint, name)
    signature = inspect.signature(function)

    # Positional only, because an argument of a message may have the same name.
    def handle(ctxt: context.RequestContext, /, **arguments: Any) -> Any:
        act = telemetry.rpc_server(topic, name, ctxt.traceparent)
        try:
            with act:
                act.noted.about(arguments)
                failpoints.point(before)
                _check(name, signature, clock, ctxt, arguments)
                with admit(ctxt):
                    answer = function(ctxt, **arguments)
                failpoints.point(after)
                return answer
        except errors.BlockattachError as error:
            act.noted.about({'code': error.code})
            if answered:
                raise contract.portable(error) from error
            LOG.warning('Failed to handle message%s', fields(method=name, reason=error))
        except Exception as error:
            LOG.exception('Failed to handle message%s', fields(method=name))
            if answered:
                raise contract.unforeseen(name, topic, type(error).__name__) from error
        finally:
            if LOG.isEnabledFor(level):
                LOG.log(level, 'Message handled%s%s', fields(
                    method=f'{topic}.{name}', outcome=act.outcome,
                    seconds=round(act.seconds(), 6)), act.noted)
        return None

    # Without this, oslo.messaging would log a traceback for each error that the caller gets.
    return (oslo_messaging.expected_exceptions(errors.BlockattachError)(handle) if answered
            else handle)


def _check(name: str, signature: inspect.Signature, clock: clocks.Clock,
           ctxt: context.RequestContext, arguments: Mapping[str, Any]) -> None:
    """Check a message before its work is started.

    :raises DeadlinePassed: the message has expired
    :raises InvalidInput: the arguments do not match the signature of the method
    """
    if ctxt.deadline is not None and ctxt.deadline <= clock.monotonic():
        LOG.warning('Dropping expired message%s',
                    fields(method=name))
        raise errors.DeadlinePassed(method=name)
    try:
        signature.bind(ctxt, **arguments)
    except TypeError as error:
        raise errors.InvalidInput(reason=f'cannot call {name}: {error}') from None


def _check_message(message: Mapping[str, Any]) -> None:
    """Check the types of the parts of a message.

    :raises InvalidInput: a part of the message has the wrong type
    """
    method, version = message.get('method'), message.get('version', '1.0')
    # oslo.messaging would also call the attribute ``target`` of an endpoint.
    wrong = ('the method is missing' if not isinstance(method, str) or method in ('', 'target')
             else 'the arguments are invalid' if not isinstance(message.get('args', {}), dict)
             else 'the version is invalid' if not (isinstance(version, str)
                                                and _VERSION.fullmatch(version)) else None)
    if wrong:
        raise errors.InvalidInput(reason=f'cannot read the message: {wrong}')


@contextlib.contextmanager
def _reading(part: str) -> Iterator[None]:
    """Translate errors from decoding a part of a message.

    :raises InvalidInput: the part of the message cannot be decoded
    """
    try:
        yield
    except _MALFORMED as error:
        raise errors.InvalidInput(
            reason=f'cannot read {part} of the message: {type(error).__name__}') from error


class _Reader(oslo_messaging.NoOpSerializer):
    """Serializer of a server that reports undecodable data as an error of the sender."""

    def __init__(self, serializer: oslo_messaging.Serializer) -> None:
        self._serializer = serializer

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return self._serializer.serialize_entity(ctxt, entity)

    def deserialize_context(self, ctxt: Mapping[str, Any]) -> Any:
        with _reading('the caller'):
            for name, kinds in _CALLER.items():
                if not isinstance(ctxt.get(name), kinds):
                    raise TypeError(name)
            return self._serializer.deserialize_context(ctxt)

    def deserialize_entity(self, ctxt: Any, entity: Any) -> Any:
        with _reading('an argument'):
            return self._serializer.deserialize_entity(ctxt, entity)


class Dispatcher(dispatcher.RPCDispatcher):
    """Dispatcher that rejects malformed messages."""

    def __init__(self, exposed: Exposed, serializer: oslo_messaging.Serializer) -> None:
        super().__init__([exposed], _Reader(serializer))

    def dispatch(self, incoming: Any) -> Any:
        """Handle a message, or reject it.

        :raises ExpectedException: the message was rejected, or its method raised a
            BlockattachError. The sender gets the original error
        """
        try:
            _check_message(incoming.message)
            return super().dispatch(incoming)
        # oslo.messaging would log a traceback for a message that is malformed or from another
        # release, as if this process had failed.
        except _REFUSED as error:
            LOG.warning('Rejecting RPC message%s', fields(reason=error))
            raise dispatcher.ExpectedException from error


class _Watched:
    def __init__(self, message: Any, seconds: float, now: float) -> None:
        self.message = message
        self.seconds = seconds
        self.due = now + seconds


class Heartbeats:
    """Sender of heartbeats to waiting callers, which show that this process has their messages.

    Heartbeats start with `begin` when a message arrives, even if no thread is free for the message
    yet. They stop with `end` when the reply was sent.
    """

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._watched: dict[int, _Watched] = {}
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def begin(self, message: Any) -> None:
        """Start the heartbeats of a message, if its caller expects any.

        :param message: incoming message of oslo.messaging
        """
        seconds = _seconds_between(message.client_timeout)
        # oslo.messaging's dispatcher would start a thread for a message with this attribute.
        message.client_timeout = None
        if seconds is None:
            return
        watched = _Watched(message, seconds, self._clock.monotonic())
        with self._lock:
            self._watched[id(message)] = watched
            if self._thread is None:
                # oslo.messaging would start a thread for each message. This thread serves all of
                # them, sleeps until the next heartbeat is due, and stops if there are no messages.
                self._thread = threading.Thread(target=self._run, name='heartbeats',
                                                daemon=True)
                self._thread.start()
            elif watched.due < self._wakes_at:
                self._changed.set()

    def end(self, message: Any) -> None:
        """Stop the heartbeats of a message, if there are any."""
        with self._lock:
            self._watched.pop(id(message), None)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                # Cleared under the lock, so that a message with an earlier heartbeat that arrives
                # after the computation below wakes the thread.
                self._changed.clear()
                now = self._clock.monotonic()
                due = [one for one in self._watched.values() if one.due <= now]
                for one in due:
                    one.due = now + one.seconds
                self._wakes_at = min(one.due for one in self._watched.values())
            # Sent without the lock, because sending may take long and messages arrive meanwhile.
            for one in due:
                self._give(one.message)
            self._clock.wait(self._changed, max(self._wakes_at - self._clock.monotonic(), 0))

    def _give(self, message: Any) -> None:
        try:
            message.heartbeat()
        except Exception as error:
            # Errors of the drivers and of the libraries below have no common base class.
            LOG.info('Failed to send heartbeat to a caller%s', fields(reason=error))
            self.end(message)


def _seconds_between(timeout: Any) -> float | None:
    """Return the seconds between the heartbeats to a caller with this ``timeout``.

    :returns: None if the caller expects no heartbeats or the value is invalid
    """
    try:
        seconds = float(timeout or 0) / SIGNS
    except (TypeError, ValueError):
        return None
    return max(seconds, _LEAST_SIGN_SECONDS) if 0 < seconds < math.inf else None


class RpcServer(rpc_server.RPCServer):
    """RPC server of oslo.messaging with an executor whose idle threads sleep."""

    def __init__(self, telemetry: acts.Telemetry, clock: clocks.Clock, suffix: str,
                 fast_lane: frozenset[str], *args: Any, **kwargs: Any) -> None:
        """
        :param suffix: end of the thread names, which distinguishes servers with the same name on
            several transports
        :param fast_lane: names of the methods that have dedicated threads
        """
        super().__init__(*args, **kwargs)
        # A tuple, because the method in a malformed message may be unhashable.
        self._fast_lane = tuple(fast_lane)
        self._fast_lane_threads: counted_threads.CountedThreads | None = None
        self._suffix = suffix
        self._telemetry = telemetry
        self._heartbeats = Heartbeats(clock)
        self._executor_cls = self._threads

    def _threads(self, max_workers: int) -> counted_threads.CountedThreads:
        """Create the executor. oslo.messaging calls this at each start of the server."""
        name = f'{self._target.topic}.{self._target.server}{self._suffix}'
        if self._fast_lane:
            self._fast_lane_threads = counted_threads.CountedThreads(
                f'{name} fast_lane', self._telemetry.readings, _FAST_LANE_THREADS)
        # futurist's executor starts a thread for every message up to its limit, and each of these
        # threads wakes up every second. The executor of the standard library reuses an idle thread
        # first, and idle threads sleep.
        return counted_threads.CountedThreads(name, self._telemetry.readings, max_workers)

    def _on_incoming(self, incoming: list[Any]) -> None:
        # Heartbeats begin before a thread is free, so that a caller does not take a busy server
        # for a dead one.
        for message in incoming:
            self._heartbeats.begin(message)
        threads = self._work_executor
        if self._fast_lane_threads is not None and all(
                message.message.get('method') in self._fast_lane for message in incoming):
            threads = self._fast_lane_threads
        # If the thread waits for the reply anyway, it does the work without waking another thread.
        begin = (threads.run_here if getattr(incoming[0], 'thread_waits', False)
                 else threads.submit)
        try:
            begin(self._process_incoming, incoming)
        except counted_threads.Ended:
            # Nothing handles these messages any more. Further heartbeats would keep the callers
            # waiting.
            for message in incoming:
                self._heartbeats.end(message)
            raise

    def hang_up(self) -> None:
        """Cancel the RabbitMQ consumers of a stopped server, and handle its received messages.

        If the broker is unreachable, no further messages are delivered. Other transports need no
        cancellation.
        """
        listener = getattr(self.listener, '_poll_style_listener', None)
        connection = getattr(getattr(listener, 'conn', None), 'connection', None)
        if listener is None or connection is None:
            return
        try:
            # oslo.messaging only stops reading, and closes the connection when the work is done.
            # Until then the broker continues to deliver messages, which would be acknowledged
            # while the connection is closed, without having been read. After the cancellation
            # another server gets the messages that are still in the broker.
            for consumer, tag in list(connection._consumers.items()):
                consumer.cancel(tag)
        except Exception as error:
            # Errors of the driver, kombu and amqp have no common base class.
            LOG.warning('Failed to cancel RabbitMQ consumer%s', fields(reason=error))
        while taken := listener.poll():
            self._on_incoming(taken)

    def end_fast_lane(self) -> None:
        """Wait until the accepted fast-lane calls are done."""
        if self._fast_lane_threads is not None:
            self._fast_lane_threads.shutdown(wait=True)

    def _process_incoming(self, incoming: list[Any]) -> None:
        try:
            super()._process_incoming(incoming)
        finally:
            for message in incoming:
                self._heartbeats.end(message)


class Server:
    """Server of an endpoint on all transports. It can be started again after a stop."""

    def __init__(self, servers: Sequence[RpcServer], threads: int) -> None:
        """
        :param servers: a server for each transport
        :param threads: maximum number of threads of each server, besides those of the fast lane
        """
        self._servers = servers
        self._threads = threads
        # Only started servers may be stopped, because oslo.messaging waits for the end of a server
        # even if the server was never started.
        self._listening: list[RpcServer] = []

    def start(self) -> None:
        """Start listening. Call this after any fork, because it starts threads and connections."""
        for server in self._servers:
            server.start(override_pool_size=self._threads)
            self._listening.append(server)

    def stop(self) -> None:
        """Stop accepting messages, and wait until the accepted messages are handled.

        A repeated call does nothing.
        """
        ending, self._listening = self._listening, []
        for server in ending:
            server.stop()
            server.hang_up()
        # All servers stop accepting messages first. Otherwise other transports would deliver
        # messages during the wait for the work of the first server.
        for server in ending:
            server.end_fast_lane()
            try:
                server.wait()
            except Exception as error:
                # The work is done, only the connection to the broker has failed. The consumers
                # end with the connection.
                LOG.warning('Failed to close the queues of an RPC server%s', fields(reason=error))
