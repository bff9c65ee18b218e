"""Client of the QEMU monitor protocol (QMP), which sends JSON messages over a Unix socket.

The official library, qemu.qmp, is not used for two reasons. Its debug log contains whole
messages with passwords, and it needs an event loop, which the agent does not have.
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
"""Default timeout of a command in seconds. Some commands wait for the login to a target."""
# struct ucred: pid, uid and gid.
_PEER = struct.Struct('iII')
# struct timeval: seconds and microseconds.
_TIME = struct.Struct('ll')
_CHUNK = 65536

Event = Mapping[str, Any]


class Refused(errors.HostError):
    """Rejection of a command by QEMU. The command had no effect."""

    code = 'host.qemu_refuses'
    text = 'QEMU rejected %(command)s: %(description)s'

    @property
    def kind(self) -> str:
        """Error class that QEMU reported, such as ``DeviceNotFound``."""
        return str(self.kwargs['kind'])

    @property
    def description(self) -> str:
        """Error text that QEMU reported."""
        return str(self.kwargs['description'])


class NoAnswer(errors.HostError):
    """Missing answer, because QEMU has ended or hangs. The command may have been executed."""

    code = 'host.no_answer'


class Ended(NoAnswer):
    """Connection closed by QEMU, which is ending or has ended."""

    code = 'host.ended'


class NotRunning(errors.HostError):
    """Monitor socket without a listener, because QEMU was never started or has ended."""

    code = 'host.not_running'


class Monitor:
    """Connection to a monitor socket of QEMU, which serves one client at a time.

    The context manager negotiates capabilities on entry, and closes the connection on exit.

    :ivar pid: id of the QEMU process, as the kernel reports for the socket
    """

    def __init__(self, folder: str, name: str, clock: clocks.Clock | None = None,
                 answer_seconds: float = ANSWER_SECONDS) -> None:
        """
        :param folder: directory of the socket, whose path may be longer than a socket address
        :param name: file name of the socket in the directory
        :param answer_seconds: timeout for each answer in seconds
        :raises NotRunning: no process listens on the socket
        :raises NoAnswer: the connection is not accepted in time
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
        """Read the greeting and negotiate capabilities. Afterwards QEMU accepts commands.

        :raises NoAnswer: QEMU did not send its greeting in time
        """
        if self._message(self._clock.monotonic() + self._seconds) is None:
            raise NoAnswer(reason='QEMU did not send its greeting in time')
        self.call('qmp_capabilities')
        return self

    def close(self) -> None:
        """Close the connection. QEMU keeps running."""
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
        """Execute a command and return its result.

        :raises Refused: the command had no effect
        :raises NoAnswer: the command may have been executed
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
            # The error of a request that QEMU could not parse has no id.
            elif 'error' in message and message.get('id') in (self._asked, None):
                error = message['error']
                raise Refused(command=command, kind=error.get('class', ''),
                              description=error.get('desc', ''))
            elif message.get('id') == self._asked:
                return message.get('return')
        raise NoAnswer(reason=f'QEMU did not answer {command} in time')

    def wait(self, matches: Callable[[Event], bool], seconds: float) -> Event | None:
        """Return the next event that matches, or None on timeout. Earlier events are dropped.

        Events that QEMU sent since the connection was opened are examined first.

        :param matches: function that returns True for a matching event
        :param seconds: timeout in seconds
        :raises NoAnswer: QEMU has ended
        """
        deadline = self._clock.monotonic() + seconds
        while True:
            while self._events:
                event = self._events.pop(0)
                if matches(event):
                    return event
            message = self._message(deadline)
            if message is None:
                return None
            if 'event' in message:
                self._events.append(message)

    def _message(self, deadline: float) -> dict[str, Any] | None:
        """Return the next message of QEMU, or None if no message arrives before the deadline.

        :raises Ended: the connection was closed
        """
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
    # With settimeout, connect fails at once while the backlog is full.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                    # A timeout of 0 would mean forever.
                    _TIME.pack(math.ceil(seconds) or 1, 0))
    try:
        # A socket address is limited to 107 bytes. The path by descriptor is always short enough.
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
