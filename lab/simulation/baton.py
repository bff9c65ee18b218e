"""Deterministic scheduler of threads, of which one runs at a time. The seed selects the next one.

Virtual time passes while no thread can run. A thread yields only at fixed points: at `Baton.step`
and wherever it waits. A run is therefore the same for the same seed. The yielding thread selects
its successor itself, so a step that selects the same thread again needs no thread switch.
"""
import heapq
import random
import threading
from collections.abc import Callable
from typing import Any

# Probability that the running thread keeps the baton at a step.
_STAYS = 0.55
# Upper bound of the virtual seconds that pass at each selection of a thread.
_STEP_SECONDS = 0.002


class Killed(BaseException):
    """Raised in threads of a process that has ended.

    Derived from BaseException, so that ``except Exception`` in the service does not catch it.
    """


class Stuck(AssertionError):
    """Raised if all threads wait and no timer is pending."""


class Process:
    """Simulated process: one process instance of the service, whose threads end together."""

    def __init__(self, baton: 'Baton', name: str) -> None:
        self.baton = baton
        self.name = name
        self.dead = False
        self.tasks: dict[Task, None] = {}
        self.on_death: list[Callable[[], None]] = []
        self.held: list[Task] | None = None
        """Threads that are ready to run while the process is paused; None if it is not paused."""

    def kill(self) -> None:
        """End the process as ``kill -9`` does: its threads do nothing any more.

        A thread of the process itself that makes the call runs until it next calls the baton.
        """
        if self.dead:
            return
        self.dead = True
        self.resume()
        for task in self.tasks:
            self.baton.wake(task)
        for act in self.on_death:
            act()

    @property
    def silent(self) -> bool:
        """True if the process is dead or paused and therefore sends no heartbeat."""
        return self.dead or self.held is not None

    def pause(self) -> None:
        """Pause the process as SIGSTOP does: none of its threads runs until `resume`.

        A thread of the process itself that makes the call stops at its next `Baton.step`.
        """
        if not self.silent:
            self.held = self.baton.withdraw(self)

    def resume(self) -> None:
        """Resume the process as SIGCONT does."""
        held, self.held = self.held, None
        for task in held or ():
            self.baton.ready(task)

    def check(self) -> None:
        """Raise `Killed` if the process is dead. Called before each effect that others can see."""
        if self.dead:
            raise Killed


class Task:
    """Thread of a process.

    ``depth`` is the number of database transactions that the thread has open. ``turn`` counts its
    waits, so that the timer of an earlier wait does not wake it. ``said`` is the value that `wait`
    returns.
    """

    __slots__ = ('act', 'depth', 'go', 'name', 'process', 'said', 'turn', 'waiting')

    def __init__(self, process: Process, name: str, act: Callable[[], Any],
                 go: threading.Lock) -> None:
        self.process = process
        self.name = name
        self.act = act
        self.go = go
        self.depth = 0
        self.turn = 0
        self.waiting = False
        self.said: Any = None


class Baton:
    """Scheduler of all simulated threads, with the virtual clock and its timers."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now = 0.0
        self.switches = 0
        self.current: Task
        self._main: Task
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._tasks: dict[threading.Lock, Task | None] = {}
        self._idle: list[threading.Lock] = []
        self._failure: BaseException | None = None
        self._ending = False
        self._over = _taken_lock()

    def run(self, process: Process, act: Callable[[], None]) -> None:
        """Run ``act`` as the main thread until it returns. Call once, from outside the simulation.

        :raises Stuck: if no thread can run
        :raises BaseException: the first unexpected exception of any thread
        """
        self._main = self.spawn(process, 'main', act)
        self._ready.remove(self._main)
        self._hand_to(self._main)
        self._over.acquire()
        self._dismiss()
        if self._failure is not None:
            raise self._failure

    def spawn(self, process: Process, name: str, act: Callable[[], Any]) -> Task:
        """Create a thread of the process. It runs when it gets the baton."""
        go = self._idle.pop() if self._idle else self._begin()
        task = Task(process, name, act, go)
        self._tasks[go] = task
        process.tasks[task] = None
        self.ready(task)
        return task

    def ready(self, task: Task) -> None:
        """Mark a thread as ready to run. A thread of a paused process runs after the resume."""
        held = task.process.held
        (self._ready if held is None else held).append(task)

    def withdraw(self, process: Process) -> list[Task]:
        """Remove the threads of a process from the ready threads, and return them."""
        held = [task for task in self._ready if task.process is process]
        self._ready = [task for task in self._ready if task.process is not process]
        return held

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Call ``act``, which must be short and must not wait, after some virtual seconds."""
        self._count += 1
        heapq.heappush(self._timers, (self.now + seconds, self._count, act))

    def step(self) -> None:
        """Give other threads a chance to run first.

        :raises Killed: if the process has ended meanwhile
        """
        task = self.current
        if task.process.dead:
            raise Killed
        if task.process.held is not None:
            if task.depth:
                raise AssertionError(f'{task.name} cannot be paused in a transaction')
            self.ready(task)
            self._switch(task)
        elif not task.depth and self.chance.random() >= _STAYS:
            self.ready(task)
            self._switch(task)

    def wait(self, seconds: float | None = None) -> Any:
        """Wait until another thread wakes this one, and return the value given to `wake`.

        :param seconds: timeout after which the thread wakes and None is returned; None for none
        :raises Killed: if the process has ended meanwhile
        """
        task = self.current
        if task.process.dead:
            raise Killed
        task.turn += 1
        task.waiting, task.said = True, None
        if seconds is not None:
            turn = task.turn
            self.at(seconds, lambda: self.wake(task) if task.turn == turn else None)
        self._switch(task)
        return task.said

    def wake(self, task: Task, said: Any = None) -> None:
        """Wake a waiting thread. Do nothing if the thread does not wait."""
        if task.waiting:
            task.waiting, task.said = False, said
            self.ready(task)

    def _switch(self, task: Task) -> None:
        chosen = self._pick()
        if chosen is not task:
            self._hand_to(chosen)
            task.go.acquire()
        if self._failure is not None or task.process.dead:
            raise Killed

    def _hand_to(self, task: Task) -> None:
        self.switches += 1
        self.current = task
        task.go.release()

    def _pick(self) -> Task:
        self.now += self.chance.random() * _STEP_SECONDS
        timers, ready = self._timers, self._ready
        while self._failure is None:
            while timers and (not ready or timers[0][0] <= self.now):
                when, _, act = heapq.heappop(timers)
                self.now = max(self.now, when)
                act()
            if ready:
                number = self.chance.randrange(len(ready))
                ready[number], ready[-1] = ready[-1], ready[number]
                return ready.pop()
            self._failure = Stuck(f'no thread can run at {self.now:.3f} s')
        return self._main

    def _begin(self) -> threading.Lock:
        go = _taken_lock()
        self._tasks[go] = None
        threading.Thread(target=self._work, args=(go,), daemon=True).start()
        return go

    def _work(self, go: threading.Lock) -> None:
        """Run one task after another in a real thread, until the simulation ends."""
        while True:
            go.acquire()
            task = self._tasks[go]
            if task is None:
                self._over.release()
                return
            try:
                task.process.check()
                task.act()
            except Killed:
                pass
            except BaseException as error:
                # Only the first failure is reported. `_pick` then selects the main thread, which
                # ends the run.
                self._failure = self._failure or error
            del task.process.tasks[task]
            self._tasks[go] = None
            self._idle.append(go)
            if task is self._main or self._ending:
                self._over.release()
            else:
                self._hand_to(self._pick())

    def _dismiss(self) -> None:
        """End the waiting threads one at a time, then all real threads."""
        self._ending = True
        for task in [task for task in self._tasks.values() if task is not None]:
            task.process.dead = True
            self.current = task
            task.go.release()
            self._over.acquire()
        for go in self._idle:
            go.release()
            self._over.acquire()


def _taken_lock() -> threading.Lock:
    made = threading.Lock()
    made.acquire()
    return made
