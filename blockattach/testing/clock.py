"""A clock that stands until a test moves it."""
import datetime
import threading

from blockattach import clock

_START = datetime.datetime(2026, 1, 1)
# How soon a waiting thread sees that the clock was moved, in real seconds.
_LOOK_SECONDS = 0.005


class ManualClock(clock.Clock):
    """Wall time and monotonic time move together, and only by `advance`."""

    def __init__(self, start: datetime.datetime = _START) -> None:
        self._start = start
        self._passed = 0.0
        self._waiting = 0
        self._changed = threading.Condition()

    def utcnow(self) -> datetime.datetime:
        """The time that the test has set."""
        return self._start + datetime.timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Seconds that the test has let pass."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass; who waited for it wakes."""
        with self._changed:
            self._passed += seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event comes or the test has let the time pass; True if it came."""
        end = self._passed + seconds
        self._count(1)
        try:
            while not event.wait(_LOOK_SECONDS):
                if self._passed >= end:
                    return False
            return True
        finally:
            self._count(-1)

    def until_waiting(self, count: int = 1, seconds: float = 60) -> bool:
        """Whether so many threads wait for this clock, within so many real seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting >= count, seconds)

    def _count(self, change: int) -> None:
        with self._changed:
            self._waiting += change
            self._changed.notify_all()
