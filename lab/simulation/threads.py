"""What a process waits by, owned by the baton: its clock, its threads, its locks."""
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
    """The time of one process. Its wall clock may be wrong by so many seconds."""

    def __init__(self, baton: batons.Baton, wrong_by: float = 0) -> None:
        self._baton = baton
        self._wrong_by = datetime.timedelta(seconds=wrong_by)

    def utcnow(self) -> datetime.datetime:
        """What this host takes for the time."""
        return START + datetime.timedelta(seconds=self._baton.now) + self._wrong_by

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._baton.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Let others run until the event is set, or the time is over."""
        end = self._baton.now + seconds
        while not event.is_set() and self._baton.now < end:
            # Setting a plain event wakes no thread here.
            self._baton.wait(min(end - self._baton.now, _LOOK_SECONDS))
        return event.is_set()


class Lock:
    """For one at a time; waiting threads are woken in order, and another may come first."""

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
    """As far as the service uses one: `wait_for` and `notify_all`, within its lock.

    The lock itself is nothing: the thread with the baton is alone.
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
        """Return as soon as it is so."""
        while not condition():
            self._waiting.append(self._baton.current)
            self._baton.wait()

    def notify_all(self) -> None:
        """Let everybody look again."""
        for task in self._waiting:
            self._baton.wake(task)
        self._waiting.clear()


class Thread:
    """As far as the service uses one."""

    def __init__(self, process: batons.Process, name: str, act: Callable[[], None]) -> None:
        self._process = process
        self._name = name
        self._act = act
        self._task: batons.Task | None = None
        self._joining: list[batons.Task] = []

    def start(self) -> None:
        """Run when it gets the baton."""
        self._task = self._process.baton.spawn(self._process, self._name, self._run)

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return self._task is not None and self._task in self._process.tasks

    def join(self) -> None:
        """Return when it has ended."""
        baton = self._process.baton
        if self._task is baton.current:
            return
        while self.is_alive():
            baton.wait(_TICK)

    def _run(self) -> None:
        self._act()


class Executor(futures.Executor):
    """So many tasks at once at most."""

    def __init__(self, process: batons.Process, name: str, most: int) -> None:
        self._process = process
        self._name = name
        self._most = most
        self._busy = 0
        self._kept: deque[Callable[[], None]] = deque()

    def submit(self, act: Callable[..., Any], /, *arguments: Any,
               **more: Any) -> 'Outcome':
        """Do it as soon as a thread is free."""
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
        """Begin nothing more, and wait for what has begun."""
        if cancel_futures:
            self._kept.clear()
        while wait and (self._busy or self._kept):
            self._process.baton.wait(_TICK)

    def _next(self) -> None:
        if self._kept and self._busy < self._most and not self._process.dead:
            self._busy += 1
            self._process.baton.spawn(self._process, self._name, self._kept.popleft())


class Outcome(futures.Future[Any]):
    """A future that is waited for by the baton."""

    def __init__(self, baton: batons.Baton) -> None:
        super().__init__()
        self._baton = baton
        self._asking: list[batons.Task] = []
        self.add_done_callback(self._tell)

    def result(self, timeout: float | None = None) -> Any:
        """What came of it."""
        while not self.done():
            self._asking.append(self._baton.current)
            self._baton.wait()
        return super().result(0)

    def _tell(self, done: object) -> None:
        for task in self._asking:
            self._baton.wake(task)


class Threads(threads.Threads):
    """What the wiring hands down in a simulated process."""

    def __init__(self, process: batons.Process) -> None:
        self._process = process

    def begin(self, name: str, act: Callable[[], None]) -> Any:
        """A thread that does not run yet."""
        return Thread(self._process, name, act)

    def executor(self, name: str, most: int,
                 into: readings.Readings | None = None,
                 background: bool = False) -> futures.Executor:
        """So many at once at most."""
        return Executor(self._process, name, most)

    def lock(self) -> Any:
        """For one at a time."""
        return Lock(self._process.baton)

    def condition(self) -> Any:
        """To wait until something has changed."""
        return Condition(self._process.baton)
