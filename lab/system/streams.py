"""Hosts that continuously write a numbered pattern to their disks and read it back."""
import threading

from blockattach.platform import clock
from blockattach.testing import scsi
from blockattach.tests.functional import base

_BLOCK = 512
_BLOCKS = 64
_REST_SECONDS = 0.05
_SECONDS = 60
"""Seconds that a transfer may take on a busy machine. A longer one is an interruption."""


class Stream:
    """Session of a host that writes until `close`. It never logs in again after an interruption.

    :ivar wrong: descriptions of errors, empty if the session was never interrupted
    :ivar count: number of blocks written and read back
    :ivar longest: duration of the slowest write in seconds
    """

    def __init__(self, host, connection_info, first_block):
        """
        :param first_block: start of the part of the disk that this host uses
        """
        self.wrong = []
        self.count = 0
        self.longest = 0.0
        self.host = host
        self._first = first_block
        self._written = {}
        self._clock = clock.Clock()
        self._ends = threading.Event()
        self._session = scsi.Session(base.connector(host)['initiator'], connection_info,
                                     timeout=_SECONDS)
        self._thread = threading.Thread(target=self._repeat, name=f'stream-{host}')
        self._thread.start()

    def close(self):
        """Read all written blocks again and log out. A repeated call does nothing."""
        if self._ends.is_set():
            return
        self._ends.set()
        self._thread.join()
        if not self.wrong:
            self._checked(lambda: [self._look(block) for block in self._written])
        self._session.close()

    def _repeat(self):
        while not self.wrong and not self._ends.is_set():
            begun = self._clock.monotonic()
            self._checked(self._one)
            self.longest = max(self.longest, self._clock.monotonic() - begun)
            self._clock.wait(self._ends, _REST_SECONDS)

    def _checked(self, act):
        try:
            act()
        except Exception as exc:
            # Any error ends this thread and must be reported.
            self.wrong.append(f'{self.host} was cut off after {self.count} blocks: {exc!r}')

    def _one(self):
        """Write the next number to a block, then read this block and the previous one."""
        number = self.count + 1
        block = self._first + number % _BLOCKS
        answer = self._session.write(block, _pattern(number))
        if answer.status != scsi.GOOD:
            self.wrong.append(f'{self.host} was refused block {number}: {answer}')
            return
        before = self._first + self.count % _BLOCKS
        self._written[block] = number
        self.count = number
        self._look(block)
        if before in self._written:
            self._look(before)

    def _look(self, block):
        if self._session.read(block, 1) != _pattern(self._written[block]):
            self.wrong.append(f'{self.host} reads something else in block {block}')


def _pattern(number):
    return number.to_bytes(8) * (_BLOCK // 8)
