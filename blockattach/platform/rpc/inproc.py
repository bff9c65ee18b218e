"""An oslo.messaging driver for one process: ``inproc://NAME/``, entry point ``inproc``.

Transports of one URL share one broker. It behaves as the RabbitMQ driver does: messages, answers
and errors travel as JSON bytes, so nothing is passed by reference; a message without a listener
waits; messages of one topic are distributed to its servers.

Nothing polls and no thread of its own exists: the sender's thread hands a message to the server's
executor, or leaves it in the queue that a server empties when it starts; a caller sleeps until its
answer is put. So an idle bus costs nothing.
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

# What waits for one absent reader. Beyond that it will not come: senders of RPC get an error, the
# oldest notifications are dropped.
QUEUE_LIMIT = 10_000


class Address(NamedTuple):
    """Where a message can be sent: a topic, or ``topic.server``; pools share notifications."""

    exchange: str
    name: str
    pool: str | None = None


class Call:
    """A caller that waits for one answer."""

    def __init__(self) -> None:
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def answer(self, body: bytes) -> None:
        """Wake the caller with an answer."""
        self._answers.put(body)

    def beat(self) -> None:
        """Send the caller a heartbeat."""
        self._answers.put(None)

    def wait(self, time: clock.Clock, seconds: float | None, monitor: float | None) -> bytes:
        """The answer, within so many seconds, with a beat at least every ``monitor`` seconds.

        :raises queue.Empty: it did not come
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
    """One message under way. ``monitor`` is how often its caller wants a beat, in seconds."""

    address: Address
    body: bytes
    call: Call | None = None
    monitor: float | None = None


class Broker:
    """Queues and readers of one bus, shared by all transports of its URL."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Address, collections.deque[Letter]] = {}
        self._readers: dict[Address, collections.deque[InprocListener]] = {}
        self._overflowing: set[Address] = set()

    def post(self, letter: Letter, first: bool = False) -> None:
        """Give a message to the next reader of its address, or keep it until there is one.

        :raises MessageDeliveryFailure: too many wait there already
        """
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
        """Give a copy to each reader that listens now; nobody listening is no error."""
        with self._lock:
            readers = tuple(self._readers.get(address, ()))
        for reader in readers:
            reader.take(Letter(address, body))

    def publish(self, address: Address, body: bytes) -> None:
        """Give a copy to each pool that knows the topic, and one to those without a pool."""
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
            LOG.warning('Dropping notifications without a reader%s',
                        fields(topic=address.name))

    def withdraw(self, letter: Letter) -> None:
        """Take back what nobody has read yet, because its caller waits no longer."""
        with self._lock:
            waiting = self._waiting.get(letter.address)
            if waiting and letter in waiting:
                waiting.remove(letter)

    def subscribe(self, reader: 'InprocListener', addresses: Iterable[Address]) -> list[Letter]:
        """Make a reader known; returns what was kept for it."""
        kept: list[Letter] = []
        with self._lock:
            for address in addresses:
                self._readers.setdefault(address, collections.deque()).append(reader)
                kept.extend(self._waiting.pop(address, ()))
        return kept

    def unsubscribe(self, reader: 'InprocListener', addresses: Iterable[Address]) -> None:
        """Forget a reader; an address with a pool keeps what comes later."""
        with self._lock:
            for address in addresses:
                readers = self._readers.get(address)
                if readers and reader in readers:
                    readers.remove(reader)


class InprocIncomingMessage(oslo_drivers.Message):
    """A message as its server sees it, read anew from bytes."""

    def __init__(self, broker: Broker, letter: Letter) -> None:
        content = jsonutils.loads(letter.body)
        super().__init__(content['context'], content['message'])
        self.client_timeout = letter.monitor
        self._broker = broker
        self._letter = letter

    def waits(self) -> bool:
        """See `oslo_drivers.Message`."""
        return self._letter.call is not None

    def answer(self, content: Mapping[str, Any]) -> None:
        """See `oslo_drivers.Message`."""
        assert self._letter.call is not None
        self._letter.call.answer(jsonutils.dump_as_bytes(content))

    def heartbeat(self) -> None:
        """Send the caller a heartbeat."""
        if self._letter.call is not None:
            self._letter.call.beat()

    def requeue(self) -> None:
        """Put the message back, before all others."""
        self._broker.post(self._letter, first=True)


class InprocListener(oslo_drivers.Listener):
    """One server's ear. Messages are pushed by their senders; a batch is never waited for."""

    def __init__(self, broker: Broker, addresses: tuple[Address, ...], batch_size: int) -> None:
        super().__init__(batch_size, None)
        self._broker = broker
        self._addresses = addresses
        self._lock = threading.Lock()

    def start(self, on_incoming_callback: Callable[[list[oslo_drivers.IncomingMessage]], None],
              ) -> None:
        """Listen; what was kept comes first, in its order."""
        # Senders that find this reader wait at the lock until the kept messages have gone before.
        with self._lock:
            super().start(on_incoming_callback)
            kept = self._broker.subscribe(self, self._addresses)
            for begin in range(0, len(kept), self.batch_size):
                self._hand_over(kept[begin:begin + self.batch_size])

    def stop(self) -> None:
        """Listen no more: once this returns, the callback is not called again."""
        with self._lock:
            self._broker.unsubscribe(self, self._addresses)
            super().stop()

    def cleanup(self) -> None:
        """Nothing is held beyond the subscriptions, which end here at the latest."""
        self.stop()

    def take(self, letter: Letter) -> bool:
        """Hand a message to the server; False if it listens no more."""
        with self._lock:
            if self.on_incoming_callback is None:
                return False
            self._hand_over([letter])
            return True

    def _hand_over(self, letters: list[Letter]) -> None:
        self.on_incoming_callback([InprocIncomingMessage(self._broker, letter)
                                   for letter in letters])


class Registry:
    """The buses of a process by name, each as long as a transport holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Broker, int]] = {}

    def join(self, name: str) -> Broker:
        """The bus of that name, made if it is the first to ask."""
        with self._lock:
            broker, holders = self._open.get(name) or (Broker(), 0)
            self._open[name] = broker, holders + 1
            return broker

    def leave(self, name: str) -> None:
        """Give it back; the last one takes it away, with all that waits in it."""
        with self._lock:
            broker, holders = self._open[name]
            if holders > 1:
                self._open[name] = broker, holders - 1
            else:
                del self._open[name]


# oslo.messaging makes drivers itself, so what they share can be handed to them no other way.
_REGISTRY = Registry()


class InprocDriver(oslo_drivers.Driver):
    """The driver behind ``inproc://``; see the module."""

    def __init__(self, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL,
                 default_exchange: str | None = None,
                 allowed_remote_exmods: list[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        hosts = ','.join(host.hostname or '' for host in url.hosts)
        self._name = f'{hosts}/{url.virtual_host or ""}'
        self._clock = clock.Clock()
        self._broker: Broker | None = _REGISTRY.join(self._name)

    def require_features(self, requeue: bool = False) -> None:
        """Everything that can be asked for is there."""

    def send(self, target: oslo_messaging.Target, ctxt: dict[str, Any], message: dict[str, Any],
             wait_for_reply: bool | None = None, timeout: float | None = None,
             call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: Any = None) -> Any:
        """Send, and wait for the answer if one is wanted.

        :raises MessagingTimeout: no answer in time; if nobody had begun, nobody will
        :raises MessageDeliveryFailure: the transport is closed, or too many messages wait
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
        """Queue a notification for the readers of the topic, now or later."""
        self._joined().publish(self._address(target, target.topic), _message_body(ctxt, message))

    def listen(self, target: oslo_messaging.Target, batch_size: int,
               batch_timeout: float | None) -> oslo_drivers.Listener:
        """A listener for a topic, for one server of it, and for what goes to all of them."""
        return self._listener((self._address(target, target.topic),
                               self._address(target, f'{target.topic}.{target.server}'),
                               self._address(target, f'{target.topic}_fanout')), batch_size)

    def listen_for_notifications(
            self, targets_and_priorities: list[tuple[oslo_messaging.Target, str]],
            pool: str | None, batch_size: int,
            batch_timeout: float | None) -> oslo_drivers.Listener:
        """A listener for notifications; listeners of one pool share them, each pool gets all."""
        return self._listener(
            tuple(self._address(target, f'{target.topic}.{priority}', pool)
                  for target, priority in targets_and_priorities), batch_size)

    def cleanup(self) -> None:
        """Stop the listeners made here and release the bus; sending is refused from now on."""
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
