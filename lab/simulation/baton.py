"""One thread runs at a time, and the seed says which is next; time passes when nobody can run.

A thread gives the baton on at certain points only (`Baton.step`, and whatever it waits for), so a
run is the same whenever the seed is. The one that gives it on looks for the next one itself: a
step that goes on with the same thread costs no switch.
"""
import heapq
import random
import threading
from collections.abc import Callable
from typing import Any

# How likely the running thread goes on at a step, and how many seconds of virtual time a step
# takes.
_STAYS = 0.55
_STEP_SECONDS = 0.002


class Killed(BaseException):
    """The process that this thread belongs to has ended. No ``except Exception`` sees it."""


class Stuck(AssertionError):
    """Somebody waits, and nothing will ever come."""


class Process:
    """Threads that end together: one process instance of the service."""

    def __init__(self, baton: 'Baton', name: str) -> None:
        self.baton = baton
        self.name = name
        self.dead = False
        self.tasks: dict[Task, None] = {}
        self.on_death: list[Callable[[], None]] = []
        self.held: list[Task] | None = None
        """Threads that could run while the process stands still; None: it does not."""

    def kill(self) -> None:
        """As kill -9: its threads do nothing any more. Its own thread, if it calls, goes on until
        it next touches anything.
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
        """Whether it sends no heartbeat."""
        return self.dead or self.held is not None

    def pause(self) -> None:
        """As SIGSTOP: none of its threads runs until `resume`, whatever they wait for. Its own
        thread, if it calls, stands still at its next `Baton.step`.
        """
        if not self.silent:
            self.held = self.baton.withdraw(self)

    def resume(self) -> None:
        """As SIGCONT."""
        held, self.held = self.held, None
        for task in held or ():
            self.baton.ready(task)

    def check(self) -> None:
        """Before anything that others could see.

        :raises Killed: nobody is there to do it
        """
        if self.dead:
            raise Killed


class Task:
    """A thread of a process. ``depth``: in how many transactions it is."""

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
    """Which thread runs, which ones could, and what time it is."""

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
        """Run until the act has ended; called once, from outside. Raises what any thread raises
        that nobody foresaw, and `Stuck`.
        """
        self._main = self.spawn(process, 'main', act)
        self._ready.remove(self._main)
        self._hand_to(self._main)
        self._over.acquire()
        self._dismiss()
        if self._failure is not None:
            raise self._failure

    def spawn(self, process: Process, name: str, act: Callable[[], Any]) -> Task:
        """Another thread, which runs when it gets the baton."""
        go = self._idle.pop() if self._idle else self._begin()
        task = Task(process, name, act, go)
        self._tasks[go] = task
        process.tasks[task] = None
        self.ready(task)
        return task

    def ready(self, task: Task) -> None:
        """It can run, as soon as its process does not stand still."""
        held = task.process.held
        (self._ready if held is None else held).append(task)

    def withdraw(self, process: Process) -> list[Task]:
        """The threads of a process that could run, and will not."""
        held = [task for task in self._ready if task.process is process]
        self._ready = [task for task in self._ready if task.process is not process]
        return held

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something short, that waits for nothing, so many seconds from now."""
        self._count += 1
        heapq.heappush(self._timers, (self.now + seconds, self._count, act))

    def step(self) -> None:
        """A point at which another thread may run first.

        :raises Killed: meanwhile the process has ended
        """
        task = self.current
        if task.process.dead:
            raise Killed
        if task.process.held is not None:
            if task.depth:
                raise AssertionError(f'{task.name} cannot stand still in a transaction')
            self.ready(task)
            self._switch(task)
        elif not task.depth and self.chance.random() >= _STAYS:
            self.ready(task)
            self._switch(task)

    def wait(self, seconds: float | None = None) -> Any:
        """Let others run until one wakes this thread; returns what that one says.

        :param seconds: after which it wakes by itself, and nothing is said
        :raises Killed: meanwhile the process has ended
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
        """Let a thread that waits go on; one that does not wait is left alone."""
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
            self._failure = Stuck(f'at {self.now:.3f} s nobody can go on')
        return self._main

    def _begin(self) -> threading.Lock:
        go = _taken_lock()
        self._tasks[go] = None
        threading.Thread(target=self._work, args=(go,), daemon=True).start()
        return go

    def _work(self, go: threading.Lock) -> None:
        """A thread: one task after another, as long as the simulation runs."""
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
                self._failure = self._failure or error
            del task.process.tasks[task]
            self._tasks[go] = None
            self._idle.append(go)
            if task is self._main or self._ending:
                self._over.release()
            else:
                self._hand_to(self._pick())

    def _dismiss(self) -> None:
        """End those that still wait, one at a time, and then every thread."""
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
