"""Simulated message bus: JSON messages that may be lost, late, duplicated and reordered.

The real clients and endpoints of the service run on top of this module. It stands in for
oslo.messaging and the broker.
"""
import functools
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import oslo_messaging

from blockattach.platform.rpc import serving
from blockattach.tests.fixtures import messages
from lab.simulation import baton as batons
from lab.simulation import faults

_LATENCY = 0.003


class Letter:
    """Message on its way.

    ``expires`` is the virtual time after which the broker drops the message, None for a cast.
    """

    def __init__(self, address: str, method: str, body: str, expires: float | None,
                 call: 'Call | None') -> None:
        self.address = address
        self.method = method
        self.body = body
        self.expires = expires
        self.call = call


class Call:
    """Call whose sender waits for the answer.

    ``holders`` are the processes that work on the call now.
    """

    def __init__(self, baton: batons.Baton) -> None:
        self._baton = baton
        self._task = baton.current
        self.asking = self._task.process
        self.holders: list[batons.Process] = []
        self.body: str | None = None

    def lose(self) -> None:
        """Note that the answer is lost. Through a broker, the caller does not learn of that."""

    def answer(self, body: str) -> None:
        """Deliver an answer to the caller. Answers after the first are ignored."""
        if self.body is None:
            self.body = body
            self._baton.wake(self._task)

    def awaited(self, seconds: float, monitor: float | None) -> str:
        """Wait for the answer and return it.

        :param monitor: seconds without a heartbeat after which the call fails; None not to monitor
        :raises MessagingTimeout: if no answer or no heartbeat comes in time
        """
        end = self._baton.now + seconds
        while self.body is None:
            left = end - self._baton.now
            if left <= 0:
                raise oslo_messaging.MessagingTimeout('no answer in time')
            self._baton.wait(left if monitor is None else min(left, monitor))
            if self.body is None and monitor is not None and not any(
                    not holder.silent for holder in self.holders):
                raise oslo_messaging.MessagingTimeout('no heartbeat')
        return self.body


class Broker:
    """Broker with queues that outlive their readers."""

    def __init__(self, baton: batons.Baton, trouble: faults.Faults) -> None:
        self.baton = baton
        self.faults = trouble
        self.cut: set[str] = set()
        """Names of the processes that are partitioned from the broker."""
        self._readers: dict[str, list[Server]] = {}
        self._kept: dict[str, deque[Letter]] = {}
        self._turns = itertools.count()

    def post(self, letter: Letter) -> None:
        """Accept a message. It may be lost, delayed or delivered twice."""
        if self.faults.happens('lost_message', letter.method):
            return
        doubled = self.faults.happens('doubled_message', letter.method)
        for _ in range(2 if doubled else 1):
            self.baton.at(self.delay(letter.method), self._delivery(letter))

    def delay(self, method: str) -> float:
        """Return the seconds that a message or an answer takes to its receiver."""
        if self.faults.happens('late_message', method):
            return self.faults.seconds(self.faults.rates.late_seconds)
        return self.baton.chance.random() * _LATENCY

    def to_all(self, letter: Letter) -> None:
        """Deliver a copy of a fanout message to each reachable listener."""
        for server in self._reached(letter):
            if not self.faults.happens('lost_message', letter.method):
                self.baton.at(self.delay(letter.method), functools.partial(server.take, letter))

    def listen(self, server: 'Server', addresses: list[str]) -> None:
        """Register a listener, and deliver the messages that were kept for its addresses."""
        for address in addresses:
            self._readers.setdefault(address, []).append(server)
            for letter in self._kept.pop(address, ()):
                self.baton.at(self.delay(letter.method), self._delivery(letter))

    def purge(self) -> None:
        """Drop all kept messages, as when queues are purged."""
        self._kept.clear()

    def leave(self, server: 'Server') -> None:
        for readers in self._readers.values():
            if server in readers:
                readers.remove(server)

    def join(self, name: str) -> None:
        """Reconnect a process, and deliver the messages that were kept for it."""
        self.cut.discard(name)
        for address, readers in self._readers.items():
            if any(reader.process.name == name for reader in readers):
                for letter in self._kept.pop(address, ()):
                    self.baton.at(self.delay(letter.method), self._delivery(letter))

    def reached(self, letter: Letter, sender: str) -> 'Server | None':
        """Return a server that the sender can reach without the broker, or None."""
        found = [] if sender in self.cut else self._reached(letter)
        return found[next(self._turns) % len(found)] if found else None

    def _reached(self, letter: Letter) -> list['Server']:
        return [server for server in self._readers.get(letter.address, ())
                if server.process.name not in self.cut]

    def _delivery(self, letter: Letter) -> Callable[[], None]:
        def deliver() -> None:
            if letter.expires is not None and letter.expires < self.baton.now:
                return
            readers = self._reached(letter)
            if readers:
                readers[next(self._turns) % len(readers)].take(letter)
            else:
                self._kept.setdefault(letter.address, deque()).append(letter)
        return deliver


class RpcClient:
    """Stand-in for the part of ``oslo_messaging.RPCClient`` that the service uses."""

    def __init__(self, bus: Any, topic: str, server: str | None = None,
                 fanout: bool = False, timeout: float | None = None,
                 monitor: float | None = None) -> None:
        self.target = oslo_messaging.Target(topic=topic)
        self._bus = bus
        self._topic = topic
        self._server = server
        self._fanout = fanout
        self._timeout = timeout
        self._monitor = monitor

    def prepare(self, version: str | None = None, server: str | None = None,
                fanout: bool | None = None, timeout: float | None = None,
                call_monitor_timeout: float | None = None) -> 'RpcClient':
        """Return a copy of the client with the given settings changed."""
        return type(self)(self._bus, self._topic, server or self._server, fanout or self._fanout,
                          timeout if timeout is not None else self._timeout,
                          call_monitor_timeout)

    def cast(self, ctxt: Any, method: str, **arguments: Any) -> None:
        broker = self._begin()
        letter = self._letter(ctxt, method, arguments, None)
        if self._fanout:
            broker.to_all(letter)
        else:
            broker.post(letter)

    def call(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        """Send a call and return its answer."""
        broker = self._begin()
        call = Call(broker.baton)
        broker.post(self._letter(ctxt, method, arguments, call))
        answer = call.awaited(self._timeout or 60.0, self._monitor)
        self._bus.process.check()
        return messages.read(self._bus.serializer, ctxt, answer)

    def _begin(self) -> Broker:
        self._bus.touch('bus')
        broker, name = self._bus.broker, self._bus.process.name
        if name in broker.cut or broker.faults.happens('not_taken', name):
            raise oslo_messaging.MessageDeliveryFailure('the broker is away')
        return broker

    def _letter(self, ctxt: Any, method: str, arguments: dict[str, Any],
                call: Call | None) -> Letter:
        now = self._bus.broker.baton.now
        body = messages.written(self._bus.serializer, ctxt, arguments)
        address = (f'{self._topic}_fanout' if self._fanout else
                   f'{self._topic}.{self._server}' if self._server else self._topic)
        expires = None if call is None else now + (self._timeout or 60.0)
        return Letter(address, method, body, expires, call)


class Server:
    """Server of one endpoint in a process."""

    def __init__(self, bus: Any, topic: str, host: str,
                 exposed: serving.Exposed) -> None:
        self._bus = bus
        self.process = bus.process
        self._addresses = [topic, f'{topic}.{host}', f'{topic}_fanout']
        self._exposed = exposed
        self._working: list[Letter] = []
        self.listens = False
        bus.process.on_death.append(self._die)

    def start(self) -> None:
        self.listens = True
        self._bus.broker.listen(self, self._addresses)

    def stop(self) -> None:
        """Stop taking messages, and wait until the running handlers have ended."""
        self.listens = False
        self._bus.broker.leave(self)
        while self._working:
            self._bus.broker.baton.wait(0.05)

    def take(self, letter: Letter) -> None:
        """Handle a message in a new thread. A dead process drops the message."""
        process = self._bus.process
        if process.dead:
            return
        self._working.append(letter)
        if letter.call is not None:
            letter.call.holders.append(process)
        process.baton.spawn(process, letter.method, lambda: self._work(letter))

    def _work(self, letter: Letter) -> None:
        try:
            answer = messages.answer(self._bus.serializer, self._exposed, letter.method,
                                     letter.body)
            if letter.call is not None:
                self._reply(letter, letter.call, answer)
        finally:
            self._working.remove(letter)
            if letter.call is not None and self._bus.process in letter.call.holders:
                letter.call.holders.remove(self._bus.process)

    def _reply(self, letter: Letter, call: Call, body: str) -> None:
        self._bus.touch('reply')
        broker = self._bus.broker
        if not broker.cut.isdisjoint((self.process.name, call.asking.name)):
            return
        if broker.faults.happens('lost_reply', letter.method):
            call.lose()
        else:
            broker.baton.at(broker.delay(letter.method), lambda: call.answer(body))

    def _die(self) -> None:
        self.listens = False
        self._bus.broker.leave(self)
        for letter in self._working:
            if letter.call is not None:
                letter.call.lose()
