"""Thread pool for requests, with a bounded FIFO queue. A queued request occupies no thread."""
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
    """Thread pool. Threads are started when they are needed, and kept."""

    def __init__(self, name: str, threads: int, size: int, do: Callable[[Work], None]) -> None:
        """
        :param name: prefix of the names of threads, which is followed by a number
        :param threads: maximum number of threads
        :param size: maximum number of pieces of work that wait for a thread
        :param do: callback that does a piece of work
        """
        self._name = name
        self._most = threads
        self._size = size
        self._do = do
        self._changed = threading.Condition(threading.Lock())
        self._threads = 0
        self._idle = 0
        # Includes work that was assigned to an idle thread but not taken yet.
        self._waiting: collections.deque[tuple[float, Work]] = collections.deque()
        self._ending = False

    def put(self, work: Work, until: float) -> bool:
        """Add a piece of work. Return False if the queue is full.

        :param until: deadline after which `late` removes the work if it was not started. It must
            not be earlier than the deadlines of previous calls
        """
        with self._changed:
            free = len(self._waiting) < self._idle or self._begin_one()
            if not free and len(self._waiting) - self._idle >= self._size:
                return False
            self._waiting.append((until, work))
            self._changed.notify()
            return True

    def late(self, now: float) -> list[Work]:
        """Remove the work whose deadline has passed, and return it."""
        removed = []
        with self._changed:
            while (len(self._waiting) > self._idle and self._waiting[0][0] <= now):
                removed.append(self._waiting.popleft()[1])
        return removed

    def use(self) -> readings.ThreadUse:
        """Return the current use of the threads and of the queue."""
        with self._changed:
            taken = min(len(self._waiting), self._idle)
            return readings.ThreadUse(self._most, self._threads - self._idle + taken,
                                      len(self._waiting) - taken)

    def end(self) -> None:
        """Stop the threads when the queue is empty."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    def _begin_one(self) -> bool:
        """Start a thread. Return False if that is not possible. The caller holds the lock."""
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
        # The new thread counts as idle until it takes its work.
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
                # The thread continues after any error, because no other thread replaces it.
                LOG.exception('Failed to serve connection')
            # An idle thread must not keep the memory of the work.
            del work
            with self._changed:
                self._idle += 1
