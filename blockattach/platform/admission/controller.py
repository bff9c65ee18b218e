"""Admission control of one process: limits on work in progress and on calls to each backend.

A *work slot* is for what needs the processor and the database. Slots are few; a request holds one
from its start and releases it while it waits for another process. *Each backend* has slots of its
own: a request that finds none waits in that backend's queue and holds nothing that the callers of
another backend need. So a slow or dead backend delays its own callers only.

Both waits count against one deadline, which began when the request arrived. Nothing is written
before both slots are held, so a refused request has changed nothing.
"""
import collections
import contextlib
import dataclasses
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import metrics
from blockattach.platform.conf import api as api_conf
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import readings

WORK = 'work'
"""The name of the queue for work slots, beside those of backends (``host@backend``)."""

_SLOWER = 0.2
"""Weight of the last call in the moving average of what a call of a backend takes."""
_HOPE = 2.0
"""A request is shed if its estimated wait is so many times what is left of its deadline. More than
1, as the estimate is rough and a request that may just make it should wait."""

_MAY_HANG_UP = 1.0
"""Seconds of waiting after which a client is checked: it may have hung up."""


class QueueUse(NamedTuple):
    """How one queue is used now."""

    slots: int
    busy: int
    waiting: int


class SlotQueue:
    """So many slots, and a bounded queue for them: first come, first served, until the deadline.

    A slot that becomes free is handed to the first in the queue, so that nobody overtakes it. A
    free slot is taken without a wait, at the cost of a lock.
    """

    def __init__(self, slots: int, most: int, clock: clocks.Clock,
                 spare: int | None = None) -> None:
        """
        :param most: how many may wait
        :param spare: how many may wait of a backend, however slow it is; None: it is none
        """
        self.slots = slots
        self._most = most
        self._clock = clock
        self._spare = spare
        # When each call of the backend began, by its thread; and what a call usually takes.
        self._begun: dict[int, float] = {}
        self._usual = 0.0
        self._lock = threading.Lock()
        self._taken = 0
        # Each is set, under the lock, when a slot is handed to it.
        self._waiting: collections.deque[threading.Event] = collections.deque()
        # Requests that had a slot already and come back to end what they have begun.
        self._returning: collections.deque[threading.Event] = collections.deque()

    def use(self) -> QueueUse:
        """How it is used now."""
        with self._lock:
            return QueueUse(self.slots, self._taken, len(self._waiting) + len(self._returning))

    def try_acquire(self) -> bool:
        """Take a slot if one is free now."""
        with self._lock:
            if self._taken >= self.slots:
                return False
            self._taken += 1
            return True

    def acquire(self, until: float) -> float:
        """Take a slot, in the order of arrival; returns how many seconds that took.

        :param until: on the monotonic clock
        :raises QueueFull: the queue is full
        :raises QueueTimeout: no slot was free in time, or the deadline has passed already
        :raises BackendBusy: it should be shed
        """
        begun = self._clock.monotonic()
        if begun >= until:
            raise errors.QueueTimeout
        with self._lock:
            if self._taken < self.slots:
                self._taken += 1
                return 0.0
            ahead = len(self._waiting)
            if ahead >= self._most:
                raise errors.QueueFull
            if self.should_shed(ahead, until - begun):
                raise errors.BackendBusy
            mine = threading.Event()
            self._waiting.append(mine)
        self._clock.wait(mine, until - begun)
        with self._lock:
            if not mine.is_set():
                self._waiting.remove(mine)
                raise errors.QueueTimeout
        return self._clock.monotonic() - begun

    def reacquire(self) -> None:
        """Take a slot before every request that has not begun, however long that takes."""
        with self._lock:
            if self._taken < self.slots:
                self._taken += 1
                return
            mine = threading.Event()
            self._returning.append(mine)
        mine.wait()

    def release(self) -> None:
        """Hand the slot to the next in the queue."""
        with self._lock:
            queue = self._returning or self._waiting
            if queue:
                queue.popleft().set()
            else:
                self._taken -= 1

    def begun(self) -> bool:
        """Whether this thread holds a slot here."""
        return threading.get_ident() in self._begun

    def begin(self) -> int:
        """A call begins, with a slot held; returns the argument of `end`."""
        mine = threading.get_ident()
        self._begun[mine] = self._clock.monotonic()
        return mine

    def end(self, mine: int) -> None:
        """The call has ended: release its slot."""
        took = self._clock.monotonic() - self._begun.pop(mine)
        self._usual += _SLOWER * (took - self._usual)
        self.release()

    def should_shed(self, ahead: int, remaining: float) -> bool:
        """Whether a request that has so many others ahead, and so many seconds left, would most
        likely miss its deadline at a backend."""
        if self._spare is None or ahead < self._spare:
            return False
        # A backend that hangs ends no call: the age of the oldest counts as well.
        oldest = min(list(self._begun.values()), default=self._clock.monotonic())
        takes = max(self._usual, self._clock.monotonic() - oldest)
        return (ahead + 1) * takes / self.slots > _HOPE * remaining


@dataclasses.dataclass(slots=True)
class _Admitted:
    """The request of this thread. ``working``: it holds a work slot now."""

    until: float
    gone: Callable[[], bool] | None
    working: bool = True


class AdmissionController:
    """One for all servers of a process, HTTP and RPC."""

    def __init__(self, settings: api_conf.QueueSettings, telemetry: acts.Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self.clock = telemetry.clock
        self._work = SlotQueue(settings.work_places, settings.size, telemetry.clock)
        self._backends: dict[str, SlotQueue] = {}
        self._here = threading.local()
        telemetry.readings.add('queues', self._read)

    def use(self) -> dict[str, QueueUse]:
        """The queues by name."""
        return {WORK: self._work.use(),
                **{name: queue.use() for name, queue in list(self._backends.items())}}

    def report(self) -> dict[str, dict[str, Any]]:
        """The use of each queue by name, for the state report."""
        return {name: queue._asdict() for name, queue in self.use().items()}

    @contextlib.contextmanager
    def slot(self, waited: float = 0.0, gone: Callable[[], bool] | None = None,
             until: float | None = None) -> Iterator[None]:
        """Hold a work slot for a request, as soon as one is free.

        :param waited: for how many seconds the request has waited already
        :param gone: whether the client has hung up; asked after a wait
        :param until: when the caller stops waiting, on the monotonic clock
        :raises Overloaded: no slot was free in time; nothing was begun
        :raises RequestAbandoned: the client has hung up
        """
        end = self.clock.monotonic() + self._settings.timeout - waited
        mine = _Admitted(end if until is None else min(end, until), gone)
        if waited >= _MAY_HANG_UP or not self._work.try_acquire():
            self._wait(WORK, self._work, mine, waited)
        self._here.admitted = mine
        try:
            yield
        finally:
            self._here.admitted = None
            self._work.release()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Release this thread's work slot while it waits for another process."""
        mine: _Admitted | None = getattr(self._here, 'admitted', None)
        if mine is None or not mine.working:
            yield
            return
        mine.working = False
        self._work.release()
        try:
            yield
        finally:
            self._work.reacquire()
            mine.working = True

    @contextlib.contextmanager
    def backend_slot(self, backend: str | None) -> Iterator[None]:
        """Hold a slot of a backend, from before the intent to call it is written.

        :param backend: ``host@backend``; None where no backend is called
        :raises Overloaded: no slot was free in time, or would be; nothing was begun
        :raises RequestAbandoned: the client has hung up
        """
        if backend is None:
            yield
            return
        settings = self._settings
        queue = self._backends.get(backend) or self._backends.setdefault(backend, SlotQueue(
            settings.backend_places, settings.size, self.clock, settings.backend_size))
        if queue.begun():
            yield
            return
        if not queue.try_acquire():
            admitted = getattr(self._here, 'admitted', None) or _Admitted(
                self.clock.monotonic() + self._settings.timeout, None)
            with self.released():
                self._wait(backend, queue, admitted, 0.0)
        mine = queue.begin()
        try:
            yield
        finally:
            queue.end(mine)

    def _wait(self, name: str, queue: SlotQueue, admitted: _Admitted, waited: float) -> None:
        """Take a slot, unless the client hangs up meanwhile."""
        try:
            with self._telemetry.queueing(name):
                waited += queue.acquire(admitted.until)
                if waited and admitted.gone is not None and admitted.gone():
                    queue.release()
                    raise errors.RequestAbandoned
        except (errors.Overloaded, errors.RequestAbandoned) as exc:
            self._telemetry.queue_refused(name, exc.code)
            raise

    def _read(self) -> dict[metrics.Metric, readings.Reading]:
        used = self.use()
        return {metrics.QUEUE_SLOTS: {(name,): queue.slots for name, queue in used.items()},
                metrics.QUEUE_SLOTS_BUSY: {(name,): queue.busy for name, queue in used.items()},
                metrics.QUEUE_WAITING: {(name,): queue.waiting for name, queue in used.items()}}
