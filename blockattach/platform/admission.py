"""Admission control of one process: limits on work in progress and on calls to each backend.

A *work slot* covers work that uses the processor and the database. Work slots are few. A request
holds a work slot from its start, and releases the slot while waiting for another process. *Each
backend* has its own slots. A request that finds no free slot waits in the queue of that backend,
and holds nothing that callers of another backend need. A slow or dead backend therefore delays
only its own callers.

Both waits count against one timeout, which starts when the request arrives. Nothing is written to
the database before both slots are held, so a rejected request has changed nothing.
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
"""Name of the queue for work slots. The queues of backends are named ``host@backend``."""

_SLOWER = 0.2
"""Weight of the last call in the moving average of call durations at a backend."""
_HOPE = 2.0
"""Ratio of the estimated wait to the remaining time above which a request is shed.

The ratio is above 1 because the estimate is rough, and a request that may just make its deadline
should wait.
"""

_MAY_HANG_UP = 1.0
"""Seconds of waiting after which the controller checks if the client has disconnected."""


class QueueUse(NamedTuple):
    """Current use of a queue: numbers of slots, busy slots and waiting requests."""

    slots: int
    busy: int
    waiting: int


class SlotQueue:
    """Fixed number of slots with a bounded first-in, first-out queue.

    A released slot is handed to a request that waits in `reacquire`, or else to the first request
    in the queue. Acquiring a free slot costs only a lock.
    """

    def __init__(self, slots: int, most: int, clock: clocks.Clock,
                 spare: int | None = None) -> None:
        """
        :param most: maximum number of waiting requests
        :param spare: number of requests that may wait for a backend regardless of its speed; None
            for work slots
        """
        self.slots = slots
        self._most = most
        self._clock = clock
        self._spare = spare
        # Start of each running backend call by thread ID, and the average duration of calls.
        self._begun: dict[int, float] = {}
        self._usual = 0.0
        self._lock = threading.Lock()
        self._taken = 0
        # Each event is set, under the lock, when a slot is handed to its request.
        self._waiting: collections.deque[threading.Event] = collections.deque()
        # Requests that need a slot again to finish the work that they have started.
        self._returning: collections.deque[threading.Event] = collections.deque()

    def use(self) -> QueueUse:
        with self._lock:
            return QueueUse(self.slots, self._taken, len(self._waiting) + len(self._returning))

    def try_acquire(self) -> bool:
        """Acquire a free slot. Return False if no slot is free."""
        with self._lock:
            if self._taken >= self.slots:
                return False
            self._taken += 1
            return True

    def acquire(self, until: float) -> float:
        """Acquire a slot, waiting in the order of arrival.

        :param until: deadline on the monotonic clock
        :returns: seconds spent waiting
        :raises QueueFull: the queue is full
        :raises QueueTimeout: no slot was free before the deadline, or the deadline has already
            passed
        :raises BackendBusy: the request would most likely miss its deadline, see `should_shed`
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
            # Checked again under the lock, because a slot may have been handed over just after the
            # wait timed out.
            if not mine.is_set():
                self._waiting.remove(mine)
                raise errors.QueueTimeout
        return self._clock.monotonic() - begun

    def reacquire(self) -> None:
        """Acquire a slot ahead of all requests that have not started, without a time limit."""
        with self._lock:
            if self._taken < self.slots:
                self._taken += 1
                return
            mine = threading.Event()
            self._returning.append(mine)
        mine.wait()

    def release(self) -> None:
        """Release a slot, or hand it to a waiting request. Requests in `reacquire` come first."""
        with self._lock:
            queue = self._returning or self._waiting
            if queue:
                queue.popleft().set()
            else:
                self._taken -= 1

    def begun(self) -> bool:
        """Return True if the current thread has begun a backend call with a slot of this queue."""
        return threading.get_ident() in self._begun

    def begin(self) -> int:
        """Record the start of a backend call, for which this thread has acquired a slot.

        :returns: argument for `end`
        """
        mine = threading.get_ident()
        self._begun[mine] = self._clock.monotonic()
        return mine

    def end(self, mine: int) -> None:
        """Record the end of a backend call, and release its slot.

        :param mine: value that `begin` returned
        """
        took = self._clock.monotonic() - self._begun.pop(mine)
        self._usual += _SLOWER * (took - self._usual)
        self.release()

    def should_shed(self, ahead: int, remaining: float) -> bool:
        """Return True if a request would most likely miss its deadline at a slow backend.

        :param ahead: number of requests that wait ahead of this one
        :param remaining: seconds until the deadline
        """
        if self._spare is None or ahead < self._spare:
            return False
        # No call of a hanging backend ends, so the age of the oldest call counts as well.
        oldest = min(list(self._begun.values()), default=self._clock.monotonic())
        takes = max(self._usual, self._clock.monotonic() - oldest)
        return (ahead + 1) * takes / self.slots > _HOPE * remaining


@dataclasses.dataclass(slots=True)
class _Admitted:
    """Admitted request of a thread. ``working`` is True while the request holds a work slot."""

    until: float
    gone: Callable[[], bool] | None
    working: bool = True


class AdmissionController:
    """Admission control shared by all HTTP and RPC servers of a process."""

    def __init__(self, settings: api_conf.QueueSettings, telemetry: acts.Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self.clock = telemetry.clock
        self._work = SlotQueue(settings.work_places, settings.size, telemetry.clock)
        self._backends: dict[str, SlotQueue] = {}
        self._here = threading.local()
        telemetry.readings.add('queues', self._read)

    def use(self) -> dict[str, QueueUse]:
        """Return the use of each queue by name."""
        return {WORK: self._work.use(),
                **{name: queue.use() for name, queue in list(self._backends.items())}}

    def report(self) -> dict[str, dict[str, Any]]:
        """Return the use of each queue by name, for the state report."""
        return {name: queue._asdict() for name, queue in self.use().items()}

    @contextlib.contextmanager
    def slot(self, waited: float = 0.0, gone: Callable[[], bool] | None = None,
             until: float | None = None) -> Iterator[None]:
        """Hold a work slot for a request within the context, after waiting for a free slot.

        :param waited: seconds for which the request has already waited
        :param gone: function that returns True if the client has disconnected; called after a wait
        :param until: deadline of the caller on the monotonic clock; None for the configured
            timeout only
        :raises Overloaded: no slot was free in time; nothing was started
        :raises RequestAbandoned: the client has disconnected
        """
        end = self.clock.monotonic() + self._settings.timeout - waited
        mine = _Admitted(end if until is None else min(end, until), gone)
        # The client of a request that has waited long may be gone. `_wait` checks this even if a
        # slot is free.
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
        """Release the work slot of this thread within the context, to wait for another process."""
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
        """Hold a slot of a backend for a call.

        The caller enters the context before it writes the intent of the call to the database.

        :param backend: ``host@backend``; None if no backend is called
        :raises Overloaded: no slot was free in time, or the wait would most likely be too long;
            nothing was started
        :raises RequestAbandoned: the client has disconnected
        """
        if backend is None:
            yield
            return
        settings = self._settings
        queue = self._backends.get(backend) or self._backends.setdefault(backend, SlotQueue(
            settings.backend_places, settings.size, self.clock, settings.backend_size))
        # A nested call uses the slot that the thread already holds, instead of a second one.
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
        """Acquire a slot, and release the slot again if the client has disconnected meanwhile.

        :raises RequestAbandoned: the client has disconnected
        """
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
