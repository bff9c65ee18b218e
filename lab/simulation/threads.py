"""Clock, threads and locks of a simulated process, whose waits are scheduled by the baton."""
import datetime
import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from types import TracebackType
from typing import Any

from blockattach.platform import clock
from blockattach.platform.telemetry import readings
from blockattach.platform.telemetry import threads
from lab.simulation import baton as batons

START = datetime.datetime(2026, 1, 1)
_TICK = 0.05
_LOOK_SECONDS = 1.0


class VirtualClock(clock.Clock):
    """Clock of one process. Its wall clock may be wrong by a constant offset in seconds."""

    def __init__(self, baton: batons.Baton, wrong_by: float = 0) -> None:
        self._baton = baton
        self._wrong_by = datetime.timedelta(seconds=wrong_by)

    def utcnow(self) -> datetime.datetime:
        """Return the time as the wall clock of this host shows it."""
        return START + datetime.timedelta(seconds=self._baton.now) + self._wrong_by

    def monotonic(self) -> float:
        """Return the seconds since the start of the simulation."""
        return self._baton.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the time is over, and return True if the event is set."""
        end = self._baton.now + seconds
        while not event.is_set() and self._baton.now < end:
            # Setting a `threading.Event` does not wake a simulated thread, so poll.
            self._baton.wait(min(end - self._baton.now, _LOOK_SECONDS))
        return event.is_set()


class Lock:
    """Mutual exclusion of simulated threads.

    Waiting threads are woken in order, but another thread may acquire the lock first.
    """

    def __init__(self, baton: batons.Baton) -> None:
        self._baton = baton
        self._held = False
        self._waiting: deque[batons.Task] = deque()

    def __enter__(self) -> None:
        while self._held:
            self._waiting.append(self._baton.current)
            self._baton.wait()
        self._held = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._held = False
        while self._waiting:
            task = self._waiting.popleft()
            if task.waiting:
                self._baton.wake(task)
                break


class Condition:
    """Stand-in for `threading.Condition`, with the methods that the service uses.

    Entering it acquires no lock, because only the thread with the baton runs.
    """

    def __init__(self, baton: batons.Baton) -> None:
        self._baton = baton
        self._waiting: list[batons.Task] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        pass

    def wait_for(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._waiting.append(self._baton.current)
            self._baton.wait()

    def notify_all(self) -> None:
        for task in self._waiting:
            self._baton.wake(task)
        self._waiting.clear()


class Thread:
    """Stand-in for `threading.Thread`, with the methods that the service uses."""

    def __init__(self, process: batons.Process, name: str, act: Callable[[], None]) -> None:
        self._process = process
        self._name = name
        self._act = act
        self._task: batons.Task | None = None

    def start(self) -> None:
        self._task = self._process.baton.spawn(self._process, self._name, self._run)

    def is_alive(self) -> bool:
        return self._task is not None and self._task in self._process.tasks

    def join(self) -> None:
        baton = self._process.baton
        if self._task is baton.current:
            return
        while self.is_alive():
            baton.wait(_TICK)

    def _run(self) -> None:
        self._act()


class Executor(futures.Executor):
    """Executor that runs at most ``most`` tasks at a time."""

    def __init__(self, process: batons.Process, name: str, most: int) -> None:
        self._process = process
        self._name = name
        self._most = most
        self._busy = 0
        self._kept: deque[Callable[[], None]] = deque()

    def submit(self, act: Callable[..., Any], /, *arguments: Any,
               **more: Any) -> 'Outcome':
        made = Outcome(self._process.baton)

        def work() -> None:
            try:
                made.set_result(act(*arguments, **more))
            except Exception as error:
                made.set_exception(error)
            finally:
                self._busy -= 1
                self._next()
        self._kept.append(work)
        self._next()
        return made

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._kept.clear()
        while wait and (self._busy or self._kept):
            self._process.baton.wait(_TICK)

    def _next(self) -> None:
        if self._kept and self._busy < self._most and not self._process.dead:
            self._busy += 1
            self._process.baton.spawn(self._process, self._name, self._kept.popleft())


class Outcome(futures.Future[Any]):
    """Future whose waiting threads are scheduled by the baton."""

    def __init__(self, baton: batons.Baton) -> None:
        super().__init__()
        self._baton = baton
        self._asking: list[batons.Task] = []
        self.add_done_callback(self._tell)

    def result(self, timeout: float | None = None) -> Any:
        while not self.done():
            self._asking.append(self._baton.current)
            self._baton.wait()
        return super().result(0)

    def _tell(self, done: object) -> None:
        for task in self._asking:
            self._baton.wake(task)


class Threads(threads.Threads):
    """Factory of threads, executors and locks that the wiring gives to a simulated process."""

    def __init__(self, process: batons.Process) -> None:
        self._process = process

    def begin(self, name: str, act: Callable[[], None]) -> Any:
        """Return a thread that is not started yet."""
        return Thread(self._process, name, act)

    def executor(self, name: str, most: int,
                 into: readings.Readings | None = None,
                 background: bool = False) -> futures.Executor:
        return Executor(self._process, name, most)

    def lock(self) -> Any:
        return Lock(self._process.baton)

    def condition(self) -> Any:
        return Condition(self._process.baton)
