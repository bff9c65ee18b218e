"""oslo.messaging driver within one process: ``inproc://NAME/``, entry point ``inproc``.

Transports with the same URL share a broker. The broker behaves like the RabbitMQ driver. Messages,
replies and errors are passed as JSON bytes and never by reference. A fanout reaches only the
current listeners. Any other message without a listener waits in a queue. Messages of a topic are
distributed among its servers.

The driver has no threads and does not poll, so an idle bus costs nothing. The thread of the sender
hands a message to the executor of the server, or leaves it in a queue that a server empties when
it starts. A caller sleeps until the reply arrives.
"""
import collections
import dataclasses
import logging
import queue
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import oslo_messaging
from oslo_config import cfg
from oslo_serialization import jsonutils

from blockattach.platform import clock
from blockattach.platform.log import fields
from blockattach.platform.rpc import oslo_drivers

LOG = logging.getLogger(__name__)

# Maximum number of messages in a queue without a reader. If a queue is full, RPC senders get an
# error, and the oldest notifications are dropped, because no reader is expected any more.
QUEUE_LIMIT = 10_000


class Address(NamedTuple):
    """Address of messages: a topic or ``topic.server``.

    :ivar pool: pool of listeners that share notifications; None for RPC, and for listeners without
        a pool
    """

    exchange: str
    name: str
    pool: str | None = None


class Call:
    """Call whose caller waits for a reply."""

    def __init__(self) -> None:
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def answer(self, body: bytes) -> None:
        self._answers.put(body)

    def beat(self) -> None:
        """Send the caller a heartbeat."""
        self._answers.put(None)

    def wait(self, time: clock.Clock, seconds: float | None, monitor: float | None) -> bytes:
        """Wait for the reply and return it.

        :param seconds: timeout; None for no timeout
        :param monitor: maximum seconds between heartbeats; None to expect no heartbeats
        :raises queue.Empty: the reply or a heartbeat did not arrive in time
        """
        if monitor is None:
            while (body := self._answers.get(timeout=seconds)) is None:
                pass
            return body
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            timeout = monitor
            if deadline is not None:
                timeout = max(0.0, min(monitor, deadline - time.monotonic()))
            body = self._answers.get(timeout=timeout)
            if body is not None:
                return body


@dataclasses.dataclass(slots=True, eq=False)
class Letter:
    """Message in transit.

    :ivar call: call whose caller waits for the reply; None if no caller waits
    :ivar monitor: seconds within which the caller expects a heartbeat; None for no heartbeats
    """

    address: Address
    body: bytes
    call: Call | None = None
    monitor: float | None = None


class Broker:
    """Queues and readers of messages, shared by all transports with the same URL."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Address, collections.deque[Letter]] = {}
        self._readers: dict[Address, collections.deque[InprocListener]] = {}
        self._overflowing: set[Address] = set()

    def post(self, letter: Letter, first: bool = False) -> None:
        """Give a message to the next reader of its address, or queue it until there is a reader.

        :param first: True to put the message at the head of the queue
        :raises MessageDeliveryFailure: the queue is full
        """
        # A reader takes its own lock before that of the broker, so `take` is called without the
        # lock of the broker. A reader may therefore stop after it was chosen. The next reader is
        # then chosen.
        while (reader := self._next_reader(letter, first)) is not None:
            if reader.take(letter):
                return

    def _next_reader(self, letter: Letter, first: bool) -> 'InprocListener | None':
        with self._lock:
            readers = self._readers.get(letter.address)
            if readers:
                reader = readers[0]
                readers.rotate(-1)
                return reader
            waiting = self._waiting.setdefault(letter.address, collections.deque())
            if first:
                waiting.appendleft(letter)
            elif len(waiting) < QUEUE_LIMIT:
                waiting.append(letter)
            else:
                raise oslo_messaging.MessageDeliveryFailure(
                    f'the queue of {letter.address.name} is full ({QUEUE_LIMIT} messages)')
        return None

    def post_to_all(self, address: Address, body: bytes) -> None:
        """Give a copy of a message to each current reader, if there are any."""
        with self._lock:
            readers = tuple(self._readers.get(address, ()))
        for reader in readers:
            reader.take(Letter(address, body))

    def publish(self, address: Address, body: bytes) -> None:
        """Give a copy of a notification to each pool of the topic.

        Readers that belong to no pool share another copy. Copies without a reader are queued.
        """
        with self._lock:
            known = {address, *(other for other in (*self._readers, *self._waiting)
                                if other.exchange == address.exchange
                                and other.name == address.name)}
            for each in known:
                self._make_room(each)
        for each in known:
            self.post(Letter(each, body))

    def _make_room(self, address: Address) -> None:
        waiting = self._waiting.get(address, ())
        if len(waiting) < QUEUE_LIMIT:
            self._overflowing.discard(address)
            return
        self._waiting[address].popleft()
        if address not in self._overflowing:
            self._overflowing.add(address)
            LOG.warning('Dropping oldest notifications%s',
                        fields(topic=address.name, reason='queue full'))

    def withdraw(self, letter: Letter) -> None:
        """Remove an unread message from its queue, because its caller no longer waits."""
        with self._lock:
            waiting = self._waiting.get(letter.address)
            # Letters are compared by identity (``eq=False``), so an equal message of another
            # caller stays.
            if waiting and letter in waiting:
                waiting.remove(letter)

    def subscribe(self, reader: 'InprocListener', addresses: Iterable[Address]) -> list[Letter]:
        """Add a reader, and return the queued messages of its addresses."""
        kept: list[Letter] = []
        with self._lock:
            for address in addresses:
                self._readers.setdefault(address, collections.deque()).append(reader)
                kept.extend(self._waiting.pop(address, ()))
        return kept

    def unsubscribe(self, reader: 'InprocListener', addresses: Iterable[Address]) -> None:
        """Remove a reader. Later messages are queued."""
        with self._lock:
            for address in addresses:
                readers = self._readers.get(address)
                if readers and reader in readers:
                    readers.remove(reader)


class InprocIncomingMessage(oslo_drivers.Message):
    """Message as its server receives it, decoded from bytes."""

    def __init__(self, broker: Broker, letter: Letter) -> None:
        content = jsonutils.loads(letter.body)
        super().__init__(content['context'], content['message'])
        self.client_timeout = letter.monitor
        self._broker = broker
        self._letter = letter

    def waits(self) -> bool:
        return self._letter.call is not None

    def answer(self, content: Mapping[str, Any]) -> None:
        assert self._letter.call is not None
        self._letter.call.answer(jsonutils.dump_as_bytes(content))

    def heartbeat(self) -> None:
        if self._letter.call is not None:
            self._letter.call.beat()

    def requeue(self) -> None:
        """Put the message back at the head of its queue."""
        self._broker.post(self._letter, first=True)


class InprocListener(oslo_drivers.Listener):
    """Listener of a server, to which senders push messages.

    A listener never waits for a full batch.
    """

    def __init__(self, broker: Broker, addresses: tuple[Address, ...], batch_size: int) -> None:
        super().__init__(batch_size, None)
        self._broker = broker
        self._addresses = addresses
        self._lock = threading.Lock()

    def start(self, on_incoming_callback: Callable[[list[oslo_drivers.IncomingMessage]], None],
              ) -> None:
        """Start listening. Queued messages are handed over first, in their order."""
        # Senders that find this reader wait for the lock until the queued messages are handed
        # over. A newer message can therefore not overtake a queued one.
        with self._lock:
            super().start(on_incoming_callback)
            kept = self._broker.subscribe(self, self._addresses)
            for begin in range(0, len(kept), self.batch_size):
                self._hand_over(kept[begin:begin + self.batch_size])

    def stop(self) -> None:
        """Stop listening. The callback is not called after this method has returned."""
        with self._lock:
            self._broker.unsubscribe(self, self._addresses)
            super().stop()

    def cleanup(self) -> None:
        """Stop listening. The listener has no other resources to release."""
        self.stop()

    def take(self, letter: Letter) -> bool:
        """Hand a message to the server. Return False if the server no longer listens."""
        with self._lock:
            if self.on_incoming_callback is None:
                return False
            self._hand_over([letter])
            return True

    def _hand_over(self, letters: list[Letter]) -> None:
        self.on_incoming_callback([InprocIncomingMessage(self._broker, letter)
                                   for letter in letters])


class Registry:
    """Brokers of a process by name. A broker exists as long as a transport uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Broker, int]] = {}

    def join(self, name: str) -> Broker:
        """Return the broker with a name. The first call for a name creates the broker.
        """
        with self._lock:
            broker, holders = self._open.get(name) or (Broker(), 0)
            self._open[name] = broker, holders + 1
            return broker

    def leave(self, name: str) -> None:
        """Release the broker with a name. The last release removes the broker and its messages."""
        with self._lock:
            broker, holders = self._open[name]
            if holders > 1:
                self._open[name] = broker, holders - 1
            else:
                del self._open[name]


# oslo.messaging creates drivers itself, so shared objects cannot be passed to them.
_REGISTRY = Registry()


class InprocDriver(oslo_drivers.Driver):
    """oslo.messaging driver that passes messages between threads of one process."""

    def __init__(self, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL,
                 default_exchange: str | None = None,
                 allowed_remote_exmods: list[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        hosts = ','.join(host.hostname or '' for host in url.hosts)
        self._name = f'{hosts}/{url.virtual_host or ""}'
        self._clock = clock.Clock()
        self._broker: Broker | None = _REGISTRY.join(self._name)

    def require_features(self, requeue: bool = False) -> None:
        """Accept any feature, because this driver supports all of them."""

    def send(self, target: oslo_messaging.Target, ctxt: dict[str, Any], message: dict[str, Any],
             wait_for_reply: bool | None = None, timeout: float | None = None,
             call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: Any = None) -> Any:
        """Send a message, and wait for the reply to a call.

        :raises MessagingTimeout: the reply or a heartbeat did not arrive in time. A message that
            no server has read is removed from its queue
        :raises MessageDeliveryFailure: the transport is closed, or the queue is full
        :raises TypeError, ValueError: the message is not plain data
        """
        broker = self._joined()
        body = _message_body(ctxt, message)
        if target.fanout:
            broker.post_to_all(self._address(target, f'{target.topic}_fanout'), body)
            return None
        name = f'{target.topic}.{target.server}' if target.server else target.topic
        call = Call() if wait_for_reply else None
        letter = Letter(self._address(target, name), body, call, call_monitor_timeout)
        broker.post(letter)
        if call is None:
            return None
        try:
            answer = call.wait(self._clock, timeout, call_monitor_timeout)
        except queue.Empty:
            broker.withdraw(letter)
            raise oslo_messaging.MessagingTimeout(
                f'Timed out waiting for a reply from {name}') from None
        return self.result(jsonutils.loads(answer))

    def send_notification(self, target: oslo_messaging.Target, ctxt: dict[str, Any],
                          message: dict[str, Any], version: float,
                          retry: int | None = None) -> None:
        """Publish a notification, which is queued until a reader of the topic exists."""
        self._joined().publish(self._address(target, target.topic), _message_body(ctxt, message))

    def listen(self, target: oslo_messaging.Target, batch_size: int,
               batch_timeout: float | None) -> oslo_drivers.Listener:
        """Return a listener of a server, for direct messages, topic messages and fanouts.
        """
        return self._listener((self._address(target, target.topic),
                               self._address(target, f'{target.topic}.{target.server}'),
                               self._address(target, f'{target.topic}_fanout')), batch_size)

    def listen_for_notifications(
            self, targets_and_priorities: list[tuple[oslo_messaging.Target, str]],
            pool: str | None, batch_size: int,
            batch_timeout: float | None) -> oslo_drivers.Listener:
        """Return a listener for notifications.

        Each pool receives all notifications, and the listeners of a pool share them.
        """
        return self._listener(
            tuple(self._address(target, f'{target.topic}.{priority}', pool)
                  for target, priority in targets_and_priorities), batch_size)

    def cleanup(self) -> None:
        """Stop the listeners of this transport and release the broker. Sending then fails."""
        with self._lock:
            broker, self._broker = self._broker, None
        if broker is None:
            return
        self.stop_listeners()
        _REGISTRY.leave(self._name)

    def _listener(self, addresses: tuple[Address, ...], batch_size: int) -> InprocListener:
        listener = InprocListener(self._joined(), addresses, batch_size)
        self._listeners.add(listener)
        return listener

    def _joined(self) -> Broker:
        broker = self._broker
        if broker is None:
            raise oslo_messaging.MessageDeliveryFailure('the transport is closed')
        return broker

    def _address(self, target: oslo_messaging.Target, name: str,
                 pool: str | None = None) -> Address:
        return Address(target.exchange or self._default_exchange or '', name, pool)


def _message_body(ctxt: Any, message: dict[str, Any]) -> bytes:
    return jsonutils.dump_as_bytes(oslo_drivers.message_content(ctxt, message))
