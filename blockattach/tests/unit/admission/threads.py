"""Threads of a test that wait in a line, and what they came to."""
import queue
import threading

from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT


class Comers:
    """Each begins an act in a thread of its own; what it came to is returned in the order of
    ends."""

    def __init__(self, test):
        self._ended = queue.Queue()
        self._threads = []
        test.addCleanup(self.join)

    def come(self, name, act, *arguments):
        """Somebody comes."""
        def run():
            try:
                found = act(*arguments)
            except Exception as exc:
                found = exc
            self._ended.put((name, found))
        thread = threading.Thread(target=run, name=str(name), daemon=True)
        self._threads.append(thread)
        thread.start()

    def next(self):
        """The act that ends next: name, and what was returned or raised."""
        return self._ended.get(timeout=SECONDS)

    def nobody(self):
        """Whether nobody has ended whom nobody has asked for."""
        return self._ended.empty()

    def join(self):
        """All have ended."""
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), thread.name
