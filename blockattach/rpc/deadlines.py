"""Deadlines that travel with messages.

The rule:

====================================  ========================================================
a call                                waits as long as its method's timeout, and no longer than
                                      what remains of the call within which it is made
a call within one that has expired    is not sent
a cast                                does not expire, unless its interface says so
a message that has expired            is not begun; a caller gets ``DeadlinePassed``
a message that does not expire        is done whenever it comes
====================================  ========================================================

Clocks of two hosts need not agree, so no time of day is sent: a message carries the seconds until
it expires and what the sender's monotonic clock showed. The difference to the receiver's clock is
least for the fastest message; what a later one shows beyond that, it has waited, in the broker or
for a thread. The first message of a sender has nothing to compare with, but the broker drops calls
that have expired.
"""
import threading
import uuid
from typing import Any
from typing import NamedTuple

import cachetools

from blockattach import clock
from blockattach import context

SENDERS = 10_000
"""How many senders are remembered at most."""
REMEMBERED_SECONDS = 3600.0
"""How long the fastest message of a sender counts: meanwhile two clocks drift by less than 1 s."""


class Outgoing(NamedTuple):
    """A caller, and the seconds until the message expires; None: never."""

    caller: context.RequestContext
    seconds: float | None


class Deadlines:
    """Writes the stamp of what this process sends, and reads that of what it gets."""

    def __init__(self, clock: clock.Clock) -> None:
        self._clock = clock
        self._sender = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._fastest: cachetools.TTLCache[str, float] = cachetools.TTLCache(
            SENDERS, REMEMBERED_SECONDS, clock.monotonic)

    def now(self) -> float:
        """Seconds on the clock of this process."""
        return self._clock.monotonic()

    def seconds_for(self, caller: context.RequestContext, timeout: float | None) -> float | None:
        """Seconds until a message sent for the caller expires; zero or less: it has already.

        :param timeout: seconds, by the method's interface
        """
        # A consumer may use a context class of its own, without a deadline.
        deadline = getattr(caller, 'deadline', None)
        if timeout is None or deadline is None:
            return timeout
        return min(timeout, deadline - self._clock.monotonic())

    def passed(self, caller: context.RequestContext) -> bool:
        """Whether the caller waits no longer."""
        return caller.deadline is not None and caller.deadline <= self._clock.monotonic()

    def stamp(self, seconds: float) -> dict[str, Any]:
        """What is sent along with a message."""
        return {'sender': self._sender, 'sent': self._clock.monotonic(), 'seconds': seconds}

    def read(self, stamp: dict[str, Any]) -> float:
        """When a message expires, on this process's monotonic clock."""
        now = self._clock.monotonic()
        sender, difference = str(stamp['sender']), now - float(stamp['sent'])
        with self._lock:
            fastest = self._fastest.get(sender)
            if fastest is None or difference < fastest:
                self._fastest[sender] = fastest = difference
        return now + float(stamp['seconds']) - (difference - fastest)
