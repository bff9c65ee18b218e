"""Barrier that stops a thread at a failpoint."""
import threading

from blockattach.tests.functional import instances


class Barrier:
    """Action of a failpoint that stops the first thread until `open`. Other threads pass."""

    def __init__(self):
        self._first = threading.Lock()
        self._goes_on = threading.Event()
        self.reached = threading.Event()

    def __call__(self):
        if self._first.acquire(blocking=False):
            self.reached.set()
            self._goes_on.wait(instances.WAIT_SECONDS)

    def open(self):
        self._goes_on.set()
