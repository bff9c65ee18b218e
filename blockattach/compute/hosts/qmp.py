"""QEMU's monitor protocol (QMP): commands as JSON over a Unix socket, answers, and events between.

Written here since the official library, qemu.qmp, logs every message whole, passwords among them,
at a level that is switched on to find faults; and since it needs an event loop, of which the agent
has none. What is needed of the protocol is short.
"""
import json
import math
import os
import socket
import struct
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import Self

from blockattach.compute import errors
from blockattach.platform import clock as clocks

ANSWER_SECONDS = 60.0
"""A login to a target is waited for within a command."""
_PEER = struct.Struct('iII')
_TIME = struct.Struct('ll')
_CHUNK = 65536

Event = Mapping[str, Any]


class Refused(errors.HostError):
    """QEMU answers with an error: the command has done nothing."""

    code = 'host.qemu_refuses'
    text = 'QEMU rejected %(command)s: %(description)s'

    @property
    def kind(self) -> str:
        """What QEMU calls its class."""
        return str(self.kwargs['kind'])

    @property
    def description(self) -> str:
        """Why it refuses."""
        return str(self.kwargs['description'])


class NoAnswer(errors.HostError):
    """QEMU has ended, or hangs: what it was asked for may have happened."""

    code = 'host.no_answer'


class Ended(NoAnswer):
    """QEMU has closed the connection, and is ending or has ended."""

    code = 'host.ended'


class NotRunning(errors.HostError):
    """Nobody listens on the socket: QEMU was never started, or has ended."""

    code = 'host.not_running'


class Monitor:
    """A connection to one QEMU, which serves one at a time on a socket; a context that closes it.

    :ivar pid: of the process at the other end, as the kernel knows it
    """

    def __init__(self, folder: str, name: str, clock: clocks.Clock | None = None,
                 answer_seconds: float = ANSWER_SECONDS) -> None:
        """
        :param name: of the socket in the folder; so the length of the folder's path is no matter
        :raises NotRunning: nobody listens
        :raises NoAnswer: it does not greet, since it hangs or has another client
        """
        self._clock = clock or clocks.Clock()
        self._pending = b''
        self._events: list[Event] = []
        self._asked = 0
        self._seconds = answer_seconds
        self._socket = _connect(folder, name, answer_seconds)
        self.pid: int = _PEER.unpack(self._socket.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]

    def greet(self) -> Self:
        """Begin: QEMU takes commands from now on."""
        if self._message(self._clock.monotonic() + self._seconds) is None:
            raise NoAnswer(reason='QEMU did not send its greeting in time')
        self.call('qmp_capabilities')
        return self

    def close(self) -> None:
        """End the connection; QEMU goes on."""
        self._socket.close()

    def __enter__(self) -> Self:
        try:
            return self.greet()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def call(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """What a command returns.

        :raises Refused: it has done nothing
        :raises NoAnswer: it may have been carried out
        """
        self._asked += 1
        request = {'execute': command, 'arguments': arguments or {}, 'id': self._asked}
        deadline = self._clock.monotonic() + self._seconds
        try:
            self._socket.settimeout(self._seconds)
            self._socket.sendall(json.dumps(request).encode() + b'\n')
        except OSError as exc:
            raise NoAnswer(reason=f'failed to send {command} to QEMU: {exc}') from exc
        while (message := self._message(deadline)) is not None:
            if 'event' in message:
                self._events.append(message)
            elif 'error' in message and message.get('id') in (self._asked, None):
                error = message['error']
                raise Refused(command=command, kind=error.get('class', ''),
                              description=error.get('desc', ''))
            elif message.get('id') == self._asked:
                return message.get('return')
        raise NoAnswer(reason=f'QEMU did not answer {command} in time')

    def wait(self, wanted: Callable[[Event], bool], seconds: float) -> Event | None:
        """The first event since the connection began that is wanted; None: none came in time.

        :raises NoAnswer: QEMU has ended
        """
        deadline = self._clock.monotonic() + seconds
        while True:
            while self._events:
                event = self._events.pop(0)
                if wanted(event):
                    return event
            message = self._message(deadline)
            if message is None:
                return None
            if 'event' in message:
                self._events.append(message)

    def _message(self, deadline: float) -> dict[str, Any] | None:
        """The next message; None: not in time."""
        while b'\n' not in self._pending:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return None
            self._socket.settimeout(left)
            try:
                part = self._socket.recv(_CHUNK)
            except TimeoutError:
                return None
            except OSError as exc:
                raise Ended(reason=f'lost the connection to QEMU: {exc}') from exc
            if not part:
                raise Ended(reason='QEMU closed the connection')
            self._pending += part
        line, self._pending = self._pending.split(b'\n', 1)
        message: dict[str, Any] = json.loads(line)
        return message


def _connect(folder: str, name: str, seconds: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Not settimeout: with it one is refused while others wait to be accepted.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                    # A timeout of 0 would mean forever.
                    _TIME.pack(math.ceil(seconds) or 1, 0))
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            made.connect(f'/proc/self/fd/{descriptor}/{name}')
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ConnectionRefusedError) as exc:
        made.close()
        raise NotRunning(reason='QEMU is not running') from exc
    except OSError as exc:
        made.close()
        raise NoAnswer(reason=f'cannot connect to QEMU: {exc}') from exc
    return made
