"""The server's side: oslo.messaging's server with threads and heartbeats of our own; endpoints
whose expired messages are dropped, and whose failures are translated.

A caller gives up when it gets no heartbeat for ``[rpc] silence_timeout`` seconds: so it notices a
dead server long before the call's timeout.
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
"""Surrounds the work for a caller: waits for a slot, or raises one of our errors."""

SIGNS = 3
"""How many heartbeats are sent in the time that a caller waits for one."""

_LEAST_SIGN_SECONDS = 0.1
"""Minimum interval of heartbeats, whatever interval a caller requests."""
_VERSION = re.compile(r'[0-9]{1,9}\.[0-9]{1,9}')
_TEXT = (str, types.NoneType)
_LIST = (list, types.NoneType)
_CALLER: Mapping[str, tuple[type, ...]] = {
    'user': _TEXT, 'project_id': _TEXT, 'request_id': _TEXT, 'global_request_id': _TEXT,
    'is_admin': (bool, types.NoneType), 'roles': _LIST, 'service_roles': _LIST,
    metrics.TRACEPARENT: _TEXT}
"""Types of the context values that are read."""
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
              object_errors.UnsupportedObjectError)
"""Errors from decoding a malformed context or object."""
_REFUSED = (errors.InvalidInput, oslo_messaging.rpc.NoSuchMethod,
            oslo_messaging.rpc.UnsupportedVersion, object_errors.IncompatibleObjectVersion)
"""Errors of a rejected message, which the sender gets as the answer."""

_FAST_LANE_THREADS = 4
"""For methods that only write to the database: a slow backend must not delay their callers."""


def at_once(_ctxt: context.RequestContext) -> contextlib.AbstractContextManager[None]:
    """Admit every call at once."""
    return contextlib.nullcontext()


class Exposed:
    """The methods of an endpoint that its interface names, and no others."""

    def __init__(self, endpoint: contract.Interface, clock: clocks.Clock,
                 telemetry: acts.Telemetry, admit: Admit = at_once) -> None:
        self.target = oslo_messaging.Target(version=contract.version(type(endpoint)))
        for name, method in contract.methods(type(endpoint)).items():
            setattr(self, name, _exposed(endpoint, method, clock, telemetry, admit))


def _exposed(endpoint: contract.Interface, method: contract.Method, clock: clocks.Clock,
             telemetry: acts.Telemetry, admit: Admit) -> Callable[..., Any]:
    """Time a method, continue the caller's trace, and translate every failure: a caller gets one
    of our errors; of a cast it is logged, and a deadline in the database brings the work back.
    """
    topic, name, answered = endpoint.TOPIC, method.name, method.kind is contract.Kind.CALL
    # What all servers get is news that nobody has asked for.
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
            LOG.warning('Failed to handle message: %s%s', error, fields(method=name))
        except Exception as error:
            LOG.exception('Failed to handle message: unexpected error%s', fields(method=name))
            if answered:
                raise contract.unforeseen(name, topic, type(error).__name__) from error
        finally:
            if LOG.isEnabledFor(level):
                LOG.log(level, 'Message handled%s%s', fields(
                    method=f'{topic}.{name}', outcome=act.outcome,
                    seconds=round(act.seconds(), 6)), act.noted)
        return None

    # Keeps oslo.messaging from logging as an error what the caller gets.
    return (oslo_messaging.expected_exceptions(errors.BlockattachError)(handle) if answered
            else handle)


def _check(name: str, signature: inspect.Signature, clock: clocks.Clock,
           ctxt: context.RequestContext, arguments: Mapping[str, Any]) -> None:
    """Begin nothing that has expired, or that is malformed."""
    if ctxt.deadline is not None and ctxt.deadline <= clock.monotonic():
        LOG.warning('Dropping expired message%s',
                    fields(method=name))
        raise errors.DeadlinePassed(method=name)
    try:
        signature.bind(ctxt, **arguments)
    except TypeError as error:
        raise errors.InvalidInput(reason=f'cannot call {name}: {error}') from None


def _check_message(message: Mapping[str, Any]) -> None:
    """
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
    """
    :raises InvalidInput: the part of the message cannot be read
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
    """Dispatcher that rejects malformed messages.

    The dispatcher of oslo.messaging logs a traceback for a message that is malformed or from
    another release, as if this process had failed.
    """

    def __init__(self, exposed: Exposed, serializer: oslo_messaging.Serializer) -> None:
        super().__init__([exposed], _Reader(serializer))

    def dispatch(self, incoming: Any) -> Any:
        """Handle a message, or reject it.

        :raises ExpectedException: the message was rejected; the sender gets the error
        """
        try:
            _check_message(incoming.message)
            return super().dispatch(incoming)
        except _REFUSED as error:
            LOG.warning('Rejecting message: %s', error)
            raise dispatcher.ExpectedException from error


class _Watched:
    def __init__(self, message: Any, seconds: float, now: float) -> None:
        self.message = message
        self.seconds = seconds
        self.due = now + seconds


class Heartbeats:
    """For callers that wait: this process still has the message, even if no thread is free for it
    yet. `begin` when it comes, `end` when it is answered.

    oslo.messaging would start a thread for each message; here one serves all of them, sleeps while
    none is old enough, and ends when there are none.
    """

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._watched: dict[int, _Watched] = {}
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def begin(self, message: Any) -> None:
        """Send heartbeats for an incoming message of oslo.messaging, if its caller listens for
        them."""
        seconds = _seconds_between(message.client_timeout)
        # Its dispatcher would begin a thread for it.
        message.client_timeout = None
        if seconds is None:
            return
        watched = _Watched(message, seconds, self._clock.monotonic())
        with self._lock:
            self._watched[id(message)] = watched
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name='heartbeats',
                                                daemon=True)
                self._thread.start()
            elif watched.due < self._wakes_at:
                self._changed.set()

    def end(self, message: Any) -> None:
        """It is answered."""
        with self._lock:
            self._watched.pop(id(message), None)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                self._changed.clear()
                now = self._clock.monotonic()
                due = [one for one in self._watched.values() if one.due <= now]
                for one in due:
                    one.due = now + one.seconds
                self._wakes_at = min(one.due for one in self._watched.values())
            for one in due:
                self._give(one.message)
            self._clock.wait(self._changed, max(self._wakes_at - self._clock.monotonic(), 0))

    def _give(self, message: Any) -> None:
        try:
            message.heartbeat()
        except Exception as error:
            # The driver's, its library's, or that of the library below: they share no ancestor.
            LOG.info('Failed to send heartbeat to a caller: %s', error)
            self.end(message)


def _seconds_between(timeout: Any) -> float | None:
    """Return the interval of heartbeats for a caller with this ``timeout``, in seconds.

    Return None if the caller expects no heartbeats or the value is invalid."""
    try:
        seconds = float(timeout or 0) / SIGNS
    except (TypeError, ValueError):
        return None
    return max(seconds, _LEAST_SIGN_SECONDS) if 0 < seconds < math.inf else None


class RpcServer(rpc_server.RPCServer):
    """On an executor whose idle threads sleep.

    futurist's starts a thread for every message up to its limit, and each of them wakes up once a
    second for ever; the standard library's takes an idle thread first, and idle ones wait.
    """

    def __init__(self, telemetry: acts.Telemetry, clock: clocks.Clock, suffix: str,
                 fast_lane: frozenset[str], *args: Any, **kwargs: Any) -> None:
        """
        :param suffix: tells servers of one name on several transports apart
        :param fast_lane: names of the methods that have threads of their own
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
        """Called by oslo.messaging each time that it starts."""
        name = f'{self._target.topic}.{self._target.server}{self._suffix}'
        if self._fast_lane:
            self._fast_lane_threads = counted_threads.CountedThreads(
                f'{name} fast_lane', self._telemetry.readings, _FAST_LANE_THREADS)
        return counted_threads.CountedThreads(name, self._telemetry.readings, max_workers)

    def _on_incoming(self, incoming: list[Any]) -> None:
        # Heartbeats begin now, not when a thread is free.
        for message in incoming:
            self._heartbeats.begin(message)
        threads = self._work_executor
        if self._fast_lane_threads is not None and all(
                message.message.get('method') in self._fast_lane for message in incoming):
            threads = self._fast_lane_threads
        # Where a thread waits for the answer anyway, no other has to wake up for it.
        begin = (threads.run_here if getattr(incoming[0], 'thread_waits', False)
                 else threads.submit)
        try:
            begin(self._process_incoming, incoming)
        except counted_threads.Ended:
            for message in incoming:
                self._heartbeats.end(message)
            raise

    def hang_up(self) -> None:
        """Have nothing more sent here, where it was stopped, and hand over what was sent by then.

        oslo.messaging only stops reading, and closes the connection when the work is done. Until
        then the broker goes on sending; what it has sent is acknowledged while the connection is
        closed, and not read. Another server gets what the broker keeps.

        A broker that is away sends nothing. Other transports do not send without being asked.
        """
        listener = getattr(self.listener, '_poll_style_listener', None)
        connection = getattr(getattr(listener, 'conn', None), 'connection', None)
        if listener is None or connection is None:
            return
        try:
            for consumer, tag in list(connection._consumers.items()):
                consumer.cancel(tag)
        except Exception as error:
            # The driver's, its library's, or that of the library below: they share no ancestor.
            LOG.warning('Failed to cancel RabbitMQ consumer: %s', error)
        while taken := listener.poll():
            self._on_incoming(taken)

    def end_fast_lane(self) -> None:
        """Return when the fast-lane calls that were taken on are done."""
        if self._fast_lane_threads is not None:
            self._fast_lane_threads.shutdown(wait=True)

    def _process_incoming(self, incoming: list[Any]) -> None:
        try:
            super()._process_incoming(incoming)
        finally:
            for message in incoming:
                self._heartbeats.end(message)


class Server:
    """Listens for one endpoint; may be started again after it was stopped."""

    def __init__(self, servers: Sequence[RpcServer], threads: int) -> None:
        """
        :param servers: one a transport
        :param threads: of each
        """
        self._servers = servers
        self._threads = threads
        # oslo.messaging would wait for the end of one that was never started.
        self._listening: list[RpcServer] = []

    def start(self) -> None:
        """Listen from now on. Not before a fork: threads and connections begin here."""
        for server in self._servers:
            server.start(override_pool_size=self._threads)
            self._listening.append(server)

    def stop(self) -> None:
        """Take nothing new; returns when all that was taken is done. A repeat does nothing."""
        ending, self._listening = self._listening, []
        for server in ending:
            server.stop()
            server.hang_up()
        for server in ending:
            server.end_fast_lane()
            try:
                server.wait()
            except Exception as error:
                # All work is done; a broker that is down finds the queues without a consumer.
                LOG.warning('Failed to close the queues of a server: %s', error)
