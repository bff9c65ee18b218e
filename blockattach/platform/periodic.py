"""Periodic work: one thread each, which ends at once when it is stopped."""
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
    """Calls an act every so many seconds, and at once when it is poked."""

    def __init__(self, name: str, act: Callable[[], object], seconds: float,
                 clock: clock.Clock, begin: Begin | None = None) -> None:
        """
        :param begin: makes the thread; None: one of the standard library
        """
        self._name = name
        self._act = act
        self._seconds = seconds
        self._clock = clock
        self._wake = threading.Event()
        self._ended = False
        self._thread = (begin or _begin)(name, self._run)

    def start(self) -> None:
        """Begin; the first call comes at once."""
        self._thread.start()

    def poke(self) -> None:
        """Call it now rather than when its time comes."""
        self._wake.set()

    def every(self, seconds: float) -> None:
        """Call it in these intervals from now on."""
        if seconds != self._seconds:
            self._seconds = seconds
            self.poke()

    def leave(self) -> None:
        """End it after the call that is running, which is not waited for."""
        self._ended = True
        self._wake.set()

    def stop(self) -> None:
        """End it after the call that is running."""
        self.leave()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            try:
                self._act()
            except errors.BlockattachError as exc:
                # A database or broker that is away, as a rule.
                LOG.warning('Periodic task failed, will retry: %s%s', exc,
                            log.fields(task=self._name))
            except Exception:
                LOG.exception('Periodic task failed with an unexpected error, will retry%s',
                              log.fields(task=self._name))
            if self._clock.wait(self._wake, self._seconds):
                self._wake.clear()
