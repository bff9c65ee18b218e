"""A limited number of slots, and a queue for them: first come, first served, until the deadline.

A slot that becomes free is handed to the first in the queue, so that nobody overtakes it. A free
slot is taken without a wait, at the cost of a lock.
"""
import collections
import threading
from collections.abc import Callable

from blockattach import clock as clocks
from blockattach import errors

Shed = Callable[[int, float], bool]
"""Whether to refuse a request that has so many others ahead and so many seconds left."""


class _Waiting:
    """A request in the queue. ``granted`` is written under the lock of the queue."""

    __slots__ = ('came', 'granted')

    def __init__(self) -> None:
        self.came = threading.Event()
        self.granted = False


class SlotQueue:
    """So many slots, and a bounded queue for them."""

    def __init__(self, slots: int, most: int, clock: clocks.Clock) -> None:
        """
        :param most: how many may wait
        """
        self.slots = slots
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._taken = 0
        self._waiting: collections.deque[_Waiting] = collections.deque()
        # Requests that had a slot already and come back to end what they have begun.
        self._returning: collections.deque[_Waiting] = collections.deque()

    def use(self) -> tuple[int, int]:
        """How many slots are taken, and how many requests wait."""
        with self._lock:
            return self._taken, len(self._waiting) + len(self._returning)

    def try_acquire(self) -> bool:
        """Take a slot if one is free now."""
        with self._lock:
            if self._taken >= self.slots:
                return False
            self._taken += 1
            return True

    def acquire(self, until: float, shed: Shed | None = None) -> float:
        """Take a slot, in the order of arrival; returns how many seconds that took.

        :param until: on the monotonic clock
        :raises QueueFull: the queue is full
        :raises QueueTimeout: no slot was free in time, or the deadline has passed already
        :raises BackendBusy: ``shed`` refused it
        """
        begun = self._clock.monotonic()
        if begun >= until:
            raise errors.QueueTimeout
        with self._lock:
            if self._taken < self.slots:
                self._taken += 1
                return 0.0
            ahead = len(self._waiting)
            if ahead >= self._most:
                raise errors.QueueFull
            if shed is not None and shed(ahead, until - begun):
                raise errors.BackendBusy
            mine = _Waiting()
            self._waiting.append(mine)
        self._clock.wait(mine.came, until - begun)
        with self._lock:
            if not mine.granted:
                self._waiting.remove(mine)
                raise errors.QueueTimeout
        return self._clock.monotonic() - begun

    def reacquire(self) -> None:
        """Take a slot before every request that has not begun, however long that takes."""
        with self._lock:
            if self._taken < self.slots:
                self._taken += 1
                return
            mine = _Waiting()
            self._returning.append(mine)
        mine.came.wait()

    def release(self) -> None:
        """Hand the slot to the next in the queue."""
        with self._lock:
            queue = self._returning or self._waiting
            if not queue:
                self._taken -= 1
                return
            following = queue.popleft()
            following.granted = True
        following.came.set()
