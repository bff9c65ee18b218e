"""The threads that answer requests, and the line of those for which there is none.

First come, first served. What waits costs no thread.
"""
import collections
import logging
import threading
from collections.abc import Callable
from typing import Generic
from typing import TypeVar

from blockattach.platform.log import fields
from blockattach.platform.telemetry import readings

LOG = logging.getLogger(__name__)

Work = TypeVar('Work')


class Pool(Generic[Work]):
    """Threads are begun when they are needed, and kept."""

    def __init__(self, name: str, threads: int, size: int, do: Callable[[Work], None]) -> None:
        """
        :param name: of the threads, with a number behind it
        :param threads: how many there are at most
        :param size: how much may wait for one
        :param do: what they do with each piece of work
        """
        self._name = name
        self._most = threads
        self._size = size
        self._do = do
        self._changed = threading.Condition(threading.Lock())
        self._threads = 0
        self._idle = 0
        # What an idle thread is about to take is in it too.
        self._waiting: collections.deque[tuple[float, Work]] = collections.deque()
        self._ending = False

    def put(self, work: Work, until: float) -> bool:
        """Have it done; False: too much waits already.

        :param until: when `late` returns it, if it has not been begun. Never less than before
        """
        with self._changed:
            free = len(self._waiting) < self._idle or self._begin_one()
            if not free and len(self._waiting) - self._idle >= self._size:
                return False
            self._waiting.append((until, work))
            self._changed.notify()
            return True

    def late(self, now: float) -> list[Work]:
        """What has waited for too long, and is not to be done any more."""
        found = []
        with self._changed:
            while (len(self._waiting) > self._idle and self._waiting[0][0] <= now):
                found.append(self._waiting.popleft()[1])
        return found

    def use(self) -> readings.ThreadUse:
        """As it is now."""
        with self._changed:
            taken = min(len(self._waiting), self._idle)
            return readings.ThreadUse(self._most, self._threads - self._idle + taken,
                                      len(self._waiting) - taken)

    def end(self) -> None:
        """Let the threads end when nothing waits any more."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    def _begin_one(self) -> bool:
        """One thread more, if there may be. Called with the lock."""
        if self._threads >= self._most:
            return False
        thread = threading.Thread(target=self._run, daemon=True,
                                  name=f'{self._name}-{self._threads}')
        try:
            thread.start()
        except RuntimeError as exc:
            LOG.warning('Failed to start thread%s', fields(reason=exc))
            return False
        self._threads += 1
        # It comes to take something.
        self._idle += 1
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._ending:
                        return
                    self._changed.wait()
                self._idle -= 1
                work = self._waiting.popleft()[1]
            try:
                self._do(work)
            except Exception:
                # The thread continues after any error: nothing replaces it.
                LOG.exception('Failed to serve connection')
            # An idle thread keeps nothing of it.
            del work
            with self._changed:
                self._idle += 1
