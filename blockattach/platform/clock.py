"""The source of time: handed down by the wiring, so that a test may hold it still.

Deadlines that several processes compare are never taken from here but from the database
(`blockattach.platform.db.clock`): a node whose clock is wrong must not release what another node
holds.
"""
import datetime
import threading
import time
from collections.abc import Callable


class Clock:
    """Wall time for records and replies, monotonic time for waiting."""

    def monotonic(self) -> float:
        """Seconds that only grow; for measuring how long something took."""
        return time.monotonic()

    def utcnow(self) -> datetime.datetime:
        """Now, in UTC, without zone, to the microsecond, as the API prints it."""
        return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event, at most so long; True if it came."""
        return event.wait(seconds)

    def until(self, condition: Callable[[], bool], seconds: float, tick: float) -> bool:
        """Look every ``tick`` seconds whether it holds, for so long at most; True if it does."""
        ends, never = self.monotonic() + seconds, threading.Event()
        while not condition():
            if self.monotonic() > ends:
                return False
            self.wait(never, tick)
        return True
