"""A message as its server sees it, and the way back to its caller."""
import logging
import socket
import threading
from collections.abc import Mapping
from typing import Any

from blockattach.platform.log import fields
from blockattach.platform.rpc import oslo_drivers
from blockattach.platform.rpc.http import trust
from blockattach.platform.rpc.http import wire

LOG = logging.getLogger(__name__)

_ANSWER_SECONDS = 30.0
"""Within which a caller has to read."""


class Reply:
    """Answers one request, once. Any thread may do it.

    :ivar done: nothing more is sent
    :ivar lost: its connection is of no use any more
    """

    def __init__(self, connection: socket.socket, key: trust.Key, nonce: str) -> None:
        self.done = threading.Event()
        self.lost = False
        self._connection = connection
        self._key = key
        self._nonce = nonce
        self._lock = threading.Lock()
        self._opened = False

    def end(self, status: int, body: bytes = b'') -> None:
        """Send the answer; nothing if there is one, or the caller is gone."""
        proof = trust.prove_answer(self._key, self._nonce, status, body)
        with self._lock:
            if not self.done.is_set():
                self._send(wire.closing(body, proof) if self._opened
                           else wire.answer(status, body, proof))
                self.done.set()

    def beat(self) -> None:
        """Send a heartbeat; the status is that of success from now on."""
        with self._lock:
            if not self.done.is_set():
                self._send(wire.HEARTBEAT if self._opened else wire.opening() + wire.HEARTBEAT)
                self._opened = True

    def abandon(self) -> None:
        """The caller is gone."""
        with self._lock:
            self.lost = True
            self.done.set()

    def _send(self, data: bytes) -> None:
        try:
            self._connection.settimeout(_ANSWER_SECONDS)
            self._connection.sendall(data)
        except OSError as error:
            # The work is done all the same, and the caller finds out what came of it.
            LOG.info('Failed to send reply, lost the connection to the caller%s',
                     fields(reason=error))
            self.lost = True
            self.done.set()


class HttpIncomingMessage(oslo_drivers.Message):
    """What oslo.messaging's server works on.

    :ivar thread_waits: the thread that brings it has nothing else to do until it is answered
    """

    def __init__(self, request: wire.Request, reply: Reply) -> None:
        """
        :raises Malformed: the body is no message
        """
        content = wire.decode(request.body, ('context', 'message'))
        if not all(isinstance(part, dict) for part in content.values()):
            raise wire.Malformed('the body is not a message')
        super().__init__(content['context'], content['message'])
        self.client_timeout = request.monitor
        self.thread_waits = request.kind is wire.Kind.CALL
        self._reply = reply if self.thread_waits else None

    def waits(self) -> bool:
        """See `oslo_drivers.Message`."""
        return self._reply is not None

    def answer(self, content: Mapping[str, Any]) -> None:
        """See `oslo_drivers.Message`."""
        assert self._reply is not None
        self._reply.end(200, wire.encode(dict(content)))

    def heartbeat(self) -> None:
        """Send the caller a heartbeat."""
        if self._reply is not None:
            self._reply.beat()

    def requeue(self) -> None:
        """There is no queue: the caller finds that no answer comes. Never asked for, as
        `require_features` refuses it."""
        if self._reply is not None:
            self._reply.abandon()
