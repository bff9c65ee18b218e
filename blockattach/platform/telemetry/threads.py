"""Creation of threads, locks and executors, and a thread pool that reports its use."""
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from blockattach.platform.telemetry import readings

_BACKGROUND_NICE = 10


class Ended(RuntimeError):
    """Submission of work to a thread pool that was shut down. The work is not started."""


class CountedThreads(futures.ThreadPoolExecutor):
    """Thread pool that reports the numbers of its busy threads and waiting tasks."""

    def __init__(self, name: str, into: readings.Readings, max_workers: int,
                 background: bool = False) -> None:
        """
        :param name: prefix of the thread names, and name of the pool in metrics
        :param into: registry to which the use of the threads is added
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
        """Run a callable as soon as a thread is free.

        :raises Ended: the pool was shut down
        """
        try:
            made = super().submit(self._run, act, arguments, more)
        except RuntimeError as exc:
            # If the pool was not shut down, a new thread could not be started. An existing thread
            # runs the work, which is already queued.
            if self._ended:
                raise Ended('cannot start work after shutdown') from exc
            raise
        with self._counting:
            self._waiting += 1
        return made

    def run_here(self, act: Callable[..., Any], /, *arguments: Any) -> None:
        """Run a callable on the calling thread, which would otherwise only wait for the result.

        At most ``max_workers`` callers run at the same time, and further callers wait. `shutdown`
        waits for all of these callers.

        :raises Ended: the pool was shut down
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
        """Reject new work, and wait for running work if ``wait`` is True."""
        with self._counting:
            self._ended = True
        # Called without the lock, because running work acquires the lock when it ends.
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            with self._counting:
                self._counting.wait_for(lambda: not self._here)

    def use(self) -> readings.ThreadUse:
        with self._counting:
            # Negative for a moment if a thread takes work before `submit` has counted it.
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
    # Linux has a priority for each thread, so other threads of the process keep theirs.
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread,
                   os.getpriority(os.PRIO_PROCESS, thread) + _BACKGROUND_NICE)


class Threads:
    """Factory of the threads, executors, locks and conditions of a process.

    The wiring passes this factory to constructors. A simulation can replace it, because everything
    that a process waits for without a clock is created here, except locks that are held only
    briefly.
    """

    def begin(self, name: str, act: Callable[[], None]) -> threading.Thread:
        """Return a new thread that has not been started."""
        return threading.Thread(target=act, name=name, daemon=True)

    def executor(self, name: str, most: int,
                 into: readings.Readings | None = None,
                 background: bool = False) -> futures.Executor:
        """Return an executor with at most ``most`` threads.

        :param into: registry to which the use of the threads is added; None not to report the use
        :param background: True to run the threads at a lower priority, for long-running work
        """
        if into is None:
            return futures.ThreadPoolExecutor(most, thread_name_prefix=name,
                                              initializer=_begin(background))
        return CountedThreads(name, into, most, background)

    def lock(self) -> contextlib.AbstractContextManager[Any]:
        return threading.Lock()

    def condition(self) -> threading.Condition:
        return threading.Condition()
