"""Places, and a line of those who wait for one: first come, first served, until their deadline.

A place that becomes free is handed to whoever is next: nobody who comes meanwhile is faster. A
free place is taken without a wait, at the cost of a lock.
"""
import collections
import threading
from collections.abc import Callable

from blockattach import clock as clocks
from blockattach import errors

Doubt = Callable[[int, float], bool]
"""Whether somebody behind so many others, with so many seconds left, would wait in vain."""


class _Waiting:
    """Somebody in the line. ``granted`` is written under the lock of the line."""

    __slots__ = ('came', 'granted')

    def __init__(self) -> None:
        self.came = threading.Event()
        self.granted = False


class Line:
    """So many places, and at most so many who wait."""

    def __init__(self, places: int, most: int, clock: clocks.Clock) -> None:
        """
        :param most: how many may wait
        """
        self.places = places
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._taken = 0
        self._waiting: collections.deque[_Waiting] = collections.deque()
        # Those who had a place already and come back to end what they have begun.
        self._returning: collections.deque[_Waiting] = collections.deque()

    def use(self) -> tuple[int, int]:
        """How many places are taken, and how many wait."""
        with self._lock:
            return self._taken, len(self._waiting) + len(self._returning)

    def take_free(self) -> bool:
        """Take a place if there is one now, and nobody waits for it."""
        with self._lock:
            if self._taken >= self.places:
                return False
            self._taken += 1
            return True

    def take(self, until: float, doubt: Doubt | None = None) -> float:
        """Take a place, in turn; returns how many seconds that took.

        :param until: on the monotonic clock
        :raises QueueFull: as many wait as may
        :raises TurnTooLate: there was none in time; one that is late already is not let in either
        :raises BackendBusy: there would be none in time
        """
        begun = self._clock.monotonic()
        if begun >= until:
            raise errors.TurnTooLate
        with self._lock:
            if self._taken < self.places:
                self._taken += 1
                return 0.0
            ahead = len(self._waiting)
            if ahead >= self._most:
                raise errors.QueueFull
            if doubt is not None and doubt(ahead, until - begun):
                raise errors.BackendBusy
            mine = _Waiting()
            self._waiting.append(mine)
        self._clock.wait(mine.came, until - begun)
        with self._lock:
            if not mine.granted:
                self._waiting.remove(mine)
                raise errors.TurnTooLate
        return self._clock.monotonic() - begun

    def take_again(self) -> None:
        """Take a place before all who have not begun, however long that takes."""
        with self._lock:
            if self._taken < self.places:
                self._taken += 1
                return
            mine = _Waiting()
            self._returning.append(mine)
        mine.came.wait()

    def give_back(self) -> None:
        """Hand the place to whoever is next."""
        with self._lock:
            line = self._returning or self._waiting
            if not line:
                self._taken -= 1
                return
            following = line.popleft()
            following.granted = True
        following.came.set()
