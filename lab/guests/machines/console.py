"""What a guest shows on its console: the kernel's words, and those of its first process."""
import collections
import threading
from typing import BinaryIO

from lab.guests.machines import agent
from lab.guests.machines import remote

_LINES = 200


class Console:
    """Reads until the last process of the guest has gone, for each of them holds the other end."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._lines: collections.deque[bytes] = collections.deque(maxlen=_LINES)
        self._changed = threading.Condition()
        self._ready = False
        self._closed = False
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def wait_until_ready(self, timeout: float) -> bool:
        """Whether the agent listens; false at once if the guest has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._closed, timeout)
            return self._ready

    def wait_until_closed(self, timeout: float) -> None:
        """Until nothing of the guest is left.

        :raises remote.LabError: something is
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed, timeout):
                raise remote.LabError(f'a guest does not end\n{self._text()}')

    def text(self) -> str:
        """The last lines."""
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
