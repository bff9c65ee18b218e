"""Console output of a guest: messages of the kernel and of the first process."""
import collections
import threading
from typing import BinaryIO

from lab.guests.machines import agent
from lab.guests.machines import remote

_LINES = 200


class Console:
    """Reader of a console until the last process of the guest has ended and closed the pipe."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._lines: collections.deque[bytes] = collections.deque(maxlen=_LINES)
        self._changed = threading.Condition()
        self._ready = False
        self._closed = False
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def wait_until_ready(self, timeout: float) -> bool:
        """Return True when the agent is ready, or False if the guest ends or the timeout expires.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._closed, timeout)
            return self._ready

    def wait_until_closed(self, timeout: float) -> None:
        """Wait until all processes of the guest have ended.

        :raises remote.LabError: if they do not end in time
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed, timeout):
                raise remote.LabError(f'guest does not end\n{self._text()}')

    def text(self) -> str:
        """Return the last lines of the console."""
        with self._changed:
            return self._text()

    def _text(self) -> str:
        return b''.join(self._lines).decode(errors='replace')

    def _read(self, pipe: BinaryIO) -> None:
        with pipe:
            for line in pipe:
                with self._changed:
                    self._lines.append(line)
                    self._ready = self._ready or line.startswith(agent.READY)
                    self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
