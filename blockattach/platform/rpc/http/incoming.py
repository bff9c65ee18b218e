"""Incoming messages of the driver, and the replies to their callers."""
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
"""Time in seconds within which a caller must read a reply."""


class Reply:
    """Reply to a request. Any thread may send the reply, but the reply is sent only once.

    :ivar done: set when nothing more will be sent
    :ivar lost: True if the connection is no longer usable
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
        """Send the reply, unless a reply was sent or the caller is gone."""
        proof = trust.prove_answer(self._key, self._nonce, status, body)
        with self._lock:
            if not self.done.is_set():
                self._send(wire.closing(body, proof) if self._opened
                           else wire.answer(status, body, proof))
                self.done.set()

    def beat(self) -> None:
        """Send a heartbeat.

        The first heartbeat sends the status 200 as well, so the status cannot change afterwards.
        """
        with self._lock:
            if not self.done.is_set():
                self._send(wire.HEARTBEAT if self._opened else wire.opening() + wire.HEARTBEAT)
                self._opened = True

    def abandon(self) -> None:
        """Give up the reply, because the caller is gone."""
        with self._lock:
            self.lost = True
            self.done.set()

    def _send(self, data: bytes) -> None:
        try:
            self._connection.settimeout(_ANSWER_SECONDS)
            self._connection.sendall(data)
        except OSError as error:
            # Not an error of this process. The work is done, and the caller treats the outcome as
            # unknown.
            LOG.info('Failed to send RPC reply%s', fields(reason=error))
            self.lost = True
            self.done.set()


class HttpIncomingMessage(oslo_drivers.Message):
    """Received message, in the form that the server of oslo.messaging processes.

    :ivar thread_waits: True if the thread of the connection waits until the reply is sent, so that
        it can process the message itself
    """

    def __init__(self, request: wire.Request, reply: Reply) -> None:
        """
        :raises Malformed: the body of ``request`` is not a message
        """
        content = wire.decode(request.body, ('context', 'message'))
        if not all(isinstance(part, dict) for part in content.values()):
            raise wire.Malformed('the body is not a message')
        super().__init__(content['context'], content['message'])
        self.client_timeout = request.monitor
        self.thread_waits = request.kind is wire.Kind.CALL
        self._reply = reply if self.thread_waits else None

    def waits(self) -> bool:
        return self._reply is not None

    def answer(self, content: Mapping[str, Any]) -> None:
        assert self._reply is not None
        self._reply.end(200, wire.encode(dict(content)))

    def heartbeat(self) -> None:
        if self._reply is not None:
            self._reply.beat()

    def requeue(self) -> None:
        """Abandon the reply, because there is no queue.

        The caller notices that no reply comes. oslo.messaging never calls this method, because
        `require_features` rejects requeueing.
        """
        if self._reply is not None:
            self._reply.abandon()
