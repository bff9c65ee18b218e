"""Messages sent over HTTP from one simulated process straight to another, without a broker.

This module stands in for the driver and the network. Nothing is queued. The sender learns that a
message was not sent, or does not learn the outcome. In the latter case this client does not send
the message again.
"""
import enum
from typing import Any

import oslo_messaging

from blockattach.platform.rpc import ends
from blockattach.tests.fixtures import messages
from lab.simulation import baton as batons
from lab.simulation import bus


class Way(enum.StrEnum):
    """Messages that go over HTTP."""

    BROKER = 'broker'
    """No messages: all go through the broker."""
    CALLS = 'calls'
    ALL = 'all'


class Call(bus.Call):
    """Call whose sender waits at a connection for the answer."""

    def __init__(self, baton: batons.Baton) -> None:
        super().__init__(baton)
        self._lost = False

    def lose(self) -> None:
        """End the connection, which the caller notices."""
        if self.body is None:
            self._lost = True
            self._baton.wake(self._task)

    def awaited(self, seconds: float, monitor: float | None) -> str:
        end = self._baton.now + seconds
        while self.body is None:
            if self._lost or self._baton.now >= end:
                raise oslo_messaging.MessagingTimeout('connection lost, or no answer in time')
            left = end - self._baton.now
            self._baton.wait(left if monitor is None else min(left, monitor))
            if monitor is not None and all(holder.silent for holder in self.holders):
                self._lost = True
        return self.body


class RpcClient(bus.RpcClient):
    """Stand-in for ``oslo_messaging.RPCClient`` over HTTP."""

    def cast(self, ctxt: Any, method: str, **arguments: Any) -> None:
        """Deliver a message to one server, or a fanout message to each."""
        self._bus.touch('bus')
        letter = self._letter(ctxt, method, arguments, None)
        if self._fanout:
            self._bus.broker.to_all(letter)
            return
        server, baton = self._server_of(letter), self._bus.broker.baton
        if self._is_cut(letter):
            return
        baton.wait(self._bus.broker.delay(method))
        self._bus.process.check()
        if not server.listens:
            raise ends.NotReached('the server has ended')
        server.take(letter)

    def call(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        """Send a call and return its answer."""
        self._bus.touch('bus')
        broker = self._bus.broker
        call = Call(broker.baton)
        letter = self._letter(ctxt, method, arguments, call)
        server = self._server_of(letter)
        if self._is_cut(letter):
            call.lose()
        else:
            broker.baton.at(broker.delay(method), lambda: self._deliver(server, letter, call))
        answer = call.awaited(self._timeout or 60.0, self._monitor)
        self._bus.process.check()
        return messages.read(self._bus.serializer, ctxt, answer)

    def _server_of(self, letter: bus.Letter) -> bus.Server:
        """Return the server that the directory names for a message.

        :raises NotReached: if no server listens there, or another process has its address
        """
        broker = self._bus.broker
        found = broker.reached(letter, self._bus.process.name)
        if not found or broker.faults.happens('stale_address', letter.method):
            raise ends.NotReached('no server, or another one, listens at the address')
        return found

    def _is_cut(self, letter: bus.Letter) -> bool:
        """Return True if the connection ends after the message was sent and before it was read.

        :raises NotReached: if the connection ends while the message is sent
        """
        trouble = self._bus.broker.faults
        if not trouble.happens('cut_message', letter.method):
            return False
        if trouble.either():
            raise ends.NotReached('the connection was cut in the middle of the body')
        return True

    @staticmethod
    def _deliver(server: bus.Server, letter: bus.Letter, call: Call) -> None:
        if server.listens:
            server.take(letter)
        else:
            call.lose()
