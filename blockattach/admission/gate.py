"""The gate of one process: what has begun, what waits, and what is at which backend.

Two kinds of places. *Work* is what needs the processor and the database: few places, held by
whatever has begun, and given back while it waits for another process. *A backend* has places of
its own: who finds none waits in that backend's line and holds nothing that a caller of another
backend needs. So a backend that answers slowly, or not at all, holds up its own callers only.

Both waits count against one deadline, which began when the request came. Nothing is written before
both places are had: who is refused has changed nothing.
"""
import contextlib
import dataclasses
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from blockattach import context
from blockattach import errors
from blockattach import metrics
from blockattach.admission import lines
from blockattach.conf import api as api_conf
from blockattach.telemetry import acts
from blockattach.telemetry import readings

WORK = 'work'
"""The name of the line for work, beside those of backends (``host@backend``)."""

_SLOWER = 0.2
"""How much the last call counts in what a call of a backend usually takes."""
_HOPE = 2.0
"""Who would have to wait so many times as long as he can is told at once. What a call takes is an
estimate: whoever may just make it waits."""

_MAY_HANG_UP = 1.0
"""Seconds after which somebody who has waited may have given up: it is looked."""


class _Turn:
    """What this thread has. ``working`` is False while it waits for another process."""

    __slots__ = ('gone', 'until', 'working')

    def __init__(self, until: float, gone: Callable[[], bool] | None) -> None:
        self.until = until
        self.gone = gone
        self.working = True


class BackendLine(lines.Line):
    """The places at one backend, with what its calls take."""

    def __init__(self, settings: api_conf.QueueSettings, telemetry: acts.Telemetry) -> None:
        super().__init__(settings.backend_places, settings.size, telemetry.clock)
        self._spare = settings.backend_size
        self._begun: dict[int, float] = {}
        self._usual = 0.0

    def begun(self) -> bool:
        """Whether this thread has a place here."""
        return threading.get_ident() in self._begun

    def begin(self) -> int:
        """A call begins, on a place that is had; returns what `end` is told."""
        mine = threading.get_ident()
        self._begun[mine] = self._clock.monotonic()
        return mine

    def end(self, mine: int) -> None:
        """It has ended; the place is for whoever is next."""
        took = self._clock.monotonic() - self._begun.pop(mine)
        self._usual += _SLOWER * (took - self._usual)
        self.give_back()

    def in_vain(self, ahead: int, left: float) -> bool:
        """Whether one more who waits would only hold what others could use: see `lines.Doubt`."""
        if ahead < self._spare:
            return False
        # One that answers nobody has no usual time: what is under way tells.
        oldest = min(list(self._begun.values()), default=self._clock.monotonic())
        takes = max(self._usual, self._clock.monotonic() - oldest)
        return (ahead + 1) * takes / self.places > _HOPE * left


@dataclasses.dataclass(frozen=True, slots=True)
class LineUse:
    """How one line is used now, and what became of those who came."""

    places: int
    busy: int
    waiting: int


class Gate:
    """One for all entries of a process."""

    def __init__(self, settings: api_conf.QueueSettings, telemetry: acts.Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._clock = telemetry.clock
        self._work = lines.Line(settings.work_places, settings.size, telemetry.clock)
        self._backends: dict[str, BackendLine] = {}
        self._here = threading.local()
        telemetry.readings.add('queues', self._read)

    def now(self) -> float:
        """Seconds on the monotonic clock."""
        return self._clock.monotonic()

    def use(self) -> dict[str, LineUse]:
        """The lines by name."""
        found = {}
        for name, line in ((WORK, self._work), *list(self._backends.items())):
            busy, waiting = line.use()
            found[name] = LineUse(line.places, busy, waiting)
        return found

    def report(self) -> dict[str, dict[str, Any]]:
        """The same for a report of the state."""
        return {name: dataclasses.asdict(line) for name, line in self.use().items()}

    @contextlib.contextmanager
    def turn(self, waited: float = 0.0, gone: Callable[[], bool] | None = None,
             until: float | None = None) -> Iterator[None]:
        """Work on a request, as soon as there is a place for it.

        :param waited: for how many seconds it has waited before it came here
        :param gone: whether whoever asked has hung up; asked of those who have waited
        :param until: when whoever asked stops to wait, on the monotonic clock
        :raises Overloaded: there was no place in time; nothing was begun
        :raises RequestAbandoned: nobody waits for the answer
        """
        end = self._clock.monotonic() + self._settings.timeout - waited
        mine = _Turn(end if until is None else min(end, until), gone)
        if waited >= _MAY_HANG_UP or not self._work.take_free():
            self._wait(WORK, self._work, mine, waited, None)
        self._here.turn = mine
        try:
            yield
        finally:
            self._here.turn = None
            self._work.give_back()

    def serve(self, caller: context.RequestContext) -> contextlib.AbstractContextManager[None]:
        """The same for a call that came over the bus."""
        return self.turn(until=caller.deadline)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Wait for another process: meanwhile the place is somebody else's."""
        mine: _Turn | None = getattr(self._here, 'turn', None)
        if mine is None or not mine.working:
            yield
            return
        mine.working = False
        self._work.give_back()
        try:
            yield
        finally:
            self._work.take_again()
            mine.working = True

    @contextlib.contextmanager
    def at(self, backend: str | None) -> Iterator[None]:
        """Have a place at a backend, before the intent to ask it is written.

        :param backend: ``host@backend``; None where nobody has to be asked
        :raises Overloaded: there was none in time, or would not be; nothing was begun
        :raises RequestAbandoned: nobody waits for the answer
        """
        if backend is None:
            yield
            return
        line = self._backends.get(backend) or self._backends.setdefault(
            backend, BackendLine(self._settings, self._telemetry))
        if line.begun():
            yield
            return
        if not line.take_free():
            turn = getattr(self._here, 'turn', None) or _Turn(
                self._clock.monotonic() + self._settings.timeout, None)
            with self.away():
                self._wait(backend, line, turn, 0.0, line.in_vain)
        mine = line.begin()
        try:
            yield
        finally:
            line.end(mine)

    def _wait(self, name: str, line: lines.Line, turn: _Turn, waited: float,
              doubt: lines.Doubt | None) -> None:
        """Take a place, unless whoever it is for has hung up meanwhile."""
        try:
            with self._telemetry.queueing(name):
                waited += line.take(turn.until, doubt)
                if waited and turn.gone is not None and turn.gone():
                    line.give_back()
                    raise errors.RequestAbandoned
        except (errors.Overloaded, errors.RequestAbandoned) as exc:
            self._telemetry.queue_refused(name, exc.code)
            raise

    def _read(self) -> dict[metrics.Metric, readings.Reading]:
        used = self.use()
        return {metrics.QUEUE_PLACES: {(name,): line.places for name, line in used.items()},
                metrics.QUEUE_BUSY: {(name,): line.busy for name, line in used.items()},
                metrics.QUEUE_WAITING: {(name,): line.waiting for name, line in used.items()}}
