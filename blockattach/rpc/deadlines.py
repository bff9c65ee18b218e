"""How long a caller waits, on its way with the message.

The rule:

====================================  ========================================================
a call                                waits as long as its method's patience says, and no longer
                                      than is left of the call within which it is made
a call within one whose time is over  is not sent
a cast                                has no end, unless its interface gives it one
a message whose end has passed        is not begun; a caller is told so (``DeadlinePassed``)
a message without an end              is done whenever it comes
====================================  ========================================================

Clocks of two hosts need not agree, so no time of day is sent: a message says for how many seconds
it is worth something and what the sender's monotonic clock showed. The difference to the
receiver's clock is least for the message that was fastest; what a later one shows beyond that, it
has waited, in the broker or for a thread. Of the first message of a sender nothing is known but
what the broker knows, who drops a call when its time is over.
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
    """A caller, and for how many seconds what is sent for him is worth something; None: always."""

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

    def seconds_for(self, caller: context.RequestContext, patience: float | None) -> float | None:
        """How long a message sent for the caller is worth something: not above zero, not at all.

        :param patience: seconds, as the method's interface says
        """
        # A consumer may have a context of its own, which knows of no deadline.
        deadline = getattr(caller, 'deadline', None)
        if patience is None or deadline is None:
            return patience
        return min(patience, deadline - self._clock.monotonic())

    def passed(self, caller: context.RequestContext) -> bool:
        """Whether the caller waits no longer."""
        return caller.deadline is not None and caller.deadline <= self._clock.monotonic()

    def stamp(self, seconds: float) -> dict[str, Any]:
        """What goes along with a message."""
        return {'sender': self._sender, 'sent': self._clock.monotonic(), 'seconds': seconds}

    def read(self, stamp: dict[str, Any]) -> float:
        """The end, on this process's monotonic clock."""
        now = self._clock.monotonic()
        sender, difference = str(stamp['sender']), now - float(stamp['sent'])
        with self._lock:
            fastest = self._fastest.get(sender)
            if fastest is None or difference < fastest:
                self._fastest[sender] = fastest = difference
        return now + float(stamp['seconds']) - (difference - fastest)
