"""Source of time, passed in by the wiring so that tests can replace the clock.

Deadlines that several processes compare never come from this module but from the database
(`blockattach.platform.db.clock`). Otherwise a node whose clock is wrong could release leases that
other nodes hold.
"""
import datetime
import threading
import time
from collections.abc import Callable


class Clock:
    """Source of UTC wall time for records and replies, and of monotonic time for waiting."""

    def monotonic(self) -> float:
        """Return the monotonic time in seconds, for measuring durations."""
        return time.monotonic()

    def utcnow(self) -> datetime.datetime:
        """Return the current UTC time as a naive datetime.
        """
        return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for an event for at most ``seconds``. Return True if the event was set."""
        return event.wait(seconds)

    def until(self, condition: Callable[[], bool], seconds: float, tick: float) -> bool:
        """Poll a condition every ``tick`` seconds until the condition holds.

        :returns: False if the condition does not hold after ``seconds``
        """
        ends, never = self.monotonic() + seconds, threading.Event()
        while not condition():
            if self.monotonic() > ends:
                return False
            self.wait(never, tick)
        return True
