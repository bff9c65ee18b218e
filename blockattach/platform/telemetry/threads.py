"""How a process begins threads and waits for events; an executor that counts its use."""
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from blockattach.platform.telemetry import readings

_BACKGROUND_NICE = 10


class Ended(RuntimeError):
    """Nothing was begun: the threads were shut down."""


class CountedThreads(futures.ThreadPoolExecutor):
    """The standard library's, whose idle threads sleep, with two numbers."""

    def __init__(self, name: str, into: readings.Readings, max_workers: int,
                 background: bool = False) -> None:
        """
        :param name: of the threads, and in the readings
        :param background: see `Threads.executor`
        """
        super().__init__(max_workers, thread_name_prefix=name,
                         initializer=_begin(background))
        self._most = max_workers
        self._counting = threading.Condition(threading.Lock())
        self._busy = self._waiting = self._here = 0
        self._slots = threading.Semaphore(max_workers)
        self._ended = False
        into.add_threads(name, self.use)

    def submit(self, act: Callable[..., Any], /, *arguments: Any,
               **more: Any) -> 'futures.Future[Any]':
        """Do it as soon as a thread is free.

        :raises Ended: it will not be
        """
        try:
            made = super().submit(self._run, act, arguments, more)
        except RuntimeError as exc:
            # Else there is no thread to be had, and another one does it.
            if self._ended:
                raise Ended('cannot start work after shutdown') from exc
            raise
        with self._counting:
            self._waiting += 1
        return made

    def run_here(self, act: Callable[..., Any], /, *arguments: Any) -> None:
        """Do it on the thread that calls, which would only wait for it; of these there are at most
        as many at a time as there are threads, and `shutdown` waits for them.

        :raises Ended: it will not be
        """
        with self._counting:
            if self._ended:
                raise Ended('cannot start work after shutdown')
            self._waiting += 1
            self._here += 1
        try:
            with self._slots:
                self._run(act, arguments, {})
        finally:
            with self._counting:
                self._here -= 1
                self._counting.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Begin nothing more."""
        with self._counting:
            self._ended = True
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            with self._counting:
                self._counting.wait_for(lambda: not self._here)

    def use(self) -> readings.ThreadUse:
        """As it is now."""
        with self._counting:
            return readings.ThreadUse(self._most, self._busy, max(self._waiting, 0))

    def _run(self, act: Callable[..., Any], arguments: tuple[Any, ...],
             more: dict[str, Any]) -> Any:
        with self._counting:
            self._waiting -= 1
            self._busy += 1
        try:
            return act(*arguments, **more)
        finally:
            with self._counting:
                self._busy -= 1


def _begin(background: bool) -> Callable[[], None] | None:
    return _give_way if background else None


def _give_way() -> None:
    """Lower the priority of this thread alone: Linux has one for each."""
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread,
                   os.getpriority(os.PRIO_PROCESS, thread) + _BACKGROUND_NICE)


class Threads:
    """Handed down by the wiring: all that a process waits for without a clock comes from here, so
    that a simulation may own it. Locks that nobody waits for long are not among it.
    """

    def begin(self, name: str, act: Callable[[], None]) -> threading.Thread:
        """A thread that does not run yet."""
        return threading.Thread(target=act, name=name, daemon=True)

    def executor(self, name: str, most: int,
                 into: readings.Readings | None = None,
                 background: bool = False) -> futures.Executor:
        """So many threads at most.

        :param into: where their use is read
        :param background: what they do may take long: others have the processors first
        """
        if into is None:
            return futures.ThreadPoolExecutor(most, thread_name_prefix=name,
                                              initializer=_begin(background))
        return CountedThreads(name, into, most, background)

    def lock(self) -> contextlib.AbstractContextManager[Any]:
        """For one at a time."""
        return threading.Lock()

    def condition(self) -> threading.Condition:
        """To wait until something has changed."""
        return threading.Condition()
