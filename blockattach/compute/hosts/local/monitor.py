"""Orders to a qemu-storage-daemon, over its QMP socket: so no secret stands in its arguments."""
import json
import os
import socket
from typing import Any
from typing import Self

from blockattach import errors


class Monitor:
    """One conversation with one daemon."""

    def __init__(self, path: str, seconds: float) -> None:
        """
        :param seconds: how long each answer may take
        :raises HostError: nobody answers
        """
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(path)
            self._lines = self._socket.makefile('r', encoding='utf-8')
            self._answer()
            self.execute('qmp_capabilities')
        except OSError as exc:
            self._socket.close()
            raise _silent(exc) from None
        except errors.HostError:
            self._socket.close()
            raise

    def execute(self, command: str, /, **arguments: Any) -> Any:
        """What it answers; an underscore in a name stands for a hyphen.

        :raises HostError: it refuses, in its own words, or does not answer
        """
        order = {'execute': command, 'arguments': {
            name.replace('_', '-'): value for name, value in arguments.items()}}
        try:
            self._socket.sendall(json.dumps(order).encode())
            return self._answer().get('return')
        except OSError as exc:
            raise _silent(exc) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._lines.close()
        self._socket.close()

    def _answer(self) -> dict[str, Any]:
        """The next line that is no event."""
        while line := self._lines.readline():
            found: dict[str, Any] = json.loads(line)
            if 'error' in found:
                raise errors.HostError(reason=found['error']['desc'])
            if 'event' not in found:
                return found
        raise errors.HostError(reason='qemu-storage-daemon has ended')


def listens(path: str) -> bool:
    """Whether there is a process behind a socket."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(path)
        except OSError:
            return False
    return True


def _silent(exc: OSError) -> errors.HostError:
    reason = os.strerror(exc.errno) if exc.errno else 'no answer in time'
    return errors.HostError(reason=f'qemu-storage-daemon: {reason}')
