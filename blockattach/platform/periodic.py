"""Periodic tasks, each in its own thread."""
import threading
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import log

LOG = oslo_log.getLogger(__name__)

Begin = Callable[[str, Callable[[], None]], threading.Thread]


def _begin(name: str, act: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=act, name=name, daemon=True)


class Periodic:
    """Periodic task, which waits for its interval after each run. `poke` ends the wait."""

    def __init__(self, name: str, act: Callable[[], object], seconds: float,
                 clock: clock.Clock, begin: Begin | None = None) -> None:
        """
        :param act: function that each run calls
        :param seconds: interval from the end of a run to the beginning of the next run
        :param begin: function that creates the thread; None to use `threading`
        """
        self._name = name
        self._act = act
        self._seconds = seconds
        self._clock = clock
        self._wake = threading.Event()
        self._ended = False
        self._thread = (begin or _begin)(name, self._run)

    def start(self) -> None:
        """Start the thread. The first run begins immediately."""
        self._thread.start()

    def poke(self) -> None:
        """Run the task immediately, or again immediately after the current run."""
        self._wake.set()

    def every(self, seconds: float) -> None:
        """Set the interval in seconds. A changed interval also runs the task immediately.
        """
        if seconds != self._seconds:
            self._seconds = seconds
            self.poke()

    def leave(self) -> None:
        """Stop the task after the current run, without waiting for that run."""
        self._ended = True
        self._wake.set()

    def stop(self) -> None:
        """Stop the task and wait for the current run."""
        self.leave()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            try:
                self._act()
            except errors.BlockattachError as exc:
                # Usually the database or the broker is unreachable.
                LOG.warning('Failed to run periodic task, will retry%s',
                            log.fields(task=self._name, reason=exc))
            except Exception:
                LOG.exception('Failed to run periodic task, will retry%s',
                              log.fields(task=self._name))
            if self._clock.wait(self._wake, self._seconds):
                self._wake.clear()
