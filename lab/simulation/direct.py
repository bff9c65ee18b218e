"""Messages without a broker, from one simulated process straight to another: what the driver and
the network would do is played.

Nothing is kept for anybody. Who sends knows that a message was not sent, or does not know what
became of it, and then it is not sent again here.
"""
import enum
from typing import Any

import oslo_messaging

from blockattach.platform.rpc import ends
from blockattach.tests.fixtures import messages
from lab.simulation import baton as batons
from lab.simulation import bus


class Way(enum.StrEnum):
    """What goes over HTTP."""

    BROKER = 'broker'
    """Nothing."""
    CALLS = 'calls'
    ALL = 'all'


class Call(bus.Call):
    """Somebody waits at a connection for an answer."""

    def __init__(self, baton: batons.Baton) -> None:
        super().__init__(baton)
        self._lost = False

    def lose(self) -> None:
        """The connection ends."""
        if self.body is None:
            self._lost = True
            self._baton.wake(self._task)

    def awaited(self, seconds: float, monitor: float | None) -> str:
        """See `bus.Call`."""
        end = self._baton.now + seconds
        while self.body is None:
            if self._lost or self._baton.now >= end:
                raise oslo_messaging.MessagingTimeout('the connection is lost, or the time over')
            left = end - self._baton.now
            self._baton.wait(left if monitor is None else min(left, monitor))
            if monitor is not None and all(holder.silent for holder in self.holders):
                self._lost = True
        return self.body


class RpcClient(bus.RpcClient):
    """As much of oslo.messaging's as our clients use, over HTTP."""

    def cast(self, ctxt: Any, method: str, **arguments: Any) -> None:
        """Hand over to one server, or to each."""
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
            raise ends.NotReached('it has ended')
        server.take(letter)

    def call(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        """Send and wait for the answer."""
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
        """Whom the directory names, or an earlier start of it.

        :raises NotReached: nobody has the message
        """
        broker = self._bus.broker
        found = broker.reached(letter, self._bus.process.name)
        if not found or broker.faults.happens('stale_address', letter.method):
            raise ends.NotReached('nobody listens there, or somebody else')
        return found

    def _is_cut(self, letter: bus.Letter) -> bool:
        """Whether the connection ends when all was sent, and none of it was read.

        :raises NotReached: it ends before that
        """
        trouble = self._bus.broker.faults
        if not trouble.happens('cut_message', letter.method):
            return False
        if trouble.either():
            raise ends.NotReached('the connection has ended in the middle of the body')
        return True

    @staticmethod
    def _deliver(server: bus.Server, letter: bus.Letter, call: Call) -> None:
        if server.listens:
            server.take(letter)
        else:
            call.lose()
