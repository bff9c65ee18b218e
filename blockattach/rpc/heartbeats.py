"""Heartbeats for callers that wait: this process still has your message, even if no thread is
free for it yet.

A caller gives up when it gets none for ``[rpc] silence_timeout`` seconds: so it notices a dead
server long before the call's timeout. oslo.messaging would start a thread for each message; here
one serves all of them, sleeps while none is old enough, and ends when there are none.
"""
import threading
from typing import Any

from oslo_log import log as oslo_log

from blockattach import clock as clocks

LOG = oslo_log.getLogger(__name__)

SIGNS = 3
"""How many heartbeats are sent in the time that a caller waits for one."""


class _Watched:
    def __init__(self, message: Any, seconds: float, now: float) -> None:
        self.message = message
        self.seconds = seconds
        self.due = now + seconds


class Heartbeats:
    """`begin` when a message comes, `end` when it is answered."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._watched: dict[int, _Watched] = {}
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def begin(self, message: Any) -> None:
        """Send heartbeats for an incoming message of oslo.messaging, if its caller listens for
        them."""
        timeout = message.client_timeout
        if not timeout:
            return
        # Its dispatcher would begin a thread for it.
        message.client_timeout = None
        watched = _Watched(message, float(timeout) / SIGNS, self._clock.monotonic())
        with self._lock:
            self._watched[id(message)] = watched
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name='heartbeats',
                                                daemon=True)
                self._thread.start()
            elif watched.due < self._wakes_at:
                self._changed.set()

    def end(self, message: Any) -> None:
        """It is answered."""
        with self._lock:
            self._watched.pop(id(message), None)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                self._changed.clear()
                now = self._clock.monotonic()
                due = [one for one in self._watched.values() if one.due <= now]
                for one in due:
                    one.due = now + one.seconds
                self._wakes_at = min(one.due for one in self._watched.values())
            for one in due:
                self._give(one.message)
            self._clock.wait(self._changed, max(self._wakes_at - self._clock.monotonic(), 0))

    def _give(self, message: Any) -> None:
        try:
            message.heartbeat()
        except Exception as error:
            # The driver's, its library's, or that of the library below: they share no ancestor.
            LOG.info('Cannot send a heartbeat to a caller: %s', error)
            self.end(message)
